//! `tokrate estimate fleet`: the cheapest devices that carry a demand within objectives.

use super::{cost, model_file, subject};
use crate::commands::Verdict;
use crate::flags::estimate::FleetFlags;
use crate::out::estimate::fleet::{ApiShown, Shown, html, json, text};
use anyhow::{Result, anyhow, bail, ensure};
use std::path::Path;
use std::sync::Mutex;
use tokrate_estimate::capacity::{Objective, Search, search};
use tokrate_estimate::cost::HOURS_A_MONTH;
use tokrate_estimate::fleet::{Demand, Kind, fleets, with_api};
use tokrate_estimate::hardware::{Class, Device};
use tokrate_estimate::model::Model;
use tokrate_estimate::precision::Precision;
use tokrate_estimate::serving::{Serving, Tuning};
use tokrate_estimate::traffic::Lengths;
use tokrate_estimate::{Asked, Estimator};

/// Kinds that are searched at most; of more, those that are cheapest by the closed formulas.
const MOST_SEARCHED: usize = 24;
/// Requests in flight at which kinds are compared by the closed formulas before they are searched.
const USUAL_LOAD: f64 = 32.0;

/// Searches and prints. Below the bar when nothing keeps the objectives.
pub fn run(flags: &FleetFlags) -> Result<Verdict> {
    if let Some(path) = &flags.html {
        crate::out::files::check_writable(path)?;
    }
    let shown = found(&Estimator::embedded(), flags)?;
    if let Some(path) = &flags.html {
        crate::out::files::write(path, &html(&shown))?;
    }
    let written = if flags.json { format!("{}\n", json(&shown)) } else { text(&shown) };
    if flags.html.as_deref() != Some(Path::new("-")) {
        crate::out::stdout::write(&written)?;
    }
    Ok(if shown.fleets.is_empty() { Verdict::BelowBar } else { Verdict::Good })
}

/// One kind that is tried: a question with the price of its devices.
struct Candidate {
    asked: Asked,
    device: String,
    precision: String,
    devices: u32,
    dollars_hour: (f64, f64),
    extrapolated: bool,
}

/// What all candidates have in common.
struct Task {
    lengths: Lengths,
    tuning: Tuning,
    kind: Search,
    objectives: Vec<Objective>,
}

/// The cheapest fleets.
pub(super) fn found(estimator: &Estimator, flags: &FleetFlags) -> Result<Shown> {
    let objectives = subject::objectives(&flags.objectives)?;
    ensure!(flags.users != Some(0), "estimate: 0 users; check --users");
    ensure!(
        flags.peak.is_finite() && flags.peak >= 1.0,
        "estimate: --peak is {}; the busiest hour has at least the mean, 1",
        flags.peak
    );
    ensure!(flags.most_tp > 0, "estimate: 0 devices a copy; check --most-tp");
    let rate = flags.rate.as_deref().map(subject::rate).transpose()?;
    let think = flags.think.as_deref().map(subject::seconds).transpose()?.unwrap_or(0.0);
    let (kind, busiest) = match (rate, flags.users) {
        (Some(rate), _) => (Search::Rate, rate * flags.peak),
        (None, Some(users)) => (Search::Users(think), f64::from(users)),
        (None, None) => bail!("estimate: say what is to be carried, with --users or --rate"),
    };
    let task =
        Task { lengths: subject::lengths(&flags.load)?, tuning: subject::tuning(&flags.load)?, kind, objectives };
    let (candidates, mut refused) = candidates(estimator, flags)?;
    let (kinds, unsuited) = searched(estimator, &task, candidates)?;
    refused.extend(unsuited);
    let demand = Demand { busiest, peak: flags.peak, spare: flags.spare, cautious: flags.cautious };
    let fleets = fleets(&kinds, &demand);
    // What a month asks: the mean load, at the requests a second that the first fleet's copies answer at what they carry.
    let a_second = match (rate, fleets.first()) {
        (Some(rate), _) => Some(rate),
        (None, Some(fleet)) => {
            let kind = &kinds[fleet.copies[0].0];
            Some(kind.requests_a_second / kind.carries * busiest / flags.peak)
        }
        (None, None) => None,
    };
    let requests = a_second.map(|rate| rate * 3600.0 * HOURS_A_MONTH);
    let apis = apis(flags, &task, &kinds, &demand, requests)?;
    Ok(Shown {
        model: flags.model.clone(),
        kinds,
        fleets,
        apis,
        refused,
        demand,
        kind,
        lengths: task.lengths,
        slos: flags.objectives.slos.clone(),
        requests,
    })
}

