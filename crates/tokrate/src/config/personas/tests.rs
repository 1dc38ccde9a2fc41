//! Personas files: the example of the repository, and the errors of invalid files.

use super::*;
use std::fmt::Write;

const EXAMPLE: &str = include_str!("../../../../../examples/personas.toml");

fn parse(text: &str) -> Result<Personas> {
    Personas::parse(text, |name| match name {
        "UNSET" => Err(anyhow!("read the API key: the environment variable UNSET is not set")),
        name => Ok(ApiKey::new(name.to_lowercase())),
    })
}

fn only(text: &str) -> Provider {
    parse(text).expect("a good file").providers.remove(0)
}

#[test]
fn the_example_has_eight_providers_of_different_character() {
    let personas = parse(EXAMPLE).expect("the example is good");
    assert_eq!(personas.providers.len(), 8);
    assert_eq!(personas.listen, "127.0.0.1:8400".parse().ok());
    for (place, provider) in personas.providers.iter().enumerate() {
        let port = provider.address.map(|address| address.port());
        assert_eq!(port, Some(8401 + place as u16), "{}", provider.persona.name);
        let others = personas.providers.iter().filter(|other| {
            Persona { name: String::new(), ..other.persona.clone() }
                == Persona { name: String::new(), ..provider.persona.clone() }
        });
        assert_eq!(others.count(), 1, "{} is like another", provider.persona.name);
    }
    let all: Vec<&Persona> = personas.providers.iter().map(|provider| &provider.persona).collect();
    assert!(all.iter().any(|persona| !persona.timetable.changes.is_empty()), "a regression");
    assert!(all.iter().any(|persona| persona.timetable.speed.is_some() && persona.time_scale > 1.0), "a daily curve");
    assert!(all.iter().any(|persona| persona.background.streams > 0.0), "other users");
    assert!(all.iter().any(|persona| persona.limits != Limits::default()), "limits");
    assert!(all.iter().any(|persona| persona.faults != Faults::default()), "faults");
    assert!(all.iter().all(|persona| persona.price.output.as_usd() > 0.0), "prices");
    assert!(personas.providers.iter().any(|provider| provider.emulated_engine == EmulatedEngine::LlamaCpp));
}

#[test]
fn a_name_alone_is_a_provider() {
    let provider = only("[[persona]]\nname = \"plain\"\n");
    assert_eq!(provider.persona, Persona { name: "plain".to_owned(), ..Persona::default() });
    assert_eq!(
        (provider.model.as_str(), provider.address, provider.emulated_engine),
        ("sim", None, EmulatedEngine::Tokrate)
    );
    assert_eq!(provider.metrics, MetricNames::Vllm);
    assert!(provider.api_key.is_none());
}

