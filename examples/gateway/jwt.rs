//! Bearer tokens: which keys and algorithms are accepted, and what a token must say.
//!
//! A token chooses nothing. Its `alg` must be listed in the configuration and must suit the key, and the
//! key is found by `kid` in files that the configuration names, never in the token.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use http::{HeaderMap, header};
use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, Validation, crypto,
    errors::ErrorKind,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyOperations, PublicKeyUse},
};
use serde_json::{Map, Value};

/// The claims of a token that was verified.
pub type Claims = Map<String, Value>;

/// What a verified token must say.
#[derive(Clone, Debug)]
pub struct Expectations {
    /// The algorithms that may be used, at least one.
    pub algorithms: Vec<Algorithm>,
    /// The issuers of which one must be named, if any are listed.
    pub issuer: Vec<String>,
    /// The audiences of which one must be named. A token that names an audience while none is listed is
    /// meant for somebody else (RFC 7519, 4.1.3).
    pub audience: Vec<String>,
    /// How far clocks may differ, in seconds.
    pub leeway_s: u64,
}

/// Keys from a file, with the rules for the tokens that they verify.
pub enum Verifier {
    /// One key, whatever a token's `kid` is.
    Key(Box<Key>),
    /// A key set, by `kid`. A token without one goes with the key without one.
    Set(BTreeMap<Option<String>, Key>),
}

/// A key and what the tokens that it verifies must say.
pub struct Key {
    decoding: DecodingKey,
    validation: Validation,
}

/// Why a request has no verified claims. For the log, not for the caller.
#[derive(Debug, PartialEq, Eq)]
pub enum Rejected {
    /// There is not exactly one `Authorization` field.
    NotOneAuthorization,
    /// The field does not hold the scheme `Bearer` and one token.
    NotBearer,
    /// No key of the configuration is meant for the token.
    NoKey,
    /// The token is malformed, forged, expired, not yet valid, or meant for somebody else.
    Invalid(jsonwebtoken::errors::Error),
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOneAuthorization => f.write_str("not exactly one Authorization field"),
            Self::NotBearer => f.write_str("not a bearer token"),
            Self::NoKey => f.write_str("no key for the token's kid and algorithm"),
            Self::Invalid(error) => error.fmt(f),
        }
    }
}

impl Verifier {
    /// A shared secret: the bytes of the file without one trailing newline.
    pub fn from_secret_file(path: &Path, expectations: &Expectations) -> Result<Self, String> {
        let secret = read(path)?;
        let secret = match secret.strip_suffix(b"\n") {
            Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
            None => &secret,
        };
        let key = DecodingKey::from_secret(secret)
            .map_err(|_| format!("{}: the secret is empty", path.display()))?;
        Self::with_one_key(path, key, expectations)
    }

    /// One public key in PEM form: RSA, P-256, P-384 or Ed25519.
    pub fn from_public_key_file(path: &Path, expectations: &Expectations) -> Result<Self, String> {
        let pem = read(path)?;
        let key = DecodingKey::from_rsa_pem(&pem)
            .or_else(|_| DecodingKey::from_ec_pem(&pem))
            .or_else(|_| DecodingKey::from_ed_pem(&pem))
            .map_err(|_| format!("{}: not a public key in PEM form", path.display()))?;
        Self::with_one_key(path, key, expectations)
    }

    fn with_one_key(path: &Path, key: DecodingKey, expectations: &Expectations) -> Result<Self, String> {
        expectations.key(key, expectations.algorithms.clone()).map(|key| Self::Key(Box::new(key))).map_err(
            |algorithm| format!("{}: the key does not fit the algorithm {algorithm:?}", path.display()),
        )
    }

    /// A JSON Web Key Set. Keys that are not for signatures, or only for algorithms that are not listed,
    /// are left out.
    pub fn from_jwks_file(path: &Path, expectations: &Expectations) -> Result<Self, String> {
        let at = path.display();
        let set: JwkSet = serde_json::from_slice(&read(path)?)
            .map_err(|error| format!("{at}: not a JSON Web Key Set: {error}"))?;
        let mut keys = BTreeMap::new();
        for jwk in set.keys.iter().filter(|jwk| is_for_signatures(jwk)) {
            let algorithms = algorithms_of(jwk, &expectations.algorithms);
            if algorithms.is_empty() {
                continue;
            }
            let id = jwk.common.key_id.clone();
            let name = id.clone().unwrap_or_else(|| "(none)".to_owned());
            let key = DecodingKey::from_jwk(jwk)
                .ok()
                .and_then(|key| expectations.key(key, algorithms).ok())
                .ok_or_else(|| format!("{at}: the key with kid `{name}` is not usable"))?;
            if keys.insert(id, key).is_some() {
                return Err(format!("{at}: two keys have the kid `{name}`"));
            }
        }
        match keys.is_empty() {
            true => Err(format!("{at}: no key fits the listed algorithms")),
            false => Ok(Self::Set(keys)),
        }
    }

