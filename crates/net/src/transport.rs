//! The byte streams below HTTP: TCP or memory, plain or encrypted.
//!
//! It refuses to open anything. Invariant: stamps are taken between the socket and TLS.

use crate::stamped::{Stamped, WriteWatch};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// What bytes go through at the lowest level.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Memory(DuplexStream),
}

/// A stamped socket, encrypted or not.
#[derive(Debug)]
pub(crate) enum Transport<W = ()> {
    Plain(Stamped<Socket, W>),
    Tls(Box<TlsStream<Stamped<Socket, W>>>),
}

macro_rules! delegate {
    ($type:ident, $one:ident, $other:ident $(, $watch:ident)?) => {
        impl$(<$watch: WriteWatch + Unpin>)? AsyncRead for $type$(<$watch>)? {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $type::$one(stream) => Pin::new(stream).poll_read(context, buffer),
                    $type::$other(stream) => Pin::new(stream).poll_read(context, buffer),
                }
            }
        }

        impl$(<$watch: WriteWatch + Unpin>)? AsyncWrite for $type$(<$watch>)? {
            fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $type::$one(stream) => Pin::new(stream).poll_write(context, bytes),
                    $type::$other(stream) => Pin::new(stream).poll_write(context, bytes),
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $type::$one(stream) => Pin::new(stream).poll_write_vectored(context, slices),
                    $type::$other(stream) => Pin::new(stream).poll_write_vectored(context, slices),
                }
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    $type::$one(stream) => stream.is_write_vectored(),
                    $type::$other(stream) => stream.is_write_vectored(),
                }
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $type::$one(stream) => Pin::new(stream).poll_flush(context),
                    $type::$other(stream) => Pin::new(stream).poll_flush(context),
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $type::$one(stream) => Pin::new(stream).poll_shutdown(context),
                    $type::$other(stream) => Pin::new(stream).poll_shutdown(context),
                }
            }
        }
    };
}

delegate!(Socket, Tcp, Memory);
delegate!(Transport, Plain, Tls, W);
