//! The flags of `tokrate estimate fleet`.

use super::{LoadFlags, ObjectiveFlags};
use clap::Args;
use std::path::PathBuf;

/// `tokrate estimate fleet`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
For each kind of device, storage of the weights and number of devices a copy, the most load of one copy is searched as by
`estimate capacity`; fleets are the cheapest numbers of copies of one kind or two. Prices of devices are ranges of on-demand rents
from memory; a fleet is ordered by their middle. --api-price adds an API for all of the load, and one for its peaks.

Examples:
  tokrate estimate fleet --model llama-3.3-70b --users 500 --think 30s
  tokrate estimate fleet --model llama-3.3-70b --rate 12/s --peak 3 --hardware h100-sxm=2.5,h200,mi300x --spare
  tokrate estimate fleet --model ./model/config.json --users 40 --hardware l40s,rtx-4090=0.4 --precision fp8,int4

Exit codes: 0; 1 nothing keeps the objectives; 2 no answer.")]
pub struct FleetFlags {
    /// Name of the model, or a file that describes it: its config.json or GGUF file
    #[arg(long, value_name = "NAME")]
    pub model: String,
    /// Devices to choose from, with their price an hour if it is not the table's [default: those of data centres whose price is known]
    #[arg(long, value_name = "NAME[=DOLLARS],…", value_delimiter = ',')]
    pub hardware: Vec<String>,
    /// Storage of the weights to choose from [default: as published, and fp8 of 16 bits]
    #[arg(long, value_name = "FORMAT,…", value_delimiter = ',')]
    pub precision: Vec<String>,
    /// Most devices a copy
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub most_tp: u32,
    /// Engine: vllm, sglang, trtllm [default: vllm]
    #[arg(long, value_name = "NAME")]
    pub engine: Option<String>,
    #[command(flatten)]
    pub load: LoadFlags,
    #[command(flatten)]
    pub objectives: ObjectiveFlags,
    /// Users at the busiest time
    #[arg(long, value_name = "N", conflicts_with = "rate", required_unless_present = "rate")]
    pub users: Option<u32>,
    /// How long a user waits between an answer and the next request, mean [default: not at all]
    #[arg(long, value_name = "TIME", conflicts_with = "rate")]
    pub think: Option<String>,
    /// Requests a second in the mean, such as 12/s or 300/min
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
    /// How many times the mean the busiest hour has; the load is taken to fall evenly from there
    #[arg(long, value_name = "FACTOR", default_value_t = 3.0)]
    pub peak: f64,
    /// Carry the load with one copy lost, too
    #[arg(long)]
    pub spare: bool,
    /// Count copies with the low end of the interval of what they carry
    #[arg(long)]
    pub cautious: bool,
    /// Price of an API, dollars a million tokens: NAME=INPUT:OUTPUT or NAME=INPUT:OUTPUT:CACHED; repeatable
    #[arg(long, value_name = "NAME=IN:OUT")]
    pub api_price: Vec<String>,
    /// Law of an API by `estimate fit-api`, to say whether it keeps the objectives; repeatable, in the order of --api-price
    #[arg(long, value_name = "FILE", requires = "api_price")]
    pub api_curve: Vec<PathBuf>,
    /// Write a page with the costs
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
