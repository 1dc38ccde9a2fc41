//! What holds for any facts: finite numbers, speeds that load does not raise, totals that it does not lower.

use proptest::prelude::*;
use tokrate_core::Span;
use tokrate_engine::{Chunk, StepTime, Work};
use tokrate_estimate::calibrate::{calibrate, embedded_trace};
use tokrate_estimate::coefficients::{Coefficients, Engine};
use tokrate_estimate::engine_time::EngineTime;
use tokrate_estimate::question::Question;
use tokrate_estimate::served::{naive, predict};
use tokrate_estimate::{Asked, Estimator, Facts, fit, measured};

/// Any of the table's devices and models under any load that fits.
fn question(device: usize, model: usize, devices: u32, engine: usize, load: (f64, u32, u32)) -> Option<Question> {
    let facts = Facts::embedded();
    let asked = Asked {
        model: facts.models[model % facts.models.len()].name.clone(),
        hardware: facts.devices[device % facts.devices.len()].name.clone(),
        n_gpus: Some(f64::from(devices)),
        engine: ["vllm", "trtllm", "sglang", "llama.cpp"].get(engine % 4).map(|name| (*name).to_owned()),
        weight_precision: ["bf16", "fp8", "nvfp4", "Q4_K_M"].get(engine / 4 % 4).map(|name| (*name).to_owned()),
        concurrency: Some(load.0),
        isl: Some(f64::from(load.1)),
        osl: Some(f64::from(load.2)),
        ..Asked::default()
    };
    asked.resolve(&facts).ok().map(|resolved| resolved.question)
}

