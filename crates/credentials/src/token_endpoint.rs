//! A token endpoint of the tests: answers as it is told, and keeps what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

pub(crate) struct TokenEndpoint {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl TokenEndpoint {
    /// `answer` is given head and body of a request; `None` never answers.
    pub fn start(answer: impl Fn(&str) -> Option<String> + Send + 'static) -> TokenEndpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
                let mut request = String::new();
                while !request.ends_with("\r\n\r\n") && reader.read_line(&mut request).is_ok_and(|bytes| bytes > 0) {}
                let length =
                    request.to_lowercase().split("content-length: ").nth(1).map_or(0, |rest| {
                        rest.split("\r\n").next().and_then(|length| length.parse().ok()).unwrap_or(0)
                    });
                let mut body = vec![0; length];
                if reader.read_exact(&mut body).is_err() {
                    continue;
                }
                request.push_str(&String::from_utf8_lossy(&body));
                keep.lock().expect("no panic").push(request.clone());
                match answer(&request) {
                    Some(text) => drop(stream.write_all(text.as_bytes())),
                    None => held.push(stream),
                }
            }
        });
        TokenEndpoint { url, asked }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

/// An answer with a body.
pub(crate) fn answer(status: &str, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\ncontent-type: application/json\r\n\r\n{body}"))
}

/// Authorises one request, as a client would, and gives its headers as text; an error is the message.
pub(crate) fn authorize(authorizer: &dyn tokrate_net::Authorize) -> Result<Vec<(String, String)>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let (client, headers) = (tokrate_net::ClientConfig::default(), http::HeaderMap::new());
    let request = tokrate_net::Unauthorized {
        method: &http::Method::POST,
        host: "bedrock-runtime.eu-west-1.amazonaws.com",
        path: "/model/m/converse",
        headers: &headers,
        body: b"{}",
        client: &client,
        clock: tokrate_net::Clock::monotonic(),
    };
    let authorization = runtime.block_on(authorizer.authorize(request)).map_err(|error| match error.is_temporary {
        true => format!("{} (temporary)", error.detail),
        false => error.detail,
    })?;
    let text = |value: &http::HeaderValue| value.to_str().expect("text").to_owned();
    Ok(authorization.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect())
}
