//! The fields of a request for text completions, for translations.

use crate::translate::table::Rule::{Keep, One, Only, Setting};
use crate::translate::table::{Kind, Table, single};

pub(super) static REQUEST: Table = single(&[Kind::of(
    &[],
    &[
        ("model", Keep),
        ("prompt", Keep),
        ("stream", Keep),
        ("stream_options", One(&crate::dialects::openai_chat::fields::STREAM_OPTIONS)),
        ("max_tokens", Keep),
        ("ignore_eos", Keep),
        ("temperature", Keep),
        ("top_p", Keep),
        ("stop", Keep),
        ("seed", Keep),
        ("user", Setting),
        ("frequency_penalty", Setting),
        ("presence_penalty", Setting),
        ("top_k", Setting),
        ("min_p", Setting),
        ("repetition_penalty", Setting),
        ("n", Only(&["1"])),
        ("best_of", Only(&["1"])),
        ("echo", Only(&["false"])),
        ("suffix", Only(&["\"\""])),
        ("logit_bias", Only(&["{}"])),
    ],
)]);