#[test]
fn every_key_has_its_effect() {
    let text = r#"
        [[persona]]
        name = "all"
        listen = "127.0.0.1:0"
        model = "m"
        only_model = true
        key_env = "THE_KEY"
        engine = "llama-cpp"
        metrics = "tgi"
        time_scale = 60
        faults = ["stall@3=0.1", "short"]
        speed_curve = { period = "24h", amplitude = 0.3, peak = "4h" }
        [persona.law]
        slots = 3
        queue_limit = 4
        delay = "5ms"
        prefill = inf
        speed = 7
        alpha = 0.8
        beta = 0.9
        tokens_per_chunk = 10
        jitter = 0.11
        ttft_jitter = 0.12
        reasoning_tokens = 13
        coalesce = "14ms"
        role_first = false
        usage_every_chunk = true
        output_tokens = 15
        output_tokens_most = 16
        [persona.price]
        input = 17
        output = 18.5
        [persona.limits]
        requests_per_minute = 19
        tokens_per_minute = 20
        [persona.background]
        streams = 21
        jitter = 0.22
        every = "23s"
        curve = { period = "1h", amplitude = 1 }
        [[persona.change]]
        at = "10m"
        speed = 0.5
        [[persona.change]]
        at = "20m"
        ttft = 2
        faults_times = 3
        faults = ["empty"]
        [[persona.change]]
        at = "30m"
        speed = 1
    "#;
    let provider = only(text);
    let mut faults = Faults::default();
    ["stall@3=0.1", "short"].iter().for_each(|fault| faults.set(fault).expect("a fault"));
    let mut empty = Faults::default();
    empty.set("empty").expect("a fault");
    let (hours, minutes) = (|hours: u64| Span::from_secs(3_600 * hours), |minutes: u64| Span::from_secs(60 * minutes));
    let expected = Persona {
        name: "all".to_owned(),
        law: Law {
            slots: 3,
            queue_limit: Some(4),
            base_delay: Span::from_millis(5),
            prefill_tokens_per_second: f64::INFINITY,
            stream_tokens_per_second: 7.0,
            contention: 0.8,
            coherency: 0.9,
            tokens_per_chunk: 10,
            gap_jitter: 0.11,
            ttft_jitter: 0.12,
            reasoning_tokens: 13,
            coalesce: Span::from_millis(14),
            role_first: false,
            usage_every_chunk: true,
            default_output_tokens: 15,
            max_output_tokens: 16,
            ..Law::default()
        },
        faults,
        price: Price::from_usd_per_million(17.0, 18.5).expect("a price"),
        background: Background {
            streams: 21.0,
            jitter: 0.22,
            every: Span::from_secs(23),
            curve: Some(Curve { period: hours(1), amplitude: 1.0, peak: Span::ZERO }),
        },
        timetable: Timetable {
            changes: vec![
                Change { at: minutes(10), speed: 0.5, ttft: 1.0, faults: 1.0, replacement: None },
                Change { at: minutes(20), speed: 0.5, ttft: 2.0, faults: 3.0, replacement: Some(empty.clone()) },
                Change { at: minutes(30), speed: 1.0, ttft: 2.0, faults: 3.0, replacement: Some(empty) },
            ],
            speed: Some(Curve { period: hours(24), amplitude: 0.3, peak: hours(4) }),
        },
        limits: Limits { requests_per_minute: Some(19), tokens_per_minute: Some(20) },
        time_scale: 60.0,
        scheduled: None,
    };
    assert_eq!(provider.persona, expected);
    assert_eq!(provider.address, "127.0.0.1:0".parse().ok());
    assert_eq!((provider.model.as_str(), provider.only_model, provider.api_key.is_some()), ("m", true, true));
    assert_eq!((provider.emulated_engine, provider.metrics), (EmulatedEngine::LlamaCpp, MetricNames::Tgi));
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let in_persona = |rest: &str| format!("[[persona]]\nname = \"a\"\n{rest}\n");
    let files = [
        String::new(),
        "listen = \"8400\"\n".to_owned(),
        "lisen = \"127.0.0.1:8400\"\n".to_owned(),
        "[[persona]]\nmodel = \"m\"\n".to_owned(),
        "[[persona]]\nname = \"a/b\"\n".to_owned(),
        in_persona("[[persona]]\nname = \"a\""),
        in_persona("slots = 3"),
        in_persona("key_env = \"UNSET\""),
        in_persona("engine = \"triton\""),
        in_persona("metrics = \"vlm\""),
        in_persona("time_scale = 0"),
        in_persona("faults = [\"stal=0.1\"]"),
        in_persona("[persona.law]\nspeed = 100\nslots = 0"),
        in_persona("[persona.law]\nspeed = \"fast\""),
        in_persona("[persona.law]\ndelay = \"5 parsecs\""),
        in_persona("[persona.price]\ninput = 1"),
        in_persona("[persona.limits]\nrequests_per_minute = 0"),
        in_persona("[persona.limits]\nrequests_per_minute = -1"),
        in_persona("[persona.background]\nstreams = -1"),
        in_persona("speed_curve = { period = \"24h\", amplitude = 1.0 }"),
        in_persona("[[persona.change]]\nspeed = 0.5"),
        in_persona("[[persona.change]]\nat = \"10m\"\nspeed = 0"),
        in_persona("[[persona.change]]\nat = \"10m\"\n[[persona.change]]\nat = \"5m\""),
        in_persona("[persona.law"),
    ];
    let mut shown = String::new();
    for text in files {
        let error = parse(&text).expect_err("refused");
        writeln!(shown, "{text}---\n{}\n\n", format!("{error:#}").trim_end()).expect("a string takes all");
    }
    insta::assert_snapshot!("bad_personas", shown);
}
