use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    str,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;

use super::{
    document::{Document, Format},
    error::GovernanceError,
    governance::Governance,
    source::{EffectivePolicies, PolicySource, SourceStatus, TableRequest},
};
use crate::{
    identity::{Directory, RequestUser},
    source::{BoxFuture, SourceError},
};

/// How often the file is read unless told otherwise.
const DEFAULT_POLL: Duration = Duration::from_millis(500);

/// The shortest time between two reads.
const MIN_POLL: Duration = Duration::from_millis(1);

/// The [`Governance`] of a file, TOML or JSON by the extension `.toml` or `.json`, followed while the file
/// changes.
///
/// The file is read at a fixed interval. What happens then:
///
/// | the file | what is in force |
/// |---|---|
/// | holds new content, the same in two reads one interval apart, and it is valid | the new content, whole |
/// | holds new content that is invalid, or says nothing at all | the last good one |
/// | is gone or cannot be read | the last good one |
/// | is written again with the same bytes | what was |
///
/// Two equal reads are asked for because editors truncate a file before they write it. A file *says
/// nothing* when it is blank, or has comments only, or is `{}`: that is valid at start-up, and governs
/// nothing. To stop governing at run time, write `policies = []`.
///
/// An error is logged once through `tracing`, and shows in [`status`](PolicySource::status) until the file
/// is good again. The age there is the time since the file was last read and found to hold what is in force.
///
/// Clones share one reader of the file. It ends when the last clone and the last directory are dropped.
///
/// ```no_run
/// use iceberg_read_restrictions::{identity::RequestUser, policy::GovernanceFile};
///
/// let policies = GovernanceFile::watch("governance.toml")?;
/// let identity = policies.directory(RequestUser::extension());
/// # Ok::<_, iceberg_read_restrictions::policy::GovernanceError>(())
/// ```
#[derive(Clone)]
pub struct GovernanceFile(Arc<Handle>);

struct Handle {
    followed: Arc<Followed>,
    /// Dropped with the last handle, which is what the reader waits for.
    _stop: Sender<()>,
}

/// What the reader leaves for everybody else.
struct Followed {
    path: PathBuf,
    format: Format,
    governance: ArcSwap<Governance>,
    freshness: Mutex<Freshness>,
}

struct Freshness {
    /// When the file was last found to hold what is in force.
    confirmed: Instant,
    error: Option<String>,
}

impl GovernanceFile {
    /// Reads the file and follows it, with a read every half second.
    ///
    /// # Errors
    ///
    /// As [`watch_every`](Self::watch_every).
    pub fn watch(path: impl Into<PathBuf>) -> Result<Self, GovernanceError> {
        Self::watch_every(path, DEFAULT_POLL)
    }

    /// Reads the file and follows it, with a read every `poll` (at least a millisecond). A change is in
    /// force after two equal reads.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, its name ends in neither `.toml` nor `.json`, or its content is
    /// invalid.
    pub fn watch_every(path: impl Into<PathBuf>, poll: Duration) -> Result<Self, GovernanceError> {
        let reader = Reader::open(path.into())?;
        let followed = Arc::clone(&reader.followed);
        let (stop, stopped) = mpsc::channel();
        thread::Builder::new()
            .name("governance-file".into())
            .spawn(move || reader.run(&stopped, poll.max(MIN_POLL)))
            .map_err(|error| {
                GovernanceError::about_file(&followed.path, format!("cannot start its reader: {error}"))
            })?;
        Ok(Self(Arc::new(Handle { followed, _stop: stop })))
    }

    /// The model in force.
    pub fn current(&self) -> Arc<Governance> {
        self.0.followed.governance.load_full()
    }

    /// An identity source: the user as `user` finds it, the `[groups]` of the file.
    pub fn directory(&self, user: RequestUser) -> Directory {
        let file = self.clone();
        Directory::following(user, move || Arc::clone(file.0.followed.governance.load().groups()))
    }
}

