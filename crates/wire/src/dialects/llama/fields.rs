//! The fields of a request for llama.cpp's completion, for translations.

use crate::translate::table::Rule::{Drop, Keep, KeepUnless, Only, Setting};
use crate::translate::table::{Kind, Table, single};

pub(super) static REQUEST: Table = single(&[Kind::of(
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
        ("top_k", Setting),
        ("min_p", Setting),
        ("frequency_penalty", Setting),
        ("presence_penalty", Setting),
        ("repeat_penalty", Setting),
        ("json_schema", Setting),
        ("cache_prompt", Drop),
        ("id_slot", Drop),
        ("return_tokens", Only(&["false"])),
        ("n_probs", Only(&["0"])),
        ("timings_per_token", Drop),
    ],
)]);
