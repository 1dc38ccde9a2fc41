//! An HTTP server for one runtime: accepts, timestamps reads and writes, drains at shutdown.
//!
//! Invariant: a body that marks a frame before it hands it out learns the tick at which the frame's bytes were handed to the socket:
//! when the system call that took the last of them began. Over HTTP/2 and TLS other bytes can be in between; the tick is then that of the
//! first write after the frame was handed out that took everything it was offered.

use crate::clock::Clock;
use crate::error::NetError;
use crate::prefixed::PrefixedStream;
use crate::rx_timestamp::TcpSocket;
use crate::stamped::{Stamped, Stamps, WriteWatch};
use crate::tls::ServerTls;
use crate::upgraded::Upgraded;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use service::RequestService;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokrate_core::{Span, Tick};

/// Time for a request's head and for the TLS handshake.
const HEAD_TIMEOUT: Span = Span::from_secs(10);
/// Keep-alive timeout. Longer than that of common proxies (60 s), so that the client side closes first.
const IDLE_TIMEOUT: Span = Span::from_secs(120);
/// Listen backlog. With the usual 128, a burst of a few hundred connections drops handshakes, which are retried only after a second.
const BACKLOG: u32 = 4096;

mod access;
mod balance;
mod body;
mod budget;
mod connections;
mod cpu_spread;
mod full_body;
mod http1;
mod http2;
mod key;
mod protocol;
mod service;
mod write_timeout;

#[cfg(test)]
mod tests;

use access::Access;
pub use access::{AccessConfig, AccessSettings, is_form};
use balance::{Handed, Place, Seat};
pub use body::{BodyError, BodyPieces, BufferedBody, RequestBody, buffer_body, read_body};
pub use budget::{ByteBudget, ByteShare};
use connections::ConnectionPermit;
pub use connections::{ConnectionLimits, Connections, open_files, raise_open_files};
pub use cpu_spread::CpuSpread;
pub use full_body::FullBody;
pub use key::{ApiKey, presented_keys};
use protocol::{Version, detect};
use write_timeout::WriteTimeout;

/// Answers requests. Belongs to one current-thread runtime with a `LocalSet`.
pub trait Handler: 'static {
    /// Body of responses. The connection polls it and writes a ready frame in the same poll.
    type Body: Body<Data = Bytes, Error = std::io::Error> + Unpin + 'static;

    /// Handles one request.
    fn handle(
        self: Rc<Self>,
        request: Request<RequestBody>,
        tap: Rc<ConnectionTap>,
    ) -> impl Future<Output = Response<Self::Body>> + 'static;

    /// How long a client may accept no byte of pending output before its connection is closed; `None` for no limit. Called once
    /// per connection.
    fn write_timeout(&self) -> Option<Span> {
        None
    }

    /// Whether a request may send a form (`multipart/form-data`) where JSON is expected. Pages can send one without a preflight, so that
    /// `Origin` alone stands against foreign ones.
    fn takes_form(&self, _: &Request<RequestBody>) -> bool {
        false
    }

    /// The methods that a path has, as a preflight lists them.
    fn allowed_methods(&self, _path: &str) -> &'static str {
        "GET, POST"
    }

    /// JSON body of the response to a request that is rejected before `handle`, in the format of the client's dialect.
    fn error_body(&self, head: &Request<RequestBody>, status: StatusCode, message: &str) -> Vec<u8>;
}

/// Receives the time at which marked bytes were handed to the socket. Dropped without a call if they never are.
pub trait WriteSink {
    /// The bytes that were marked with `mark` were handed to the socket at `at`.
    fn written(&self, mark: u64, at: Tick);
}

/// What goes on with a connection behind the head of a 101.
type UpgradeHandler = Box<dyn FnOnce(Upgraded) -> Pin<Box<dyn Future<Output = ()>>>>;

