//! An HTTP server for one runtime: accepts, stamps reads and writes, drains at the end.
//!
//! It refuses to know routes and dialects. Invariant: what a body marks before it hands out a frame is told the tick at
//! which the frame's bytes were handed to the socket: that at which the call of the operating system began which took the
//! last of them. Over HTTP/2 and TLS other bytes can lie in between; the tick is then that of the first write after the
//! frame was handed out that took everything it was offered.

use crate::clock::Clock;
use crate::error::NetError;
use crate::rx_timestamp::TcpSocket;
use crate::stamped::{Stamped, Stamps, WriteWatch};
use crate::tls::ServerTls;
use answered::Served;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
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

/// Time for a request's head.
const HEAD_TIMEOUT: Span = Span::from_secs(10);
/// Time for the next request to begin. Longer than proxies keep connections (60 s as a rule), so that it is they who close.
const IDLE_TIMEOUT: Span = Span::from_secs(120);
/// Connections that may wait to be accepted. With the usual 128, a burst of a few hundred loses handshakes, and each of
/// those is tried again only a second later.
const BACKLOG: u32 = 4096;

mod access;
mod answered;
mod body;
mod budget;
mod connections;
mod http1;
mod http2;
mod key;
mod opening;
mod patience;

#[cfg(test)]
mod tests;

use access::Access;
pub use access::{AccessConfig, AccessSettings};
pub use body::{BodyError, HeldBody, RequestBody, hold_body, read_body};
pub use budget::{ByteBudget, ByteShare};
use connections::Place;
pub use connections::{ConnectionLimits, Connections, open_files, raise_open_files};
pub use key::{ApiKey, shown_keys};
use opening::{Opened, Version, open};
use patience::Patient;

/// Answers requests. Belongs to one current-thread runtime with a `LocalSet`.
pub trait Handler: 'static {
    /// The answers' body. It is polled by the connection itself: when it wakes up, its frame is written in the same poll.
    type Body: Body<Data = Bytes, Error = std::io::Error> + Unpin + 'static;

    /// Answers one request.
    fn handle(
        self: Rc<Self>,
        request: Request<RequestBody>,
        tap: Rc<ConnectionTap>,
    ) -> impl Future<Output = Response<Self::Body>> + 'static;

    /// How long a client may take nothing of what lies ready for it before its connection is closed; `None` for as long as it
    /// likes. Asked once for each connection.
    fn send_limit(&self) -> Option<Span> {
        None
    }

    /// The body (JSON) of an answer to a request that is refused before it is handled: in the form that its client reads.
    fn refusal(&self, head: &Request<RequestBody>, status: StatusCode, message: &str) -> Vec<u8>;
}

/// Who wants to know when marked bytes were handed to the socket. It is dropped unasked if they never are.
pub trait WriteSink {
    /// The bytes that were marked with `mark` were handed to the socket at `at`.
    fn written(&self, mark: u64, at: Tick);
}

/// One connection of the server, as its requests see it.
#[derive(Default)]
pub struct ConnectionTap {
    stamps: RefCell<Rc<Stamps>>,
    marks: RefCell<Vec<(Rc<dyn WriteSink>, u64)>>,
    has_stalled: Cell<bool>,
    /// Of a connection that was accepted, its place among all of them.
    place: RefCell<Option<Place>>,
}

impl ConnectionTap {
    /// A key was shown that is known: the connection, and others of its peer, no longer go before all others when there are too
    /// many.
    pub fn shows_key(&self) {
        if let Some(place) = &*self.place.borrow() {
            place.shows_key();
        }
    }

    /// A request begins; tells whether the connection may still have one.
    fn begins(&self) -> bool {
        self.place.borrow().as_ref().is_none_or(Place::begins)
    }

    /// All requests have been answered; the next one is waited for.
    fn waits(&self) {
        if let Some(place) = &*self.place.borrow() {
            let stamps = self.stamps.borrow();
            place.waits(stamps.read_at().max(stamps.wrote_at()));
        }
    }

    /// Ready when the connection has to go for another one.
    async fn given_up(&self) {
        let given_up = self.place.borrow().as_ref().map(Place::given_up);
        match given_up {
            Some(given_up) => given_up.await,
            None => std::future::pending().await,
        }
    }

    /// When the last byte that was read of the connection came: of a request that was just read, its last.
    pub fn read_at(&self) -> Tick {
        self.stamps.borrow().read_at()
    }

    /// Whether the connection was given up because its client took nothing for as long as the handler allows.
    pub fn has_stalled(&self) -> bool {
        self.has_stalled.get()
    }

    /// Marks the frame that the caller is about to hand out; `sink` is told when its bytes go to the socket.
    pub fn mark(&self, sink: Rc<dyn WriteSink>, mark: u64) {
        self.marks.borrow_mut().push((sink, mark));
    }
}

/// The connection's writes, told to those who marked frames.
struct TapWatch(Rc<ConnectionTap>);

impl Drop for TapWatch {
    fn drop(&mut self) {
        // Nothing more is written; who waits for it may itself hold the tap.
        drop(self.0.marks.take());
    }
}