#[test]
fn an_engine_that_is_not_computed_is_said_to_be_outside_of_what_was_measured() {
    let estimator = Estimator::embedded();
    let reasons = |version: Option<&str>| {
        let asked = Asked {
            model: "llama-3.3-70b".to_owned(),
            hardware: "h100-sxm".to_owned(),
            n_gpus: Some(4.0),
            engine: Some("vllm".to_owned()),
            engine_version: version.map(str::to_owned),
            concurrency: Some(16.0),
            isl: Some(1024.0),
            osl: Some(1024.0),
            ..Asked::default()
        };
        estimator.answer(&asked).expect("it fits").extrapolated.join("; ")
    };
    assert!(reasons(Some("0.6.3.post1")).contains("vLLM before 0.8"), "{}", reasons(Some("0.6.3.post1")));
    assert!(reasons(Some("v0.7.2")).contains("vLLM before 0.8"));
    for known in [None, Some("0.8.0"), Some("0.12.0"), Some("1.0"), Some("2024-05 snapshot"), Some("main")] {
        assert!(!reasons(known).contains("vLLM before"), "{known:?}: {}", reasons(known));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn load_never_raises_a_users_speed_nor_lowers_the_total(
        device in 0_usize..200, model in 0_usize..200, devices in 1_u32..17, engine in 0_usize..16,
        load in 1.0_f64..500.0, more in 1.0_f64..4.0, isl in 0_u32..20_000, osl in 1_u32..9000,
    ) {
        let coefficients = Coefficients::fitted();
        let Some(less) = question(device, model, devices, engine, (load, isl, osl)) else { return Ok(()) };
        let more = Question { concurrency: Some(load * more), ..less.clone() };
        let (less, more) = (predict(&less, &coefficients), predict(&more, &coefficients));
        prop_assert!(more.tpot >= less.tpot * (1.0 - 1e-9), "{} then {}", less.tpot, more.tpot);
        prop_assert!(more.total >= less.total * (1.0 - 1e-9), "{} then {}", less.total, more.total);
        prop_assert!(more.ttft >= less.ttft.map(|ttft| ttft * (1.0 - 1e-9)));
    }

    #[test]
    fn a_step_takes_no_less_time_with_more_work_in_it(
        device in 0_usize..200, model in 0_usize..200, engine in 0_usize..16, decoding in 1_u32..400, context in 1_u32..8000,
        prompt in 0_u32..4000, more in (0_u32..50, 0_u32..3000, 0_u32..2000), steps in 2_u32..500,
    ) {
        let Some(question) = question(device, model, 8, engine, (1.0, 100, 100)) else { return Ok(()) };
        let time = EngineTime::new(question, &Coefficients::fitted());
        let work = |decoding: u32, context: u32, prompt: u32| Work {
            decoding,
            tokens_each: 1,
            decode_context: u64::from(decoding) * u64::from(context),
            chunks: if prompt > 0 { vec![Chunk { tokens: prompt, context: 0 }] } else { Vec::new() },
        };
        let less = time.seconds(&work(decoding, context, prompt));
        for larger in [work(decoding + more.0, context, prompt), work(decoding, context + more.1, prompt),
            work(decoding, context, prompt + more.2)] {
            prop_assert!(time.seconds(&larger) >= less * (1.0 - 1e-9), "{larger:?}");
        }
        // Steps taken together are those taken one by one, nearly so where a sliding window fills in between.
        let first = work(decoding, context, 0);
        let one_by_one = (0..steps).fold((Span::ZERO, first.clone()), |(sum, work), _| {
            let grown = Work { decode_context: work.decode_context + u64::from(decoding), ..work.clone() };
            (sum + time.span(&work), grown)
        });
        let together = time.spans(&first, steps).as_secs_f64();
        prop_assert!((together / one_by_one.0.as_secs_f64() - 1.0).abs() < 2e-2, "{together} {one_by_one:?}");
    }

    #[test]
    fn an_answer_is_finite_or_refused_for_any_positive_facts(
        params in 0.001_f64..5000.0, active in 0.01_f64..1.0, memory in 0.1_f64..2000.0, bandwidth in 0.1_f64..1e5,
        tflops in 0.01_f64..1e5, devices in 1_u32..64, load in proptest::option::of(1.0_f64..1e5),
        isl in proptest::option::of(0.0_f64..1e6), osl in proptest::option::of(0.0_f64..1e6),
    ) {
        let asked = Asked {
            model: "given".to_owned(), hardware: "given".to_owned(), params_b: Some(params),
            active_params_b: Some(params * active), memory_gb: Some(memory), memory_bandwidth_gbps: Some(bandwidth),
            tflops: Some(tflops), n_gpus: Some(f64::from(devices)), engine: Some("vllm".to_owned()),
            concurrency: load, isl, osl, ..Asked::default()
        };
        // The estimator itself checks that every number is finite and positive.
        match Estimator::embedded().answer(&asked) {
            Ok(answer) => {
                for value in [answer.tpot_ms, answer.ttft_ms, answer.tok_s_user, answer.tok_s_total].into_iter().flatten() {
                    prop_assert!(value.low <= value.value && value.value <= value.high && value.high.is_finite());
                }
            }
            Err(reason) => prop_assert!(!reason.is_empty()),
        }
    }

    #[test]
    fn facts_that_cannot_be_are_refused(bad in prop_oneof![Just(0.0), Just(-1.0), Just(f64::NAN), Just(f64::INFINITY)], which in 0_usize..6) {
        let mut asked = Asked {
            model: "llama-3.1-8b".to_owned(), hardware: "h100".to_owned(), concurrency: Some(1.0),
            isl: Some(100.0), osl: Some(100.0), ..Asked::default()
        };
        let slot = match which {
            0 => &mut asked.memory_bandwidth_gbps,
            1 => &mut asked.tflops,
            2 => &mut asked.memory_gb,
            3 => &mut asked.n_gpus,
            4 => &mut asked.concurrency,
            _ => &mut asked.params_b,
        };
        *slot = Some(bad);
        prop_assert!(Estimator::embedded().answer(&asked).is_err());
    }
}

#[test]
fn no_measured_row_is_faster_than_the_peaks_allow() {
    let (rows, refused) = measured::rows(&Facts::embedded());
    assert_eq!((rows.len(), refused), (108, Vec::new()));
    for row in rows.iter().filter(|row| !row.question.model.sparse()) {
        let bound = naive(&row.question).tpot;
        assert!(row.tpot.is_none_or(|tpot| tpot > bound), "{}: {:?} under {bound}", row.id, row.tpot);
    }
}

#[test]
fn the_embedded_coefficients_are_those_of_the_rows() {
    let (rows, _) = measured::rows(&Facts::embedded());
    let fitted = fit::fit(&rows.iter().collect::<Vec<_>>()).coefficients;
    let (trace, settings) = embedded_trace().expect("can be read");
    let (fitted, _) = calibrate(&trace, &settings, &Facts::embedded(), &fitted).expect("a measured trace");
    let embedded = Coefficients::fitted();
    for ((name, fitted), embedded) in Coefficients::names().iter().zip(fitted.0).zip(embedded.0) {
        assert!((fitted - embedded).abs() < 2e-3, "{name}: run the example `validate` with --write");
    }
}

#[test]
fn local_engines_put_layers_after_one_another() {
    let one = question(0, 0, 1, 3, (1.0, 100, 100)).expect("fits");
    let two = Question { devices: 2.0, tensor_parallel: Some(2.0), ..one.clone() };
    let coefficients = Coefficients::fitted();
    assert_eq!(one.engine, Engine::Local);
    assert!((predict(&one, &coefficients).tpot / predict(&two, &coefficients).tpot - 1.0).abs() < 1e-9);
}
