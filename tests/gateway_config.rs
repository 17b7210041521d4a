//! Wrong use of the gateway: exit code 2 and one clear line.

mod gateway_support;

use std::{fs, net::TcpListener, process::Command};

use gateway_support::{Gateway, configuration, example, folder, run};

/// Runs the gateway with a configuration that cannot work, and gives back what it says.
#[track_caller]
fn refused(configuration: &str) -> String {
    let output = run(&folder(), configuration);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(output.stdout.is_empty());
    assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    assert!(message.starts_with("gateway: "), "{message}");
    message
}

#[track_caller]
fn assert_refused(configuration: &str, names: &[&str]) {
    let message = refused(configuration);
    for name in names {
        assert!(message.contains(name), "{name} is not in: {message}");
    }
}

fn with(rest: &str) -> String {
    configuration("embedded", rest)
}

#[test]
fn unknown_members_are_errors_everywhere() {
    for (configuration, member) in [
        (format!("catalogue = \"prod\"\n{}", with("")), "catalogue"),
        (with("[identity]\nheaders = \"x-user\"\n"), "headers"),
        (with("[capability]\nrefuse = 406\n"), "refuse"),
        (with("[capability]\naccept = [{ header = \"X-A\", token = \"a\", value = \"b\" }]\n"), "value"),
        (with("[trust]\nreaders_header = \"x-reader\"\nreaders = []\nwriters = []\n"), "writers"),
        (with("[settings]\nmax_body = 1\n"), "max_body"),
        (with("seconds = 1\n"), "seconds"),
        (with("[logging]\nlevel = \"info\"\n"), "logging"),
    ] {
        assert_refused(&configuration, &[member, "gateway.toml:"]);
    }
}

#[test]
fn the_line_of_a_mistake_is_named() {
    assert_refused(
        &with("[settings]\nconflict = \"last-wins\"\n"),
        &["gateway.toml:9:", "by-signature", "by-policy"],
    );
}

#[test]
fn values_that_cannot_be_are_errors() {
    for (configuration, word) in [
        ("listen = ".to_owned(), "gateway.toml"),
        (with("").replace("catalog = \"prod\"", ""), "catalog_from_prefix"),
        (with("").replace("catalog =", "catalog_from_prefix = [\"prod\"]\ncatalog ="), "exclude"),
        (with("").replace("catalog = \"prod\"", "catalog_from_prefix = []"), "catalog_from_prefix"),
        (with("").replace("\"prod\"", "\" \""), "catalog"),
        (with("").replace("governance = \"governance.toml\"", ""), "governance"),
        (with("").replace("upstream = \"embedded\"", ""), "upstream"),
        (with("").replace("listen = \"127.0.0.1:0\"\nadmin", "admin"), "listen"),
        (configuration("ftp://catalog", ""), "ftp://catalog"),
        (configuration("catalog:8182", ""), "catalog:8182"),
        (configuration("http://catalog/?warehouse=x", ""), "query"),
        (with("[capability]\nrefuse_with = 401\n"), "401"),
        (with("[capability]\naccept = []\n"), "accept"),
        (with("[capability]\naccept = [{ header = \"X A\", token = \"a\" }]\n"), "X A"),
        (with("[capability]\naccept = [{ header = \"X-A\", token = \"Upper\" }]\n"), "Upper"),
        (with("[settings]\nupstream_restrictions = \"merge\"\n"), "merge"),
        (with("[settings]\nrestricted_commits = true\n"), "restricted_commits"),
        (with("[settings]\nmax_body_bytes = -1\n"), "max_body_bytes"),
        (with("[settings]\nsource_timeout_ms = 0\n"), "zero"),
        (with("[settings]\nupstream_connect_timeout_ms = 0\n"), "zero"),
        (with("[settings]\ncache_bytes = -1\n"), "cache_bytes"),
        (with("[settings]\nnamespace_separators = [\"\"]\n"), "separator"),
        (with("[settings]\nupstream_timeout_ms = \"60s\"\n"), "upstream_timeout_ms"),
        (with("[identity]\nmode = \"oauth\"\n"), "oauth"),
        (with("[identity]\nheader = \"x user\"\n"), "x user"),
        (with("[identity]\ntrusted_peers = [\"10.0.0.0/40\"]\n"), "10.0.0.0/40"),
        (with("[identity]\ntrusted_peers = [\"localhost\"]\n"), "localhost"),
        (with("[identity]\nmode = \"fixed\"\n"), "subject"),
        (with("[identity]\nmode = \"fixed\"\nsubject = \" \"\n"), "subject"),
        (with("[identity]\nsubject = \"alice\"\n"), "fixed"),
        (with("[identity]\nmode = \"jwt\"\nheader = \"x-user\"\n"), "header"),
        (with("[trust]\nreaders = [\"a\"]\n"), "readers_header"),
        (with("[trust]\nreaders_header = \"x-reader\"\n"), "readers"),
        (with("[trust]\nreaders_claim = \"azp\"\nreaders = [\"a\"]\n"), "jwt"),
    ] {
        assert_refused(&configuration, &[word]);
    }
}

