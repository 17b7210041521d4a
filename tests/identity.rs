//! Who is asking, and which groups that user is in.

use futures_util::future::FutureExt;
use http::{HeaderName, HeaderValue, Request, request::Parts};
use iceberg_read_restrictions::{
    identity::{
        AuthenticatedGroups, AuthenticatedUser, Directory, Groups, IdentitySource, Membership, Memberships,
        RequestGroups, RequestUser, Subject,
    },
    policy::{Governance, InMemoryGovernance},
    source::{Revision, SourceError},
};

const GROUPS: HeaderName = HeaderName::from_static("x-forwarded-groups");

fn request() -> Parts {
    Request::new(()).into_parts().0
}

fn with_header(name: &HeaderName, lines: &[&[u8]]) -> Parts {
    let mut request = request();
    for line in lines {
        request.headers.append(name, HeaderValue::from_bytes(line).unwrap());
    }
    request
}

fn subject(source: &dyn IdentitySource, request: &Parts) -> Option<Subject> {
    source.subject(request).now_or_never().unwrap().unwrap()
}

fn ask(source: &dyn IdentitySource, subject: &Subject, groups: &[&str]) -> Result<Memberships, SourceError> {
    source.memberships(subject, groups).now_or_never().unwrap()
}

fn groups() -> Groups {
    Groups::new([("auditors", vec!["alice", "bob"]), ("restricted", vec![])])
}

#[test]
fn there_are_three_answers() {
    let directory = Directory::new(RequestUser::fixed("alice"), groups());
    let alice = subject(&directory, &request()).unwrap();
    let answers = ask(&directory, &alice, &["auditors", "restricted", "Auditors", "auditors ", ""]).unwrap();
    assert_eq!(answers.of("auditors"), Membership::Member);
    assert_eq!(answers.of("restricted"), Membership::NotMember);
    for unknown in ["Auditors", "auditors ", ""] {
        assert_eq!(answers.of(unknown), Membership::UnknownGroup, "{unknown:?}");
    }
    assert_eq!(answers.iter().count(), 5, "all are answered in one call");
}

#[test]
fn members_are_exact() {
    for almost in ["Alice", "alice ", " alice", "alice@example.com", "auditors"] {
        let directory = Directory::new(RequestUser::fixed(almost), groups());
        let user = subject(&directory, &request()).unwrap();
        assert_eq!(user.name(), almost);
        assert_eq!(ask(&directory, &user, &["auditors"]).unwrap().of("auditors"), Membership::NotMember);
    }
}

#[test]
fn no_group_exists_where_none_is_defined() {
    let directory = Directory::new(RequestUser::fixed("alice"), Groups::none());
    let alice = subject(&directory, &request()).unwrap();
    assert_eq!(ask(&directory, &alice, &["auditors"]).unwrap().of("auditors"), Membership::UnknownGroup);
}

#[test]
fn a_request_without_a_user_has_no_subject() {
    let directory = Directory::new(RequestUser::extension(), groups());
    assert!(subject(&directory, &request()).is_none());
    let mut blank = request();
    blank.extensions.insert(AuthenticatedUser("\t ".into()));
    assert!(subject(&directory, &blank).is_none());
    let mut known = request();
    known.extensions.insert(AuthenticatedUser("alice".into()));
    assert_eq!(subject(&directory, &known).unwrap().name(), "alice");
}

