//! A provider of files and transcripts, for clients that upload forms: it says what it got of each, byte for byte, and keeps a ledger.
//!
//! It shares no code with the product. Invariant: an entry is of one whole request; of one that it broke off there is none.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// Name of its lane, of the alias that leads there, and of the model as it knows it.
pub const LANE: &str = "archive";
pub const ALIAS: &str = "ears";
pub const MODEL: &str = "ears-1";
/// The most that a transcript costs (USD), which is what the gateway counts for one.
pub const FEE: f64 = 0.000_1;
/// Every so many uploads it closes the connection amid the body.
const BREAKS_EVERY: u64 = 23;

/// What it got.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Upload {
    pub bytes: u64,
    pub digest: u64,
    pub is_transcript: bool,
}

/// What it got, by `x-request-id`: the call's name and the attempt's number.
pub type Uploads = BTreeMap<String, Upload>;

/// The running provider; it lives as long as the process.
pub struct Archive {
    pub address: SocketAddr,
    uploads: Arc<Mutex<Uploads>>,
}

/// FNV-1a, 64 bits: two bodies of a soak that differ have different digests but for a chance of 10^-13.
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Archive {
    pub fn start() -> Result<Archive> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("start the archive")?;
        let address = listener.local_addr().context("start the archive")?;
        let uploads = Arc::new(Mutex::new(Uploads::new()));
        let kept = Arc::clone(&uploads);
        let accept = move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let kept = Arc::clone(&kept);
                // A client that breaks off is its own affair.
                let serve = move || drop(serve(stream, number as u64, &kept));
                let _ = std::thread::Builder::new().name("archive".to_owned()).stack_size(256 << 10).spawn(serve);
            }
        };
        std::thread::Builder::new().name("archive".to_owned()).spawn(accept).context("start the archive")?;
        Ok(Archive { address, uploads })
    }

    /// What it has got.
    pub fn uploads(&self) -> Uploads {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(mut stream: TcpStream, connection: u64, kept: &Mutex<Uploads>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut held, mut piece, mut number) = (Vec::new(), vec![0; 64 << 10], connection);
    loop {
        let head_end = loop {
            if let Some(end) = memchr::memmem::find(&held, b"\r\n\r\n") {
                break end + 4;
            }
            let count = stream.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            held.extend_from_slice(&piece[..count]);
        };
        let head = String::from_utf8_lossy(&held[..head_end]).to_lowercase();
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let length: usize = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        number += 1;
        let breaks = number.is_multiple_of(BREAKS_EVERY);
        let wanted = head_end + if breaks { length / 2 } else { length };
        while held.len() < wanted {
            let count = stream.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            held.extend_from_slice(&piece[..count]);
        }
        if breaks {
            return Ok(());
        }
        let body = &held[head_end..wanted];
        let upload = Upload {
            bytes: length as u64,
            digest: digest(body),
            is_transcript: head.starts_with("post /v1/audio/transcriptions "),
        };
        let answer = format!(
            "{{\"id\":\"file-{connection}-{number}\",\"object\":\"file\",\"bytes\":{length},\"text\":\"{:016x}\"}}",
            upload.digest
        );
        if let Some(id) = header("x-request-id") {
            kept.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), upload);
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
        stream.write_all(format!("{head}: {}\r\n\r\n{answer}", answer.len()).as_bytes())?;
        held.drain(..wanted);
    }
}
