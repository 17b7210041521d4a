//! The configuration file: what may stand there, what is left out means, and what cannot be.

use std::{
    fmt, fs,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use http::HeaderName;
use iceberg_read_restrictions::{
    layer::{Capability, CapabilityRefusal, RestrictedCommits},
    resolve::{ConflictRule, UpstreamRestrictions},
};
use ipnet::IpNet;
use jsonwebtoken::Algorithm;
use serde::{Deserialize, Deserializer, de};

use crate::{
    identity::{Authenticator, Mode, ReaderTold},
    jwt::{Expectations, Verifier},
    upstream::BaseUrl,
};

/// Everything that the gateway has to know.
pub struct Config {
    /// Where clients are served.
    pub listen: String,
    /// Where health, readiness and metrics are served, if anywhere.
    pub admin_listen: Option<String>,
    /// The catalog behind the gateway.
    pub upstream: UpstreamConfig,
    /// The governance file; `None` for the built-in example.
    pub governance: Option<PathBuf>,
    /// Which catalog a request is for.
    pub catalog: CatalogConfig,
    /// Who sends a request.
    pub authenticator: Authenticator,
    /// How clients declare that they enforce restrictions.
    pub capability: CapabilityConfig,
    /// The readers that are believed; `None` for all.
    pub trusted_readers: Option<Vec<String>>,
    /// The settings of the layer, and the upstream time limit.
    pub settings: Settings,
    /// How often the governance file is read.
    pub poll: Duration,
}

/// The catalog behind the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamConfig {
    /// The quickstart's.
    Embedded,
    /// One on the network.
    Remote(BaseUrl),
}

/// Which catalog a request is for, as policies name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogConfig {
    /// Always this one.
    Fixed(String),
    /// The request's prefix, which must be one of these.
    FromPrefix(Vec<String>),
}

/// `[capability]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CapabilityConfig {
    /// Any of these declares; `None` for the default three.
    #[serde(deserialize_with = "capabilities")]
    pub accept: Option<Vec<Capability>>,
    /// How a client that declares nothing is refused.
    #[serde(deserialize_with = "refusal")]
    pub refuse_with: CapabilityRefusal,
}

/// `[settings]`
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// When two policies on one target are one too many.
    #[serde(with = "ConflictSetting")]
    pub conflict: ConflictRule,
    /// What to do about restrictions that the upstream already sends.
    #[serde(with = "UpstreamRestrictionsSetting")]
    pub upstream_restrictions: UpstreamRestrictions,
    /// Whether a subject with active restrictions may commit.
    #[serde(with = "RestrictedCommitsSetting")]
    pub restricted_commits: RestrictedCommits,
    /// Whether the upstream reads `+` in a path as a blank.
    pub plus_as_space: bool,
    /// What separates namespace levels in a path.
    #[serde(deserialize_with = "separators")]
    pub namespace_separators: Vec<String>,
    /// The largest load result that is read.
    #[serde(deserialize_with = "not_zero")]
    pub max_body_bytes: usize,
    /// How much each of the two caches of the layer keeps; zero keeps nothing.
    pub cache_bytes: u64,
    /// The time limit of each call of a policy or identity source.
    #[serde(rename = "source_timeout_ms", deserialize_with = "milliseconds")]
    pub source_timeout: Duration,
    /// How long the upstream may take to accept a connection, and to acknowledge what it is sent.
    #[serde(rename = "upstream_connect_timeout_ms", deserialize_with = "milliseconds")]
    pub upstream_connect_timeout: Duration,
    /// How long the upstream may stand still.
    #[serde(rename = "upstream_timeout_ms", deserialize_with = "milliseconds")]
    pub upstream_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            conflict: ConflictRule::BySignature,
            upstream_restrictions: UpstreamRestrictions::Refuse,
            restricted_commits: RestrictedCommits::Allow,
            plus_as_space: false,
            namespace_separators: vec!["%1F".to_owned()],
            max_body_bytes: 64 * 1024 * 1024,
            cache_bytes: 64 * 1024 * 1024,
            source_timeout: Duration::from_millis(2_000),
            upstream_connect_timeout: Duration::from_millis(10_000),
            upstream_timeout: Duration::from_millis(60_000),
        }
    }
}

