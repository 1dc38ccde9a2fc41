//! The opening handshake of a WebSocket: what a client may ask for, and what its lane is asked for.
//!
//! Invariant: nothing but the path of sessions is upgraded, and a key that a client put among its subprotocols is not sent on.

use crate::admission::credentials::KEY_PROTOCOL;
use crate::respond::error::ErrorResponse;
use http::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokrate_net::{Handshake, websocket_handshake};

/// Subprotocols that a lane may be offered: those of the API itself. Others name accounts, which are the lane's own.
const OFFERED: [&str; 2] = ["realtime", "openai-beta."];

/// Refuses what is not a handshake where one is needed, and a handshake elsewhere.
pub(super) fn check_handshake(head: &Parts, has_body: bool, opens_session: bool) -> Result<(), ErrorResponse> {
    let handshake = websocket_handshake(&head.method, head.version, &head.headers, has_body);
    match (handshake, opens_session) {
        (Handshake::Sound(_), true) | (Handshake::None, false) => Ok(()),
        (Handshake::None, true) => {
            let message = "a realtime session is a WebSocket: open it over HTTP/1.1 with `upgrade: websocket`";
            Err(ErrorResponse::new(StatusCode::UPGRADE_REQUIRED, message))
        }
        (Handshake::Invalid(why), true) => Err(ErrorResponse::bad_request(why)),
        // Another protocol may be offered anywhere and is passed over, as RFC 9110 has it.
        (_, false) if !names_websocket(&head.headers) => Ok(()),
        (_, false) => Err(ErrorResponse::bad_request(
            "no WebSocket is served at this path; docs/gateway.md lists those of sessions",
        )),
    }
}

fn names_websocket(headers: &HeaderMap) -> bool {
    let protocols = headers.get_all(UPGRADE).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    protocols.map(<[u8]>::trim_ascii).any(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

/// The headers by which a lane is asked for a WebSocket. The client's own nonce is used, so that the lane's answer is one to it. No
/// extension is offered: compressed frames could not be read beside the path, and base64 hardly gets shorter.
pub(super) fn lane_handshake(headers: &HeaderMap) -> HeaderMap {
    let mut handshake = HeaderMap::new();
    handshake.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    handshake.insert(UPGRADE, HeaderValue::from_static("websocket"));
    handshake.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    if let Some(key) = headers.get(SEC_WEBSOCKET_KEY).and_then(|key| HeaderValue::from_bytes(key.as_bytes()).ok()) {
        handshake.insert(SEC_WEBSOCKET_KEY, key);
    }
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let offered = offered.flat_map(|value| value.split(',')).map(str::trim);
    let kept: Vec<&str> = offered.filter(|protocol| may_offer(protocol)).collect();
    if !kept.is_empty()
        && let Ok(value) = HeaderValue::from_str(&kept.join(", "))
    {
        handshake.insert(SEC_WEBSOCKET_PROTOCOL, value);
    }
    handshake
}

fn may_offer(protocol: &str) -> bool {
    let is_key = protocol.starts_with(KEY_PROTOCOL);
    !is_key && OFFERED.iter().any(|known| protocol == *known || known.ends_with('.') && protocol.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_offered_the_protocols_of_the_api_and_no_key() {
        let offered = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(value));
            let handshake = lane_handshake(&headers);
            handshake.get(SEC_WEBSOCKET_PROTOCOL).map(|value| value.to_str().expect("text").to_owned())
        };
        let browser = "realtime, openai-insecure-api-key.sk-1,openai-organization.org-1 , openai-beta.realtime-v1";
        assert_eq!(offered(browser).as_deref(), Some("realtime, openai-beta.realtime-v1"));
        assert_eq!(offered("openai-insecure-api-key.realtime"), None);
    }
}
