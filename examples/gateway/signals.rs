//! The signals that end the gateway.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that ask the process to end, caught from the moment that this exists.
pub struct Signals {
    #[cfg(unix)]
    terminate: Signal,
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
}

#[cfg(unix)]
impl Signals {
    /// Catches SIGTERM and SIGINT.
    pub fn catch() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
    }
}

#[cfg(windows)]
impl Signals {
    /// Catches Ctrl-C.
    pub fn catch() -> io::Result<Self> {
        Ok(Self { interrupt: tokio::signal::windows::ctrl_c()? })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        self.interrupt.recv().await;
    }
}