/// A connection as its request handlers see it.
#[derive(Default)]
pub struct ConnectionTap {
    stamps: RefCell<Rc<Stamps>>,
    marks: RefCell<Vec<(Rc<dyn WriteSink>, u64)>>,
    has_stalled: Cell<bool>,
    has_left: Cell<bool>,
    /// Takes the connection over if the response is a 101.
    upgrade: RefCell<Option<UpgradeHandler>>,
    /// Its permit, if it came from a listener.
    permit: RefCell<Option<ConnectionPermit>>,
}

impl ConnectionTap {
    /// Marks the connection and its peer as authenticated: unauthenticated connections are evicted first.
    pub fn mark_authenticated(&self) {
        if let Some(permit) = &*self.permit.borrow() {
            permit.mark_authenticated();
        }
    }

    /// A request begins; `false` if the connection was evicted.
    fn start_request(&self) -> bool {
        self.permit.borrow().as_ref().is_none_or(ConnectionPermit::start_request)
    }

    /// All requests were answered: the connection is idle.
    fn mark_idle(&self) {
        if let Some(permit) = &*self.permit.borrow() {
            let stamps = self.stamps.borrow();
            permit.mark_idle(stamps.read_at().max(stamps.wrote_at()));
        }
    }

    /// Ready when the connection was evicted.
    async fn evicted(&self) {
        let evicted = self.permit.borrow().as_ref().map(ConnectionPermit::evicted);
        match evicted {
            Some(evicted) => evicted.await,
            None => std::future::pending().await,
        }
    }

    /// When the last byte read on the connection arrived; right after a request was read, its last byte.
    pub fn read_at(&self) -> Tick {
        self.stamps.borrow().read_at()
    }

    /// Whether the connection was closed by the write timeout.
    pub fn has_stalled(&self) -> bool {
        self.has_stalled.get()
    }

    /// Whether the client was seen to leave, while a handler is polled once more: it is to begin nothing for nobody.
    pub fn has_left(&self) -> bool {
        self.has_left.get()
    }

    /// Hands the connection to `upgrade` if the response to the request that is being handled is a 101; without effect otherwise. HTTP/1.1
    /// only, of a request without a body.
    pub fn on_upgrade<F: Future<Output = ()> + 'static>(&self, upgrade: impl FnOnce(Upgraded) -> F + 'static) {
        *self.upgrade.borrow_mut() = Some(Box::new(|connection| Box::pin(upgrade(connection))));
    }

    /// Marks the frame that the caller is about to hand out; `sink` is called when its bytes are handed to the socket.
    pub fn mark(&self, sink: Rc<dyn WriteSink>, mark: u64) {
        self.marks.borrow_mut().push((sink, mark));
    }
}

/// Reports a connection's writes to the sinks of marked frames.
struct TapWatch(Rc<ConnectionTap>);

impl Drop for TapWatch {
    fn drop(&mut self) {
        // Breaks reference cycles: a sink may hold the tap.
        drop(self.0.marks.take());
        drop(self.0.upgrade.take());
    }
}

impl WriteWatch for TapWatch {
    fn written(&self, at: Tick) {
        if self.0.marks.borrow().is_empty() {
            return;
        }
        // Taken out because a sink may add marks; put back, emptied, to reuse the allocation.
        let mut marks = self.0.marks.take();
        for (sink, mark) in marks.drain(..) {
            sink.written(mark, at);
        }
        let mut added = self.0.marks.borrow_mut();
        marks.append(&mut added);
        *added = marks;
    }
}

/// A listening socket to send to another thread.
#[derive(Debug)]
pub struct SharedSocket {
    socket: std::net::TcpListener,
    rules: Arc<Rules>,
    tls: Option<ServerTls>,
    seat: Seat,
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    rules: Arc<Rules>,
    /// Present if clients speak TLS.
    tls: Option<ServerTls>,
    rx_timestamps: bool,
    /// Present if other threads share the socket.
    seat: Option<Seat>,
}

/// Rules of a listening socket, shared by all threads.
#[derive(Debug)]
struct Rules {
    address: SocketAddr,
    access: Access,
    connections: Arc<Connections>,
}