impl PolicySource for GovernanceFile {
    fn effective_policies<'a>(
        &'a self,
        request: TableRequest<'a>,
    ) -> BoxFuture<'a, Result<Arc<EffectivePolicies>, SourceError>> {
        self.0.followed.governance.load().answer(request)
    }

    fn status(&self) -> SourceStatus {
        let freshness = self.0.followed.freshness();
        SourceStatus { age: Some(freshness.confirmed.elapsed()), error: freshness.error.clone() }
    }
}

impl fmt::Debug for GovernanceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GovernanceFile").field("path", &self.0.followed.path).finish_non_exhaustive()
    }
}

impl Followed {
    fn freshness(&self) -> MutexGuard<'_, Freshness> {
        // Both fields are written in one step each, so a panic elsewhere leaves nothing half done.
        self.freshness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file was read at `read_at` and holds what is in force.
    fn confirm(&self, read_at: Instant) {
        let mut freshness = self.freshness();
        freshness.confirmed = read_at;
        if freshness.error.take().is_some() {
            tracing::info!(path = %self.path.display(), "governance file is good again");
        }
    }

    /// The file cannot be used; what is in force stays.
    fn report(&self, error: &GovernanceError) {
        let message = error.to_string();
        let mut freshness = self.freshness();
        if freshness.error.as_ref() != Some(&message) {
            let age = freshness.confirmed.elapsed();
            tracing::error!(error = %message, ?age, "governance file not usable, the last good one stays in force");
            freshness.error = Some(message);
        }
    }
}

/// Reads the file again and again.
///
/// A plain thread and plain reads: how often the file is read is a promise, and a notification of the
/// operating system is lost on network file systems, on bind mounts and when a directory is swapped, just
/// where configuration is kept. Neither does it tell when a writer has finished.
struct Reader {
    followed: Arc<Followed>,
    /// The content that is in force.
    in_force: Vec<u8>,
    /// Other content that the last read found.
    latest: Option<Candidate>,
}

struct Candidate {
    bytes: Vec<u8>,
    /// Whether it was already found to be unusable.
    rejected: bool,
}

impl Reader {
    /// Reads the file for the first time, and puts it in force.
    fn open(path: PathBuf) -> Result<Self, GovernanceError> {
        let Some(format) = Format::of_path(&path) else {
            return Err(GovernanceError::about_file(&path, "expected a name that ends in .toml or .json"));
        };
        let read_at = Instant::now();
        let bytes = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
        let governance = parse(&path, format, &bytes)?;
        announce(&path, &governance);
        let followed = Arc::new(Followed {
            path,
            format,
            governance: ArcSwap::from_pointee(governance),
            freshness: Mutex::new(Freshness { confirmed: read_at, error: None }),
        });
        Ok(Self { followed, in_force: bytes, latest: None })
    }

    fn run(mut self, stopped: &Receiver<()>, poll: Duration) {
        // Nothing is ever sent: the channel closes when the last handle is dropped.
        while stopped.recv_timeout(poll) == Err(RecvTimeoutError::Timeout) {
            self.read();
        }
    }

    fn read(&mut self) {
        let read_at = Instant::now();
        let bytes = match fs::read(&self.followed.path) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.latest = None;
                return self.followed.report(&unreadable(&self.followed.path, &error));
            }
        };
        if bytes == self.in_force {
            self.latest = None;
            return self.followed.confirm(read_at);
        }
        match &mut self.latest {
            Some(candidate) if candidate.bytes == bytes => {
                if !candidate.rejected {
                    candidate.rejected = true;
                    self.replace(bytes, read_at);
                }
            }
            _ => self.latest = Some(Candidate { bytes, rejected: false }),
        }
    }

    fn replace(&mut self, bytes: Vec<u8>, read_at: Instant) {
        let Followed { path, format, governance, .. } = &*self.followed;
        match parse_again(path, *format, &bytes) {
            Ok(new) => {
                announce(path, &new);
                governance.store(Arc::new(new));
                self.in_force = bytes;
                self.latest = None;
                self.followed.confirm(read_at);
            }
            Err(error) => self.followed.report(&error),
        }
    }
}

