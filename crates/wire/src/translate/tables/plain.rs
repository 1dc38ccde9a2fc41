//! Requests of the dialects that take one prompt.
//!
//! It refuses to know targets. Invariant: see [`super`].

use super::single;
use crate::translate::clean::Rule::{Drop, Keep, KeepUnless, One, Only, Wish};
use crate::translate::clean::{Kind, Table};

pub(super) static COMPLETIONS: Table = single(&[Kind::of(
    &[],
    &[
        ("model", Keep),
        ("prompt", Keep),
        ("stream", Keep),
        ("stream_options", One(&super::openai_chat::STREAM_OPTIONS)),
        ("max_tokens", Keep),
        ("ignore_eos", Keep),
        ("temperature", Keep),
        ("top_p", Keep),
        ("stop", Keep),
        ("seed", Keep),
        ("user", Wish),
        ("frequency_penalty", Wish),
        ("presence_penalty", Wish),
        ("top_k", Wish),
        ("min_p", Wish),
        ("repetition_penalty", Wish),
        ("n", Only(&["1"])),
        ("best_of", Only(&["1"])),
        ("echo", Only(&["false"])),
        ("suffix", Only(&["\"\""])),
        ("logit_bias", Only(&["{}"])),
    ],
)]);

pub(super) static LLAMA: Table = single(&[Kind::of(
    &[],
    &[
        ("model", Keep),
        ("prompt", Keep),
        ("stream", Keep),
        ("n_predict", KeepUnless(&["-1"])),
        ("ignore_eos", Keep),
        ("temperature", Keep),
        ("top_p", Keep),
        ("stop", Keep),
        ("seed", KeepUnless(&["-1"])),
        ("top_k", Wish),
        ("min_p", Wish),
        ("frequency_penalty", Wish),
        ("presence_penalty", Wish),
        ("repeat_penalty", Wish),
        ("json_schema", Wish),
        ("cache_prompt", Drop),
        ("id_slot", Drop),
        ("return_tokens", Only(&["false"])),
        ("n_probs", Only(&["0"])),
        ("timings_per_token", Drop),
    ],
)]);
