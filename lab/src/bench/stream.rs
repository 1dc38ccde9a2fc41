//! A connection of the bench, plain or over TLS, and the certificates of a run.
//!
//! Invariant: it never blocks once its socket does not, and what it was given is sent before it says that all is.

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A connection.
pub enum Stream {
    Plain(TcpStream),
    Client(Box<StreamOwned<ClientConnection, TcpStream>>),
    Server(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Stream {
    pub fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Client(stream) => &stream.sock,
            Stream::Server(stream) => &stream.sock,
        }
    }

    /// Whether a read that left room has emptied it, so that another is not needed. Of TLS a read gives one record.
    pub fn is_empty_after_short_read(&self) -> bool {
        matches!(self, Stream::Plain(_))
    }

    /// Says that nothing more will be sent.
    pub fn end(&mut self) {
        match self {
            Stream::Plain(_) => {}
            Stream::Client(stream) => stream.conn.send_close_notify(),
            Stream::Server(stream) => stream.conn.send_close_notify(),
        }
        // The other end may have gone already.
        let _ = self.flush();
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Client(stream) => stream.read(buffer),
            Stream::Server(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Client(stream) => stream.write(bytes),
            Stream::Server(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Client(stream) => stream.flush(),
            Stream::Server(stream) => stream.flush(),
        }
    }
}

/// Certificates of a run, for 127.0.0.1, and what both sides need to speak TLS with them.
#[derive(Clone)]
pub struct Tls {
    /// The authority that has signed it.
    pub authority: PathBuf,
    /// The certificate of every server.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Tls {
    /// Makes new ones in a folder.
    pub fn make(folder: &Path) -> Result<Tls> {
        let authority_key = KeyPair::generate().context("make a key")?;
        let mut authority = CertificateParams::new(Vec::new()).context("make an authority")?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_pem = authority.self_signed(&authority_key).context("make an authority")?.pem();
        let key = KeyPair::generate().context("make a key")?;
        let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).context("make a certificate")?;
        let leaf = leaf.signed_by(&key, &Issuer::new(authority, authority_key)).context("make a certificate")?;
        for (name, text) in
            [("authority.pem", authority_pem), ("certificate.pem", leaf.pem()), ("key.pem", key.serialize_pem())]
        {
            std::fs::write(folder.join(name), text).with_context(|| format!("write {name}"))?;
        }
        Tls::read(folder)
    }

    /// Those of a folder.
    pub fn read(folder: &Path) -> Result<Tls> {
        let paths = ["authority.pem", "certificate.pem", "key.pem"].map(|name| folder.join(name));
        let [authority, certificate, key] = paths;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&authority).context("read the authority")?)?;
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let chain = vec![CertificateDer::from_pem_file(&certificate).context("read the certificate")?];
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::from_pem_file(&key).context("read the key")?)?;
        Ok(Tls { authority, certificate, key, client: Arc::new(client), server: Arc::new(server) })
    }
}

/// Opens a connection that still blocks, over TLS if it is given.
pub fn connect(address: SocketAddr, tls: Option<&Tls>) -> Result<Stream> {
    let socket = TcpStream::connect(address).context("connect")?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    let Some(tls) = tls else { return Ok(Stream::Plain(socket)) };
    let name = ServerName::try_from(address.ip().to_string()).context("name the server")?;
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::clone(&tls.client), name)?, socket);
    stream.conn.complete_io(&mut stream.sock).context("shake hands")?;
    Ok(Stream::Client(Box::new(stream)))
}

/// What a server makes of a connection that it has accepted.
pub fn accepted(socket: TcpStream, tls: Option<&Tls>) -> Result<Stream> {
    let Some(tls) = tls else { return Ok(Stream::Plain(socket)) };
    Ok(Stream::Server(Box::new(StreamOwned::new(ServerConnection::new(Arc::clone(&tls.server))?, socket))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_their_end_go_through_tls_in_both_directions() {
        let folder = crate::bench::tempfolder().expect("a folder");
        let tls = Tls::make(&folder).expect("certificates");
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let (address, of_server) = (listener.local_addr().expect("bound"), tls.clone());
        let echo = std::thread::spawn(move || {
            let mut stream = accepted(listener.accept().expect("a client").0, Some(&of_server)).expect("TLS");
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("the end is told");
            stream.write_all(&all).expect("taken");
            stream.end();
        });
        let mut stream = connect(address, Some(&tls)).expect("a connection");
        let sent: Vec<u8> = (0..1 << 20).map(|number: u32| (number / 7) as u8).collect();
        stream.write_all(&sent).expect("taken");
        stream.end();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("the end is told");
        assert!(received == sent && !stream.is_empty_after_short_read());
        echo.join().expect("it ended");
        std::fs::remove_dir_all(folder).expect("it was made");
    }
}
