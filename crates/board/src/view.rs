//! What a ranked page shows: one workload, place, load, source and window; all models or one; an order.
//!
//! Invariant: [`View::query`] and [`Board::view`] are inverse to each other, and a value that names nothing is an error, never a
//! silent default.

use crate::board::{Board, Entry};
use crate::data::{Metric, Source};
use crate::window::{Load, Summary, Window};
use std::collections::BTreeMap;

/// The order of rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Sort {
    By(Metric),
    Price,
    Name,
}

impl Sort {
    pub(crate) const ALL: [Sort; 6] = [
        Sort::By(Metric::OutputSpeed),
        Sort::By(Metric::Ttft),
        Sort::By(Metric::E2e),
        Sort::By(Metric::Errors),
        Sort::Price,
        Sort::Name,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Sort::By(Metric::OutputSpeed) => "speed",
            Sort::By(Metric::Ttft) => "ttft",
            Sort::By(Metric::E2e) => "total",
            Sort::By(Metric::GapP99) => "gaps",
            Sort::By(Metric::Errors) => "errors",
            Sort::Price => "price",
            Sort::Name => "name",
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Sort::By(metric) => metric.words(),
            Sort::Price => "price",
            Sort::Name => "name",
        }
    }

    /// The metric whose ranks are shown.
    pub(crate) fn metric(self) -> Metric {
        match self {
            Sort::By(metric) => metric,
            Sort::Price | Sort::Name => Metric::OutputSpeed,
        }
    }
}

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct View {
    pub(crate) model: Option<usize>,
    pub(crate) workload: usize,
    pub(crate) place: usize,
    pub(crate) load: Load,
    pub(crate) source: Source,
    pub(crate) window: Window,
    pub(crate) sort: Sort,
}

/// One row of a ranked page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) summary: &'a Summary,
}

/// The parameters of an address, decoded; a later one of the same name wins.
pub(crate) fn parameters(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(k, v)| (decoded(k), decoded(v))).collect()
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 2;
            }
            None => out.push(if bytes[at] == b'+' { b' ' } else { bytes[at] }),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

impl Board {
    /// The view that is shown unless another is asked for: what there is most of. `None` of an empty board.
    pub(crate) fn default_view(&self) -> Option<View> {
        self.usual_view(self.usual.source?)
    }

    fn usual_view(&self, source: Source) -> Option<View> {
        let workload = *self.usual.workloads.get(&source)?;
        let place = self.usual_place(source, workload)?;
        let load = self.usual_load(source, workload, place)?;
        let (window, sort) = (Window::ThreeDays, Sort::By(Metric::OutputSpeed));
        Some(View { model: None, workload, place, load, source, window, sort })
    }

    fn usual_place(&self, source: Source, workload: usize) -> Option<usize> {
        self.usual.places.get(&(source, workload)).copied()
    }

    fn usual_load(&self, source: Source, workload: usize, place: usize) -> Option<Load> {
        self.usual.loads.get(&(source, workload, place)).copied()
    }