#[test]
fn keys_that_do_not_fit_are_errors() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/gateway");
    let folder = folder();
    fs::write(folder.join("empty"), "\n").unwrap();
    fs::write(folder.join("secret"), "s3cret").unwrap();
    fs::write(folder.join("no-keys.json"), "{\"keys\": []}").unwrap();
    fs::write(folder.join("oct.json"), r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}]}"#).unwrap();
    let rsa: serde_json::Value =
        serde_json::from_slice(&fs::read(format!("{fixtures}/jwks.json")).unwrap()).unwrap();
    let twice = serde_json::json!({"keys": [rsa["keys"][0], rsa["keys"][0]]});
    fs::write(folder.join("twice.json"), twice.to_string()).unwrap();
    for (identity, word) in [
        ("secret_file = \"secret\"".to_owned(), "algorithms"),
        ("secret_file = \"secret\"\nalgorithms = []".to_owned(), "algorithms"),
        ("secret_file = \"secret\"\nalgorithms = [\"none\"]".to_owned(), "none"),
        ("secret_file = \"secret\"\nalgorithms = [\"HS256\", \"RS256\"]".to_owned(), "RS256"),
        ("secret_file = \"missing\"\nalgorithms = [\"HS256\"]".to_owned(), "missing"),
        ("secret_file = \"empty\"\nalgorithms = [\"HS256\"]".to_owned(), "empty"),
        ("secret_file = \"secret\"\nalgorithms = [\"HS256\"]\nleeway_s = 100000".to_owned(), "leeway_s"),
        ("algorithms = [\"HS256\"]".to_owned(), "secret_file"),
        (
            "secret_file = \"secret\"\njwks_file = \"oct.json\"\nalgorithms = [\"HS256\"]".to_owned(),
            "exactly one",
        ),
        ("jwks_file = \"secret\"\nalgorithms = [\"RS256\"]".to_owned(), "JSON Web Key Set"),
        ("jwks_file = \"no-keys.json\"\nalgorithms = [\"RS256\"]".to_owned(), "no key"),
        ("jwks_file = \"oct.json\"\nalgorithms = [\"RS256\"]".to_owned(), "no key"),
        ("jwks_file = \"twice.json\"\nalgorithms = [\"RS256\"]".to_owned(), "rsa-1"),
        (format!("public_key_file = \"{fixtures}/ec-public.pem\"\nalgorithms = [\"RS256\"]"), "RS256"),
        (format!("public_key_file = \"{fixtures}/rsa-public.pem\"\nalgorithms = [\"HS256\"]"), "HS256"),
        (format!("public_key_file = \"{fixtures}/ec-public.pem\"\nalgorithms = [\"ES384\"]"), "ES384"),
        ("public_key_file = \"secret\"\nalgorithms = [\"RS256\"]".to_owned(), "PEM"),
    ] {
        let output = run(&folder, &with(&format!("[identity]\nmode = \"jwt\"\n{identity}\n")));
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{identity}: {message}");
        assert!(message.contains(word) && message.trim_end().lines().count() == 1, "{identity}: {message}");
    }
}

#[test]
fn files_that_are_missing_or_invalid_are_errors() {
    let output =
        Command::new(example("gateway")).args(["--config", "/nowhere/gateway.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("/nowhere/gateway.toml"));

    assert_refused(&with("").replace("governance.toml", "elsewhere.toml"), &["elsewhere.toml"]);

    let folder = folder();
    fs::write(folder.join("governance.toml"), "[[policies]]\nname = \"p\"\n").unwrap();
    let output = run(&folder, &with(""));
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("governance.toml"));
}

#[test]
fn arguments_that_are_not_known_are_errors() {
    for arguments in [&["--conf", "x"][..], &["--config"], &["gateway.toml"]] {
        let output = Command::new(example("gateway")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_port_in_use_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert_refused(&with("").replacen("127.0.0.1:0", &address, 1), &[&address]);
    assert_refused(
        &with("").replace("admin_listen = \"127.0.0.1:0\"", &format!("admin_listen = \"{address}\"")),
        &[&address],
    );
}

#[tokio::test]
async fn the_sample_configuration_works_and_shows_every_section() {
    let sample = include_str!("../examples/gateway/gateway.toml");
    for section in ["identity", "capability", "trust", "settings", "reload"] {
        assert!(sample.contains(&format!("[{section}]")), "{section}");
    }
    let governance = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/catalog/governance.toml");
    let configuration = sample
        .replace("127.0.0.1:8181", "127.0.0.1:0")
        .replace("127.0.0.1:8189", "127.0.0.1:0")
        .replace("../catalog/governance.toml", governance);
    let gateway = Gateway::start_in(folder(), &configuration, &[]).await;
    assert!(gateway.orders("alice").await.restrictions().is_some());
}