impl Listener {
    /// Listens on an address; port 0 takes any free one.
    ///
    /// # Errors
    /// When the operating system refuses, or the address is not loopback and no key is required.
    pub async fn bind(
        address: SocketAddr,
        access: &AccessConfig<'_>,
        connections: &Arc<Connections>,
    ) -> Result<Listener, NetError> {
        if !access.requires_key && !address.ip().to_canonical().is_loopback() {
            return Err(NetError::Unprotected { address, remedy: access.settings.key });
        }
        let failed = |source| NetError::Listen { address, source };
        let socket = if address.is_ipv4() { tokio::net::TcpSocket::new_v4() } else { tokio::net::TcpSocket::new_v6() }
            .map_err(failed)?;
        socket.set_reuseaddr(true).map_err(failed)?;
        socket.bind(address).map_err(failed)?;
        let listener = socket.listen(BACKLOG).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let rules = Rules { address, access: Access::new(address, access), connections: Arc::clone(connections) };
        Ok(Listener { listener, rules: Arc::new(rules), tls: None, rx_timestamps: false, seat: None })
    }

    /// Speaks TLS with clients, if it is given.
    #[must_use]
    pub fn with_tls(self, tls: Option<ServerTls>) -> Listener {
        Listener { tls, ..self }
    }

    /// Uses kernel receive timestamps for what clients send. Linux only.
    #[must_use]
    pub fn with_rx_timestamps(self) -> Listener {
        Listener { rx_timestamps: true, ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.rules.address
    }

    /// The same socket for the runtimes of so many threads, each of which calls [`Listener::adopt`]. Whichever is free first accepts,
    /// and the one with the fewest connections serves.
    ///
    /// # Errors
    /// When no file descriptor is left.
    pub fn share(&self, threads: usize) -> Result<Vec<SharedSocket>, NetError> {
        let failed = |source| NetError::Listen { address: self.rules.address, source };
        let share = |seat| {
            let socket = rustix::io::fcntl_dupfd_cloexec(&self.listener, 0).map_err(|error| failed(error.into()))?;
            let (rules, tls) = (Arc::clone(&self.rules), self.tls.clone());
            Ok(SharedSocket { socket: std::net::TcpListener::from(socket), rules, tls, seat })
        };
        Seat::for_threads(threads).into_iter().map(share).collect()
    }

    /// Listens on a socket that another thread shares. Call it within a runtime.
    ///
    /// # Errors
    /// When the runtime cannot watch it.
    pub fn adopt(shared: SharedSocket) -> Result<Listener, NetError> {
        let SharedSocket { socket, rules, tls, seat } = shared;
        let failed = |source| NetError::Listen { address: rules.address, source };
        let listener = TcpListener::from_std(socket).map_err(failed)?;
        Ok(Listener { listener, rules, tls, rx_timestamps: false, seat: Some(seat) })
    }

    /// Serves until `shutdown` completes, then lets open requests end within `drain`.
    pub async fn serve<H: Handler>(
        self,
        handler: Rc<H>,
        clock: Clock,
        shutdown: impl Future<Output = ()>,
        drain: Span,
    ) {
        serve_accepted(self, handler, clock, shutdown, drain).await;
    }
}

/// Sends a 503 to a client beyond the connection limits, if that is possible without waiting.
fn reject(stream: &TcpStream, is_encrypted: bool) {
    if !is_encrypted {
        let _ = stream.try_write(
            b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        );
    }
}

/// Permit of an accepted connection, and the rules of its listener.
type Accepted = Option<(ConnectionPermit, Arc<Rules>)>;

/// A client's connection and the access rules for its requests.
#[derive(Debug)]
pub struct Incoming<S> {
    stream: S,
    accepted: Accepted,
    tls: Option<ServerTls>,
    /// Counts it for its thread.
    place: Option<Place>,
}

impl<S> Incoming<S> {
    /// A connection without access rules.
    pub fn without_rules(stream: S) -> Incoming<S> {
        Incoming { stream, accepted: None, tls: None, place: None }
    }
}

/// Source of a server's connections.
pub trait Accept {
    /// A client's connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + 'static;