    /// The view that parameters ask for. What they leave open is what there is most of under what they name.
    ///
    /// # Errors
    /// A parameter whose value names nothing here, as `name=value`.
    pub(crate) fn view(&self, parameters: &BTreeMap<String, String>) -> Result<Option<View>, String> {
        let Some(usual) = self.default_view() else { return Ok(None) };
        let value = |name: &str| parameters.get(name).filter(|value| !value.is_empty());
        let unknown = |name: &str| format!("{name}={}", value(name).map_or("", String::as_str));
        let found = |name: &'static str, look: &dyn Fn(&str) -> Option<usize>| match value(name) {
            None => Ok(None),
            Some(text) => look(text).map(Some).ok_or_else(|| unknown(name)),
        };
        let source = found("source", &|text| Source::ALL.iter().position(|source| source.name() == text))?;
        let source = source.map_or(usual.source, |index| Source::ALL[index]);
        let usual = self.usual_view(source).ok_or_else(|| unknown("source"))?;
        let workload = found("workload", &|text| self.workloads.by_slug(text))?.unwrap_or(usual.workload);
        let place = found("place", &|text| self.places.by_slug(text))?;
        let place = place.or_else(|| self.usual_place(source, workload)).unwrap_or(usual.place);
        let load = found("load", &|text| Load::ALL.iter().position(|load| load.name() == text))?;
        let load = load.map(|index| Load::ALL[index]);
        let window = found("window", &|text| Window::ALL.iter().position(|window| window.name() == text))?;
        let sort = found("sort", &|text| Sort::ALL.iter().position(|sort| sort.name() == text))?;
        Ok(Some(View {
            model: found("model", &|text| self.models.by_slug(text))?,
            workload,
            place,
            load: load.or_else(|| self.usual_load(source, workload, place)).unwrap_or(usual.load),
            source,
            window: window.map_or(usual.window, |index| Window::ALL[index]),
            sort: sort.map_or(usual.sort, |index| Sort::ALL[index]),
        }))
    }

    /// The parameters that ask for a view, as name and value; none for the usual one.
    pub(crate) fn query(&self, view: &View) -> Vec<(&'static str, String)> {
        let Some(usual) = self.default_view() else { return Vec::new() };
        let of_source = self.usual_view(view.source).unwrap_or(usual);
        let mut pairs = Vec::new();
        let mut push = |name, differs: bool, value: &str| {
            if differs {
                pairs.push((name, value.to_owned()));
            }
        };
        if let Some(model) = view.model {
            push("model", true, &self.models[model].slug);
        }
        push("source", view.source != usual.source, view.source.name());
        push("workload", view.workload != of_source.workload, &self.workloads[view.workload].slug);
        let place = self.usual_place(view.source, view.workload);
        push("place", Some(view.place) != place, &self.places[view.place].slug);
        let load = self.usual_load(view.source, view.workload, view.place);
        push("load", Some(view.load) != load, view.load.name());
        push("window", view.window != usual.window, view.window.name());
        push("sort", view.sort != usual.sort, view.sort.name());
        pairs
    }

    /// The rows of a view, model by model, each in the view's order.
    pub(crate) fn rows(&self, view: &View) -> Vec<Row<'_>> {
        let mut rows: Vec<Row<'_>> = self
            .entries
            .iter()
            .filter(|entry| view.model.is_none_or(|model| entry.model == model))
            .filter(|entry| (entry.source, entry.workload, entry.place) == (view.source, view.workload, view.place))
            .filter_map(|entry| Some(Row { entry, summary: entry.summary(view.load, view.window)? }))
            .filter(|row| !row.summary.is_empty())
            .collect();
        let key = |row: &Row<'_>| match view.sort {
            Sort::By(Metric::Errors) => row.summary.errors.interval.map(|(_, high)| high),
            Sort::By(metric) => {
                let cautious = row.summary.median(metric).worse_end(metric);
                cautious.map(|value| if metric.more_is_better() { -value } else { value })
            }
            Sort::Price => self.blended_price(row.entry.endpoint),
            Sort::Name => Some(0.0),
        };
        rows.sort_by(|a, b| {
            let by_key = key(a).unwrap_or(f64::INFINITY).total_cmp(&key(b).unwrap_or(f64::INFINITY));
            let group = |row: &Row<'_>| (row.entry.model, row.entry.fingerprint);
            group(a).cmp(&group(b)).then(by_key).then(a.entry.endpoint.cmp(&b.entry.endpoint))
        });
        rows
    }

    /// The rows of a view in the groups that are ranked together.
    pub(crate) fn groups(&self, view: &View) -> Vec<Group<'_>> {
        let rows = self.rows(view);
        let same =
            |a: &Row<'_>, b: &Row<'_>| (a.entry.model, a.entry.fingerprint) == (b.entry.model, b.entry.fingerprint);
        rows.chunk_by(same).map(|rows| Group { rows: rows.to_vec() }).collect()
    }

    /// The views that differ from one in a single parameter.
    pub(crate) fn neighbours(&self, view: &View) -> Vec<View> {
        let choices = self.choices(view);
        let mut all: Vec<View> = Vec::new();
        all.extend(choices.models.iter().map(|model| View { model: Some(*model), ..*view }));
        all.push(View { model: None, ..*view });
        all.extend(choices.workloads.iter().filter_map(|workload| self.with_workload(view, *workload)));
        all.extend(choices.places.iter().filter_map(|place| self.with_place(view, *place)));
        all.extend(choices.loads.iter().map(|load| View { load: *load, ..*view }));
        all.extend(choices.sources.iter().filter_map(|source| self.with_source(view, *source)));
        all.extend(Window::ALL.map(|window| View { window, ..*view }));
        all.extend(Sort::ALL.map(|sort| View { sort, ..*view }));
        all
    }

    /// The view with another workload, and what that has of place and load.
    pub(crate) fn with_workload(&self, view: &View, workload: usize) -> Option<View> {
        let has_place = |place: usize| self.usual.loads.contains_key(&(view.source, workload, place));
        let place = if has_place(view.place) { Some(view.place) } else { self.usual_place(view.source, workload) };
        self.with_place(&View { workload, ..*view }, place?)
    }

    /// The view with another place, and the load that is usual there.
    pub(crate) fn with_place(&self, view: &View, place: usize) -> Option<View> {
        Some(View { place, load: self.usual_load(view.source, view.workload, place)?, ..*view })
    }

    /// The view with another source, and what that has of workload, place and load.
    pub(crate) fn with_source(&self, view: &View, source: Source) -> Option<View> {
        let usual = self.usual_view(source)?;
        Some(View { model: view.model, window: view.window, sort: view.sort, ..usual })
    }

    /// The places, workloads, loads and sources under which there is something, given the rest of a view.
    pub(crate) fn choices(&self, view: &View) -> Choices {
        let mut choices = Choices::default();
        for entry in &self.entries {
            push(&mut choices.sources, entry.source);
            if entry.source != view.source {
                continue;
            }
            push(&mut choices.workloads, entry.workload);
            if entry.workload != view.workload {
                continue;
            }
            push(&mut choices.places, entry.place);
            if entry.place == view.place {
                push(&mut choices.models, entry.model);
                entry.loads.keys().for_each(|load| push(&mut choices.loads, *load));
            }
        }
        choices
    }
}

