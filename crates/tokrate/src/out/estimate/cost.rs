//! Costs as a table and as JSON.
//!
//! Invariant: a price that is zero or unknown is shown as such and never as the cheapest.

use super::short;
use serde_json::{Value as Json, json as object};
use std::fmt::Write;
use tokrate_charts::terminal::bar;
use tokrate_charts::{Axis, Block, LineChart, Page, Point, Section, Series, SeriesStyle};
use tokrate_estimate::Value;
use tokrate_estimate::cost::{ApiPrice, HOURS_A_MONTH, Own};
use tokrate_estimate::serving::Serving;
use tokrate_estimate::traffic::Lengths;

/// An API.
pub struct Api {
    /// Provider and model.
    pub name: String,
    /// What it charges.
    pub price: ApiPrice,
    /// When the catalog's price was checked; `None` of one that was given.
    pub source: Option<String>,
    /// Requests in flight within which it keeps the objectives; `None` where no law of it is known.
    pub within: Option<Value>,
}

/// What is known of an API and the objectives, in words.
pub fn keeps(within: Value) -> String {
    match within.value {
        most if most <= 0.0 => "it keeps the objectives at no load that was measured".to_owned(),
        most => format!("it keeps the objectives up to {most:.0} in flight, as measured"),
    }
}

/// Own hardware and APIs.
pub struct Shown {
    /// Model, as it was asked for.
    pub asked_model: String,
    /// Storage of the weights, where it was given.
    pub precision: Option<String>,
    /// Whether the price of the device was given and is not the table's.
    pub given_price: bool,
    /// Own hardware at the lowest and the highest price; empty where nothing keeps the objectives.
    pub own: Vec<Own>,
    /// Requests a second at the ends of the speed's interval.
    pub interval: (Option<f64>, Option<f64>),
    /// The engine.
    pub serving: Serving,
    /// What requests look like.
    pub lengths: Lengths,
    /// The objectives as they were typed.
    pub slos: Vec<String>,
    /// The APIs.
    pub apis: Vec<Api>,
    /// Requests a month, and how many times the mean the busiest hour has.
    pub month: Option<(f64, f64)>,
}

impl Shown {
    fn request(&self, api: &Api) -> Option<f64> {
        let Lengths { isl, osl, shared, .. } = self.lengths;
        let dollars = api.price.request(f64::from(isl), f64::from(shared), f64::from(osl));
        Some(dollars).filter(|dollars| dollars.is_finite() && *dollars > 0.0)
    }
}

/// The result for people.
pub fn text(shown: &Shown) -> String {
    let mut text =
        "Computed in virtual time with fitted step times, not measured; API prices are those of lists, not quotes.\n\n"
            .to_owned();
    // Writing to a String cannot fail.
    let _ = own(&mut text, shown);
    let _ = apis(&mut text, shown);
    let _ = month(&mut text, shown);
    for assumed in &shown.serving.assumed {
        let _ = writeln!(text, "assumed: {assumed}");
    }
    if !shown.given_price {
        text.push_str("Prices of devices: ranges of on-demand rents from memory, not quotes; --price sets yours.\n");
    }
    text
}

fn own(text: &mut String, shown: &Shown) -> std::fmt::Result {
    let question = &shown.serving.question;
    let precision = shown.precision.as_ref().map_or(String::new(), |name| format!(" in {name}"));
    writeln!(text, "{}{precision} on {} x {}", shown.asked_model, question.devices, question.device.name)?;
    writeln!(
        text,
        "requests of {} tokens and {} back; objectives: {}",
        shown.lengths.isl,
        shown.lengths.osl,
        shown.slos.join("; ")
    )?;
    let [low, high] = shown.own[..] else {
        return writeln!(text, "\nNothing keeps the objectives: `estimate capacity` shows the nearest that is kept.\n");
    };
    let end = |load: Option<f64>| load.map_or("none".to_owned(), short);
    writeln!(
        text,
        "\ncarries {} requests/s (80 % interval of the speed: {} to {}), {} tok/s",
        short(low.requests_a_second),
        end(shown.interval.0),
        end(shown.interval.1),
        short(low.tokens_a_second)
    )?;
    writeln!(text, "at full load: {}", both(low, high, Own::dollars_mtok, "a million output tokens"))?;
    writeln!(text, "              {}", both(low, high, |own| own.dollars_request() * 1e3, "a thousand requests"))?;
    writeln!(text, "it costs {} whether it is used or not\n", both(low, high, |own| own.dollars_hour, "an hour"))
}