    /// The next connection. Cancel-safe: a dropped future has accepted none.
    fn accept(&mut self, clock: Clock) -> impl Future<Output = io::Result<Incoming<Self::Stream>>>;
}

impl Accept for Listener {
    type Stream = TcpSocket;

    async fn accept(&mut self, clock: Clock) -> io::Result<Incoming<TcpSocket>> {
        let Some(seat) = &self.seat else {
            let (stream, permit) = self.accept_permitted(clock).await?;
            return Ok(self.incoming(stream, permit, None));
        };
        loop {
            let Handed { stream, permit, place } = tokio::select! {
                biased;
                handed = seat.handed() => handed,
                accepted = self.accept_permitted(clock) => {
                    let ((stream, permit), place) = (accepted?, seat.place());
                    if seat.owns(&place) {
                        return Ok(self.incoming(stream, permit, Some(place)));
                    }
                    match seat.hand(Handed { stream: stream.into_std()?, permit, place }) {
                        None => continue,
                        Some(returned) => returned,
                    }
                }
            };
            return Ok(self.incoming(TcpStream::from_std(stream)?, permit, Some(place)));
        }
    }
}

impl Listener {
    /// The next connection within the limits. Cancel-safe.
    async fn accept_permitted(&self, clock: Clock) -> io::Result<(TcpStream, ConnectionPermit)> {
        loop {
            let (stream, peer) = self.listener.accept().await?;
            match self.rules.connections.acquire(peer.ip(), clock.now()) {
                Some(permit) => return Ok((stream, permit)),
                None => reject(&stream, self.tls.is_some()),
            }
        }
    }

    fn incoming(&self, stream: TcpStream, permit: ConnectionPermit, place: Option<Place>) -> Incoming<TcpSocket> {
        // Small events must not wait for acknowledgements; setting the option fails only on a closed socket.
        let _ = stream.set_nodelay(true);
        let stream = TcpSocket::new(stream, self.rx_timestamps);
        Incoming { stream, accepted: Some((permit, Arc::clone(&self.rules))), tls: self.tls.clone(), place }
    }
}

/// Serves connections, wherever they come from, until `shutdown` completes, then lets open requests end within `drain`.
pub async fn serve_accepted<H: Handler>(
    mut listener: impl Accept,
    handler: Rc<H>,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
    drain: Span,
) {
    let mut connections = JoinSet::new();
    let (closing, closed) = watch::channel(false);
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = listener.accept(clock) => match accepted {
                Ok(incoming) => drop(connections.spawn_local(serve_incoming(incoming, Rc::clone(&handler), clock, closed.clone()))),
                // Usually out of file descriptors: wait for a connection to end.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    closing.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    // Remaining connections are aborted when the set is dropped.
    let _ = tokio::time::timeout(drain.as_duration(), all).await;
}

async fn serve_incoming<H: Handler, T: AsyncRead + AsyncWrite + Unpin + 'static>(
    Incoming { stream, accepted, tls, place: _place }: Incoming<T>,
    handler: Rc<H>,
    clock: Clock,
    closing: watch::Receiver<bool>,
) {
    match tls {
        None => serve_tapped(stream, handler, clock, accepted, closing).await,
        // Boxed, so that TLS does not enlarge the future of plain connections.
        Some(tls) => Box::pin(serve_encrypted(stream, tls, handler, clock, accepted, closing)).await,
    }
}

/// Serves one connection over any transport until it ends or `closing` turns true and its requests are answered. No access
/// rules are applied.
pub async fn serve_connection<H: Handler, T: AsyncRead + AsyncWrite + Unpin + 'static>(
    transport: T,
    handler: Rc<H>,
    clock: Clock,
    closing: watch::Receiver<bool>,
) {
    serve_tapped(transport, handler, clock, None, closing).await;
}

