//! Fleets as a table, as a page and as JSON.
//!
//! Invariant: what a fleet carries stands with its interval, and what it costs as the range of the prices.

use super::capacity::{seconds, whole_or_short};
use super::cost::keeps;
use super::short;
use serde_json::{Value as Json, json as object};
use std::fmt::Write;
use tokrate_charts::terminal::bar;
use tokrate_charts::{Axis, Bar, BarChart, Block, Column, Page, Section, Table};
use tokrate_estimate::Value;
use tokrate_estimate::capacity::Search;
use tokrate_estimate::fleet::{Demand, Fleet, Kind, Mixed};
use tokrate_estimate::traffic::Lengths;

/// An API beside own devices.
pub struct ApiShown {
    /// Its name.
    pub name: String,
    /// Dollars a request.
    pub dollars_request: f64,
    /// Most in flight of what was measured that keep the objectives; `None` where it was not measured.
    pub within: Option<Value>,
    /// Dollars a month of the API alone, and the cheapest own copies beside it.
    pub month: Option<(f64, Mixed)>,
}

/// What was found.
pub struct Shown {
    /// Model, as it was asked for.
    pub model: String,
    /// What one copy of each kind carries.
    pub kinds: Vec<Kind>,
    /// Fleets, the cheapest first.
    pub fleets: Vec<Fleet>,
    /// APIs.
    pub apis: Vec<ApiShown>,
    /// What cannot be, in words.
    pub refused: Vec<String>,
    /// What is to be carried.
    pub demand: Demand,
    /// Users or requests a second.
    pub kind: Search,
    /// What requests look like.
    pub lengths: Lengths,
    /// The objectives as they were typed.
    pub slos: Vec<String>,
    /// Requests a month, where that is known.
    pub requests: Option<f64>,
}

/// Fleets that are shown.
const SHOWN: usize = 6;

impl Shown {
    fn unit(&self) -> &'static str {
        if matches!(self.kind, Search::Users(_)) { "users" } else { "requests/s" }
    }

    fn name(&self, fleet: &Fleet) -> String {
        let part = |(at, count): &(usize, u32)| {
            let kind = &self.kinds[*at];
            let copies = if *count == 1 { "copy" } else { "copies" };
            format!("{count} {copies} of {} x {} {}", kind.devices, kind.device, kind.precision)
        };
        fleet.copies.iter().map(part).collect::<Vec<_>>().join(" + ")
    }

    /// Its place in the list and its devices, as short as beside a bar.
    fn label(&self, place: usize, fleet: &Fleet) -> String {
        let part = |(at, count): &(usize, u32)| {
            let kind = &self.kinds[*at];
            let device = kind.device.split('-').next().unwrap_or_default();
            format!("{} {device}", count * kind.devices)
        };
        format!("{}. {}", place + 1, fleet.copies.iter().map(part).collect::<Vec<_>>().join(" + "))
    }

    /// Carried beyond the demand, as a share of it.
    fn headroom(&self, fleet: &Fleet) -> f64 {
        fleet.carries / self.demand.busiest - 1.0
    }
}

/// The fleets for people.
pub fn text(shown: &Shown) -> String {
    let mut text = "Computed in virtual time with fitted step times, not measured. Prices: ranges of on-demand rents from memory, not quotes; NAME=DOLLARS sets yours.\n\n".to_owned();
    // Writing to a String cannot fail.
    let _ = head(&mut text, shown);
    let _ = table(&mut text, shown);
    let _ = apis(&mut text, shown);
    for reason in &shown.refused {
        let _ = writeln!(text, "left out: {reason}");
    }
    if let Some(kind) = shown.fleets.first().map(|fleet| &shown.kinds[fleet.copies[0].0]) {
        let Kind { device, devices, precision, .. } = kind;
        let _ = writeln!(
            text,
            "\nThe curve of one copy: tokrate estimate capacity --model {} --hardware {device} --gpus {devices} --precision {precision}",
            shown.model
        );
    }
    text
}

fn head(text: &mut String, shown: &Shown) -> std::fmt::Result {
    let Demand { busiest, peak, spare, cautious } = shown.demand;
    let who = match shown.kind {
        Search::Users(0.0) => "users at the busiest time, who ask again at once".to_owned(),
        Search::Users(think) => format!("users at the busiest time, who ask again {} after an answer", seconds(think)),
        Search::Rate => format!("requests/s in the busiest hour, {peak} times the mean"),
    };
    writeln!(text, "{} for {} {who}", shown.model, whole_or_short(busiest))?;
    writeln!(
        text,
        "prompts of {} tokens, answers of {}; objectives: {}",
        shown.lengths.isl,
        shown.lengths.osl,
        shown.slos.join("; ")
    )?;
    let words = [(spare, "one copy may be lost"), (cautious, "copies count with the low end of their interval")];
    let words: Vec<&str> = words.into_iter().filter(|(is, _)| *is).map(|(_, words)| words).collect();
    if !words.is_empty() {
        writeln!(text, "{}", words.join("; "))?;
    }
    writeln!(text)
}

