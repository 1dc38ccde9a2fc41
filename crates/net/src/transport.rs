//! The byte streams below HTTP: TCP, a Unix socket or memory; plain, encrypted, or encrypted within what a proxy encrypts.
//!
//! It refuses to open anything. Invariant: stamps are taken between the socket and TLS.

use crate::rx_timestamp::{RxTimestamp, TcpSocket};
use crate::stamped::Stamped;
use rustix::net::RecvFlags;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio_rustls::client::TlsStream;

/// A byte stream that stands in for a socket; what it does at the end of its peer is its own.
pub trait MemoryStream: AsyncRead + AsyncWrite + Unpin + fmt::Debug {}

impl<T: AsyncRead + AsyncWrite + Unpin + fmt::Debug> MemoryStream for T {}

/// What bytes go through at the lowest level.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpSocket),
    Unix(UnixStream),
    Memory(Box<dyn MemoryStream>),
}

/// A stamped socket, encrypted or not.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(Stamped<Socket>),
    Tls(Box<TlsStream<Transport>>),
}

/// Whether an idle connection has anything to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quiet {
    /// It is open, and nothing came.
    Yes,
    /// It is closed, or something came that nobody asked for.
    No,
    /// Something came that may be TLS's own.
    Unread,
}

impl Socket {
    /// Looks into the kernel, whatever the runtime has seen of it.
    fn quiet(&mut self, context: &mut Context<'_>) -> Quiet {
        match self {
            Socket::Tcp(socket) => quiet_in_kernel(socket.stream()),
            Socket::Unix(stream) => quiet_in_kernel(stream),
            Socket::Memory(stream) => {
                if is_silent(stream, context) {
                    Quiet::Yes
                } else {
                    Quiet::No
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

fn quiet_in_kernel(socket: &impl AsFd) -> Quiet {
    match rustix::net::recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(rustix::io::Errno::AGAIN) => Quiet::Yes,
        Ok((_, 1)) => Quiet::Unread,
        Ok(_) | Err(_) => Quiet::No,
    }
}

impl Transport {
    /// Whether an idle connection is still as it was left.
    pub fn quiet(&mut self, context: &mut Context<'_>) -> Quiet {
        match self.quiet_below(context) {
            // In the clear whatever came is the server's, and unasked for.
            Quiet::Unread if matches!(self, Transport::Plain(_)) => Quiet::No,
            quiet => quiet,
        }
    }

    fn quiet_below(&mut self, context: &mut Context<'_>) -> Quiet {
        match self {
            Transport::Plain(stream) => stream.inner_mut().quiet(context),
            Transport::Tls(stream) => {
                let (below, session) = stream.get_mut();
                match below.quiet_below(context) {
                    // It has text that was read with the last answer, or has been told of the end.
                    Quiet::Yes if !session.wants_read() => Quiet::No,
                    quiet => quiet,
                }
            }
        }
    }

    /// Whether there is nothing to be read of an idle connection, and no end, as far as the runtime has seen.
    pub fn is_silent(&mut self, context: &mut Context<'_>) -> bool {
        is_silent(self, context)
    }

    /// Whether the peer has closed an idle connection, for sure. Asks the kernel only if the runtime has seen something.
    pub fn is_closed(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let has_stirred = match self.socket() {
            Socket::Tcp(socket) => socket.stream().poll_read_ready(&mut context).is_ready(),
            Socket::Unix(stream) => stream.poll_read_ready(&mut context).is_ready(),
            Socket::Memory(_) => true,
        };
        has_stirred && self.quiet(&mut context) == Quiet::No
    }

    fn socket(&mut self) -> &mut Socket {
        match self {
            Transport::Plain(stream) => stream.inner_mut(),
            Transport::Tls(stream) => stream.get_mut().0.socket(),
        }
    }
}

fn is_silent(stream: &mut (impl AsyncRead + Unpin), context: &mut Context<'_>) -> bool {
    Pin::new(stream).poll_read(context, &mut ReadBuf::new(&mut [0; 1])).is_pending()
}

macro_rules! delegate {
    ($type:ident, $($variant:ident),+) => {
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $($type::$variant(stream) => Pin::new(stream).poll_read(context, buffer),)+
                }
            }
        }

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