#[test]
fn a_closure_reads_what_other_authentication_leaves() {
    #[derive(Clone)]
    struct Login(&'static str);

    let user = RequestUser::extension_with(|request| Some(request.extensions.get::<Login>()?.0.to_owned()));
    let directory = Directory::new(user, groups());
    let mut known = request();
    known.extensions.insert(Login("bob"));
    assert_eq!(subject(&directory, &known).unwrap().name(), "bob");
    assert!(subject(&directory, &request()).is_none());
}

#[test]
fn revisions_name_the_groups() {
    let reordered = Groups::new([("restricted", vec![]), ("auditors", vec!["bob", "alice"])]);
    assert_eq!(groups().revision(), reordered.revision());
    let others = [
        Groups::none(),
        Groups::new([("auditors", vec!["alice", "bob"])]),
        Groups::new([("auditors", vec!["alice"]), ("restricted", vec!["bob"])]),
        Groups::new([("auditors", vec!["alicebob"]), ("restricted", vec![])]),
        Groups::new([("auditors", vec!["alice", "bob"]), ("restricted2", vec![])]),
    ];
    for other in others {
        assert_ne!(groups().revision(), other.revision(), "{other:?}");
    }
    let directory = Directory::new(RequestUser::fixed("alice"), groups());
    let alice = subject(&directory, &request()).unwrap();
    assert_eq!(alice.revision(), groups().revision());
    assert_eq!(ask(&directory, &alice, &["auditors"]).unwrap().revision(), groups().revision());
    assert_eq!(
        groups().revision().as_str(),
        "sha256:00b11fb60c563eba806fafd64c3da8889ebb6683ae7d347ab268be5363d1b212",
        "the same in every process: a change of the layout takes a new domain"
    );
}

#[test]
fn memberships_come_from_the_snapshot_of_the_subject() {
    let model = |member: &str| Governance::builder().group("auditors", [member]).build().unwrap();
    let governance = InMemoryGovernance::new(model("alice"));
    let directory = governance.directory(RequestUser::fixed("alice"));
    let before = subject(&directory, &request()).unwrap();
    governance.replace(model("bob"));
    let answers = ask(&directory, &before, &["auditors"]).unwrap();
    assert_eq!(answers.of("auditors"), Membership::Member);
    assert_eq!(answers.revision(), before.revision());
    let after = subject(&directory, &request()).unwrap();
    assert_ne!(after.revision(), before.revision());
    assert_eq!(ask(&directory, &after, &["auditors"]).unwrap().of("auditors"), Membership::NotMember);
}

#[test]
fn a_subject_of_somebody_else_is_an_error() {
    let directory = Directory::new(RequestUser::fixed("alice"), groups());
    let stranger = Subject::new("alice", Revision::new("1"));
    assert!(ask(&directory, &stranger, &["auditors"]).is_err());
}

fn over_header() -> Directory {
    Directory::new(RequestUser::fixed("alice"), groups()).with_request_groups(RequestGroups::header(GROUPS))
}

#[test]
fn memberships_of_a_header_are_the_requests_alone() {
    let directory = over_header();
    let request = with_header(&GROUPS, &[br#"["restricted", "unheard-of", "restricted"]"#]);
    let alice = subject(&directory, &request).unwrap();
    let answers = ask(&directory, &alice, &["auditors", "restricted", "unheard-of"]).unwrap();
    assert_eq!(answers.of("restricted"), Membership::Member);
    assert_eq!(answers.of("auditors"), Membership::NotMember, "whatever the file says of alice");
    assert_eq!(answers.of("unheard-of"), Membership::UnknownGroup, "the file says which groups exist");

    let nowhere = subject(&directory, &with_header(&GROUPS, &[b"[]"])).unwrap();
    assert_eq!(ask(&directory, &nowhere, &["auditors"]).unwrap().of("auditors"), Membership::NotMember);
}

#[test]
fn a_header_that_does_not_tell_the_groups_is_an_error_once_a_group_is_asked() {
    let directory = over_header();
    let malformed: [&[&[u8]]; 12] = [
        &[],
        &[b""],
        &[b"auditors"],
        &[b"auditors, restricted"],
        &[b"\"auditors\""],
        &[b"{\"auditors\": true}"],
        &[b"[1]"],
        &[b"[null]"],
        &[b"null"],
        &[b"[\"auditors\"] x"],
        &[b"[\"auditors\xff\"]"],
        &[b"[\"auditors\"]", b"[\"auditors\"]"],
    ];
    for lines in malformed {
        let alice = subject(&directory, &with_header(&GROUPS, lines)).unwrap();
        assert_eq!(ask(&directory, &alice, &[]).unwrap().iter().count(), 0, "{lines:?}");
        assert!(ask(&directory, &alice, &["auditors"]).is_err(), "{lines:?}");
        assert!(ask(&directory, &alice, &["unheard-of"]).is_err(), "{lines:?}");
    }
}

#[test]
fn the_revision_covers_the_groups_of_the_request() {
    let directory = over_header();
    let revision = |lines: &[&[u8]]| {
        let alice = subject(&directory, &with_header(&GROUPS, lines)).unwrap();
        if let Ok(answers) = ask(&directory, &alice, &["auditors"]) {
            assert_eq!(answers.revision(), alice.revision());
        }
        alice.revision().clone()
    };
    let both = revision(&[br#"["auditors", "restricted"]"#]);
    assert_eq!(both, revision(&[br#"["restricted","auditors","restricted"]"#]), "a set");
    let different = [
        revision(&[br#"["auditors"]"#]),
        revision(&[br#"["auditorsrestricted"]"#]),
        revision(&[b"[]"]),
        revision(&[]),
        groups().revision().clone(),
    ];
    for (index, one) in different.iter().enumerate() {
        assert_ne!(one, &both);
        assert!(!different[..index].contains(one), "{index}");
    }
}

#[test]
fn memberships_of_authentication_are_the_requests_alone() {
    let directory =
        Directory::new(RequestUser::fixed("alice"), groups()).with_request_groups(RequestGroups::extension());
    let mut told = request();
    told.extensions.insert(AuthenticatedGroups(vec!["restricted".into()]));
    let alice = subject(&directory, &told).unwrap();
    let answers = ask(&directory, &alice, &["auditors", "restricted"]).unwrap();
    assert_eq!(answers.of("restricted"), Membership::Member);
    assert_eq!(answers.of("auditors"), Membership::NotMember);

    let alice = subject(&directory, &request()).unwrap();
    assert!(ask(&directory, &alice, &["auditors"]).is_err());
}