fn month((low, high): (f64, f64)) -> String {
    if low == high { format!("${low:.0}") } else { format!("${low:.0} to ${high:.0}") }
}

fn table(text: &mut String, shown: &Shown) -> std::fmt::Result {
    if shown.fleets.is_empty() {
        return writeln!(
            text,
            "Nothing carries it within the objectives. `estimate capacity` shows for one kind which objective is missed and the nearest that is kept.\n"
        );
    }
    let unit = shown.unit();
    let most = shown.fleets.iter().take(SHOWN).map(|fleet| fleet.month().1).fold(0.0, f64::max);
    for (place, fleet) in shown.fleets.iter().take(SHOWN).enumerate() {
        let (low, high) = fleet.month();
        writeln!(text, "{}. {}", place + 1, shown.name(fleet))?;
        writeln!(text, "   {} {} a month", bar((low + high) / 2.0 / most, 20, true), month((low, high)))?;
        let lost = fleet.one_lost / shown.demand.busiest;
        writeln!(
            text,
            "   carries {} {unit} (80 %: {} to {}), {:.0} % to spare; with one copy lost {}",
            whole_or_short(fleet.carries),
            whole_or_short(fleet.range.0),
            whole_or_short(fleet.range.1),
            shown.headroom(fleet) * 100.0,
            match lost {
                lost if lost >= 1.0 => "still all of it".to_owned(),
                lost if lost <= 0.0 => "nothing".to_owned(),
                lost => format!("{:.0} % of it", lost * 100.0),
            }
        )?;
    }
    writeln!(text, "\nEach kind by itself:")?;
    let each_head = if unit == "users" { "$/month a user" } else { "$/month a req/s" };
    writeln!(text, "{:<40} {:>10} {:<18} {:>16} {:>14}", "one copy", unit, "(80 %)", "$/hour", each_head)?;
    let mut kinds: Vec<&Kind> = shown.kinds.iter().collect();
    let each = |kind: &Kind| (kind.dollars_hour.0 + kind.dollars_hour.1) / 2.0 / kind.carries;
    kinds.sort_by(|a, b| each(a).total_cmp(&each(b)));
    for kind in kinds {
        writeln!(
            text,
            "{:<40} {:>10} {:<18} {:>16} {:>14}{}",
            format!("{} x {} {}", kind.devices, kind.device, kind.precision),
            whole_or_short(kind.carries),
            format!("({} to {})", whole_or_short(kind.range.0), whole_or_short(kind.range.1)),
            match kind.dollars_hour {
                (low, high) if low == high => short(low),
                (low, high) => format!("{} to {}", short(low), short(high)),
            },
            format!("${}", short(each(kind) * tokrate_estimate::cost::HOURS_A_MONTH)),
            if kind.extrapolated { "  extrapolated" } else { "" },
        )?;
    }
    writeln!(text)
}

fn apis(text: &mut String, shown: &Shown) -> std::fmt::Result {
    if shown.apis.is_empty() {
        return Ok(());
    }
    if let Some(requests) = shown.requests {
        writeln!(
            text,
            "An API for {} requests a month (the mean load; a load that falls evenly from {} times the mean):",
            short(requests),
            shown.demand.peak
        )?;
    }
    for api in &shown.apis {
        let keeps = match api.within {
            None => "whether it keeps the objectives is not known: measure it, and give --api-curve".to_owned(),
            Some(within) => keeps(within),
        };
        let Some((alone, mixed)) = &api.month else {
            writeln!(text, "  {}: ${} a request; {keeps}", api.name, short(api.dollars_request))?;
            continue;
        };
        writeln!(text, "  {} alone: ${alone:.0} a month; {keeps}", api.name)?;
        if let Some(kind) = mixed.kind.map(|at| &shown.kinds[at]).filter(|_| mixed.share > 0.0) {
            writeln!(
                text,
                "  {} for {:.1} % of the requests, at the peaks, beside {} of {} x {} {}: {} a month",
                api.name,
                mixed.share * 100.0,
                mixed.copies,
                kind.devices,
                kind.device,
                kind.precision,
                month(mixed.month)
            )?;
        } else if mixed.kind.is_some() {
            writeln!(text, "  {} for peaks only: own devices for all of it are cheaper", api.name)?;
        } else {
            writeln!(text, "  {}: no own device beside it is cheaper", api.name)?;
        }
    }
    writeln!(text)
}