async fn serve_tapped<H: Handler, T: AsyncRead + AsyncWrite + Unpin + 'static>(
    transport: T,
    handler: Rc<H>,
    clock: Clock,
    accepted: Accepted,
    closing: watch::Receiver<bool>,
) {
    let (stamped, tap) = instrument(transport, clock, handler.write_timeout());
    let service = RequestService::new(handler, Rc::clone(&tap), accepted);
    serve_stream(stamped, service, closing).await;
    tap.permit.take();
}

async fn serve_encrypted<H: Handler, T: AsyncRead + AsyncWrite + Unpin + 'static>(
    stream: T,
    tls: ServerTls,
    handler: Rc<H>,
    clock: Clock,
    accepted: Accepted,
    mut closing: watch::Receiver<bool>,
) {
    let (stamped, tap) = instrument(stream, clock, handler.write_timeout());
    let service = RequestService::new(handler, Rc::clone(&tap), accepted);
    let encrypted = tokio::select! {
        biased;
        encrypted = tokio::time::timeout(HEAD_TIMEOUT.as_duration(), tls.acceptor.accept(stamped)) => encrypted,
        _ = closing.wait_for(|closing| *closing) => return,
        () = tap.evicted() => return,
    };
    // A failed handshake is not an error of the server.
    if let Ok(Ok(encrypted)) = encrypted {
        serve_stream(encrypted, service, closing).await;
    }
    tap.permit.take();
}

fn instrument<T: 'static>(
    transport: T,
    clock: Clock,
    write_timeout: Option<Span>,
) -> (Stamped<WriteTimeout<T>, TapWatch>, Rc<ConnectionTap>) {
    let tap = Rc::new(ConnectionTap::default());
    let bounded = WriteTimeout::new(transport, write_timeout, Rc::clone(&tap));
    let stamped = Stamped::new(bounded, clock, TapWatch(Rc::clone(&tap)));
    *tap.stamps.borrow_mut() = stamped.stamps();
    (stamped, tap)
}

async fn serve_stream<H: Handler>(
    mut stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    service: RequestService<H>,
    mut closing: watch::Receiver<bool>,
) {
    let opened = tokio::select! {
        // Fixed order, so that simulations are deterministic.
        biased;
        opened = tokio::time::timeout(HEAD_TIMEOUT.as_duration(), detect(&mut stream)) => opened,
        _ = closing.wait_for(|closing| *closing) => return,
        () = service.tap.evicted() => return,
    };
    // The client left or timed out.
    let Ok(Some((version, first))) = opened else { return };
    match version {
        Version::Http1 => {
            let tap = Rc::clone(&service.tap);
            // Boxed, so that this future does not also hold what was moved into it.
            let mut connection = Box::pin(http1::Connection::new(stream, first, service));
            // An evicted HTTP/1.1 connection is closed at once.
            let shut_down = http1::Connection::shut_down;
            run_until_shutdown(connection.as_mut(), tap.evicted(), &mut closing, Span::ZERO, shut_down).await;
            if let Some((upgrade, upgraded)) = Pin::into_inner(connection).into_upgraded() {
                upgrade(upgraded).await;
            }
        }
        Version::Http2 => http2::serve(PrefixedStream::new(first, stream), service, &mut closing).await,
    }
}

/// Serves a connection to its end; once `closing` turns true, open requests may end. An evicted one has `drain` to finish.
async fn run_until_shutdown<C: Future, P: DerefMut<Target = C>>(
    mut connection: Pin<P>,
    evicted: impl Future<Output = ()>,
    closing: &mut watch::Receiver<bool>,
    drain: Span,
    shut_down: impl FnOnce(Pin<&mut C>),
) {
    let is_evicted = tokio::select! {
        biased;
        // A broken connection is not an error of the server.
        _ = connection.as_mut() => return,
        _ = closing.wait_for(|closing| *closing) => false,
        () = evicted => true,
    };
    shut_down(connection.as_mut());
    if is_evicted {
        let _ = tokio::time::timeout(drain.as_duration(), connection).await;
    } else {
        let _ = connection.await;
    }
}