/// Logs what is in force from now on, and what is in the file and takes no part.
fn announce(path: &Path, governance: &Governance) {
    governance.count_from_zero();
    let path = path.display();
    tracing::info!(%path, revision = %governance.revision(), "governance file in force");
    for policy in governance.policies().iter().filter(|policy| policy.compiled.is_none()) {
        let (policy, policy_type) = (&policy.name, &policy.policy_type);
        tracing::warn!(%path, %policy, %policy_type, "a policy of this type takes no part in read restrictions");
    }
}

fn parse(path: &Path, format: Format, bytes: &[u8]) -> Result<Governance, GovernanceError> {
    Governance::parse(text(path, bytes)?, format).map_err(|error| error.in_file(path))
}

/// Parses content that is to replace other content, and therefore must say something.
fn parse_again(path: &Path, format: Format, bytes: &[u8]) -> Result<Governance, GovernanceError> {
    let governance = parse(path, format, bytes)?;
    if governance.is_empty() && Document::parse(text(path, bytes)?, format).is_ok_and(|it| it.is_empty()) {
        return Err(GovernanceError::about_file(
            path,
            "the file says nothing, which is valid at start-up only",
        ));
    }
    Ok(governance)
}

fn text<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, GovernanceError> {
    str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        GovernanceError::about_file(path, format!("not UTF-8 in line {line}"))
    })
}

