//! Restrictions that the inner service sends of its own.

mod support;

use iceberg_read_restrictions::resolve::UpstreamRestrictions;
use serde_json::json;
use support::*;

/// A table that has this `read-restrictions` text already.
fn with_upstream(text: &str) -> Inner {
    let table = TABLE.replacen("\"config\":", &format!("\"read-restrictions\" : {text} , \"config\":"), 1);
    assert_ne!(table, TABLE);
    Inner::new(move |_| table_response(table.clone()))
}

fn occurrences(answer: &Answer) -> usize {
    answer.text().matches("\"read-restrictions\"").count()
}

#[tokio::test]
async fn empty_ones_count_as_none_and_are_replaced() {
    for empty in ["null", "{}", r#"{"required-column-projections":[]}"#] {
        let answer = send(&with_upstream(empty).behind(layer()), load(ORDERS, "alice")).await;
        assert_eq!(answer.restrictions(), restrictions_of("alice"), "{empty}");
        assert_eq!(occurrences(&answer), 1, "{empty}");
    }
}

#[tokio::test]
async fn real_ones_without_local_ones_pass() {
    let upstream = restrictions_of("carol").to_string();
    let inner = with_upstream(&upstream);
    for (path, user) in [(OPEN, "alice"), (ORDERS, "etl")] {
        let answer = send(&inner.behind(layer()), request("GET", path, user, &[])).await;
        assert_eq!(answer.restrictions(), restrictions_of("carol"));
        assert_eq!(occurrences(&answer), 1);
    }
}

#[tokio::test]
async fn real_ones_beside_ours_are_refused_unless_equal() {
    let refused =
        send(&with_upstream(&restrictions_of("bob").to_string()).behind(layer()), load(ORDERS, "alice"))
            .await;
    assert_eq!((refused.status.as_u16(), &*refused.refusal()), (403, "restrictions-unresolvable"));
    let equal =
        send(&with_upstream(&restrictions_of("alice").to_string()).behind(layer()), load(ORDERS, "alice"))
            .await;
    assert_eq!(equal.restrictions(), restrictions_of("alice"));
    assert_eq!(occurrences(&equal), 1);
    let odd = send(&with_upstream("\"odd\"").behind(layer()), load(ORDERS, "alice")).await;
    assert!([403, 502].contains(&odd.status.as_u16()));
    odd.refusal();
}

#[tokio::test]
async fn they_may_be_conjoined() {
    let conjoin = || layer().upstream_restrictions(UpstreamRestrictions::Conjoin);
    let projection = |field: i32, action: &str| json!({"field-id": field, "action": action});
    let upstream = json!({"required-column-projections": [projection(5, "replace-with-null")], "required-row-filter": false});
    let answer = send(&with_upstream(&upstream.to_string()).behind(conjoin()), load(ORDERS, "alice")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let restrictions = answer.restrictions();
    assert_eq!(
        restrictions["required-column-projections"],
        json!([projection(4, "show-last-4"), projection(5, "replace-with-null")])
    );
    assert_eq!(occurrences(&answer), 1);

    let clash = json!({"required-column-projections": [projection(4, "mask-alphanum")]});
    let answer = send(&with_upstream(&clash.to_string()).behind(conjoin()), load(ORDERS, "alice")).await;
    assert_eq!(answer.refusal(), "restrictions-unresolvable");
}

#[tokio::test]
async fn a_repeated_member_is_refused() {
    let repeated = TABLE.replacen(
        "\"config\":",
        "\"read-restrictions\":{}, \"read\\u002drestrictions\":{}, \"config\":",
        1,
    );
    let sent = repeated.clone();
    let inner = Inner::new(move |_| table_response(sent.clone()));
    let answer = send(&inner.behind(layer()), load(ORDERS, "alice")).await;
    assert_eq!((answer.status.as_u16(), &*answer.refusal()), (502, "upstream-invalid"));
    assert_eq!(send(&inner.behind(layer()), load(OPEN, "alice")).await.text(), repeated);
}
