//! Several threads that share one listening socket.

use super::{Echo, SETTINGS};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokrate_core::Span;
use tokrate_net::Clock;
use tokrate_net::server::{
    AccessConfig, ConnectionLimits, ConnectionTap, Connections, Handler, Listener, RequestBody, SharedSocket,
};

/// Counts the requests of its thread.
struct Counting(Arc<AtomicUsize>);

impl Handler for Counting {
    type Body = <Echo as Handler>::Body;

    fn error_body(&self, head: &http::Request<RequestBody>, status: http::StatusCode, message: &str) -> Vec<u8> {
        Echo.error_body(head, status, message)
    }

    async fn handle(
        self: Rc<Self>,
        request: http::Request<RequestBody>,
        tap: Rc<ConnectionTap>,
    ) -> http::Response<Self::Body> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Rc::new(Echo).handle(request, tap).await
    }
}

/// Serves a shared socket until `shutdown` is true.
fn serve(socket: SharedSocket, count: Arc<AtomicUsize>, mut shutdown: watch::Receiver<bool>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let end = async move { drop(shutdown.wait_for(|end| *end).await) };
        let listener = Listener::adopt(socket).unwrap();
        listener.serve(Rc::new(Counting(count)), Clock::monotonic(), end, Span::from_secs(5)).await;
    });
}

fn ask(stream: &mut TcpStream) {
    stream.write_all(b"GET /v1/x HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"/v1/x 0") {
        let mut some = [0; 512];
        let length = stream.read(&mut some).unwrap();
        assert!(length > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&some[..length]);
    }
}

#[test]
fn threads_that_share_a_socket_serve_as_many_clients_each() {
    let (ready, listening) = mpsc::channel();
    let (shutdown, requested) = watch::channel(false);
    let counts: Vec<Arc<AtomicUsize>> = (0..3).map(|_| Arc::default()).collect();
    let binder = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sockets = binder.block_on(async {
        let access = AccessConfig { hosts: &[], origins: &[], requires_key: false, settings: &SETTINGS };
        let connections = Connections::new(ConnectionLimits::without_keys());
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &access, &connections).await.unwrap();
        ready.send(listener.address()).unwrap();
        listener.share(counts.len()).unwrap()
    });
    let address = listening.recv().unwrap();
    let threads: Vec<_> = sockets
        .into_iter()
        .zip(&counts)
        .map(|(socket, count)| {
            let (count, requested) = (Arc::clone(count), requested.clone());
            std::thread::spawn(move || serve(socket, count, requested))
        })
        .collect();
    let mut clients = Vec::new();
    for _ in 0..12 {
        let mut client = TcpStream::connect(address).unwrap();
        ask(&mut client);
        clients.push(client);
    }
    let served: Vec<usize> = counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    assert_eq!(served, [4, 4, 4]);
    shutdown.send_replace(true);
    drop(clients);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
