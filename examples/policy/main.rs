//! `policy`: check, explain, simulate and format a governance file, without a catalog and without a server.
//!
//! ```text
//! policy check    --governance FILE [--tables DIR]        what is wrong, everywhere at once
//! policy explain  --governance FILE --load-result FILE …  what one subject gets on one table, and why
//! policy simulate --before FILE --after FILE …            what a change would change, for whom
//! policy format   FILE                                    the canonical layout
//! ```
//!
//! Exit codes: 0 done, 1 the answer is "no" (a check failed, a load would be refused, something would become
//! visible), 2 wrong use or unreadable input. Results go to stdout, errors to stderr. `docs/governance.md`
//! walks through it.

mod arguments;
mod check;
mod explain;
mod format;
mod input;
mod names;
mod output;
mod simulate;
mod summary;

use std::{
    ffi::OsString,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use clap::Parser;

use self::{
    arguments::{Arguments, Command},
    output::{Failure, Output, Verdict},
};

fn main() -> ExitCode {
    let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let colour = is_wanted && io::stdout().is_terminal();
    let (stdout, stderr) = (io::stdout().lock(), io::stderr().lock());
    ExitCode::from(run(std::env::args_os(), &mut io::BufWriter::new(stdout), &mut { stderr }, colour))
}

/// Runs the program with these arguments, its own name first, and gives its exit code.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
    colour: bool,
) -> u8 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error, stdout, stderr),
    };
    let mut output = Output { out: stdout, colour };
    let verdict = match arguments.command {
        Command::Check(arguments) => check::run(&arguments, &mut output),
        Command::Explain(arguments) => explain::run(&arguments, &mut output),
        Command::Simulate(arguments) => simulate::run(&arguments, &mut output),
        Command::Format(arguments) => format::run(&arguments, &mut output),
    };
    match verdict.and_then(|verdict| output.out.flush().map(|()| verdict).map_err(Failure::from)) {
        Ok(verdict) => verdict as u8,
        // Whoever read the output has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Verdict::Unusable as u8,
        Err(failure) => {
            // There is nowhere left to complain to when stderr cannot be written.
            let _ = writeln!(stderr, "policy: {failure}");
            Verdict::Unusable as u8
        }
    }
}

/// Help that was asked for is a result, everything else from clap is wrong use.
fn usage(error: &clap::Error, stdout: &mut dyn Write, stderr: &mut dyn Write) -> u8 {
    let (written, verdict) = match error.use_stderr() {
        true => (write!(stderr, "{}", error.render()), Verdict::Unusable),
        false => (write!(stdout, "{}", error.render()).and_then(|()| stdout.flush()), Verdict::Yes),
    };
    match written {
        Ok(()) => verdict as u8,
        Err(_) => Verdict::Unusable as u8,
    }
}
