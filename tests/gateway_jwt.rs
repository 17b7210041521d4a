//! Bearer tokens in identity mode `jwt`: which make a subject, and hostile ones, which do not.

mod gateway_support;

use std::{
    fs,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use gateway_support::{CAPABLE, COUNTRIES, Gateway, ORDERS, Upstream, configuration, folder, json};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

const SECRET: &[u8] = b"a secret of at least thirty-two bytes";
const RSA_PRIVATE: &[u8] = include_bytes!("fixtures/gateway/rsa-private.pem");
const RSA_PUBLIC: &[u8] = include_bytes!("fixtures/gateway/rsa-public.pem");
const EC_PRIVATE: &[u8] = include_bytes!("fixtures/gateway/ec-private.pem");

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn claims(more: Value) -> Value {
    let mut claims = json!({"sub": "bob", "exp": now() + 600});
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    claims.as_object_mut().unwrap().retain(|_, value| *value != json!("absent"));
    claims
}

fn secret() -> EncodingKey {
    EncodingKey::from_secret(SECRET).unwrap()
}

fn hs256(claims: &Value) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &secret()).unwrap()
}

fn with_kid(algorithm: Algorithm, kid: &str, key: &EncodingKey) -> String {
    let header = Header { kid: Some(kid.to_owned()), ..Header::new(algorithm) };
    encode(&header, &claims(json!({})), key).unwrap()
}

