//! The byte streams below HTTP: TCP, Unix socket or memory; plain, TLS, or TLS within the TLS of a proxy.
//!
//! Invariant: timestamps are taken between the socket and TLS.

use crate::read_ahead::ReadAhead;
use crate::rx_timestamp::{RxTimestamp, TcpSocket};
use crate::stamped::Stamped;
use rustix::net::RecvFlags;
use rustls::HandshakeKind;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio_rustls::client::TlsStream;

/// An in-memory byte stream in place of a socket.
pub trait MemoryStream: AsyncRead + AsyncWrite + Unpin + fmt::Debug {}

impl<T: AsyncRead + AsyncWrite + Unpin + fmt::Debug> MemoryStream for T {}

/// The lowest-level stream.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpSocket),
    Unix(UnixStream),
    Memory(Box<dyn MemoryStream>),
}

/// A timestamped socket, with or without TLS.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(Stamped<Socket>),
    Tls(Box<TlsStream<ReadAhead<Transport>>>),
}

/// A TLS record with so many bytes is read where it was decrypted. Several smaller ones are put together first: to hand each on costs more
/// than a copy.
const MIN_RECORD_IN_PLACE: usize = 4096;

/// Bytes that one read of the socket brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'b> {
    pub bytes: &'b [u8],
    /// How many of them the transport still holds; to be handed to [`Transport::release`] before the next read.
    pub held: usize,
}

/// State of an idle connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IdleState {
    /// Open, with no unread data.
    Open,
    /// Closed, or with unsolicited data.
    Unusable,
    /// Unread data that may belong to TLS (session tickets).
    Unread,
}

/// The peer closed the connection below TLS without the alert that ends TLS: what was read may not be all.
#[derive(Debug, thiserror::Error)]
#[error("the server closed the TLS connection without saying that this is its end, by a close_notify")]
pub(crate) struct Unsealed;

/// The error of a read, in words of ours where the connection ended below TLS.
fn unsealed(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof { io::Error::new(error.kind(), Unsealed) } else { error }
}

/// Whether a read failed because the connection ended below TLS.
pub(crate) fn is_unsealed(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Unsealed>())
}

impl Socket {
    /// Peeks at the socket, independent of the readiness known to the runtime.
    fn idle_state(&mut self, context: &mut Context<'_>) -> IdleState {
        match self {
            Socket::Tcp(socket) => peek_socket(socket.stream()),
            Socket::Unix(stream) => peek_socket(stream),
            Socket::Memory(stream) => {
                if is_read_pending(stream, context) {
                    IdleState::Open
                } else {
                    IdleState::Unusable
                }
            }
        }
    }
}

impl RxTimestamp for Socket {
    fn rx_timestamp(&self) -> Option<u64> {
        match self {
            Socket::Tcp(socket) => socket.rx_timestamp(),
            Socket::Unix(_) | Socket::Memory(_) => None,
        }
    }
}

fn peek_socket(socket: &impl AsFd) -> IdleState {
    match rustix::net::recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(rustix::io::Errno::AGAIN) => IdleState::Open,
        Ok((_, 1)) => IdleState::Unread,
        Ok(_) | Err(_) => IdleState::Unusable,
    }
}