/// Every kind that can hold the model, the cheapest by the closed formulas first; and what cannot, in words.
fn candidates(estimator: &Estimator, flags: &FleetFlags) -> Result<(Vec<Candidate>, Vec<String>)> {
    let base = model_file::with_file(Asked {
        model: flags.model.clone(),
        engine: Some(flags.engine.clone().unwrap_or_else(|| "vllm".to_owned())),
        isl: Some(f64::from(flags.load.isl)),
        osl: Some(f64::from(flags.load.osl)),
        ..Asked::default()
    })?;
    let precisions = precisions(estimator, &base, flags)?;
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for (device, dollars_hour) in devices(estimator, flags)? {
        let mut why = None;
        let before = all.len();
        for precision in &precisions {
            let counts = (0..).map(|power| 1u32 << power).take_while(|count| *count <= flags.most_tp);
            for count in counts {
                let asked = Asked {
                    hardware: device.name.clone(),
                    n_gpus: Some(f64::from(count)),
                    weight_precision: Some(precision.clone()),
                    concurrency: Some(USUAL_LOAD),
                    ..base.clone()
                };
                match estimator.answer(&asked) {
                    Ok(answer) => {
                        let hour = (dollars_hour.0 * f64::from(count), dollars_hour.1 * f64::from(count));
                        let speed = answer.tok_s_total.map_or(0.0, |total| total.value);
                        let candidate = Candidate {
                            asked,
                            device: device.name.clone(),
                            precision: precision.clone(),
                            devices: count,
                            dollars_hour: hour,
                            extrapolated: !answer.extrapolated.is_empty(),
                        };
                        all.push(((hour.0 + hour.1) / speed.max(1e-9), candidate));
                    }
                    Err(error) => why = why.or(Some(error)),
                }
            }
        }
        if let Some(error) = why.filter(|_| all.len() == before) {
            refused.push(error);
        }
    }
    if all.is_empty() {
        bail!("estimate: no device can hold it: {}", refused.join("; "));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let left_out = all.len().saturating_sub(MOST_SEARCHED);
    if left_out > 0 {
        refused.push(format!(
            "{left_out} kinds were not searched: dearer by the closed formulas; name devices with --hardware"
        ));
    }
    Ok((all.into_iter().take(MOST_SEARCHED).map(|(_, candidate)| candidate).collect(), refused))
}

/// The devices to choose from, with dollars an hour of one.
fn devices(estimator: &Estimator, flags: &FleetFlags) -> Result<Vec<(Device, (f64, f64))>> {
    let refused = |error: String| anyhow!("estimate: {error}");
    if flags.hardware.is_empty() {
        let all = estimator.facts.devices.iter().filter(|device| device.class == Class::Datacentre);
        return Ok(all.filter_map(|device| Some((device.clone(), device.dollars_hour?))).collect());
    }
    let named = flags.hardware.iter().map(|text| {
        let (name, price) = text.split_once('=').map_or((text.as_str(), None), |(name, price)| (name, Some(price)));
        let device = Device::named(&estimator.facts.devices, name).map_err(refused)?;
        let price = price
            .map(|price| match price.trim().parse::<f64>() {
                Ok(price) if price.is_finite() && price > 0.0 => Ok((price, price)),
                _ => bail!(
                    "estimate: the price of {name} is {price:?}; write dollars an hour above 0, such as {name}=2.5"
                ),
            })
            .transpose()?;
        let dollars = price.or(device.dollars_hour).ok_or_else(|| {
            anyhow!("estimate: no price of {} is known; write dollars an hour of one, such as {name}=2.5", device.name)
        })?;
        Ok((device, dollars))
    });
    named.collect()
}

/// The formats to choose from: as published, and 8 bits of what is published in 16.
fn precisions(estimator: &Estimator, base: &Asked, flags: &FleetFlags) -> Result<Vec<String>> {
    // A model that nobody knows is said once, and not for each device.
    let known = base.known_model.clone().map_or_else(|| Model::named(&estimator.facts.models, &base.model), Ok);
    let native = known.map_err(|error| anyhow!("estimate: {error}"))?.native;
    if !flags.precision.is_empty() {
        for name in &flags.precision {
            ensure!(
                Precision::named(name).is_some(),
                "estimate: unknown weight precision {name:?}; such as bf16, fp8, int4"
            );
        }
        return Ok(flags.precision.clone());
    }
    let published = Precision::named(&native).map_or_else(|| ("bf16".to_owned(), 2.0), |it| (native, it.bytes));
    let narrower = (published.1 > 1.5).then(|| "fp8".to_owned());
    Ok([Some(published.0), narrower].into_iter().flatten().collect())
}

/// What one copy of each candidate carries, searched on all processors; and which carry nothing.
fn searched(estimator: &Estimator, task: &Task, candidates: Vec<Candidate>) -> Result<(Vec<Kind>, Vec<String>)> {
    let count = candidates.len();
    let queue = Mutex::new(candidates.into_iter().enumerate());
    let found = Mutex::new(Vec::with_capacity(count));
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(count);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().ok().and_then(|mut queue| queue.next());
                    let Some((place, candidate)) = next else { break };
                    let kind = carried(estimator, task, &candidate);
                    if let Ok(mut found) = found.lock() {
                        found.push((place, candidate, kind));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().map_err(|_| anyhow!("estimate: a search ended early"))?;
    // In an order that no processor decides.
    found.sort_by_key(|(place, ..)| *place);
    let (mut kinds, mut refused) = (Vec::new(), Vec::new());
    for (_, candidate, kind) in found {
        match kind {
            Ok(Some(kind)) => kinds.push(kind),
            Ok(None) => refused.push(format!(
                "{} x {} in {}: one copy keeps the objectives at no load",
                candidate.devices, candidate.device, candidate.precision
            )),
            Err(error) => refused.push(error),
        }
    }
    Ok((kinds, refused))
}

/// What one copy carries; `None` where it keeps the objectives at no load.
fn carried(estimator: &Estimator, task: &Task, candidate: &Candidate) -> Result<Option<Kind>, String> {
    let serving = Serving::new(estimator, &candidate.asked, &task.tuning)?;
    let capacity = search(&serving, &task.lengths, task.kind, &task.objectives)?;
    let Some(most) = capacity.most else { return Ok(None) };
    let at = capacity.curve.iter().find(|tried| tried.load == most);
    Ok(Some(Kind {
        device: candidate.device.clone(),
        devices: candidate.devices,
        precision: candidate.precision.clone(),
        carries: most,
        range: (capacity.range.0.unwrap_or(0.0), capacity.range.1.unwrap_or(most)),
        requests_a_second: at.map_or(most, |tried| tried.samples.requests_a_second),
        dollars_hour: candidate.dollars_hour,
        extrapolated: candidate.extrapolated,
    }))
}

/// Each API alone, and beside the cheapest own copies.
fn apis(
    flags: &FleetFlags,
    task: &Task,
    kinds: &[Kind],
    demand: &Demand,
    requests: Option<f64>,
) -> Result<Vec<ApiShown>> {
    cost::check_curves(&flags.api_price, &flags.api_curve)?;
    let (isl, osl) = (f64::from(task.lengths.isl), f64::from(task.lengths.osl));
    let one = |(place, text): (usize, &String)| {
        let api = cost::given(text)?;
        let dollars = api.price.request(isl, f64::from(task.lengths.shared), osl);
        let within = cost::within(flags.api_curve.get(place), &task.objectives, &task.lengths)?;
        let month = requests.map(|requests| (requests * dollars, with_api(kinds, demand, dollars, requests)));
        Ok(ApiShown { name: api.name, dollars_request: dollars, within, month })
    };
    flags.api_price.iter().enumerate().map(one).collect()
}