#[derive(Deserialize)]
#[serde(remote = "ConflictRule", rename_all = "kebab-case")]
enum ConflictSetting {
    BySignature,
    ByPolicy,
}

#[derive(Deserialize)]
#[serde(remote = "UpstreamRestrictions", rename_all = "kebab-case")]
enum UpstreamRestrictionsSetting {
    Refuse,
    Conjoin,
}

#[derive(Deserialize)]
#[serde(remote = "RestrictedCommits", rename_all = "kebab-case")]
enum RestrictedCommitsSetting {
    Allow,
    Refuse,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: String,
    admin_listen: Option<String>,
    upstream: String,
    governance: PathBuf,
    catalog: Option<String>,
    catalog_from_prefix: Option<Vec<String>>,
    #[serde(default)]
    identity: IdentitySection,
    #[serde(default)]
    capability: CapabilityConfig,
    trust: Option<TrustSection>,
    #[serde(default)]
    settings: Settings,
    #[serde(default)]
    reload: ReloadSection,
}

/// `[identity]`, the members of all modes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct IdentitySection {
    mode: ModeName,
    #[serde(deserialize_with = "networks")]
    trusted_peers: Vec<IpNet>,

    #[serde(deserialize_with = "header_name")]
    header: Option<HeaderName>,
    #[serde(deserialize_with = "header_name")]
    groups_header: Option<HeaderName>,

    jwks_file: Option<PathBuf>,
    secret_file: Option<PathBuf>,
    public_key_file: Option<PathBuf>,
    algorithms: Option<Vec<Algorithm>>,
    issuer: Option<OneOrMany>,
    audience: Option<OneOrMany>,
    leeway_s: Option<u64>,
    subject_claim: Option<String>,
    groups_claim: Option<String>,

    subject: Option<String>,
}

impl Default for IdentitySection {
    fn default() -> Self {
        Self {
            mode: ModeName::Header,
            trusted_peers: vec![IpNet::new_assert([127, 0, 0, 0].into(), 8)],
            header: None,
            groups_header: None,
            jwks_file: None,
            secret_file: None,
            public_key_file: None,
            algorithms: None,
            issuer: None,
            audience: None,
            leeway_s: None,
            subject_claim: None,
            groups_claim: None,
            subject: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ModeName {
    Header,
    Jwt,
    Fixed,
}

impl fmt::Display for ModeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "header",
            Self::Jwt => "jwt",
            Self::Fixed => "fixed",
        })
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or an array of strings")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

/// `[trust]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustSection {
    #[serde(default, deserialize_with = "header_name")]
    readers_header: Option<HeaderName>,
    readers_claim: Option<String>,
    readers: Vec<String>,
}

/// `[reload]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ReloadSection {
    #[serde(rename = "poll_ms", deserialize_with = "milliseconds")]
    poll: Duration,
}

impl Default for ReloadSection {
    fn default() -> Self {
        Self { poll: Duration::from_millis(500) }
    }
}

const DEFAULT_USER_HEADER: HeaderName = HeaderName::from_static("x-forwarded-user");
const DEFAULT_LEEWAY_S: u64 = 30;
/// More is no difference between clocks.
const MAX_LEEWAY_S: u64 = 24 * 60 * 60;

impl Config {
    /// What runs without a file: the embedded catalog with its governance.
    pub fn built_in() -> Self {
        let identity = IdentitySection::default();
        Self {
            listen: "127.0.0.1:8181".to_owned(),
            admin_listen: None,
            upstream: UpstreamConfig::Embedded,
            governance: None,
            catalog: CatalogConfig::Fixed("prod".to_owned()),
            authenticator: Authenticator {
                trusted_peers: identity.trusted_peers,
                mode: Mode::Header { user: DEFAULT_USER_HEADER, groups: None },
                reader: None,
            },
            capability: CapabilityConfig::default(),
            trusted_readers: None,
            settings: Settings::default(),
            poll: ReloadSection::default().poll,
        }
    }