impl Transport {
    /// Waits for bytes, for which `scratch` has room; none at the end of the stream. They are of one read of the socket.
    pub fn poll_receive<'b>(
        &'b mut self,
        context: &mut Context<'_>,
        scratch: &'b mut [u8],
    ) -> Poll<io::Result<Received<'b>>> {
        let first = match self {
            Transport::Plain(_) => 0,
            Transport::Tls(stream) => ready!(Pin::new(&mut **stream).poll_fill_buf(context)).map_err(unsealed)?.len(),
        };
        if first >= MIN_RECORD_IN_PLACE
            && let Transport::Tls(stream) = self
        {
            let bytes = stream.get_mut().1.reader().into_first_chunk()?;
            return Poll::Ready(Ok(Received { bytes, held: bytes.len() }));
        }
        let mut buffer = ReadBuf::new(scratch);
        ready!(Pin::new(self).poll_read(context, &mut buffer))?;
        let count = buffer.filled().len();
        Poll::Ready(Ok(Received { bytes: &scratch[..count], held: 0 }))
    }

    /// Gives up received bytes that the transport still holds.
    pub fn release(&mut self, held: usize) {
        if let Transport::Tls(stream) = self
            && held > 0
        {
            Pin::new(&mut **stream).consume(held);
        }
    }

    /// Whether its TLS session went on from an earlier one.
    pub fn is_resumed(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(stream) => stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// Whether an idle connection can be reused.
    pub fn idle_state(&mut self, context: &mut Context<'_>) -> IdleState {
        match self.raw_idle_state(context) {
            // Without TLS any data is an unsolicited response.
            IdleState::Unread if matches!(self, Transport::Plain(_)) => IdleState::Unusable,
            idle_state => idle_state,
        }
    }

    fn raw_idle_state(&mut self, context: &mut Context<'_>) -> IdleState {
        match self {
            Transport::Plain(stream) => stream.inner_mut().idle_state(context),
            Transport::Tls(stream) => {
                let (below, session) = stream.get_mut();
                match below.inner_mut().raw_idle_state(context) {
                    // TLS holds decrypted data, or a close_notify was received.
                    IdleState::Open if !session.wants_read() => IdleState::Unusable,
                    IdleState::Open if !below.is_empty() => IdleState::Unread,
                    idle_state => idle_state,
                }
            }
        }
    }

    /// Whether a read of an idle connection is pending: neither data nor end of stream.
    pub fn is_read_pending(&mut self, context: &mut Context<'_>) -> bool {
        is_read_pending(self, context)
    }

    /// Whether the peer has certainly closed an idle connection. Calls the kernel only if the runtime reports readiness.
    pub fn is_closed(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let is_readable = match self.socket() {
            Socket::Tcp(socket) => socket.stream().poll_read_ready(&mut context).is_ready(),
            Socket::Unix(stream) => stream.poll_read_ready(&mut context).is_ready(),
            Socket::Memory(_) => true,
        };
        is_readable && self.idle_state(&mut context) == IdleState::Unusable
    }

    fn socket(&mut self) -> &mut Socket {
        match self {
            Transport::Plain(stream) => stream.inner_mut(),
            Transport::Tls(stream) => stream.get_mut().0.inner_mut().socket(),
        }
    }
}

fn is_read_pending(stream: &mut (impl AsyncRead + Unpin), context: &mut Context<'_>) -> bool {
    Pin::new(stream).poll_read(context, &mut ReadBuf::new(&mut [0; 1])).is_pending()
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Socket::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Socket::Memory(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            // Bytes of one read of the socket. The stream's own `poll_read` goes on reading until its buffer is full or the socket is empty:
            // then the stamp of the last read would be that of them all.
            Transport::Tls(stream) => {
                let is_end = ready!(Pin::new(&mut **stream).poll_fill_buf(context)).map_err(unsealed)?.is_empty();
                if !is_end {
                    let count = stream.get_mut().1.reader().read(buffer.initialize_unfilled())?;
                    buffer.advance(count);
                }
                Poll::Ready(Ok(()))
            }
        }
    }
}

macro_rules! delegate {
    ($type:ident, $($variant:ident),+) => {
        impl AsyncWrite for $type {
            fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $($type::$variant(stream) => Pin::new(stream).poll_write(context, bytes),)+
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $($type::$variant(stream) => Pin::new(stream).poll_write_vectored(context, slices),)+
                }
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    $($type::$variant(stream) => stream.is_write_vectored(),)+
                }
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($type::$variant(stream) => Pin::new(stream).poll_flush(context),)+
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($type::$variant(stream) => Pin::new(stream).poll_shutdown(context),)+
                }
            }
        }
    };
}

delegate!(Socket, Tcp, Unix, Memory);
delegate!(Transport, Plain, Tls);