/// Rows that are ranked together: of one model under the same conditions.
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    /// At least one.
    pub(crate) rows: Vec<Row<'a>>,
}

impl<'a> Group<'a> {
    pub(crate) fn model(&self) -> usize {
        self.rows[0].entry.model
    }

    pub(crate) fn fingerprint(&self) -> usize {
        self.rows[0].entry.fingerprint
    }

    /// Those that may be in the first place by a metric among those that do not fail for sure, the safest first.
    pub(crate) fn best(&self, view: &View, metric: Metric) -> Vec<Row<'a>> {
        let first = |row: &&Row<'_>| {
            row.entry.reliable_ranks(view.load, view.window, metric).is_some_and(|ranks| ranks.best == 1)
        };
        let cautious = |row: &Row<'_>| match metric {
            Metric::Errors => row.summary.errors.interval.map(|(_, high)| high),
            metric => row.summary.median(metric).worse_end(metric),
        };
        let mut best: Vec<Row<'a>> = self.rows.iter().filter(first).copied().collect();
        best.sort_by(|a, b| {
            let rising = cautious(a).unwrap_or(f64::INFINITY).total_cmp(&cautious(b).unwrap_or(f64::INFINITY));
            if metric.more_is_better() { rising.reverse() } else { rising }
        });
        best
    }

    /// How many are ranked.
    pub(crate) fn ranked(&self, view: &View, metric: Metric) -> usize {
        self.rows.iter().filter(|row| row.entry.ranks(view.load, view.window, metric).is_some()).count()
    }
}

/// See [`Board::choices`].
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Choices {
    pub(crate) models: Vec<usize>,
    pub(crate) workloads: Vec<usize>,
    pub(crate) places: Vec<usize>,
    pub(crate) loads: Vec<Load>,
    pub(crate) sources: Vec<Source>,
}

fn push<T: Ord>(all: &mut Vec<T>, item: T) {
    if let Err(place) = all.binary_search(&item) {
        all.insert(place, item);
    }
}