fn base64(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

async fn start(identity: &str) -> Gateway {
    let folder = folder();
    fs::write(folder.join("secret"), [SECRET, b"\n"].concat()).unwrap();
    for name in ["jwks.json", "rsa-public.pem", "ec-public.pem"] {
        let fixture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gateway").join(name);
        fs::copy(fixture, folder.join(name)).unwrap();
    }
    let rest = format!("[identity]\nmode = \"jwt\"\n{identity}\n");
    Gateway::start_in(folder, &configuration("embedded", &rest), &[]).await
}

const WITH_SECRET: &str = "secret_file = \"secret\"\nalgorithms = [\"HS256\"]";

/// Who the request is from as far as the gateway can tell: the user that its row filter names.
async fn subject(gateway: &Gateway, authorization: &[&str]) -> Option<String> {
    let mut headers = vec![CAPABLE];
    headers.extend(authorization.iter().map(|line| ("authorization", *line)));
    let answer = gateway.get(ORDERS, &headers).await;
    if answer.status == 200 {
        let restrictions = answer.restrictions().unwrap();
        return Some(restrictions["required-row-filter"]["right"]["value"].as_str().unwrap().to_owned());
    }
    answer.assert_refused(403, "ForbiddenException", "subject-missing");
    let ungoverned = gateway.get(COUNTRIES, &headers).await;
    assert_eq!(ungoverned.restrictions(), None, "the upstream decides about its own tables");
    None
}

async fn subject_of(gateway: &Gateway, token: &str) -> Option<String> {
    subject(gateway, &[&format!("Bearer {token}")]).await
}

#[tokio::test]
async fn a_secret_file_may_end_in_a_newline() {
    let gateway = start(WITH_SECRET).await;
    assert_eq!(subject_of(&gateway, &hs256(&claims(json!({})))).await.as_deref(), Some("bob"));
}

#[tokio::test]
async fn the_scheme_is_bearer_in_any_case_and_comes_once() {
    let gateway = start(WITH_SECRET).await;
    let token = hs256(&claims(json!({})));
    assert_eq!(subject(&gateway, &[&format!("bEARER  {token}")]).await.as_deref(), Some("bob"));
    let good = format!("Bearer {token}");
    for lines in [
        &[][..],
        &["Bearer None"],
        &["Bearer null"],
        &["Bearer"],
        &["Bearer "],
        &[&token],
        &[&format!("Basic {token}")],
        &[&format!("Token {token}")],
        &[&format!("Bearer {token} {token}")],
        &[&format!("Bearer {token},Bearer {token}")],
        &[&format!("Bearer \"{token}\"")],
        &[&good, &good],
        &[&good, "Bearer None"],
    ] {
        assert_eq!(subject(&gateway, lines).await, None, "{lines:?}");
    }
}

#[tokio::test]
async fn a_forged_or_malformed_token_is_no_subject() {
    let gateway = start(WITH_SECRET).await;
    let good = hs256(&claims(json!({})));
    let [head, body, signature] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let none = |alg: &str| format!("{}.{body}", base64(&json!({"alg": alg, "typ": "JWT"})));
    let other_secret = EncodingKey::from_secret(b"another secret, as long as the other").unwrap();
    for (token, why) in [
        (format!("{}.", none("none")), "alg none"),
        (format!("{}.", none("None")), "alg None"),
        (format!("{}.", none("NONE")), "alg NONE"),
        (format!("{}.{signature}", none("none")), "alg none with a signature"),
        (none("none"), "two parts"),
        (format!("{head}.{body}."), "no signature"),
        (format!("{head}.{body}"), "two parts, HS256"),
        (format!("{good}.x"), "four parts"),
        (format!("{head}.{}.{signature}", base64(&claims(json!({"sub": "alice"})))), "other claims"),
        (format!("{}.{body}.{signature}", base64(&json!({"alg": "HS512"}))), "other algorithm"),
        (format!("{}.{body}.{signature}", base64(&json!({"typ": "JWT"}))), "no algorithm"),
        (format!("{head}.{body}.{}", signature.to_ascii_uppercase()), "changed signature"),
        (format!("{head}.{body}.{signature}="), "padded"),
        (
            encode(&Header::new(Algorithm::HS256), &claims(json!({})), &other_secret).unwrap(),
            "another secret",
        ),
        (
            encode(&Header::new(Algorithm::HS384), &claims(json!({})), &secret()).unwrap(),
            "HS384 is not listed",
        ),
        (hs256(&json!(["bob"])), "claims are no object"),
        (hs256(&json!("bob")), "claims are a string"),
        ("..".to_owned(), "dots"),
        ("a.b.c".to_owned(), "no JSON"),
        ("A".repeat(20_000), "long"),
    ] {
        assert_eq!(subject_of(&gateway, &token).await, None, "{why}");
    }
}

#[tokio::test]
async fn times_are_checked_with_a_leeway_of_half_a_minute() {
    let gateway = start(WITH_SECRET).await;
    for (change, accepted) in [
        (json!({"exp": now() - 5}), true),
        (json!({"exp": now() - 60}), false),
        (json!({"exp": "absent"}), false),
        (json!({"exp": null}), false),
        (json!({"exp": (now() + 600).to_string()}), false),
        (json!({"exp": -1}), false),
        (json!({"exp": 1e300}), false),
        (json!({"exp": [now() + 600]}), false),
        (json!({"nbf": now() + 5}), true),
        (json!({"nbf": now() + 300}), false),
        (json!({"nbf": "tomorrow"}), false),
        (json!({"nbf": now() - 300, "iat": now() + 900}), true),
    ] {
        let subject = subject_of(&gateway, &hs256(&claims(change.clone()))).await;
        assert_eq!(subject.is_some(), accepted, "{change}");
    }
}

#[tokio::test]
async fn the_leeway_can_be_none() {
    let gateway = start(&format!("{WITH_SECRET}\nleeway_s = 0")).await;
    assert_eq!(subject_of(&gateway, &hs256(&claims(json!({"exp": now() - 5})))).await, None);
    assert!(subject_of(&gateway, &hs256(&claims(json!({})))).await.is_some());
}

#[tokio::test]
async fn issuer_and_audience_must_be_named() {
    let identity = format!("{WITH_SECRET}\nissuer = \"https://idp\"\naudience = [\"catalog\", \"lake\"]");
    let gateway = start(&identity).await;
    for (change, accepted) in [
        (json!({"iss": "https://idp", "aud": "catalog"}), true),
        (json!({"iss": "https://idp", "aud": ["x", "lake"]}), true),
        (json!({"iss": "https://idp", "aud": ["x"]}), false),
        (json!({"iss": "https://idp", "aud": []}), false),
        (json!({"iss": "https://idp", "aud": {"catalog": true}}), false),
        (json!({"iss": "https://idp"}), false),
        (json!({"iss": "https://idp/", "aud": "catalog"}), false),
        (json!({"iss": "https://IDP", "aud": "catalog"}), false),
        (json!({"iss": ["https://idp"], "aud": "catalog"}), false),
        (json!({"iss": null, "aud": "catalog"}), false),
        (json!({"aud": "catalog"}), false),
    ] {
        let subject = subject_of(&gateway, &hs256(&claims(change.clone()))).await;
        assert_eq!(subject.is_some(), accepted, "{change}");
    }
}

#[tokio::test]
async fn a_token_for_an_audience_is_for_nobody_else() {
    let gateway = start(WITH_SECRET).await;
    assert_eq!(subject_of(&gateway, &hs256(&claims(json!({"aud": "another-service"})))).await, None);
}

#[tokio::test]
async fn the_subject_is_a_string_in_the_configured_claim() {
    let gateway = start(&format!("{WITH_SECRET}\nsubject_claim = \"email\"")).await;
    for (change, name) in [
        (json!({"email": "bob@example.org"}), Some("bob@example.org")),
        (json!({"email": "absent"}), None),
        (json!({"email": ""}), None),
        (json!({"email": " "}), None),
        (json!({"email": 7}), None),
        (json!({"email": ["bob"]}), None),
        (json!({"email": null}), None),
    ] {
        let subject = subject_of(&gateway, &hs256(&claims(change.clone()))).await;
        assert_eq!(subject.as_deref(), name, "{change}");
    }
}

#[tokio::test]
async fn keys_of_a_key_set_are_found_by_kid() {
    let gateway = start("jwks_file = \"jwks.json\"\nalgorithms = [\"RS256\", \"ES256\"]").await;
    let rsa = EncodingKey::from_rsa_pem(RSA_PRIVATE).unwrap();
    let ec = EncodingKey::from_ec_pem(EC_PRIVATE).unwrap();
    for (token, accepted) in [
        (with_kid(Algorithm::RS256, "rsa-1", &rsa), true),
        (with_kid(Algorithm::ES256, "ec-1", &ec), true),
        (with_kid(Algorithm::RS256, "ec-1", &rsa), false),
        (with_kid(Algorithm::ES256, "rsa-1", &ec), false),
        (with_kid(Algorithm::RS512, "rsa-1", &rsa), false),
        (with_kid(Algorithm::RS256, "rsa-enc", &rsa), false),
        (with_kid(Algorithm::RS256, "RSA-1", &rsa), false),
        (with_kid(Algorithm::RS256, "../jwks.json", &rsa), false),
        (encode(&Header::new(Algorithm::RS256), &claims(json!({})), &rsa).unwrap(), false),
    ] {
        assert_eq!(subject_of(&gateway, &token).await.is_some(), accepted, "{token}");
    }
}

#[tokio::test]
async fn a_public_key_is_never_a_shared_secret() {
    let rsa = EncodingKey::from_rsa_pem(RSA_PRIVATE).unwrap();
    let confused = EncodingKey::from_secret(RSA_PUBLIC).unwrap();
    for identity in [
        "public_key_file = \"rsa-public.pem\"\nalgorithms = [\"RS256\"]",
        "jwks_file = \"jwks.json\"\nalgorithms = [\"RS256\", \"HS256\"]",
    ] {
        let gateway = start(identity).await;
        assert!(subject_of(&gateway, &with_kid(Algorithm::RS256, "rsa-1", &rsa)).await.is_some());
        assert_eq!(subject_of(&gateway, &with_kid(Algorithm::HS256, "rsa-1", &confused)).await, None);
    }
}

#[tokio::test]
async fn a_key_inside_the_token_is_not_looked_at() {
    let gateway = start("jwks_file = \"jwks.json\"\nalgorithms = [\"ES256\"]").await;
    let own: Value = serde_json::from_slice(include_bytes!("fixtures/gateway/jwks.json")).unwrap();
    let ec = EncodingKey::from_ec_pem(EC_PRIVATE).unwrap();
    let header = Header {
        jwk: serde_json::from_value(own["keys"][1].clone()).unwrap(),
        ..Header::new(Algorithm::ES256)
    };
    let token = encode(&header, &claims(json!({})), &ec).unwrap();
    assert_eq!(subject_of(&gateway, &token).await, None);
}

#[tokio::test]
async fn an_ec_public_key_file_verifies() {
    let gateway = start("public_key_file = \"ec-public.pem\"\nalgorithms = [\"ES256\"]").await;
    let ec = EncodingKey::from_ec_pem(EC_PRIVATE).unwrap();
    assert!(subject_of(&gateway, &with_kid(Algorithm::ES256, "any", &ec)).await.is_some());
}

#[tokio::test]
async fn groups_and_reader_may_be_claims() {
    let identity = format!(
        "{WITH_SECRET}\ngroups_claim = \"groups\"\n[trust]\nreaders_claim = \"azp\"\nreaders = [\"spark-prod\"]"
    );
    let gateway = start(&identity).await;
    let orders = async |change| {
        let authorization = format!("Bearer {}", hs256(&claims(change)));
        gateway.get(ORDERS, &[("authorization", &authorization), ("x-reader", "spark-prod"), CAPABLE]).await
    };
    let answer = orders(json!({"groups": ["auditors"], "azp": "spark-prod"})).await;
    assert_eq!(answer.restrictions().unwrap()["required-row-filter"]["right"]["value"], "US");
    let answer = orders(json!({"groups": [], "azp": "spark-prod"})).await;
    assert_eq!(answer.restrictions().unwrap()["required-row-filter"]["right"]["value"], "bob");
    for change in [json!({"groups": ["auditors"]}), json!({"groups": ["auditors"], "azp": ["spark-prod"]})] {
        assert_eq!(orders(change.clone()).await.refusal().2, "reader-not-trusted", "{change}");
    }
    for groups in ["absent".into(), json!("auditors"), json!([1]), json!({"auditors": true}), Value::Null] {
        let answer = orders(json!({"groups": groups, "azp": "spark-prod"})).await;
        assert_eq!((answer.status.as_u16(), &*answer.refusal().2), (503, "source-unavailable"), "{groups}");
    }
}

#[tokio::test]
async fn headers_say_nothing_and_the_token_goes_on() {
    let upstream = Upstream::start(|_| async { json("{}") }).await;
    let gateway = start(WITH_SECRET).await;
    let answer = gateway.get(ORDERS, &[("x-forwarded-user", "alice"), CAPABLE]).await;
    assert_eq!(answer.refusal().2, "subject-missing");

    let folder = folder();
    fs::write(folder.join("secret"), SECRET).unwrap();
    let configuration =
        configuration(&upstream.url(), &format!("[identity]\nmode = \"jwt\"\n{WITH_SECRET}\n"));
    let gateway = Gateway::start_in(folder, &configuration, &[]).await;
    gateway.get("/v1/config", &[("authorization", "Bearer some-opaque-token")]).await;
    assert_eq!(upstream.only_received().headers["authorization"], "Bearer some-opaque-token");
}