impl WriteWatch for TapWatch {
    fn written(&self, at: Tick) {
        if self.0.marks.borrow().is_empty() {
            return;
        }
        // Taken out first: a sink may mark anew. Then put back, emptied, to keep the memory.
        let mut marks = self.0.marks.take();
        for (sink, mark) in marks.drain(..) {
            sink.written(mark, at);
        }
        let mut added = self.0.marks.borrow_mut();
        marks.append(&mut added);
        *added = marks;
    }
}

/// A listening socket on its way to another thread.
#[derive(Debug)]
pub struct SharedSocket {
    socket: std::net::TcpListener,
    rules: Arc<Rules>,
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    rules: Arc<Rules>,
    /// Whether its clients speak TLS, so that they understand nothing else.
    is_encrypted: bool,
    rx_timestamps: bool,
}

/// What holds for a listening socket in every thread.
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
    /// When the operating system refuses, or others could ask without a key.
    pub async fn bind(
        address: SocketAddr,
        access: &AccessConfig<'_>,
        connections: &Arc<Connections>,
    ) -> Result<Listener, NetError> {
        if !access.asks_key && !address.ip().to_canonical().is_loopback() {
            return Err(NetError::Open { address, remedy: access.settings.key });
        }
        let failed = |source| NetError::Listen { address, source };
        let socket = if address.is_ipv4() { tokio::net::TcpSocket::new_v4() } else { tokio::net::TcpSocket::new_v6() }
            .map_err(failed)?;
        socket.set_reuseaddr(true).map_err(failed)?;
        socket.bind(address).map_err(failed)?;
        let listener = socket.listen(BACKLOG).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let rules = Rules { address, access: Access::new(address, access), connections: Arc::clone(connections) };
        Ok(Listener { listener, rules: Arc::new(rules), is_encrypted: false, rx_timestamps: false })
    }

    /// Has the kernel stamp what clients send as it comes, and not when it is read. Linux only.
    #[must_use]
    pub fn with_rx_timestamps(self) -> Listener {
        Listener { rx_timestamps: true, ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.rules.address
    }

    /// The same socket for another thread's runtime: whichever thread is free first accepts. To be turned back with
    /// [`Listener::adopt`] in that thread.
    ///
    /// # Errors
    /// When the operating system has no further descriptor.
    pub fn share(&self) -> Result<SharedSocket, NetError> {
        let failed = |source| NetError::Listen { address: self.rules.address, source };
        let socket = rustix::io::fcntl_dupfd_cloexec(&self.listener, 0).map_err(|error| failed(error.into()))?;
        Ok(SharedSocket { socket: std::net::TcpListener::from(socket), rules: Arc::clone(&self.rules) })
    }

    /// Listens on a socket that another thread shares. To be called within a runtime.
    ///
    /// # Errors
    /// When the runtime cannot watch it.
    pub fn adopt(shared: SharedSocket) -> Result<Listener, NetError> {
        let SharedSocket { socket, rules } = shared;
        let failed = |source| NetError::Listen { address: rules.address, source };
        let listener = TcpListener::from_std(socket).map_err(failed)?;
        Ok(Listener { listener, rules, is_encrypted: false, rx_timestamps: false })
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

    /// The same over TLS.
    pub async fn serve_tls<H: Handler>(
        self,
        tls: ServerTls,
        handler: Rc<H>,
        clock: Clock,
        shutdown: impl Future<Output = ()>,
        drain: Span,
    ) {
        let serve_one = |Incoming { stream, accepted }, closed| {
            serve_encrypted(stream, tls.clone(), Rc::clone(&handler), clock, accepted, closed)
        };
        serve_each(Listener { is_encrypted: true, ..self }, clock, serve_one, shutdown, drain).await;
    }
}

/// Tells a client that there is no room for its connection, as far as that can be done at once.
fn turn_away(stream: &TcpStream, is_encrypted: bool) {
    if !is_encrypted {
        let _ = stream.try_write(
            b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        );
    }
}

/// The place of a connection that was accepted, and the rules of its listener.
type Accepted = Option<(Place, Arc<Rules>)>;

/// A client's connection, with the rules that its requests are held to.
#[derive(Debug)]
pub struct Incoming<S> {
    stream: S,
    accepted: Accepted,
}

impl<S> Incoming<S> {
    /// One without rules: whom its requests mean and who sent them is not looked at.
    pub fn without_rules(stream: S) -> Incoming<S> {
        Incoming { stream, accepted: None }
    }
}

/// Where a server's connections come from.
pub trait Accept {
    /// A client's connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + 'static;

    /// The next one. What is dropped before it completes has taken none.
    fn accept(&mut self, clock: Clock) -> impl Future<Output = io::Result<Incoming<Self::Stream>>>;
}

impl Accept for Listener {
    type Stream = TcpSocket;

    async fn accept(&mut self, clock: Clock) -> io::Result<Incoming<TcpSocket>> {
        loop {
            let (stream, peer) = self.listener.accept().await?;
            let Some(place) = self.rules.connections.take(peer.ip(), clock.now()) else {
                turn_away(&stream, self.is_encrypted);
                continue;
            };
            // Events are small and must not wait for the acknowledgement of the last; a socket that refuses is closed already.
            let _ = stream.set_nodelay(true);
            let stream = TcpSocket::new(stream, self.rx_timestamps);
            return Ok(Incoming { stream, accepted: Some((place, Arc::clone(&self.rules))) });
        }
    }
}

/// Serves connections, wherever they come from, until `shutdown` completes, then lets open requests end within `drain`.
pub async fn serve_accepted<H: Handler>(
    accept: impl Accept,
    handler: Rc<H>,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
    drain: Span,
) {
    let serve_one =
        |Incoming { stream, accepted }, closed| serve_tapped(stream, Rc::clone(&handler), clock, accepted, closed);
    serve_each(accept, clock, serve_one, shutdown, drain).await;
}

async fn serve_each<A: Accept, F: Future<Output = ()> + 'static>(
    mut listener: A,
    clock: Clock,
    serve_one: impl Fn(Incoming<A::Stream>, watch::Receiver<bool>) -> F,
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
                Ok(incoming) => drop(connections.spawn_local(serve_one(incoming, closed.clone()))),
                // Out of descriptors, as a rule: wait until a connection ends.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    closing.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    // What is left after that is cut when the set is dropped.
    let _ = tokio::time::timeout(drain.as_duration(), all).await;
}

