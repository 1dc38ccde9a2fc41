//! The client over TLS in memory: what a record holds carries the stamp of the read that completed it.

use super::*;
use crate::connect::Dial;
use crate::tls::ServerTls;
use std::io;
use std::task::Context;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of one read: several reads make a record.
const READ_BYTES: usize = 64;

/// The client's end of a connection, whose every read takes a millisecond.
#[derive(Debug)]
struct SlowReads {
    inner: DuplexStream,
    manual_clock: ManualClock,
}

impl AsyncRead for SlowReads {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; READ_BYTES];
        let room = buffer.remaining().min(READ_BYTES);
        let mut part = ReadBuf::new(&mut bytes[..room]);
        let polled = Pin::new(&mut self.inner).poll_read(context, &mut part);
        if !part.filled().is_empty() {
            self.manual_clock.advance(MS);
            buffer.put_slice(part.filled());
        }
        polled
    }
}

impl AsyncWrite for SlowReads {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

fn server_tls() -> ServerTls {
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = rcgen::CertificateParams::new(vec!["h".to_owned()]).expect("a name").self_signed(&key);
    let pem = certificate.expect("a certificate").pem();
    ServerTls::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes()).expect("they fit")
}

/// Sends one request; its answer's head and pieces each are a record, and lie ready before the client reads the first.
async fn exchange(pieces: &[Vec<u8>], is_measured: bool) -> (Exchange, RecordingSink) {
    let (clock, manual_clock) = Clock::manual(Tick::from_nanos(1_000));
    let config = ClientConfig { insecure: true, rx_timestamps: is_measured, ..ClientConfig::default() };
    let target = Target::parse("https://h/v1").expect("a URL");
    let (here, there) = tokio::io::duplex(1 << 20);
    let here = RefCell::new(Some(SlowReads { inner: here, manual_clock }));
    let dial =
        Dial::memory(move |_| std::future::ready(here.borrow_mut().take().ok_or(io::ErrorKind::AddrInUse.into())));
    let route = Route::unresolved(&target, &config).expect("a route");
    let client = Client::with_dial(config, route, clock, dial).expect("a client");
    let (received, mut sink) = RecordingSink::pair();
    let serving = async {
        let mut stream = server_tls().acceptor.accept(there).await.expect("a handshake");
        let mut request = Vec::new();
        while !request.ends_with(b"{}") {
            request.push(stream.read_u8().await.expect("the client sends it all"));
        }
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        for record in std::iter::once(&head).chain(pieces) {
            stream.write_all(record).await.expect("there is room");
            stream.flush().await.expect("there is room");
        }
        stream
    };
    let (exchange, _stream) = tokio::join!(client.exchange(outgoing(b"{}"), limits(), &mut sink), serving);
    (exchange, received)
}

fn chunk(body: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n"].concat()
}

#[test]
fn a_record_carries_the_stamp_of_the_read_that_completed_it_also_when_later_ones_lie_ready() {
    on_paused_runtime(async {
        // Small ones are put together, large ones read where they were decrypted.
        for (size, is_measured) in
            [(200, false), (6_000, false), (16_000, false), (200, true), (6_000, true), (16_000, true)]
        {
            let bodies: Vec<Vec<u8>> = (b'a'..b'g').map(|letter| vec![letter; size]).collect();
            let mut pieces: Vec<Vec<u8>> = bodies.iter().map(|body| chunk(body)).collect();
            pieces.push(b"0\r\n\r\n".to_vec());
            let (ended, received) = exchange(&pieces, is_measured).await;
            assert_eq!(ended.outcome, Ok(()));
            assert!(received.text().as_bytes() == bodies.concat(), "{size}");
            let stamps: Vec<Tick> = received.body().iter().step_by(size).map(|&(at, _)| at).collect();
            let reads = (size / READ_BYTES) as u64;
            for pair in stamps.windows(2) {
                let apart = (pair[1] - pair[0]).as_nanos() / MS.as_nanos();
                assert!((reads..=reads + 2).contains(&apart), "records of {size}: {apart} reads apart");
            }
        }
    });
}

#[test]
fn chunks_of_one_record_share_its_stamp_and_small_records_lose_no_byte() {
    on_paused_runtime(async {
        let pieces = [chunk(b"a"), chunk(b"b"), [chunk(b"c"), chunk(b"d")].concat(), b"0\r\n\r\n".to_vec()];
        let (ended, received) = exchange(&pieces, true).await;
        assert_eq!((ended.outcome, received.text().as_str()), (Ok(()), "abcd"));
        let stamps: Vec<Tick> = received.body().iter().map(|&(at, _)| at).collect();
        assert!(stamps.is_sorted() && stamps[2] == stamps[3], "{stamps:?}");
    });
}
