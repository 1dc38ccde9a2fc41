//! E-mail, by lettre over a blocking connection in a thread of its own.
//!
//! Invariant: a password and a message leave this machine only over TLS.

use crate::MAX_TIME;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{SmtpTransport, Transport};
use std::fmt;
use std::net::IpAddr;
use tokrate_alert::{Message, form};
use tokrate_core::{Span, one_line};

/// Longest wait for one answer of a server.
const PATIENCE: Span = Span::from_secs(20);
/// Of an error so much is shown (bytes).
const MAX_ERROR_BYTES: usize = 300;

/// A mail server.
#[derive(Clone)]
pub struct MailServer {
    /// `smtps://HOST[:465]` (TLS from the first byte) or `smtp://HOST[:587]` (STARTTLS; on loopback without TLS).
    pub url: String,
    /// User name and password.
    pub login: Option<(String, String)>,
    /// A further certificate authority (PEM).
    pub authority: Option<Vec<u8>>,
}

/// Who gets e-mails, from whom.
#[derive(Clone)]
pub struct MailReceiver {
    transport: SmtpTransport,
    /// Server, without a login.
    server: String,
    from: Mailbox,
    to: Vec<Mailbox>,
    /// The domain of message ids.
    domain: String,
}

/// Why no e-mail can be sent as it is set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailError(String);

impl fmt::Display for MailError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for MailError {}

impl MailReceiver {
    /// A receiver of e-mails; addresses are written `a@b.example` or `Name <a@b.example>`.
    ///
    /// # Errors
    /// What is wrong with the server's URL, an address or the certificate; never a password.
    pub fn new(server: &MailServer, from: &str, to: &[String]) -> Result<MailReceiver, MailError> {
        let address = |text: &str| {
            text.parse::<Mailbox>().map_err(|_| MailError(format!("`{}` is no e-mail address", one_line(text, 120))))
        };
        let (from, to) = (address(from)?, to.iter().map(|to| address(to)).collect::<Result<Vec<_>, _>>()?);
        if to.is_empty() {
            return Err(MailError("`to` is empty".to_owned()));
        }
        let (shown, builder) = connection(server)?;
        let mut builder = builder.timeout(Some(PATIENCE.as_duration()));
        if let Some((user, password)) = &server.login {
            builder = builder.credentials(Credentials::new(user.clone(), password.clone()));
        }
        let domain = from.email.domain().to_owned();
        Ok(MailReceiver { transport: builder.build(), server: shown, from, to, domain })
    }

    /// Sends a message.
    pub(crate) async fn send(&self, message: &Message, board: Option<&str>) -> Result<(), String> {
        let email = form::email(message, board, &self.domain);
        let mut builder = lettre::Message::builder()
            .from(self.from.clone())
            .subject(email.subject)
            .message_id(Some(format!("<{}>", email.message_id)))
            .header(ContentType::TEXT_PLAIN);
        if let Some(first) = email.in_reply_to {
            builder = builder.in_reply_to(format!("<{first}>")).references(format!("<{first}>"));
        }
        let builder = self.to.iter().fold(builder, |builder, to| builder.to(to.clone()));
        let mail = builder.body(email.body).map_err(|error| format!("write the e-mail: {error}"))?;
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let transport = self.transport.clone();
        let work = move || {
            let result = transport.send(&mail).map(|_| ()).map_err(|error| with_causes(&error));
            // Nobody waits any more when the time is over.
            let _ = sender.send(result);
        };
        let started = std::thread::Builder::new().name("mail".to_owned()).spawn(work);
        started.map_err(|error| format!("start a thread for the e-mail: {error}"))?;
        let result = match tokio::time::timeout(MAX_TIME.as_duration(), receiver).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err("the thread that sent it panicked".to_owned()),
            Err(_) => Err(format!("it took longer than {MAX_TIME}")),
        };
        result.map_err(|error| one_line(&format!("{}: {error}", self.server), MAX_ERROR_BYTES))
    }
}

/// How the server is reached.
fn connection(server: &MailServer) -> Result<(String, lettre::transport::smtp::SmtpTransportBuilder), MailError> {
    let wrong = || {
        // The text may hold a password.
        MailError("the server is no URL such as smtps://mail.example:465 or smtp://mail.example:587".to_owned())
    };
    let uri: http::Uri = server.url.trim().parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?;
    if authority.as_str().contains('@') || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(wrong());
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let is_loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let parameters = || {
        let builder = TlsParameters::builder(host.clone());
        let builder = match &server.authority {
            None => builder,
            Some(pem) => {
                let read =
                    Certificate::from_pem(pem).map_err(|_| MailError("its `ca_file` is no PEM file".to_owned()))?;
                builder.add_root_certificate(read)
            }
        };
        builder.build().map_err(|error| MailError(format!("set up TLS: {error}")))
    };
    let (tls, port, scheme) = match uri.scheme_str() {
        Some("smtps") => (Tls::Wrapper(parameters()?), 465, "smtps"),
        Some("smtp") if is_loopback && server.authority.is_none() => (Tls::None, 25, "smtp"),
        Some("smtp") => (Tls::Required(parameters()?), 587, "smtp"),
        _ => return Err(wrong()),
    };
    let port = authority.port_u16().unwrap_or(port);
    let shown = format!("{scheme}://{}:{port}", authority.host());
    Ok((shown, SmtpTransport::builder_dangerous(host).port(port).tls(tls)))
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        if !text.contains(&inner.to_string()) {
            text = format!("{text}: {inner}");
        }
        cause = inner.source();
    }
    text
}

impl fmt::Display for MailReceiver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to: Vec<String> = self.to.iter().map(|to| to.email.to_string()).collect();
        write!(out, "e-mail to {} by {}", to.join(", "), self.server)
    }
}

impl fmt::Debug for MailReceiver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}