fn both(low: Own, high: Own, of: impl Fn(&Own) -> f64, unit: &str) -> String {
    match (of(&low), of(&high)) {
        (one, other) if one == other => format!("${} {unit}", short(one)),
        (one, other) => format!("${} to ${} {unit}", short(one), short(other)),
    }
}

fn apis(text: &mut String, shown: &Shown) -> std::fmt::Result {
    if shown.apis.is_empty() {
        return writeln!(text, "The catalog has no API price of this model; give one with --api-price.\n");
    }
    writeln!(
        text,
        "{:<52} {:>9} {:>9} {:>12}  own is cheaper from (share of what it carries)",
        "API", "$/M in", "$/M out", "$/1,000 req"
    )?;
    for api in &shown.apis {
        let dollars = shown.request(api);
        let from = match (dollars, &shown.own[..]) {
            (None, _) => "price unknown".to_owned(),
            (Some(dollars), [low, high]) => match (low.breaks_even_at(dollars), high.breaks_even_at(dollars)) {
                (None, _) => "never: full load costs more".to_owned(),
                (Some(from), to) => {
                    let share = from / (low.requests_a_second * 3600.0);
                    let to = to.map_or("never".to_owned(), |to| format!("{to:.0}"));
                    let ends = if low == high { format!("{from:.0}") } else { format!("{from:.0} to {to}") };
                    format!("{} {ends} requests/h ({:.0} %)", bar(share, 10, true), share * 100.0)
                }
            },
            _ => "-".to_owned(),
        };
        writeln!(
            text,
            "{:<52} {:>9} {:>9} {:>12}  {from}",
            api.name,
            short(api.price.input),
            short(api.price.output),
            dollars.map_or("unknown".to_owned(), |dollars| short(dollars * 1e3))
        )?;
        if let Some(within) = api.within {
            writeln!(text, "{:<52} {}", "", keeps(within))?;
        }
    }
    writeln!(text)
}

fn month(text: &mut String, shown: &Shown) -> std::fmt::Result {
    let (Some((requests, peak)), [low, high]) = (shown.month, &shown.own[..]) else { return Ok(()) };
    writeln!(text, "A month of {requests:.0} requests, the busiest hour with {peak} times the mean:")?;
    let (sets, least) = low.month(requests, peak);
    let most = high.month(requests, peak).1;
    let dollars = if least == most { format!("${least:.0}") } else { format!("${least:.0} to ${most:.0}") };
    let busy = requests / (HOURS_A_MONTH * 3600.0 * low.requests_a_second * sets) * 100.0;
    writeln!(text, "  {:<50} {dollars} ({sets} of it, {busy:.0} % busy in the mean)", "own")?;
    for api in &shown.apis {
        let dollars = shown.request(api).map_or("price unknown".to_owned(), |each| format!("${:.0}", each * requests));
        writeln!(text, "  {:<50} {dollars}", api.name)?;
    }
    writeln!(text)
}

/// APIs that are drawn: of more, the cheapest.
const DRAWN_APIS: usize = 6;
/// Points of a line of own hardware.
const POINTS: usize = 33;
/// How far below the most that it carries the picture begins: a thousandth.
const LEAST_SHARE: f64 = 1e-3;

