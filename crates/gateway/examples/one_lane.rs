//! A gateway in front of one server that speaks OpenAI's chat dialect: `one_lane http://127.0.0.1:8000/v1 MODEL [LOG]`.
//!
//! It refuses to be configured further: `tokrate gateway` is for that. Invariant: it serves until it is ended.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokrate_gateway::{Config, EndpointConfig, Gateway, LaneConfig, LogSettings, LoserPolicy};
use tokrate_net::Target;
use tokrate_wire::Dialect;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("name the server's base URL")?;
    let model = arguments.next().ok_or("name the model")?;
    let endpoint = EndpointConfig {
        dialect: Dialect::OpenAiChat,
        base: Target::parse(&url)?,
        headers: http::HeaderMap::new(),
        no_stream_options: false,
        max_tokens_field: false,
    };
    let lane = LaneConfig {
        name: "bench".to_owned(),
        provider: "one".to_owned(),
        model,
        endpoints: vec![endpoint],
        price: None,
        in_flight_most: None,
        loser: LoserPolicy::Free,
        curve: Vec::new(),
        forward_headers: Vec::new(),
    };
    let gateway = Gateway::start(Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 8421)),
        workers: std::thread::available_parallelism().map_or(1, usize::from),
        lanes: vec![lane],
        log: arguments.next().map(|path| LogSettings { path: PathBuf::from(path), retention: None }),
        ..Config::default()
    })?;
    println!("http://{}/v1, model `bench`", gateway.address());
    loop {
        std::thread::park();
    }
}
