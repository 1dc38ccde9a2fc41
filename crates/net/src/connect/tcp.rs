//! Connects to the first of a name's addresses that takes the connection, each a little after the one before it ("happy eyeballs").
//!
//! Invariant: at most one connection is kept; the attempts that it overtook are closed.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long an address has for itself before the next one is tried beside it: the "Connection Attempt Delay" of RFC 8305, section 5.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The address that failed last, and why; `None` if there was no address.
pub(super) type LastFailure = Option<(SocketAddr, io::Error)>;

/// A TCP connection to one of the addresses.
///
/// # Errors
/// When all have failed. The caller applies the time limit.
pub(super) async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, LastFailure> {
    match addresses {
        [only] => TcpStream::connect(only).await.map_err(|error| Some((*only, error))),
        _ => first_of(addresses, TcpStream::connect::<SocketAddr>).await,
    }
}

/// The first connection that `open` gets.
async fn first_of<T, F>(addresses: &[SocketAddr], open: impl Fn(SocketAddr) -> F) -> Result<T, LastFailure>
where
    F: Future<Output = io::Result<T>>,
{
    let mut untried = alternate(addresses).into_iter().peekable();
    let mut attempts: Vec<(SocketAddr, Pin<Box<F>>)> = Vec::new();
    let mut last = None;
    loop {
        if let Some(address) = untried.next() {
            attempts.push((address, Box::pin(open(address))));
        } else if attempts.is_empty() {
            return Err(last);
        }
        let mut ended = pin!(poll_fn(|context| {
            for (place, (_, attempt)) in attempts.iter_mut().enumerate() {
                if let Poll::Ready(outcome) = attempt.as_mut().poll(context) {
                    return Poll::Ready((place, outcome));
                }
            }
            Poll::Pending
        }));
        let ended = match untried.peek() {
            Some(_) => timeout(ATTEMPT_DELAY, &mut ended).await.ok(),
            None => Some(ended.await),
        };
        match ended {
            Some((_, Ok(connection))) => return Ok(connection),
            Some((place, Err(error))) => last = Some((attempts.remove(place).0, error)),
            // It has had its time: the next one begins beside it.
            None => {}
        }
    }
}

/// The addresses with their families in turn, so that a family without a route costs one delay and not one for each of its addresses
/// (RFC 8305, section 4). The resolver's first choice stays the first.
fn alternate(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let is_first_family =
        |address: &&SocketAddr| addresses.first().is_some_and(|first| first.is_ipv4() == address.is_ipv4());
    let (first, second): (Vec<&SocketAddr>, Vec<&SocketAddr>) = addresses.iter().partition(is_first_family);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut mixed = Vec::with_capacity(addresses.len());
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            return mixed;
        }
        mixed.extend(pair.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use tokio::time::{Instant, sleep};

    /// A port, and when it was asked (ms).
    type Asked = (u16, u128);

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    /// What `first_of` comes to where port 1 never answers, port 2 is refused after 10 ms, and another takes the connection after as many
    /// milliseconds as its port says.
    fn run(addresses: &[SocketAddr]) -> (Result<u16, Option<u16>>, Vec<Asked>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let (begun, asked) = (Instant::now(), RefCell::new(Vec::new()));
            let open = |address: SocketAddr| {
                asked.borrow_mut().push((address.port(), begun.elapsed().as_millis()));
                async move {
                    match address.port() {
                        1 => std::future::pending().await,
                        2 => {
                            sleep(Duration::from_millis(10)).await;
                            Err(io::ErrorKind::ConnectionRefused.into())
                        }
                        port => {
                            sleep(Duration::from_millis(port.into())).await;
                            Ok(port)
                        }
                    }
                }
            };
            let outcome = first_of(addresses, open).await.map_err(|last| last.map(|(address, _)| address.port()));
            (outcome, asked.into_inner())
        })
    }

    #[test]
    fn an_address_that_never_answers_costs_a_quarter_of_a_second() {
        assert_eq!(run(&addresses(&["[::1]:1", "127.0.0.1:20"])), (Ok(20), vec![(1, 0), (20, 250)]));
    }

    #[test]
    fn an_address_that_refuses_is_followed_at_once() {
        assert_eq!(run(&addresses(&["[::1]:2", "127.0.0.1:20"])), (Ok(20), vec![(2, 0), (20, 10)]));
    }

    #[test]
    fn a_slow_first_address_wins_if_it_is_still_the_earliest() {
        assert_eq!(run(&addresses(&["[::1]:300", "127.0.0.1:400"])), (Ok(300), vec![(300, 0), (400, 250)]));
    }

    #[test]
    fn the_last_failure_is_told_when_all_have_failed() {
        assert_eq!(run(&addresses(&["[::1]:2", "127.0.0.1:2"])), (Err(Some(2)), vec![(2, 0), (2, 10)]));
        assert_eq!(run(&[]), (Err(None), vec![]));
    }

    #[test]
    fn families_take_turns() {
        let mixed = alternate(&addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "10.0.0.1:1"]));
        assert_eq!(mixed, addresses(&["[::1]:1", "10.0.0.1:1", "[::2]:1", "[::3]:1"]));
    }
}
