//! What one look finds, what it refuses, and what a splice changes.

use super::*;
use crate::Dialect;
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

fn refused(body: &str) -> String {
    match RequestPeek::read(body.as_bytes()) {
        Ok(peek) => format!("{peek:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_fields_of_every_dialect_are_found() {
    let body = br#" { "messages" : [{"role":"user","content":"\"model\":\"no\""}], "mod\u0065l": "a\/b\u00e9" ,
        "stream":true,"stream_options":{"x":[1],"include_usage" : true},"max_tokens":5,"max_completion_tokens":7.0,
        "max_output_tokens":-1,"n":2,"metadata":{"model":"inner","stream":false}} "#;
    let peek = RequestPeek::read(body).unwrap();
    assert_eq!(peek.model(body).as_deref(), Some("a/bé"));
    assert_eq!(&body[peek.model.unwrap().range()], br#""a\/b\u00e9""#);
    assert_eq!((peek.stream, peek.include_usage), (Some(true), true));
    assert_eq!(&body[peek.stream_place.unwrap().range()], b"true");
    assert_eq!(&body[peek.stream_options.unwrap().range()], br#"{"x":[1],"include_usage" : true}"#);
    let Lengths { max_tokens, max_completion_tokens, max_output_tokens, n, .. } = peek.lengths;
    assert_eq!((max_tokens, max_completion_tokens), (Limit::At(5), Limit::At(7)));
    assert_eq!((max_output_tokens, n), (Limit::Endless, Limit::At(2)));
    let nothing = RequestPeek::read(br#"{"model":null,"stream":null,"stream_options":null,"n":null}"#).unwrap();
    assert_eq!((nothing.stream, nothing.include_usage, nothing.lengths), (None, false, Lengths::default()));
    assert_eq!(nothing.model(br#"{"model":null,"stream":null,"stream_options":null,"n":null}"#), None);
}

#[test]
fn a_limit_is_one_where_the_dialects_provider_keeps_to_it() {
    use Dialect::*;
    let limit =
        |dialect: Dialect, body: &str| RequestPeek::read(body.as_bytes()).expect(body).lengths.output_limit(dialect);
    for (dialect, body, expected) in [
        (OpenAiChat, r#"{"max_tokens":5}"#, Some(5)),
        (OpenAiChat, r#"{"max_tokens":5,"max_completion_tokens":9}"#, Some(9)),
        (OpenAiChat, r#"{"max_tokens":5,"max_completion_tokens":-1}"#, None),
        (OpenAiChat, r#"{"max_tokens":18446744073709551615}"#, Some(u64::MAX)),
        (OpenAiChat, r#"{"max_tokens":1e30}"#, None),
        (OpenAiChat, r#"{"max_output_tokens":5}"#, None),
        (OpenAiChat, r#"{"max_tokens":5,"n_predict":900}"#, Some(900)),
        (OpenAiChat, r#"{"max_tokens":5,"n_predict":-1}"#, None),
        (OpenAiChat, r#"{"n_predict":5}"#, None),
        (OpenAiCompletions, r#"{"max_tokens":5}"#, Some(5)),
        (OpenAiCompletions, r#"{"max_completion_tokens":5}"#, None),
        (OpenAiResponses, r#"{"max_output_tokens":5,"max_tokens":1}"#, Some(5)),
        (OpenAiResponses, r#"{"max_tokens":5}"#, None),
        (Anthropic, r#"{"max_tokens":5,"max_completion_tokens":1}"#, Some(5)),
        (Anthropic, r#"{"max_completion_tokens":1}"#, None),
        (Gemini, r#"{"generationConfig":{"maxOutputTokens":5}}"#, Some(5)),
        (Gemini, r#"{"generation_config":{"max_output_tokens":"5"}}"#, Some(5)),
        (Gemini, r#"{"generationConfig":{"maxOutputTokens":"many"}}"#, None),
        (Gemini, r#"{"max_tokens":5,"generationConfig":null}"#, None),
        (OllamaChat, r#"{"options":{"num_predict":5,"seed":1}}"#, Some(5)),
        (OllamaGenerate, r#"{"options":{"num_predict":-1}}"#, None),
        (OllamaGenerate, r#"{"options":{"num_predict":-2}}"#, None),
        (OllamaChat, r#"{"max_tokens":5,"num_predict":5,"options":[]}"#, None),
        (LlamaCompletion, r#"{"n_predict":5,"max_tokens":1}"#, Some(5)),
        (LlamaCompletion, r#"{"n_predict":-1,"max_tokens":1}"#, None),
        (LlamaCompletion, r#"{"max_tokens":7}"#, Some(7)),
    ] {
        assert_eq!(limit(dialect, body), expected, "{dialect:?} {body}");
    }
    let quirky = RequestPeek::read(br#"{"max_completion_tokens":5}"#).unwrap();
    assert_eq!(quirky.lengths.output_limit_as_max_tokens(), None);
}

#[test]
fn every_answer_that_is_written_counts() {
    use Dialect::*;
    let answers =
        |dialect: Dialect, body: &str| RequestPeek::read(body.as_bytes()).expect(body).lengths.answers(dialect);
    for (dialect, body, expected) in [
        (OpenAiChat, "{}", 1),
        (OpenAiChat, r#"{"n":3}"#, 3),
        (OpenAiChat, r#"{"n":0}"#, 1),
        (OpenAiChat, r#"{"n":-1}"#, u64::MAX),
        (OpenAiChat, r#"{"n":3,"prompt":["a","b"]}"#, 3),
        (OpenAiCompletions, r#"{"n":2,"best_of":5}"#, 5),
        (OpenAiCompletions, r#"{"n":2,"prompt":["a","b" , "c"]}"#, 6),
        (OpenAiCompletions, r#"{"prompt":[1,2,3]}"#, 1),
        (OpenAiCompletions, r#"{"prompt":[[1,2],[3]]}"#, 2),
        (OpenAiCompletions, r#"{"prompt":[]}"#, 1),
        (OpenAiCompletions, r#"{"n":18446744073709551615,"prompt":["a","b"]}"#, u64::MAX),
        (Gemini, r#"{"generationConfig":{"candidateCount":4}}"#, 4),
        (Gemini, r#"{"generationConfig":{"candidate_count":"4"}}"#, 4),
        (LlamaCompletion, r#"{"n_cmpl":2,"prompt":["a","b"]}"#, 4),
    ] {
        assert_eq!(answers(dialect, body), expected, "{dialect:?} {body}");
    }
    assert!(RequestPeek::read(br#"{"prompt":{"id":"pmpt_1"}}"#).unwrap().lengths.has_stored_prompt);
}

#[test]
fn what_two_readers_could_understand_differently_is_refused() {
    for (body, field) in [
        (r#"{"model":"a","model":"b"}"#, "model"),
        (r#"{"model":"a","m\u006fdel":"a"}"#, "model"),
        (r#"{"Model":"a","model":"b"}"#, "model"),
        (r#"{"Model":"a"}"#, "model"),
        (r#"{"Stream_Options":{}}"#, "stream_options"),
        (r#"{"stream":true,"\u0073tream":false}"#, "stream"),
        (r#"{"stream":true,"ſtream":false}"#, "stream"),
        (r#"{"stream":true,"\u017ftream":false}"#, "stream"),
        (r#"{"stream_options":{},"stream_options":null}"#, "stream_options"),
        (r#"{"stream_options":{"include_usage":true,"Include_Usage":false}}"#, "stream_options.include_usage"),
        (r#"{"max_tokens":1,"max_toKens":100000}"#, "max_tokens"),
        (r#"{"n":1,"N":100}"#, "n"),
        (r#"{"best_of":1,"best_of":100}"#, "best_of"),
        (r#"{"N_predict":1}"#, "n_predict"),
        (r#"{"options":{"num_predict":1},"options":{}}"#, "options"),
        (r#"{"options":{"num_predict":1,"num_predict":-1}}"#, "options.num_predict"),
        (r#"{"Options":{"num_predict":-1}}"#, "options"),
        (r#"{"options":{"Num_Predict":-1}}"#, "options.num_predict"),
        (r#"{"generationconfig":{}}"#, "generationConfig"),
        (r#"{"generationConfig":{},"generation_config":{"maxOutputTokens":1}}"#, "generationConfig"),
        (r#"{"generationConfig":{"maxOutputTokens":1,"max_output_tokens":100}}"#, "generationConfig.maxOutputTokens"),
        (r#"{"generation_config":{"candidateCount":1,"candidatecount":9}}"#, "generationConfig.candidateCount"),
    ] {
        let ways = [format!("`{field}` comes twice"), format!("`{field}` must be written in just these letters")];
        assert!(ways.iter().any(|way| refused(body).contains(way)), "{body}: {}", refused(body));
    }
    for good in [
        r#"{"model":"a","mode":"b","models":["c"],"modelx":1,"":2,"m":3,"stream_option":4}"#,
        r#"{"model":"a","x":{"model":"b","model":"c"},"x":1,"x":2}"#,
        r#"{"model\ud800":1,"model":"a"}"#,
    ] {
        assert_eq!(RequestPeek::read(good.as_bytes()).unwrap().model(good.as_bytes()).as_deref(), Some("a"), "{good}");
    }
}

#[test]
fn refusals_say_where_and_why() {
    let deep = format!("{{\"a\":{}", "[".repeat(200));
    let cases = [
        "",
        "  ",
        "[1]",
        "\"model\"",
        "{\"a\":1} {}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" 1}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":tru}",
        "{\"a\":[1 2]}",
        "{\"a\":\"x",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"model\":7}",
        "{\"model\":\"\\ud800\"}",
        "{\"stream\":\"true\"}",
        "{\"stream_options\":[]}",
        "{\"stream_options\":{\"include_usage\":1}}",
        "{\"max_tokens\":\"5\"}",
        "{\"n\":1,\"n\":1}",
        "{\"Stream\":true}",
        "\u{feff}{}",
        deep.as_str(),
    ];
    let messages: Vec<String> = cases
        .into_iter()
        .map(|body| {
            format!("{:<50} {}", body.chars().take(40).collect::<String>().escape_debug().to_string(), refused(body))
        })
        .collect();
    insta::assert_snapshot!(messages.join("\n"));
    let error = RequestPeek::read(b"{\"a\":\"\xff\"}").unwrap_err();
    assert_eq!((error.at, error.kind), (6, PeekErrorKind::NotUtf8));
}

#[test]
fn the_depth_limit_counts_the_body_itself() {
    let nested = |levels: usize| {
        let inner = (1..levels).map(|level| if level % 2 == 0 { "[" } else { "{\"a\":" }).collect::<String>();
        let closing = (1..levels).rev().map(|level| if level % 2 == 0 { "]" } else { "}" }).collect::<String>();
        // The innermost object needs a value.
        let value = if levels.is_multiple_of(2) { "0" } else { "" };
        format!("{{\"x\":{inner}{value}{closing}}}").replace("{\"x\":}", "{}")
    };
    for levels in 1..=MAX_DEPTH as usize {
        assert!(RequestPeek::read(nested(levels).as_bytes()).is_ok(), "{levels}: {}", nested(levels));
    }
    let error = RequestPeek::read(nested(MAX_DEPTH as usize + 1).as_bytes()).unwrap_err();
    assert_eq!(error.kind, PeekErrorKind::TooDeep);
    // Wide is not deep.
    assert!(RequestPeek::read(format!("{{\"a\":[{}[]]}}", "[],{},".repeat(1000)).as_bytes()).is_ok());
}

fn spliced(body: &str, model: Option<&str>, include_usage: bool) -> String {
    let peek = RequestPeek::read(body.as_bytes()).unwrap();
    let changes = Changes { model, include_usage, ..Changes::default() };
    String::from_utf8(peek.splice(body.as_bytes(), &changes).into_owned()).unwrap()
}

#[test]
fn a_body_is_asked_for_as_a_stream() {
    let streamed = |body: &str, include_usage: bool| {
        let peek = RequestPeek::read(body.as_bytes()).unwrap();
        let changes = Changes { model: Some("b"), stream: true, include_usage };
        String::from_utf8(peek.splice(body.as_bytes(), &changes).into_owned()).unwrap()
    };
    for (body, plain, counted) in [
        (
            r#"{"model":"a","stream": false,"x":1}"#,
            r#"{"model":"b","stream": true,"x":1}"#,
            r#"{"stream_options":{"include_usage":true},"model":"b","stream": true,"x":1}"#,
        ),
        (
            "{}",
            r#"{"stream":true,"model":"b"}"#,
            r#"{"stream_options":{"include_usage":true},"stream":true,"model":"b"}"#,
        ),
        (
            r#"{"stream":true,"model":"b"}"#,
            r#"{"stream":true,"model":"b"}"#,
            r#"{"stream_options":{"include_usage":true},"stream":true,"model":"b"}"#,
        ),
    ] {
        assert_eq!(streamed(body, false), plain);
        assert_eq!(streamed(body, true), counted);
    }
}

#[test]
fn a_splice_changes_two_values_and_no_other_byte() {
    for (body, expected) in [
        (r#"{"model":"a", "x": [ 1 ] }"#, r#"{"stream_options":{"include_usage":true},"model":"b\"c", "x": [ 1 ] }"#),
        (
            r#"{"stream_options":{"include_usage":false},"model":null}"#,
            r#"{"stream_options":{"include_usage":true},"model":"b\"c"}"#,
        ),
        (r#"{"model":"a","stream_options": null }"#, r#"{"model":"b\"c","stream_options": {"include_usage":true} }"#),
        (
            r#"{"model":"a","stream_options":{ "x":1}}"#,
            r#"{"model":"b\"c","stream_options":{"include_usage":true, "x":1}}"#,
        ),
        (r#"{"model":"a","stream_options":{  }}"#, r#"{"model":"b\"c","stream_options":{"include_usage":true  }}"#),
        (r#" { } "#, r#" {"stream_options":{"include_usage":true},"model":"b\"c" } "#),
        (r#"{"x":1}"#, r#"{"stream_options":{"include_usage":true},"model":"b\"c","x":1}"#),
    ] {
        assert_eq!(spliced(body, Some("b\"c"), true), expected);
    }
    assert_eq!(spliced("{}", None, true), r#"{"stream_options":{"include_usage":true}}"#);
    assert_eq!(spliced("{}", Some("m"), false), r#"{"model":"m"}"#);
    let same = br#"{"model":"a","stream_options":{"include_usage":true}}"#;
    let peek = RequestPeek::read(same).unwrap();
    let unchanged = Changes { model: Some("a"), include_usage: true, ..Changes::default() };
    assert!(matches!(peek.splice(same, &unchanged), Cow::Borrowed(_)));
    assert!(matches!(peek.splice(same, &Changes::default()), Cow::Borrowed(_)));
}

/// JSON as nobody writes it: white space, escapes and nesting anywhere.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        "-?(0|[1-9][0-9]{0,4})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?",
        text(),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|all| format!("[ {}]", all.join(" ,\n"))),
            prop::collection::vec((text(), inner), 0..5).prop_map(|all| {
                let fields: Vec<String> = all.into_iter().map(|(key, value)| format!("{key} : {value}")).collect();
                format!("{{\t{} }}", fields.join(","))
            }),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\"([a-z é😀]|\\\\[\"\\\\/bfnrt]|\\\\u00[0-9a-fA-F]{2}){0,40}\"",
        prop::sample::select(vec!["\"\"", "\"\\ud83d\\ude00\"", "\"model\"", "\"stream\"", "\"include_usage\""])
            .prop_map(str::to_owned),
    ]
}

fn field() -> impl Strategy<Value = (String, String)> {
    let known = prop_oneof![
        (Just("model"), prop_oneof![text(), Just("null".to_owned())]),
        (Just("mod\\u0065l"), text()),
        (Just("stream"), prop::sample::select(vec!["true", "false", "null"]).prop_map(str::to_owned)),
        (
            Just("stream_options"),
            prop_oneof![
                Just("null".to_owned()),
                Just("{}".to_owned()),
                Just("{ \"include_usage\" : false }".to_owned()),
                value().prop_map(|value| format!("{{\"a\":{value},\"include_usage\":null}}")),
                value().prop_map(|value| format!("{{\"a\":{value}}}")),
            ]
        ),
        (Just("max_tokens"), "[1-9][0-9]{0,2}"),
    ];
    prop_oneof![known.prop_map(|(name, value)| (format!("\"{name}\""), value)), (text(), value()),]
}

fn body() -> impl Strategy<Value = String> {
    prop::collection::vec(field(), 0..6).prop_map(|fields| {
        let fields: Vec<String> = fields.into_iter().map(|(name, value)| format!("{name}:{value}")).collect();
        format!(" {{ {} }}\n", fields.join(" , "))
    })
}

/// Whether a parser takes the body as an object.
fn parses(body: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(body) else { return false };
    text.trim_start_matches([' ', '\n', '\r', '\t']).starts_with('{')
        && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn agrees(body: &[u8]) -> Result<(), TestCaseError> {
    match RequestPeek::read(body) {
        Ok(_) => prop_assert!(parses(body), "{:?}", String::from_utf8_lossy(body)),
        Err(error) => match error.kind {
            PeekErrorKind::Repeated(_)
            | PeekErrorKind::Misspelt(_)
            | PeekErrorKind::Invalid { .. }
            | PeekErrorKind::TooDeep => {}
            _ => prop_assert!(!parses(body), "{error}: {:?}", String::from_utf8_lossy(body)),
        },
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_accepts_what_a_parser_accepts(body in body()) {
        prop_assert!(parses(body.as_bytes()));
        agrees(body.as_bytes())?;
    }

    #[test]
    fn it_refuses_what_a_parser_refuses(
        body in body(), at in any::<prop::sample::Index>(), with in prop::sample::select(b"\"\\{}[],: 0-.eu1\n\x01\xff".to_vec()), how in 0..3
    ) {
        let mut bytes = body.into_bytes();
        let at = at.index(bytes.len());
        match how {
            0 => bytes[at] = with,
            1 => bytes.insert(at, with),
            _ => drop(bytes.drain(at..=at)),
        }
        agrees(&bytes)?;
        agrees(&bytes[..at])?;
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        agrees(&bytes)?;
    }

    #[test]
    fn a_splice_is_what_a_parser_would_write(body in body(), model in prop::option::of("[a-z\"\\\\é]{0,6}"), wanted: bool) {
        let Ok(peek) = RequestPeek::read(body.as_bytes()) else { return Err(TestCaseError::reject("not read")) };
        let changes = Changes { model: model.as_deref(), include_usage: wanted, ..Changes::default() };
        let spliced = peek.splice(body.as_bytes(), &changes);
        // Lone surrogates and numbers beyond floats have no tree; there are none of the first, and few of the second.
        let Ok(mut tree) = serde_json::from_str::<Value>(&body) else { return Err(TestCaseError::reject("no tree")) };
        let root = tree.as_object_mut().unwrap();
        if let Some(model) = &model {
            root.insert("model".to_owned(), Value::from(model.as_str()));
        }
        if wanted {
            let options = root.entry("stream_options").or_insert(Value::Null);
            if options.is_null() {
                *options = Value::Object(serde_json::Map::new());
            }
            options.as_object_mut().unwrap().insert("include_usage".to_owned(), Value::Bool(true));
        }
        prop_assert_eq!(serde_json::from_slice::<Value>(&spliced).unwrap(), tree);
        let again = RequestPeek::read(&spliced).unwrap();
        prop_assert_eq!(again.include_usage, wanted || peek.include_usage);
        if let Some(model) = &model {
            let written = again.model(&spliced);
            prop_assert_eq!(written.as_deref(), Some(model.as_str()));
        }
        // What is not changed stays: without the two values the bytes are the same.
        let mut others = Vec::new();
        scraps(&peek, body.as_bytes(), &mut others);
        let mut spliced_others = Vec::new();
        scraps(&again, &spliced, &mut spliced_others);
        prop_assert!(is_subsequence(&others, &spliced_others));
    }
}

/// The body without the values that a splice may change.
fn scraps(peek: &RequestPeek, body: &[u8], out: &mut Vec<u8>) {
    let mut cut: Vec<Place> = [peek.model, peek.stream_options].into_iter().flatten().collect();
    cut.sort_by_key(|place| place.start);
    let mut kept = 0;
    for place in cut {
        out.extend_from_slice(&body[kept..place.start]);
        kept = place.end;
    }
    out.extend_from_slice(&body[kept..]);
}

/// Whether `inner` is `outer` but for at most two runs that were put in behind the first brace.
fn is_subsequence(inner: &[u8], outer: &[u8]) -> bool {
    let open = inner.iter().position(|byte| *byte == b'{').unwrap() + 1;
    outer.starts_with(&inner[..open]) && outer.ends_with(&inner[open..])
}
