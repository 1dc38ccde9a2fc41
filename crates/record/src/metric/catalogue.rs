//! The rows of the catalogue.
//!
//! Invariant: a row stands at the place of its metric in [`Metric`].

use super::row::{SPEED, TIME, milliseconds, plain};
use super::{Metric, MetricRow, MetricUnit, PhaseSource, audio};
use crate::run::taken;
use tokrate_meter::request::MIN_SPEED_TOKENS;

/// A row for every metric, in the order of [`Metric`].
pub(super) static CATALOGUE: [MetricRow; 34] = [
    MetricRow {
        metric: Metric::Ttfb,
        name: "ttfb",
        label: "TTFB",
        words: "time to first byte",
        definition: "sent to the first byte of the response body",
        of_request: Some(|request| milliseconds(request.ttfb_ns)),
        of_phase: plain(|phase| &phase.ttfb),
        ..TIME
    },
    MetricRow {
        metric: Metric::Ttft,
        name: "ttft",
        label: "TTFT",
        words: "time to first token",
        definition: "sent to the first output text, reasoning included",
        needs_stream: true,
        of_request: Some(|request| milliseconds(request.ttft_ns)),
        of_phase: PhaseSource::Times(|phase| &phase.ttft, Some(|phase| &phase.adj_ttft)),
        foreign_names: &["time_to_first_token"],
        ..TIME
    },
    MetricRow {
        metric: Metric::Ttfat,
        name: "ttfat",
        label: "TTFAT",
        words: "time to first answer token",
        definition: "sent to the first answer text, reasoning excluded",
        needs_stream: true,
        of_request: Some(|request| milliseconds(request.ttfat_ns)),
        of_phase: PhaseSource::Times(|phase| &phase.ttfat, Some(|phase| &phase.adj_ttfat)),
        ..TIME
    },
    MetricRow {
        metric: Metric::Itl,
        name: "itl",
        label: "ITL",
        words: "time between tokens",
        definition: "time between two chunks, shared among the tokens of the later one; of one request the longest",
        tokens_needed: 2,
        needs_stream: true,
        is_pooled: true,
        of_request: Some(|request| milliseconds(request.largest_itl_ns)),
        of_phase: plain(|phase| &phase.itl),
        ..TIME
    },
    MetricRow {
        metric: Metric::ChunkGap,
        name: "chunk_gap",
        label: "chunk gap",
        words: "time between chunks",
        definition: "time between two arrivals of text",
        tokens_needed: 2,
        needs_stream: true,
        is_pooled: true,
        of_phase: plain(|phase| &phase.chunk_gap),
        ..TIME
    },
    MetricRow {
        metric: Metric::LargestGap,
        name: "largest_gap",
        label: "longest gap",
        words: "longest gap",
        definition: "the longest time between two chunks of a request",
        tokens_needed: 2,
        needs_stream: true,
        of_request: Some(|request| milliseconds(request.largest_gap_ns)),
        of_phase: plain(|phase| &phase.largest_gap),
        ..TIME
    },
    MetricRow {
        metric: Metric::Tpot,
        name: "tpot",
        label: "TPOT",
        words: "time per output token",
        definition: "1 / output speed of a request",
        tokens_needed: MIN_SPEED_TOKENS,
        needs_stream: true,
        of_request: Some(|request| request.tpot_ms),
        of_phase: PhaseSource::Times(|phase| &phase.tpot, Some(|phase| &phase.adj_tpot)),
        // Theirs is the mean over the tokens of a request.
        foreign_names: &["inter_token_latency", "time_per_output_token"],
        ..TIME
    },
    MetricRow {
        metric: Metric::E2e,
        name: "e2e",
        label: "E2E",
        words: "time of a whole answer",
        definition: "sent to the end of the answer",
        of_request: Some(|request| milliseconds(request.e2e_ns)),
        of_phase: PhaseSource::Times(|phase| &phase.e2e, Some(|phase| &phase.adj_e2e)),
        foreign_names: &["e2el", "request_latency"],
        ..TIME
    },
    MetricRow {
        metric: Metric::E2eFromDue,
        name: "e2e_from_due",
        label: "E2E from due",
        words: "time of a whole answer from when it was due",
        definition: "when the plan wanted the request to the end of the answer",
        of_request: Some(|request| milliseconds(request.e2e_from_due_ns)),
        of_phase: PhaseSource::Times(|phase| &phase.e2e_from_due, Some(|phase| &phase.adj_e2e_from_due)),
        ..TIME
    },
    MetricRow {
        metric: Metric::OutputSpeed,
        name: "output_speed",
        label: "output speed",
        words: "output speed",
        definition: "tokens per second of a request after its first chunk",
        tokens_needed: MIN_SPEED_TOKENS,
        needs_stream: true,
        of_request: Some(|request| request.output_speed),
        of_phase: PhaseSource::Speeds(|phase| &phase.output_speed),
        foreign_names: &["output_token_throughput_per_user"],
        ..SPEED
    },
    MetricRow {
        metric: Metric::E2eSpeed,
        name: "e2e_speed",
        label: "end-to-end speed",
        words: "end-to-end speed",
        definition: "tokens per second of a request over its whole time",
        of_request: Some(|request| request.e2e_speed),
        of_phase: PhaseSource::Speeds(|phase| &phase.e2e_speed),
        ..SPEED
    },
    MetricRow {
        metric: Metric::Throughput,
        name: "throughput",
        label: "throughput",
        words: "throughput",
        definition: "output tokens of all requests per second of the steady window",
        of_phase: PhaseSource::Throughput,
        ..SPEED
    },
    MetricRow {
        metric: Metric::FailureShare,
        name: "failure_share",
        label: "failure share",
        words: "share of failed requests",
        definition: "failed requests as a share of those started and not cancelled",
        unit: MetricUnit::Share,
        of_phase: PhaseSource::FailureShare,
        ..TIME
    },
    MetricRow {
        metric: Metric::SessionTime,
        name: "session_time",
        label: "session time",
        words: "time of an agent's session",
        definition: "beginning of a session of agents to the end of its last step, of sessions whose every step was answered",
        of_phase: plain(|phase| &phase.session_time),
        ..TIME
    },
    MetricRow {
        metric: Metric::TimePerItem,
        name: "time_per_item",
        label: "time per item",
        words: "time per item",
        definition: "E2E of a request for vectors, scores or images, or of a batch, shared among its items",
        of_request: Some(|request| {
            Some(request.e2e_ns? as f64 / 1e6 / request.items.filter(|items| *items > 0)? as f64)
        }),
        of_phase: plain(|phase| &phase.time_per_item),
        ..TIME
    },
    MetricRow {
        metric: Metric::ItemThroughput,
        name: "item_throughput",
        label: "items",
        words: "item throughput",
        definition: "vectors, scores, images or requests of batches per second of the steady window",
        unit: MetricUnit::PerSecond,
        more_is_better: true,
        of_phase: PhaseSource::ItemThroughput,
        ..TIME
    },
    MetricRow {
        metric: Metric::TimeToFirstArgument,
        name: "time_to_first_argument",
        label: "first argument",
        words: "time to first argument",
        definition: "sent to the first byte of the arguments of a tool call",
        needs_stream: true,
        of_request: Some(|request| milliseconds(request.first_argument_ns)),
        of_phase: plain(|phase| &phase.time_to_first_argument),
        ..TIME
    },
    MetricRow {
        metric: Metric::TimeToValid,
        name: "time_to_valid",
        label: "valid whole",
        words: "time to a valid whole",
        definition: "sent to the last text of an answer whose calls of tools, or whose JSON, is valid by the schema",
        of_request: Some(|request| milliseconds(request.valid_ns)),
        of_phase: plain(|phase| &phase.time_to_valid),
        ..TIME
    },
    MetricRow {
        metric: Metric::ImageThroughput,
        name: "image_throughput",
        label: "images",
        words: "images a second",
        definition: "images that all requests brought with their prompts, or made, per second of the steady window",
        unit: MetricUnit::PerSecond,
        more_is_better: true,
        of_phase: PhaseSource::Rate(|phase| phase.media.as_ref()?.images_per_second),
        ..TIME
    },
    MetricRow {
        metric: Metric::MegapixelThroughput,
        name: "megapixel_throughput",
        label: "megapixels",
        words: "megapixels a second",
        definition: "pixels of those images per second of the steady window, in millions",
        unit: MetricUnit::PerSecond,
        more_is_better: true,
        of_phase: PhaseSource::Rate(|phase| phase.media.as_ref()?.megapixels_per_second),
        ..TIME
    },
    MetricRow {
        metric: Metric::TimeToFirstImage,
        name: "time_to_first_image",
        label: "first image",
        words: "time to first image",
        definition: "sent to the first image of an answer, one that is not yet done included (`--partial-images`)",
        of_request: Some(|request| milliseconds(request.first_image_ns)),
        of_phase: plain(|phase| &phase.time_to_first_image),
        ..TIME
    },
    MetricRow {
        metric: Metric::BatchThroughput,
        name: "batch_throughput",
        label: "batch requests",
        words: "requests of batches a second",
        definition: "answered requests of batches per second, from the beginning of the first upload to the end of the last batch",
        unit: MetricUnit::PerSecond,
        more_is_better: true,
        of_phase: PhaseSource::Rate(|phase| phase.batches()?.requests_per_second),
        ..TIME
    },
    MetricRow {
        metric: Metric::NameLookup,
        name: "name_lookup",
        label: "name lookup",
        words: "name lookup",
        definition: "looking up the server's name for a request that opens a connection, where that is done",
        of_request: Some(|request| milliseconds(request.opening.and(taken(request.dns_ns)))),
        of_phase: plain(|phase| &phase.connections.opening.name_lookup),
        ..TIME
    },
    MetricRow {
        metric: Metric::TcpConnect,
        name: "tcp_connect",
        label: "TCP connect",
        words: "time to open TCP",
        definition: "opening TCP, and a proxy's tunnel, for a request that opens a connection",
        of_request: Some(|request| milliseconds(request.opening.and(taken(request.connect_ns)))),
        of_phase: plain(|phase| &phase.connections.opening.tcp_connect),
        ..TIME
    },
    MetricRow {
        metric: Metric::TlsHandshake,
        name: "tls_handshake",
        label: "TLS handshake",
        words: "TLS handshake",
        definition: "the TLS handshake of a request that opens a connection",
        of_request: Some(|request| milliseconds(request.opening.and(taken(request.tls_ns)))),
        of_phase: plain(|phase| &phase.connections.opening.tls_handshake),
        ..TIME
    },
    MetricRow {
        metric: Metric::RequestWrite,
        name: "request_write",
        label: "request sent",
        words: "time to send the request",
        definition: "TCP and TLS of a new connection open to the request's last byte handed to the socket; over HTTP/2 that holds the wait for the server's SETTINGS",
        of_request: Some(|request| milliseconds(request.opening.map(|opening| opening.write_ns))),
        of_phase: plain(|phase| &phase.connections.opening.request_write),
        ..TIME
    },
    MetricRow {
        metric: Metric::ResponseHead,
        name: "response_head",
        label: "response head",
        words: "time to the response's head",
        definition: "sent to the read that completed the response's head, of requests that open a connection",
        of_request: Some(|request| milliseconds(request.opening.and(request.head_ns))),
        of_phase: plain(|phase| &phase.connections.opening.response_head),
        ..TIME
    },
    MetricRow {
        metric: Metric::ColdTtft,
        name: "cold_ttft",
        label: "cold TTFT",
        words: "time to first token with a new connection",
        definition: "beginning of a request that opens a connection, before the name lookup, to the first output text",
        needs_stream: true,
        of_request: Some(|request| milliseconds(request.opening.and_then(|opening| opening.first_text_ns))),
        of_phase: plain(|phase| &phase.connections.opening.cold_ttft),
        ..TIME
    },
    MetricRow {
        metric: Metric::StreamWait,
        name: "stream_wait",
        label: "stream wait",
        words: "wait for a stream",
        definition: "over HTTP/2, waiting for a free stream or for a connection that another request opens, before the request is sent",
        of_request: Some(|request| milliseconds(request.stream.map(|stream| stream.wait_ns))),
        of_phase: plain(|phase| &phase.connections.streams.stream_wait),
        ..TIME
    },
    audio::TIME_TO_FIRST_AUDIO,
    audio::REAL_TIME_FACTOR,
    audio::STALLED_TIME,
    audio::AUDIO_THROUGHPUT,
    audio::SESSION_OPEN,
];