/// Serves one connection over any transport until it ends or `closing` turns true and its requests are answered. Every request is
/// handled: whom it means and who sent it is looked at where connections are accepted.
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
    let (stamped, tap) = tapped(transport, clock, handler.send_limit());
    let served = Served::new(handler, Rc::clone(&tap), accepted);
    converse(stamped, served, closing).await;
    tap.place.take();
}

async fn serve_encrypted<H: Handler>(
    stream: TcpSocket,
    tls: ServerTls,
    handler: Rc<H>,
    clock: Clock,
    accepted: Accepted,
    mut closing: watch::Receiver<bool>,
) {
    let (stamped, tap) = tapped(stream, clock, handler.send_limit());
    let served = Served::new(handler, Rc::clone(&tap), accepted);
    let encrypted = tokio::select! {
        biased;
        encrypted = tokio::time::timeout(HEAD_TIMEOUT.as_duration(), tls.acceptor.accept(stamped)) => encrypted,
        _ = closing.wait_for(|closing| *closing) => return,
        () = tap.given_up() => return,
    };
    // A handshake that fails is the client's news.
    if let Ok(Ok(encrypted)) = encrypted {
        converse(encrypted, served, closing).await;
    }
    tap.place.take();
}

fn tapped<T: 'static>(
    transport: T,
    clock: Clock,
    send_limit: Option<Span>,
) -> (Stamped<Patient<T>, TapWatch>, Rc<ConnectionTap>) {
    let tap = Rc::new(ConnectionTap::default());
    let patient = Patient::new(transport, send_limit, Rc::clone(&tap));
    let stamped = Stamped::new(patient, clock, TapWatch(Rc::clone(&tap)));
    *tap.stamps.borrow_mut() = stamped.stamps();
    (stamped, tap)
}

async fn converse<H: Handler>(
    mut stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    served: Served<H>,
    mut closing: watch::Receiver<bool>,
) {
    let opened = tokio::select! {
        // In this order always, so that a simulation takes the same way twice.
        biased;
        opened = tokio::time::timeout(HEAD_TIMEOUT.as_duration(), open(&mut stream)) => opened,
        _ = closing.wait_for(|closing| *closing) => return,
        () = served.tap.given_up() => return,
    };
    // The client left, or said nothing for too long.
    let Ok(Some((version, first))) = opened else { return };
    match version {
        Version::Http1 => {
            let tap = Rc::clone(&served.tap);
            // In a box: what was moved into it is not to have room in this future as well.
            let connection = Box::pin(http1::Connection::new(stream, first, served));
            // One that is given up has nothing to say.
            until_closing(connection, tap.given_up(), &mut closing, Span::ZERO, http1::Connection::shut_down).await;
        }
        Version::Http2 => http2::serve(Opened::new(first, stream), served, &mut closing).await,
    }
}

/// Serves a connection to its end; once `closing` turns true, what is open may end. One that is given up has `farewell` for
/// what is still on its way.
async fn until_closing<C: Future, P: DerefMut<Target = C>>(
    mut connection: Pin<P>,
    given_up: impl Future<Output = ()>,
    closing: &mut watch::Receiver<bool>,
    farewell: Span,
    shut_down: impl FnOnce(Pin<&mut C>),
) {
    let is_given_up = tokio::select! {
        biased;
        // A connection that broke is the client's news, not the server's.
        _ = connection.as_mut() => return,
        _ = closing.wait_for(|closing| *closing) => false,
        () = given_up => true,
    };
    shut_down(connection.as_mut());
    if is_given_up {
        let _ = tokio::time::timeout(farewell.as_duration(), connection).await;
    } else {
        let _ = connection.await;
    }
}
