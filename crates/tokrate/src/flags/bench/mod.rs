//! The flags of `tokrate bench`, by section of its help.

mod attachments;
mod audio;
mod batch;
mod limits;
mod load;
mod output;
mod request;
mod target;
mod verdict;

pub use attachments::ImageFormat;
pub use audio::{Audio, AudioFormat, OutputModality, StreamFormat, TranscriptFormat};
pub use limits::{Calibration, Limits};
pub use load::{Arrivals, Axis, Growth, Load};
pub use output::{Output, Progress};
pub use request::{Request, Task, Workload};
pub use target::{HttpVersion, Target};
pub use verdict::Verdict;

use clap::Args;

/// `tokrate bench`, as typed.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "\
Examples:
  tokrate bench                                  the embedded engine, no key, no network
  tokrate bench groq/llama-3.3-70b-versatile      a provider; its key is in GROQ_API_KEY
  tokrate bench vllm/my-model ollama/qwen3:8b     two engines of this machine, in turns
  tokrate bench --url http://127.0.0.1:8000/v1 --model llama --concurrency 1,10,25,50
  tokrate bench groq/llama-3.3-70b-versatile --until 'output_speed_p50 ± 2%'   as few requests as that takes
  tokrate bench --url https://api.example.com/v1 --model m --key-env API_KEY --rate 5 --arrivals poisson --duration 60s

Exit codes:
  0  measured, and every bar met
  1  below a bar: an --assert not met, an --until not reached, more failures than --max-failures, a --self-check that found a
     difference, or a regression against --baseline
  2  not measured: bad flags, nothing answered, a file that could not be written, or a figure that --strict does not take
  3  measured in part: interrupted, stopped by --max-cost-usd, or aborted")]
pub struct Flags {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub load: Load,
    #[command(flatten)]
    pub request: Request,
    #[command(flatten)]
    pub audio: Audio,
    #[command(flatten)]
    pub limits: Limits,
    #[command(flatten)]
    pub verdict: Verdict,
    #[command(flatten)]
    pub output: Output,
}