fn unreadable(path: &Path, error: &io::Error) -> GovernanceError {
    GovernanceError::about_file(path, format!("cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const PII: &str = "tags = [{ name = \"pii\" }]";
    const PHI: &str = "tags = [{ name = \"phi\" }]";
    const BAD: &str = "tags = [{ name = \"pii\", parent = \"data\" }]";

    /// A file that is read when the test says so.
    struct File {
        reader: Reader,
        folder: TempDir,
    }

    impl File {
        fn new(content: &str) -> Self {
            let folder = TempDir::new().unwrap();
            let path = folder.path().join("governance.toml");
            fs::write(&path, content).unwrap();
            Self { reader: Reader::open(path).unwrap(), folder }
        }

        fn path(&self) -> &Path {
            &self.reader.followed.path
        }

        fn write(&self, content: &str) {
            fs::write(self.path(), content).unwrap();
        }

        /// Reads once, and tells which tags are in force.
        fn read(&mut self) -> Vec<String> {
            self.reader.read();
            let governance = self.reader.followed.governance.load();
            governance.tags().iter().map(|tag| tag.name.to_string()).collect()
        }

        fn error(&self) -> Option<String> {
            self.reader.followed.freshness().error.clone()
        }

        fn confirmed(&self) -> Instant {
            self.reader.followed.freshness().confirmed
        }
    }

    #[test]
    fn new_content_is_in_force_with_the_second_equal_read() {
        let mut file = File::new(PII);
        file.write(PHI);
        assert_eq!(file.read(), ["pii"]);
        assert_eq!(file.read(), ["phi"]);
        assert_eq!(file.error(), None);
    }

    #[test]
    fn content_that_changes_between_two_reads_is_not_yet_in_force() {
        let mut file = File::new(PII);
        for half_written in ["", "tags = []", "tags = [{ name = \"p\" }]"] {
            file.write(half_written);
            assert_eq!(file.read(), ["pii"]);
        }
        file.write(PHI);
        assert_eq!(file.read(), ["pii"]);
        assert_eq!(file.read(), ["phi"]);
        assert_eq!(file.error(), None, "nothing half written was ever reported");
    }

    #[test]
    fn two_equal_reads_have_to_follow_each_other() {
        let mut file = File::new(PII);
        for content in [PHI, PII, PHI, BAD, PHI] {
            file.write(content);
            assert_eq!(file.read(), ["pii"]);
        }
    }

    #[test]
    fn a_read_that_fails_between_two_equal_reads_starts_anew() {
        let mut file = File::new(PII);
        file.write(PHI);
        file.read();
        fs::remove_file(file.path()).unwrap();
        file.read();
        file.write(PHI);
        assert_eq!(file.read(), ["pii"]);
        assert_eq!(file.read(), ["phi"]);
    }

    #[test]
    fn invalid_content_is_reported_and_the_last_good_one_stays() {
        let mut file = File::new(PII);
        let confirmed = file.confirmed();
        file.write(BAD);
        file.read();
        assert_eq!(file.error(), None, "it may be half written");
        assert_eq!(file.read(), ["pii"]);
        let error = file.error().unwrap();
        assert!(error.contains("governance.toml:1:34: unknown member `parent`"), "{error}");
        file.read();
        assert_eq!(file.error().as_ref(), Some(&error));
        assert_eq!(file.confirmed(), confirmed, "the age grows");

        file.write(PII);
        file.read();
        assert_eq!(file.error(), None, "what is in force is there again");
        assert!(file.confirmed() > confirmed);
    }

    #[test]
    fn valid_content_after_invalid_content_is_in_force() {
        let mut file = File::new(PII);
        file.write(BAD);
        file.read();
        file.read();
        file.write(PHI);
        file.read();
        assert!(file.error().is_some(), "nothing better is known yet");
        assert_eq!(file.read(), ["phi"]);
        assert_eq!(file.error(), None);
    }

    #[test]
    fn a_file_that_says_nothing_is_valid_at_start_up_only() {
        for nothing in ["", " \r\n\t", "# to do\n"] {
            assert!(File::new(nothing).read().is_empty());
            let mut file = File::new(PII);
            file.write(nothing);
            file.read();
            assert_eq!(file.read(), ["pii"]);
            assert!(file.error().unwrap().contains("says nothing"));
        }
        let mut file = File::new(PII);
        file.write("policies = []");
        file.read();
        assert!(file.read().is_empty(), "said on purpose");
    }

    #[test]
    fn a_file_that_is_not_text_is_reported() {
        let mut file = File::new(PII);
        fs::write(file.path(), b"tags = []\n# \xff").unwrap();
        file.read();
        assert_eq!(file.read(), ["pii"]);
        assert!(file.error().unwrap().ends_with("not UTF-8 in line 2"));
    }

    #[test]
    fn a_file_that_is_gone_or_unreadable_is_reported_and_found_again() {
        let mut file = File::new(PII);
        fs::remove_file(file.path()).unwrap();
        assert_eq!(file.read(), ["pii"]);
        assert!(file.error().unwrap().contains("cannot be read"));
        fs::create_dir(file.path()).unwrap();
        assert_eq!(file.read(), ["pii"]);
        assert!(file.error().unwrap().contains("cannot be read"));
        fs::remove_dir(file.path()).unwrap();
        file.write(PHI);
        file.read();
        assert_eq!(file.read(), ["phi"]);
        assert_eq!(file.error(), None);
    }

    #[test]
    fn a_file_that_is_renamed_over_is_followed() {
        let mut file = File::new(PII);
        let new = file.folder.path().join("new");
        fs::write(&new, PHI).unwrap();
        fs::rename(&new, file.path()).unwrap();
        file.read();
        assert_eq!(file.read(), ["phi"]);
    }

    #[test]
    fn the_same_bytes_again_change_nothing() {
        let mut file = File::new(PII);
        let before = file.reader.followed.governance.load_full();
        file.write(PII);
        file.read();
        file.read();
        assert!(Arc::ptr_eq(&before, &file.reader.followed.governance.load_full()));
    }

    #[test]
    fn the_reader_ends_with_the_last_handle() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("governance.json");
        fs::write(&path, "{}").unwrap();
        let file = GovernanceFile::watch_every(path, Duration::from_secs(3600)).unwrap();
        let followed = Arc::downgrade(&file.0.followed);
        let directory = file.directory(RequestUser::fixed("alice"));
        drop(file.clone());
        drop(file);
        assert!(followed.upgrade().is_some(), "the directory still follows the file");
        drop(directory);
        while followed.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