    /// The claims of the request's one bearer token.
    pub fn verify(&self, headers: &HeaderMap) -> Result<Claims, Rejected> {
        let mut lines = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(line), None) = (lines.next(), lines.next()) else {
            return Err(Rejected::NotOneAuthorization);
        };
        self.verify_token(bearer(line.as_bytes()).ok_or(Rejected::NotBearer)?)
    }

    fn verify_token(&self, token: &str) -> Result<Claims, Rejected> {
        let head = jsonwebtoken::decode_header(token).map_err(Rejected::Invalid)?;
        let key = match self {
            Self::Key(key) => key,
            Self::Set(keys) => keys.get(&head.kid).ok_or(Rejected::NoKey)?,
        };
        let claims = jsonwebtoken::decode::<Claims>(token, &key.decoding, &key.validation)
            .map_err(Rejected::Invalid)?
            .claims;
        // One of several issuers would do for the decoder, but an issuer is one string (RFC 7519, 4.1.1).
        if key.validation.iss.is_some() && !claims.get("iss").is_some_and(Value::is_string) {
            return Err(Rejected::Invalid(ErrorKind::InvalidIssuer.into()));
        }
        Ok(claims)
    }
}

impl Expectations {
    /// The key for tokens with one of `algorithms`, or the algorithm that it is not made for.
    fn key(&self, decoding: DecodingKey, algorithms: Vec<Algorithm>) -> Result<Key, Algorithm> {
        // The first check keeps a public key from ever being taken for a shared secret.
        let fits = |algorithm: Algorithm| {
            algorithm.family() == decoding.family() && crypto::verify("", b"", &decoding, algorithm).is_ok()
        };
        match algorithms.iter().find(|algorithm| !fits(**algorithm)) {
            Some(other) => Err(*other),
            None => Ok(Key { validation: self.validation(algorithms), decoding }),
        }
    }

    fn validation(&self, algorithms: Vec<Algorithm>) -> Validation {
        let mut validation =
            Validation { algorithms, leeway: self.leeway_s, validate_nbf: true, ..Validation::default() };
        let mut required = vec!["exp"];
        if !self.issuer.is_empty() {
            validation.set_issuer(&self.issuer);
            required.push("iss");
        }
        if !self.audience.is_empty() {
            validation.set_audience(&self.audience);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        validation
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The token of `Bearer <token>`, the scheme in any case (RFC 6750, RFC 9110).
fn bearer(line: &[u8]) -> Option<&str> {
    let (scheme, token) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let token = token.trim_start_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && !token.contains(' ')).then_some(token)
}

fn is_for_signatures(jwk: &Jwk) -> bool {
    let by_use = matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
    let by_operation = jwk
        .common
        .key_operations
        .as_ref()
        .is_none_or(|operations| operations.contains(&KeyOperations::Verify));
    by_use && by_operation
}

/// The listed algorithms that the key is for: those of its `alg`, type and curve.
fn algorithms_of(jwk: &Jwk, listed: &[Algorithm]) -> Vec<Algorithm> {
    let of_type = |algorithm: Algorithm| match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => algorithm.family() == AlgorithmFamily::Rsa,
        AlgorithmParameters::OctetKey(_) => algorithm.family() == AlgorithmFamily::Hmac,
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => algorithm == Algorithm::ES256,
            EllipticCurve::P384 => algorithm == Algorithm::ES384,
            _ => false,
        },
        AlgorithmParameters::OctetKeyPair(key) => {
            algorithm == Algorithm::EdDSA && key.curve == EllipticCurve::Ed25519
        }
        // A kind of key that nothing here can verify with.
        _ => false,
    };
    let of_key = |algorithm: Algorithm| jwk.common.key_algorithm.is_none_or(|own| own == algorithm.into());
    listed.iter().copied().filter(|algorithm| of_type(*algorithm) && of_key(*algorithm)).collect()
}