/// Dollars a thousand requests over the load: own hardware falls with it, an API does not.
fn break_even(shown: &Shown) -> Option<LineChart> {
    let [low, high] = shown.own[..] else { return None };
    let most = low.requests_a_second * 3600.0;
    let own = |own: Own| {
        let point = |place: usize| {
            let requests = most * LEAST_SHARE.powf(1.0 - place as f64 / (POINTS - 1) as f64);
            Point { x: requests, y: Some(own.dollars_hour / requests * 1e3), ..Point::default() }
        };
        (0..POINTS).map(point).collect()
    };
    let is_range = low != high;
    let name = if is_range { "own, lowest price" } else { "own" };
    let mut series = vec![Series { name: name.to_owned(), points: own(low), style: SeriesStyle::Fit }];
    if is_range {
        series.push(Series { name: "own, highest price".to_owned(), points: own(high), style: SeriesStyle::Fit });
    }
    let mut apis: Vec<(&Api, f64)> =
        shown.apis.iter().filter_map(|api| Some((api, shown.request(api)? * 1e3))).collect();
    apis.sort_by(|a, b| a.1.total_cmp(&b.1));
    series.extend(apis.into_iter().take(DRAWN_APIS).map(|(api, dollars)| Series {
        name: api.name.clone(),
        points: [most * LEAST_SHARE, most].map(|x| Point { x, y: Some(dollars), ..Point::default() }).to_vec(),
        style: SeriesStyle::Reference,
    }));
    Some(LineChart {
        title: "Dollars a thousand requests, by load".to_owned(),
        description:
            "Own hardware is the cheaper where its line lies below that of an API; it ends at the most that it carries."
                .to_owned(),
        x: Axis::log("Requests an hour", ""),
        y: Axis::log("A thousand requests", "USD"),
        series,
        ..LineChart::default()
    })
}

/// A page with the break-even.
pub fn html(shown: &Shown) -> String {
    let mut blocks: Vec<Block> = break_even(shown).iter().map(Block::chart).collect();
    blocks.push(Block::Code(text(shown)));
    let device = &shown.serving.question.device.name;
    let page = Page {
        title: format!("Cost of {} on {} x {device}", shown.asked_model, shown.serving.question.devices),
        subtitle: "computed in virtual time with fitted step times, not measured".to_owned(),
        sections: vec![Section { title: "Own hardware against APIs".to_owned(), intro: String::new(), blocks }],
        footer: format!("tokrate {}", env!("CARGO_PKG_VERSION")),
        ..Page::default()
    };
    page.html()
}

/// The result as JSON.
pub fn json(shown: &Shown) -> Json {
    let own = |own: &Own| {
        object!({
            "dollars_hour": own.dollars_hour,
            "dollars_per_mtok": own.dollars_mtok(),
            "dollars_per_request": own.dollars_request(),
            "month": shown.month.map(|(requests, peak)| {
                let (sets, dollars) = own.month(requests, peak);
                object!({ "sets": sets, "dollars": dollars })
            }),
        })
    };
    let api = |api: &Api| {
        let dollars = shown.request(api);
        let even = |own: &Own| dollars.and_then(|dollars| own.breaks_even_at(dollars));
        object!({
            "name": api.name,
            "input": api.price.input,
            "output": api.price.output,
            "price_checked": api.source,
            "dollars_per_request": dollars,
            "keeps_objectives_in_flight": api.within,
            "month_dollars": shown.month.and_then(|(requests, _)| Some(dollars? * requests)),
            "own_cheaper_from_requests_an_hour": shown.own.iter().map(even).collect::<Vec<_>>(),
        })
    };
    object!({
        "computed": true,
        "model": shown.asked_model,
        "hardware": shown.serving.question.device.name,
        "n_gpus": shown.serving.question.devices,
        "objectives": shown.slos,
        "requests_s": { "value": shown.own.first().map(|own| own.requests_a_second), "low": shown.interval.0, "high": shown.interval.1 },
        "own": shown.own.iter().map(own).collect::<Vec<_>>(),
        "apis": shown.apis.iter().map(api).collect::<Vec<_>>(),
        "assumed": shown.serving.assumed,
    })
}
