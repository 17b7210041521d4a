//! What the example says about the order of layers is true.

#[allow(dead_code)]
#[path = "../examples/axum_catalog.rs"]
mod axum_catalog;

use axum_catalog::{
    Answer, CREDENTIALS, DOOR, ORDERS, ask, authentication_inside, compression_inside, door_beside_the_layer,
    inside_the_router, right_order,
};
use http::StatusCode;

fn answer(status: StatusCode, restricted: bool, compressed: bool) -> Answer {
    Answer { status, restricted, compressed }
}

#[tokio::test]
async fn the_right_order_restricts_compresses_and_lets_through() {
    assert_eq!(ask(right_order(), ORDERS).await, answer(StatusCode::OK, true, true));
    // Too short to be compressed.
    assert_eq!(ask(right_order(), CREDENTIALS).await, answer(StatusCode::OK, false, false));
}

#[tokio::test]
async fn wrong_orders_refuse_or_cost_something_and_show_nothing_unrestricted() {
    for path in [ORDERS, CREDENTIALS] {
        assert_eq!(ask(authentication_inside(), path).await.status, StatusCode::FORBIDDEN);
    }
    assert_eq!(ask(compression_inside(), ORDERS).await, answer(StatusCode::OK, true, false));
    assert_eq!(ask(inside_the_router(), ORDERS).await, answer(StatusCode::OK, true, true));
    assert_eq!(ask(inside_the_router(), CREDENTIALS).await.status, StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn what_is_not_behind_the_layer_is_not_governed() {
    assert_eq!(ask(door_beside_the_layer(), DOOR).await, answer(StatusCode::OK, false, false));
    assert_eq!(ask(door_beside_the_layer(), ORDERS).await, answer(StatusCode::OK, true, true));
}