    /// Reads the file at `path`, and the key files that it names.
    ///
    /// # Errors
    ///
    /// With one line that says what is wrong and where.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let file: File = toml::from_str(&text).map_err(|error| {
            let (place, line) = error.span().map(|span| place(&text, span.start)).unwrap_or_default();
            let message = error.message().replace('\n', " ");
            format!("{}:{place} {message}{line}", path.display())
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        file.check(folder).map_err(|message| format!("{}: {message}", path.display()))
    }
}

/// Where a byte offset is: `line:column:`, and the text of the line.
fn place(text: &str, offset: usize) -> (String, String) {
    let before = text.get(..offset).unwrap_or(text);
    let number = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
    let line = match text.lines().nth(number - 1).unwrap_or_default().trim() {
        "" => String::new(),
        line => format!(", in `{line}`"),
    };
    (format!("{number}:{column}:"), line)
}

impl File {
    fn check(self, folder: &Path) -> Result<Config, String> {
        let catalog = match (self.catalog, self.catalog_from_prefix) {
            (Some(_), Some(_)) => return Err("`catalog` and `catalog_from_prefix` exclude each other".into()),
            (None, None) => return Err("one of `catalog` and `catalog_from_prefix` must be set".into()),
            (Some(name), None) => CatalogConfig::Fixed(not_blank("catalog", name)?),
            (None, Some(names)) => CatalogConfig::FromPrefix(
                not_empty("catalog_from_prefix", names)?
                    .into_iter()
                    .map(|name| not_blank("catalog_from_prefix", name))
                    .collect::<Result<_, _>>()?,
            ),
        };
        let upstream = match self.upstream.as_str() {
            "embedded" => UpstreamConfig::Embedded,
            url => UpstreamConfig::Remote(url.parse()?),
        };
        let mode_name = self.identity.mode;
        let trusted_peers = self.identity.trusted_peers.clone();
        let mode = self.identity.check(folder)?;
        let (reader, trusted_readers) = match self.trust {
            None => (None, None),
            Some(trust) => {
                let (told, readers) = trust.check(mode_name)?;
                (Some(told), Some(readers))
            }
        };
        Ok(Config {
            listen: self.listen,
            admin_listen: self.admin_listen,
            upstream,
            governance: Some(folder.join(self.governance)),
            catalog,
            authenticator: Authenticator { trusted_peers, mode, reader },
            capability: self.capability,
            trusted_readers,
            settings: self.settings,
            poll: self.reload.poll,
        })
    }
}

impl IdentitySection {
    fn check(self, folder: &Path) -> Result<Mode, String> {
        self.refuse_members_of_other_modes()?;
        match self.mode {
            ModeName::Header => Ok(Mode::Header {
                user: self.header.unwrap_or(DEFAULT_USER_HEADER),
                groups: self.groups_header,
            }),
            ModeName::Jwt => self.check_jwt(folder),
            ModeName::Fixed => {
                let subject = self.subject.ok_or("identity mode `fixed` needs a `subject`")?;
                Ok(Mode::Fixed(not_blank("subject", subject)?))
            }
        }
    }

    /// A member that means nothing in this mode is as wrong as one that is not known: somebody relies on
    /// it.
    fn refuse_members_of_other_modes(&self) -> Result<(), String> {
        use ModeName::{Fixed, Header, Jwt};
        let set = [
            ("header", Header, self.header.is_some()),
            ("groups_header", Header, self.groups_header.is_some()),
            ("jwks_file", Jwt, self.jwks_file.is_some()),
            ("secret_file", Jwt, self.secret_file.is_some()),
            ("public_key_file", Jwt, self.public_key_file.is_some()),
            ("algorithms", Jwt, self.algorithms.is_some()),
            ("issuer", Jwt, self.issuer.is_some()),
            ("audience", Jwt, self.audience.is_some()),
            ("leeway_s", Jwt, self.leeway_s.is_some()),
            ("subject_claim", Jwt, self.subject_claim.is_some()),
            ("groups_claim", Jwt, self.groups_claim.is_some()),
            ("subject", Fixed, self.subject.is_some()),
        ];
        match set.iter().find(|(_, mode, is_set)| *is_set && *mode != self.mode) {
            Some((member, mode, _)) => Err(format!(
                "identity member `{member}` belongs to mode `{mode}`, and the mode is `{}`",
                self.mode
            )),
            None => Ok(()),
        }
    }

