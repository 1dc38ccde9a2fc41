//! The bars of choosing by caches, small: docs/routing.md has the tables, which `cargo xtask bench routing` makes.

use tokrate_core::Span;
use tokrate_dst::caching::{
    CacheEngine, CacheScenario, CacheSelector, CacheSummary, CacheWorkload, SessionKind, knee_sessions, run_caches,
};
use tokrate_route::Policy;

fn scenario(selector: CacheSelector) -> CacheScenario {
    let engines = CacheEngine::unlike(3);
    let workload = CacheWorkload::of(SessionKind::Agent);
    CacheScenario {
        seed: 3,
        sessions_per_second: 0.6 * knee_sessions(&engines, &workload),
        engines,
        workload,
        selector,
        hedge_share: None,
        warmup: Span::from_secs(60),
        measured: Span::from_secs(60),
        restart: None,
    }
}

#[test]
fn a_choice_by_caches_gives_first_tokens_a_third_earlier_than_peak_ewma_for_less_money() {
    let cache = run_caches(&scenario(CacheSelector::Router(Policy::Cache)));
    let peak = run_caches(&scenario(CacheSelector::Router(Policy::PeakEwma)));
    assert!(cache.ttft_mean < 0.7 * peak.ttft_mean, "{:.3} and {:.3} s", cache.ttft_mean, peak.ttft_mean);
    assert!(cache.usd_per_thousand < peak.usd_per_thousand && cache.cached_share > peak.cached_share);
    let off = cache.expected_cached_share - cache.cached_share;
    assert!(off.abs() < 0.05, "{off:+.3}: what is expected to be cached is");
}

/// Long prompts fill caches and memory, where expectations of times are wrong: what LMETRIC goes by bounds the choice.
#[test]
fn with_long_documents_a_choice_by_caches_is_not_much_later_than_lmetric() {
    let engines = CacheEngine::alike();
    let workload = CacheWorkload::of(SessionKind::Document);
    let run = |selector: CacheSelector| {
        run_caches(&CacheScenario {
            sessions_per_second: 0.8 * knee_sessions(&engines, &workload),
            engines: engines.clone(),
            workload: workload.clone(),
            warmup: Span::from_secs(120),
            ..scenario(selector)
        })
    };
    let cache = run(CacheSelector::Router(Policy::Cache));
    let lmetric = run(CacheSelector::Lmetric { told: false, with_queue: false });
    assert!(cache.ttft_mean < 1.25 * lmetric.ttft_mean, "{:.3} and {:.3} s", cache.ttft_mean, lmetric.ttft_mean);
}

#[test]
fn a_seed_gives_the_same_figures_each_time() {
    let once = || run_caches(&scenario(CacheSelector::Router(Policy::Cache)));
    assert_eq!(once(), once());
}

#[test]
fn an_engine_that_restarts_loses_its_cache_and_the_choice_recovers() {
    let run = |restart: Option<(Span, usize)>, from: u64| -> CacheSummary {
        let plain = scenario(CacheSelector::Router(Policy::Cache));
        run_caches(&CacheScenario { restart, warmup: Span::from_secs(from), measured: Span::from_secs(60), ..plain })
    };
    // One that many sessions are at.
    let restart = Some((Span::from_secs(100), 0));
    let (hit, spared) = (run(restart, 100), run(None, 100));
    assert!(hit.cached_share < spared.cached_share, "{:.3} and {:.3}", hit.cached_share, spared.cached_share);
    let off = hit.expected_cached_share - hit.cached_share;
    assert!(off < 0.05, "{off:+.3}: after a few calls nobody counts on what is gone");
    let (later, spared) = (run(restart, 200), run(None, 200));
    assert!(
        later.cached_share > spared.cached_share - 0.02,
        "{:.3} and {:.3}",
        later.cached_share,
        spared.cached_share
    );
}
