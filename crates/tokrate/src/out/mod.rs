//! What a user sees and what files hold. Numbers are made elsewhere; here they are only laid out.

pub mod apply;
pub mod badge;
pub mod comparison;
pub mod comparison_blocks;
pub mod csv;
pub mod estimate;
pub mod events;
pub mod files;
pub mod forecast;
pub mod headline;
pub mod junit;
pub mod log;
pub mod markdown;
mod markdown_text;
pub mod monitor;
pub mod progress;
pub mod race;
pub mod records;
pub mod replay;
pub mod results;
pub mod scorecard;
pub mod stdout;
pub mod summary;
pub mod table;
pub mod targets;
pub mod vllm;