    fn check_jwt(self, folder: &Path) -> Result<Mode, String> {
        let algorithms = self.algorithms.ok_or("identity mode `jwt` needs `algorithms`")?;
        let leeway_s = self.leeway_s.unwrap_or(DEFAULT_LEEWAY_S);
        if leeway_s > MAX_LEEWAY_S {
            return Err(format!("`leeway_s` is more than a day: {leeway_s}"));
        }
        let listed = |member, names: Option<OneOrMany>| match names {
            Some(names) => not_empty(member, names.into_vec()),
            None => Ok(Vec::new()),
        };
        let expectations = Expectations {
            algorithms: not_empty("algorithms", algorithms)?,
            issuer: listed("issuer", self.issuer)?,
            audience: listed("audience", self.audience)?,
            leeway_s,
        };
        let verifier = match (self.jwks_file, self.secret_file, self.public_key_file) {
            (Some(file), None, None) => Verifier::from_jwks_file(&folder.join(file), &expectations)?,
            (None, Some(file), None) => Verifier::from_secret_file(&folder.join(file), &expectations)?,
            (None, None, Some(file)) => Verifier::from_public_key_file(&folder.join(file), &expectations)?,
            _ => {
                let files = "`jwks_file`, `secret_file` and `public_key_file`";
                return Err(format!("identity mode `jwt` needs exactly one of {files}"));
            }
        };
        let subject_claim = self.subject_claim.unwrap_or_else(|| "sub".to_owned());
        Ok(Mode::Jwt { verifier, subject_claim, groups_claim: self.groups_claim })
    }
}

impl TrustSection {
    fn check(self, mode: ModeName) -> Result<(ReaderTold, Vec<String>), String> {
        let told = match (self.readers_header, self.readers_claim) {
            (Some(header), None) => ReaderTold::Header(header),
            (None, Some(claim)) if mode == ModeName::Jwt => ReaderTold::Claim(claim),
            (None, Some(_)) => return Err("`readers_claim` needs identity mode `jwt`".into()),
            _ => return Err("[trust] needs exactly one of `readers_header` and `readers_claim`".into()),
        };
        Ok((told, self.readers))
    }
}

fn not_empty<T>(member: &str, list: Vec<T>) -> Result<Vec<T>, String> {
    if list.is_empty() { Err(format!("`{member}` is empty")) } else { Ok(list) }
}

fn not_blank(member: &str, text: String) -> Result<String, String> {
    if text.trim().is_empty() { Err(format!("`{member}` is blank")) } else { Ok(text) }
}

fn header_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<HeaderName>, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map(Some).map_err(|_| de::Error::custom(format!("not a header name: `{name}`")))
}

/// Networks in CIDR form; a bare address stands for itself.
fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let network = |text: String| {
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        text.parse::<IpNet>()
            .or_else(|_| address())
            .map_err(|_| de::Error::custom(format!("not a network: `{text}`")))
    };
    texts.into_iter().map(network).collect()
}

fn separators<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let separators = Vec::<String>::deserialize(deserializer)?;
    match separators.iter().any(|separator| separator.is_empty() || separator.contains('/')) {
        true => Err(de::Error::custom("a separator is not empty and has no `/`")),
        false => Ok(separators),
    }
}

fn not_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        0 => Err(de::Error::custom("must not be zero")),
        number => Ok(number),
    }
}

fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    // Far below what overflows a clock, far above what anybody waits for.
    const MAX: u64 = 365 * 24 * 60 * 60 * 1000;
    match u64::deserialize(deserializer)? {
        0 => Err(de::Error::custom("must not be zero")),
        number if number > MAX => Err(de::Error::custom("more than a year")),
        number => Ok(Duration::from_millis(number)),
    }
}

fn capabilities<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Capability>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Pair {
        header: String,
        token: String,
    }
    let pairs = Vec::<Pair>::deserialize(deserializer)?;
    if pairs.is_empty() {
        return Err(de::Error::custom("an empty `accept` would refuse every client"));
    }
    let capability = |pair: Pair| Capability::new(&pair.header, &pair.token).map_err(de::Error::custom);
    pairs.into_iter().map(capability).collect::<Result<_, _>>().map(Some)
}

