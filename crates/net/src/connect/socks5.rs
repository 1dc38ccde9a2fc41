//! SOCKS5 client (RFC 1928) with optional username/password authentication (RFC 1929).
//!
//! Invariant: no byte after the proxy's reply is read, and no reply is longer than a few hundred bytes.

use crate::proxy::Credentials;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const VERSION: u8 = 5;
const METHOD_NO_AUTH: u8 = 0;
const METHOD_PASSWORD: u8 = 2;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;

/// Where the proxy connects to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Destination {
    Address(SocketAddr),
    /// A name of at most 255 bytes, which the proxy looks up, and a port.
    Name(String, u16),
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum TunnelError {
    /// The proxy could not reach this destination; it may reach another.
    Destination(&'static str),
    /// The proxy itself failed or rejected us.
    Proxy(String),
}

impl From<io::Error> for TunnelError {
    fn from(error: io::Error) -> TunnelError {
        TunnelError::Proxy(format!("the connection broke ({error})"))
    }
}

/// Requests a connection; what follows on `stream` is the destination's.
pub(super) async fn connect(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    to: &Destination,
    credentials: Option<&Credentials>,
) -> Result<(), TunnelError> {
    let offered: &[u8] = if credentials.is_some() {
        &[VERSION, 2, METHOD_NO_AUTH, METHOD_PASSWORD]
    } else {
        &[VERSION, 1, METHOD_NO_AUTH]
    };
    stream.write_all(offered).await?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await?;
    match (chosen, credentials) {
        ([VERSION, METHOD_NO_AUTH], _) => {}
        ([VERSION, METHOD_PASSWORD], Some(credentials)) => authenticate(stream, credentials).await?,
        ([VERSION, NO_ACCEPTABLE_METHOD], Some(_)) => {
            return proxy_error("it accepts neither anonymous access nor a user with a password");
        }
        ([VERSION, _], None) => return proxy_error("it asks for a user and a password; write them into its URL"),
        ([VERSION, _], Some(_)) => return proxy_error("it chose a method that was not offered"),
        _ => return proxy_error("it does not speak SOCKS5"),
    }
    stream.write_all(&request(to)).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [VERSION, code, _, kind] = head else { return proxy_error("its reply is not valid SOCKS5") };
    if code != 0 {
        return Err(reply_error(code));
    }
    // The bound address, which is not used.
    let address = match kind {
        1 => 4,
        3 => usize::from(stream.read_u8().await?),
        4 => 16,
        _ => return proxy_error("its reply is not valid SOCKS5"),
    };
    let mut rest = [0; 255 + 2];
    stream.read_exact(&mut rest[..address + 2]).await?;
    Ok(())
}

async fn authenticate(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    credentials: &Credentials,
) -> Result<(), TunnelError> {
    let mut message = vec![1];
    for text in [&credentials.user, &credentials.password] {
        // Lengths were checked when the proxy URL was parsed.
        message.push(text.len() as u8);
        message.extend_from_slice(text.as_bytes());
    }
    stream.write_all(&message).await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    if answer[1] == 0 { Ok(()) } else { proxy_error("it rejects the user and the password of its URL") }
}

fn request(to: &Destination) -> Vec<u8> {
    let mut request = vec![VERSION, 1, 0];
    let port = match to {
        Destination::Address(address) => {
            match address.ip() {
                IpAddr::V4(ip) => request.extend([1].into_iter().chain(ip.octets())),
                IpAddr::V6(ip) => request.extend([4].into_iter().chain(ip.octets())),
            }
            address.port()
        }
        Destination::Name(name, port) => {
            request.extend([3, name.len() as u8]);
            request.extend_from_slice(name.as_bytes());
            *port
        }
    };
    request.extend(port.to_be_bytes());
    request
}

fn reply_error(code: u8) -> TunnelError {
    TunnelError::Destination(match code {
        2 => return TunnelError::Proxy("its rules do not allow it".to_owned()),
        3 => "it has no route to that network",
        4 => "it cannot reach that host, or does not know its name",
        5 => "the connection was refused there",
        6 => "the connection took too long",
        8 => "it does not support addresses of that kind",
        _ => "it failed, and does not say why",
    })
}

fn proxy_error<T>(why: &str) -> Result<T, TunnelError> {
    Err(TunnelError::Proxy(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::duplex;

    /// The result for these replies, how many of their bytes were read, and what was sent.
    fn handshake(
        answers: &[u8],
        credentials: Option<&Credentials>,
        to: &Destination,
    ) -> (Result<(), TunnelError>, usize, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (mut here, mut there) = duplex(4096);
            there.write_all(answers).await.expect("there is room");
            there.shutdown().await.expect("it is open");
            let end = connect(&mut here, to, credentials).await;
            let (mut left, mut sent) = (Vec::new(), Vec::new());
            here.read_to_end(&mut left).await.expect("it is memory");
            drop(here);
            there.read_to_end(&mut sent).await.expect("it is memory");
            (end, answers.len() - left.len(), sent)
        })
    }

    fn credentials() -> Credentials {
        Credentials { user: "u".to_owned(), password: "geheim".to_owned() }
    }

    fn name() -> Destination {
        Destination::Name("model.test".to_owned(), 443)
    }

    #[test]
    fn what_is_asked_and_answered_is_as_the_rfc_has_it() {
        let there = Destination::Address("192.0.2.7:80".parse().expect("an address"));
        let (end, taken, sent) = handshake(b"\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00HTTP", None, &there);
        assert!(end.is_ok() && taken == 12, "what follows is left: {taken}");
        assert_eq!(sent, b"\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x07\x00\x50");
        let answers = b"\x05\x02\x01\x00\x05\x00\x00\x03\x02ab\x00\x50x";
        let (end, taken, sent) = handshake(answers, Some(&credentials()), &name());
        assert!(end.is_ok() && taken == answers.len() - 1, "{end:?} {taken}");
        assert_eq!(sent, b"\x05\x02\x00\x02\x01\x01u\x06geheim\x05\x01\x00\x03\x0amodel.test\x01\xbb");
        let six = Destination::Address("[2001:db8::1]:80".parse().expect("an address"));
        let mut answers = b"\x05\x00\x05\x00\x00\x04".to_vec();
        answers.extend([0; 18]);
        assert!(handshake(&answers, None, &six).0.is_ok());
    }

    #[test]
    fn a_refusal_says_whether_another_destination_may_do() {
        let of = |answers: &[u8], credentials: Option<&Credentials>| {
            format!("{:?}", handshake(answers, credentials, &name()).0.expect_err("no"))
        };
        assert!(of(b"\x05\x00\x05\x05\x00\x01", None).starts_with("Destination(\"the connection was refused"));
        assert!(of(b"\x05\x00\x05\x02\x00\x01", None).starts_with("Proxy(\"its rules"));
        assert!(of(b"\x05\xff", None).contains("asks for a user"));
        assert!(of(b"\x05\x02\x01\x01", Some(&credentials())).contains("rejects the user"));
        assert!(of(b"HTTP/1.1 400 Bad Request\r\n", None).contains("does not speak SOCKS5"));
        assert!(of(b"\x05\x00\x05", None).contains("broke"));
    }

    proptest! {
        #[test]
        fn any_answer_ends_and_only_a_whole_one_is_a_connection(
            answers in proptest::collection::vec(prop_oneof![3 => 0..6u8, 1 => any::<u8>()], 0..300),
            with_credentials: bool,
        ) {
            let credentials = credentials();
            let (end, taken, _) = handshake(&answers, with_credentials.then_some(&credentials), &name());
            prop_assert!(taken <= 2 + 2 + 4 + 1 + 255 + 2);
            if end.is_ok() {
                let reply = if answers[1] == METHOD_PASSWORD { 4 } else { 2 };
                prop_assert!(answers[reply] == VERSION && answers[reply + 1] == 0 && taken >= reply + 7, "{answers:?}");
            }
        }
    }
}
