//! What lanes hold of earlier prompts, and what a prompt costs there: the prompt cache of providers and engines, as a gateway can know it.
//!
//! A prompt is cut into blocks, each hashed together with all before it ([`PromptHasher`]). A lane remembers which blocks were sent to it
//! and when ([`BlockTable`]), learns from what its provider reports as cached how long they are kept ([`Survival`]) and whether answers are
//! kept as well ([`Answers`]), what new tokens put out ([`Evictions`]), which prompts it is busy with ([`Backlog`]), and what that means for a first token ([`FirstTokens`]).
//! Invariant: no more of a prompt is expected to be cached than was sent to the lane before or written by it.

mod answers;
mod backlog;
mod evictions;
mod first_tokens;
mod hash;
mod lane_cache;
mod survival;
mod table;

pub use hash::{PromptBlocks, PromptHasher};
pub(crate) use lane_cache::{CacheView, LaneCache, PromptEnd, SentPrompt};