/// A page with what the fleets cost and carry.
pub fn html(shown: &Shown) -> String {
    let fleets = || shown.fleets.iter().take(SHOWN);
    let bars = fleets().enumerate().map(|(place, fleet)| {
        let (low, high) = fleet.month();
        Bar {
            label: shown.label(place, fleet),
            value: Some((low + high) / 2.0),
            low: Some(low),
            high: Some(high),
            note: String::new(),
        }
    });
    let apis = shown.apis.iter().filter_map(|api| {
        Some(Bar { label: format!("{} alone", api.name), value: Some(api.month.as_ref()?.0), ..Bar::default() })
    });
    let costs = BarChart {
        title: "Dollars a month".to_owned(),
        description: "The middle of the range of prices, and its ends. Each fleet carries the demand.".to_owned(),
        axis: Axis::linear("A month", "USD"),
        bars: bars.chain(apis).collect(),
    };
    let carried = BarChart {
        title: format!("Carried, {}", shown.unit()),
        description: format!("With the 80 % interval; {} are to be carried.", whole_or_short(shown.demand.busiest)),
        axis: Axis::linear("Carried", shown.unit()),
        bars: fleets()
            .enumerate()
            .map(|(place, fleet)| Bar {
                label: shown.label(place, fleet),
                value: Some(fleet.carries),
                low: Some(fleet.range.0),
                high: Some(fleet.range.1),
                note: String::new(),
            })
            .collect(),
    };
    let row = |fleet: &Fleet| {
        vec![
            shown.name(fleet),
            month(fleet.month()),
            format!("{:.0} %", shown.headroom(fleet) * 100.0),
            format!("{:.0} %", fleet.one_lost / shown.demand.busiest * 100.0),
        ]
    };
    let losses = Table {
        caption: "Headroom, and what is carried when one copy is lost".to_owned(),
        columns: vec![
            Column::words("fleet"),
            Column::numbers("a month", ""),
            Column::numbers("to spare", ""),
            Column::numbers("one copy lost", "of the demand"),
        ],
        rows: fleets().map(row).collect(),
        notes: Vec::new(),
    };
    let mut blocks = Vec::new();
    if !shown.fleets.is_empty() {
        blocks.extend([Block::chart(&costs), Block::chart(&carried), Block::Table(losses)]);
    }
    blocks.push(Block::Code(text(shown)));
    let page = Page {
        title: format!("Fleets for {}", shown.model),
        subtitle: "computed in virtual time with fitted step times, not measured".to_owned(),
        sections: vec![Section { title: "The cheapest fleets".to_owned(), intro: String::new(), blocks }],
        footer: format!("tokrate {}", env!("CARGO_PKG_VERSION")),
        ..Page::default()
    };
    page.html()
}

/// The fleets as JSON.
pub fn json(shown: &Shown) -> Json {
    let kind = |kind: &Kind| {
        object!({
            "hardware": kind.device, "n_gpus": kind.devices, "weight_precision": kind.precision,
            "carries": { "value": kind.carries, "low": kind.range.0, "high": kind.range.1 },
            "requests_s": kind.requests_a_second, "extrapolated": kind.extrapolated, "dollars_hour": kind.dollars_hour,
        })
    };
    let fleet = |fleet: &Fleet| {
        object!({
            "copies": fleet.copies.iter().map(|(at, count)| object!({ "count": count, "of": kind(&shown.kinds[*at]) })).collect::<Vec<_>>(),
            "carries": { "value": fleet.carries, "low": fleet.range.0, "high": fleet.range.1 },
            "headroom": shown.headroom(fleet),
            "one_copy_lost": fleet.one_lost,
            "dollars_hour": fleet.dollars_hour,
            "dollars_month": fleet.month(),
        })
    };
    let api = |api: &ApiShown| {
        object!({
            "name": api.name,
            "dollars_request": api.dollars_request,
            "keeps_objectives_up_to": api.within,
            "dollars_month": api.month.as_ref().map(|(alone, _)| alone),
            "beside_own": api.month.as_ref().filter(|(_, mixed)| mixed.kind.is_some()).map(|(_, mixed)| object!({
                "of": mixed.kind.map(|at| kind(&shown.kinds[at])),
                "copies": mixed.copies,
                "share_of_requests": mixed.share,
                "dollars_month": mixed.month,
            })),
        })
    };
    object!({
        "computed": true,
        "model": shown.model,
        "load": shown.unit(),
        "busiest": shown.demand.busiest,
        "peak": shown.demand.peak,
        "objectives": shown.slos,
        "requests_month": shown.requests,
        "fleets": shown.fleets.iter().map(fleet).collect::<Vec<_>>(),
        "kinds": shown.kinds.iter().map(kind).collect::<Vec<_>>(),
        "apis": shown.apis.iter().map(api).collect::<Vec<_>>(),
        "left_out": shown.refused,
    })
}