fn refusal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CapabilityRefusal, D::Error> {
    match u16::deserialize(deserializer)? {
        406 => Ok(CapabilityRefusal::NotAcceptable),
        403 => Ok(CapabilityRefusal::Forbidden),
        other => Err(de::Error::custom(format!("`refuse_with` is 406 or 403, not {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the documentation shows as the defaults.
    fn assert_defaults(config: &Config) {
        let Config { capability, settings, authenticator, .. } = config;
        let accepted = capability.accept.clone().unwrap_or_else(Capability::defaults);
        let pairs = [
            ("x-iceberg-client-capabilities", "read-restrictions"),
            ("x-gravitino-client-capabilities", "read-restrictions.v1"),
            ("x-gravitino-read-restrictions", "v1"),
        ];
        let spelled = accepted.iter().map(|pair| format!("{pair:?}").to_lowercase());
        for (found, (header, token)) in spelled.zip(pairs) {
            assert!(
                found.contains(&format!("{header:?}")) && found.contains(&format!("{token:?}")),
                "{found}"
            );
        }
        assert_eq!(accepted.len(), pairs.len());
        assert_eq!(capability.refuse_with, CapabilityRefusal::NotAcceptable);
        assert_eq!(config.trusted_readers, None);
        assert_eq!(
            *settings,
            Settings {
                conflict: ConflictRule::BySignature,
                upstream_restrictions: UpstreamRestrictions::Refuse,
                restricted_commits: RestrictedCommits::Allow,
                plus_as_space: false,
                namespace_separators: vec!["%1F".to_owned()],
                max_body_bytes: 67_108_864,
                cache_bytes: 67_108_864,
                source_timeout: Duration::from_millis(2_000),
                upstream_timeout: Duration::from_millis(60_000),
                upstream_connect_timeout: Duration::from_millis(10_000),
            }
        );
        assert_eq!(config.poll, Duration::from_millis(500));
        assert_eq!(authenticator.trusted_peers, ["127.0.0.0/8".parse::<IpNet>().unwrap()]);
        assert!(authenticator.reader.is_none());
        match &authenticator.mode {
            Mode::Header { user, groups: None } => assert_eq!(user, "x-forwarded-user"),
            _ => panic!("the mode is header, and the groups are the file's"),
        }
        assert_eq!(config.catalog, CatalogConfig::Fixed("prod".to_owned()));
    }

    #[test]
    fn what_is_left_out_is_what_the_sample_shows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.toml");
        let minimal = "listen = \"127.0.0.1:0\"\nupstream = \"embedded\"\ngovernance = \"g.toml\"\ncatalog = \"prod\"\n";
        fs::write(&path, minimal).unwrap();
        let config = Config::read(&path).unwrap();
        assert_defaults(&config);
        assert_eq!(config.admin_listen, None);
        assert_eq!(config.governance, Some(folder.path().join("g.toml")), "relative to the file");

        assert_defaults(&Config::built_in());
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/gateway/gateway.toml");
        assert_defaults(&Config::read(&sample).unwrap());
    }

    #[test]
    fn the_defaults_for_tokens_are_half_a_minute_and_the_subject() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.toml");
        fs::write(folder.path().join("secret"), "s3cret").unwrap();
        let minimal = "listen = \"127.0.0.1:0\"\nupstream = \"embedded\"\ngovernance = \"g.toml\"\ncatalog = \"prod\"\n\
                       [identity]\nmode = \"jwt\"\nsecret_file = \"secret\"\nalgorithms = [\"HS256\"]\n";
        fs::write(&path, minimal).unwrap();
        let Mode::Jwt { subject_claim, groups_claim, .. } = Config::read(&path).unwrap().authenticator.mode
        else {
            panic!("the mode is jwt")
        };
        assert_eq!((&*subject_claim, groups_claim), ("sub", None));
        assert_eq!(DEFAULT_LEEWAY_S, 30);
    }
}
