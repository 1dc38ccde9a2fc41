//! A TCP socket whose reads carry the kernel's receive timestamp (`SO_TIMESTAMPNS`).
//!
//! A busy client wakes up late; the kernel still notes when the bytes arrived. Without support (not Linux, or bytes that arrived
//! before it was enabled) a read has no timestamp. Invariant: the bytes are those that a plain read would have returned.

use nix::errno::Errno;
#[cfg(target_os = "linux")]
use nix::sys::socket::{ControlMessageOwned, setsockopt, sockopt::ReceiveTimestampns};
use nix::sys::socket::{MsgFlags, recvmsg};
use nix::sys::time::TimeSpec;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// A transport that may know when the bytes of its last read arrived.
pub(crate) trait RxTimestamp {
    /// When the last byte of the last read reached this machine: wall time, nanoseconds since 1970.
    fn rx_timestamp(&self) -> Option<u64>;
}

/// A TCP connection.
#[derive(Debug)]
pub struct TcpSocket {
    stream: TcpStream,
    /// Buffer for the kernel's control message; `None` without timestamps.
    control: Option<Box<[u8]>>,
    timestamp: Option<u64>,
}

impl TcpSocket {
    /// Wraps a stream, with timestamps if wanted and supported.
    pub(crate) fn new(stream: TcpStream, rx_timestamps: bool) -> TcpSocket {
        let has_timestamps = rx_timestamps && enable_timestamps(&stream);
        let control = has_timestamps.then(|| nix::cmsg_space!(TimeSpec).into_boxed_slice());
        TcpSocket { stream, control, timestamp: None }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn read_timestamped(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(control) = &mut self.control else { return Poll::Ready(Ok(())) };
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            let room = buffer.initialize_unfilled();
            let (fd, size) = (self.stream.as_raw_fd(), room.len());
            let mut received = None;
            let read = self.stream.try_io(Interest::READABLE, || {
                let (count, timestamp) = receive(fd, room, control)?;
                received = Some((count, timestamp));
                // As in tokio's own reads: a short read means that the socket is empty, so that the next read waits for readiness
                // without a system call.
                if count > 0 && count < size { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            match (received, read) {
                (Some((count, timestamp)), _) => {
                    self.timestamp = timestamp;
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                (None, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                (None, read) => return Poll::Ready(read),
            }
        }
    }
}

/// Keeps receive timestamps switched on between connections: the kernel starts to take them a little after the first socket has
/// asked, and stops with the last.
#[derive(Debug)]
pub(crate) struct TimestampGuard {
    _socket: Option<std::net::UdpSocket>,
}

impl TimestampGuard {
    /// Switches them on. Without a free descriptor the first reads of each connection have none.
    pub(crate) fn new() -> TimestampGuard {
        let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).ok();
        TimestampGuard { _socket: socket.filter(enable_timestamps) }
    }
}

/// Enables kernel timestamps; whether they are supported.
#[cfg(target_os = "linux")]
fn enable_timestamps(socket: &impl AsFd) -> bool {
    setsockopt(socket, ReceiveTimestampns, &true).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn enable_timestamps(_socket: &impl AsFd) -> bool {
    false
}

/// Reads what is available; returns its size and the time at which its last byte arrived.
fn receive(fd: i32, room: &mut [u8], control: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut slices = [IoSliceMut::new(room)];
    loop {
        match recvmsg::<()>(fd, &mut slices, Some(&mut *control), MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
            Ok(message) => {
                let mut messages = message.cmsgs().into_iter().flatten();
                return Ok((message.bytes, messages.find_map(|message| nanos(&message))));
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn nanos(message: &ControlMessageOwned) -> Option<u64> {
    let ControlMessageOwned::ScmTimestampns(time) = message else { return None };
    let seconds = u64::try_from(time.tv_sec()).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(time.tv_nsec()).ok()?)
}

#[cfg(not(target_os = "linux"))]
fn nanos(_message: &nix::sys::socket::ControlMessageOwned) -> Option<u64> {
    None
}

impl RxTimestamp for TcpSocket {
    fn rx_timestamp(&self) -> Option<u64> {
        self.timestamp
    }
}

impl AsyncRead for TcpSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // With an empty buffer, a read of zero bytes does not mean the end of the stream.
        if self.control.is_none() || buffer.remaining() == 0 {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        self.read_timestamped(context, buffer)
    }
}

impl AsyncWrite for TcpSocket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::stamped::Stamped;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn block_on<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(test)
    }

    /// A connection over loopback: the plain end, and that whose reads are timestamped.
    async fn connected() -> (TcpStream, TcpSocket) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (near, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (far, _) = accepted.expect("a client comes");
        far.set_nodelay(true).expect("an open socket");
        (far, TcpSocket::new(near.expect("it listens"), true))
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_read_is_stamped_when_its_bytes_came_and_not_when_it_was_made() {
        block_on(async {
            let clock = Clock::monotonic();
            let (mut far, near) = connected().await;
            let mut near = Stamped::new(near, clock, ());
            let mut in_time = 0;
            // The first socket that asks for timestamps has the kernel switch them on a little later.
            let started = clock.now();
            while near.inner_mut().rx_timestamp().is_none() {
                assert!(clock.now() - started < tokrate_core::Span::from_secs(60), "the kernel gives no timestamps");
                far.write_all(b"x").await.expect("the peer is there");
                near.read_u8().await.expect("it came");
            }
            for _ in 0..20 {
                let before = clock.now();
                far.write_all(b"event").await.expect("the peer is there");
                // Loopback has delivered what a write took when the write returns.
                let after = clock.now();
                let mut bytes = [0; 5];
                near.read_exact(&mut bytes).await.expect("they came");
                let stamp = near.stamps().read_at();
                assert!(stamp >= before, "nothing comes before it was sent");
                in_time += usize::from(stamp <= after);
            }
            // A thread that loses its core between two clocks is seldom.
            assert!(in_time > 10, "{in_time} of 20 stamps are those of the arrival");
        });
    }

    #[test]
    fn the_bytes_are_those_of_a_plain_read_up_to_the_end() {
        block_on(async {
            let (mut far, mut near) = connected().await;
            let sent: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
            let all = sent.clone();
            let sending = async move {
                for piece in all.chunks(7_001) {
                    far.write_all(piece).await.expect("the peer reads");
                }
            };
            let reading = async {
                let mut received = Vec::new();
                let mut room = [0; 1_000];
                loop {
                    match near.read(&mut room).await.expect("the peer is there") {
                        0 => return received,
                        count => received.extend_from_slice(&room[..count]),
                    }
                }
            };
            let ((), received) = tokio::join!(sending, reading);
            assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
        });
    }

    #[test]
    fn a_read_waits_for_bytes_and_a_broken_connection_is_an_error() {
        block_on(async {
            let (mut far, mut near) = connected().await;
            let mut room = [0; 8];
            let reading = near.read(&mut room);
            let (read, written) = tokio::join!(reading, far.write_all(b"late"));
            written.expect("the peer is there");
            assert_eq!(read.expect("they came"), 4);
            far.set_zero_linger().expect("an open socket");
            drop(far);
            let error = near.read(&mut room).await.expect_err("it was reset");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        });
    }
}
