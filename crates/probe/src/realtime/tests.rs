//! Sessions over memory with a server that keeps the connection alive.

use super::*;
use tokio::io::DuplexStream;
use tokrate_net::{ClientConfig, Target};

const SWITCHED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
/// A ping of one byte, as servers send it.
const PING: &[u8] = &[0x89, 1, b'?'];
const IDLE: Span = Span::from_millis(200);

/// Opens a session, then only pings, ten times as long as the client waits for an event, and goes away.
async fn pings_for_ever(mut peer: DuplexStream) -> std::io::Result<()> {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        peer.read_buf(&mut asked).await?;
    }
    let mut begun = SWITCHED.to_vec();
    for event in [r#"{"type":"session.created"}"#, r#"{"type":"session.updated"}"#] {
        write_frame(FrameKind::Text, event.as_bytes(), None, &mut begun);
    }
    peer.write_all(&begun).await?;
    for _ in 0..100 {
        tokio::time::sleep(IDLE.as_duration() / 10).await;
        peer.write_all(PING).await?;
    }
    Ok(())
}

#[test]
fn a_server_that_only_pings_is_stalled() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (clock, target) = (Clock::monotonic(), Target::parse("http://h/v1").expect("a URL"));
        let client = Client::over_memory(ClientConfig::default(), &target, clock, || {
            let (here, there) = tokio::io::duplex(64 * 1024);
            tokio::task::spawn_local(pings_for_ever(there));
            here
        });
        let long = Span::from_secs(300);
        let turn = RealtimeTurn {
            client: &client.expect("a client"),
            path: "/v1/realtime?model=m".to_owned(),
            headers: HeaderMap::new(),
            id: "0-0".to_owned(),
            session: r#"{"type":"session.update"}"#,
            events: &[r#"{"type":"response.create"}"#.to_owned()],
            secrets: Secrets::of(&HeaderMap::new()),
            limits: Limits { idle: IDLE, total: long, max_body_bytes: 1 << 20 },
            due_at: clock.now(),
            clock,
        };
        let (mut session, batch) = (None, RefCell::new(EventBatch::new()));
        let trace = turn.measure(&mut session, &batch, std::future::pending(), &|_| {}).await;
        let failure = trace.failure.expect("no answer came");
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Stalled, "no event for 200 ms"));
        assert!(session.is_none(), "it is no use any more");
    });
}
