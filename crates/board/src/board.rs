//! The data, worked out once: every series summarised at every load in every window, and ranked within its group.
//!
//! A group is what may be ranked together: one model, workload, place, load, source and fingerprint of conditions. Invariant:
//! no number holds requests of two groups.

use crate::data::{BoardData, Change, ChangeKind, EndpointPrice, Metric, Point, Series, Source};
use crate::names::Names;
use crate::rank::{Ranks, ranks};
use crate::window::{Load, Summary, Window, slots};
use std::collections::BTreeMap;

pub(crate) const DAY_MS: i64 = 86_400_000;
/// Days of a course of daily medians.
pub(crate) const COURSE_DAYS: usize = 14;
/// Parts of input and output in a blended price: three to one, as Artificial Analysis has it.
pub(crate) const BLEND: (f64, f64) = (3.0, 1.0);

/// A board, ready to be shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Board {
    pub(crate) data: BoardData,
    pub(crate) endpoints: Names,
    pub(crate) models: Names,
    pub(crate) providers: Names,
    pub(crate) workloads: Names,
    pub(crate) places: Names,
    pub(crate) fingerprints: Names,
    pub(crate) entries: Vec<Entry>,
    /// Changes, the newest first.
    pub(crate) changes: Vec<Change>,
    prices: BTreeMap<String, usize>,
    canaries: BTreeMap<String, usize>,
    /// Indices of the changes of each endpoint, the newest first.
    changes_by_endpoint: BTreeMap<String, Vec<usize>>,
    pub(crate) usual: Usual,
}

/// Answers to tasks that have one right answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Tasks<'b> {
    pub(crate) asked: u64,
    pub(crate) right: u64,
    /// When the latest wrong one was, and what was wrong with it.
    pub(crate) latest_wrong: Option<(i64, &'b str)>,
}

/// What there is most of: the view that is shown unless another is asked for.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Usual {
    pub(crate) source: Option<Source>,
    pub(crate) workloads: BTreeMap<Source, usize>,
    pub(crate) places: BTreeMap<(Source, usize), usize>,
    pub(crate) loads: BTreeMap<(Source, usize, usize), Load>,
}

impl Usual {
    fn of(entries: &[Entry]) -> Usual {
        let size = |entry: &Entry| entry.loads.values().sum::<usize>();
        Usual {
            source: most(entries.iter().map(|entry| ((), entry.source, size(entry)))).remove(&()),
            workloads: most(entries.iter().map(|entry| (entry.source, entry.workload, size(entry)))),
            places: most(entries.iter().map(|entry| ((entry.source, entry.workload), entry.place, size(entry)))),
            loads: most(entries.iter().flat_map(|entry| {
                let key = (entry.source, entry.workload, entry.place);
                entry.loads.iter().map(move |(load, count)| (key, *load, *count))
            })),
        }
    }
}

/// For each key the choice with the largest sum; of several the smallest.
fn most<K: Ord + Copy, C: Ord + Copy>(counted: impl Iterator<Item = (K, C, usize)>) -> BTreeMap<K, C> {
    let mut sums: BTreeMap<(K, C), usize> = BTreeMap::new();
    counted.for_each(|(key, choice, count)| *sums.entry((key, choice)).or_default() += count);
    let mut best: BTreeMap<K, (usize, C)> = BTreeMap::new();
    for ((key, choice), sum) in sums {
        let first = best.entry(key).or_insert((sum, choice));
        if sum > first.0 {
            *first = (sum, choice);
        }
    }
    best.into_iter().map(|(key, (_, choice))| (key, choice)).collect()
}

/// A series with what was worked out of it. Names are indices of the board's.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    /// Index of the series in the data.
    pub(crate) series: usize,
    pub(crate) source: Source,
    pub(crate) endpoint: usize,
    pub(crate) provider: usize,
    pub(crate) model: usize,
    pub(crate) workload: usize,
    pub(crate) place: usize,
    pub(crate) fingerprint: usize,
    /// Points at each load, all windows.
    pub(crate) loads: BTreeMap<Load, usize>,
    summaries: BTreeMap<(Load, Window), Summary>,
    ranks: BTreeMap<(Load, Window, Metric), Ranks>,
    /// Ranks among those that answer; kept where some fail, as they are the same elsewhere.
    reliable_ranks: BTreeMap<(Load, Window, Metric), Ranks>,
    /// Daily medians of the output speed of the last days, the oldest first; the last day ends now.
    courses: BTreeMap<Load, Vec<Option<f32>>>,
}

impl Entry {
    /// Daily medians of the output speed of the last [`COURSE_DAYS`], the oldest first; `None` for a day with fewer than three.
    pub(crate) fn course(&self, load: Load) -> &[Option<f32>] {
        self.courses.get(&load).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn summary(&self, load: Load, window: Window) -> Option<&Summary> {
        self.summaries.get(&(load, window))
    }

    pub(crate) fn ranks(&self, load: Load, window: Window, metric: Metric) -> Option<Ranks> {
        self.ranks.get(&(load, window, metric)).copied()
    }

    /// The ranks among those of a group that do not fail for sure; `None` for one that does.
    pub(crate) fn reliable_ranks(&self, load: Load, window: Window, metric: Metric) -> Option<Ranks> {
        let all = || self.ranks(load, window, metric);
        if self.summary(load, window)?.fails() {
            return None;
        }
        self.reliable_ranks.get(&(load, window, metric)).copied().or_else(all)
    }

    /// The load at which there are most points.
    pub(crate) fn usual_load(&self) -> Load {
        self.loads
            .iter()
            .max_by_key(|(load, count)| (**count, std::cmp::Reverse(**load)))
            .map_or(Load::One, |(l, _)| *l)
    }
}

impl Board {
    /// Works out all of it.
    pub fn new(mut data: BoardData) -> Board {
        let oldest = data.now_unix_ms.saturating_sub(Window::Month.millis());
        for series in &mut data.series {
            series.points.retain(|point| point.at > oldest && point.at <= data.now_unix_ms);
        }
        data.series.retain(|series| !series.points.is_empty());
        data.series = merged(std::mem::take(&mut data.series));
        let names = |name: fn(&Series) -> &str| Names::of(data.series.iter().map(name));
        let mut board = Board {
            endpoints: names(|series| &series.endpoint),
            models: names(|series| &series.model),
            providers: names(|series| &series.provider),
            workloads: names(|series| &series.workload),
            places: names(|series| &series.place),
            fingerprints: names(|series| &series.fingerprint),
            entries: Vec::new(),
            changes: data.events.clone(),
            changes_by_endpoint: BTreeMap::new(),
            usual: Usual::default(),
            canaries: data.canaries.iter().enumerate().map(|(index, of)| (of.endpoint.clone(), index)).collect(),
            prices: data.prices.iter().enumerate().map(|(index, price)| (price.endpoint.clone(), index)).collect(),
            data,
        };
        board.changes.sort_by(|a, b| order(b).cmp(&order(a)));
        board.entries = (0..board.data.series.len()).filter_map(|index| board.entry(index)).collect();
        // In the order of what is shown, so that everything below is.
        board.entries.sort_by_key(|entry| (entry.model, entry.endpoint, entry.series));
        for (index, change) in board.changes.iter().enumerate() {
            board.changes_by_endpoint.entry(change.endpoint.clone()).or_default().push(index);
        }
        board.usual = Usual::of(&board.entries);
        board.rank();
        board
    }

    fn entry(&self, index: usize) -> Option<Entry> {
        let series = &self.data.series[index];
        let mut by_load: BTreeMap<Load, Vec<Point>> = BTreeMap::new();
        for point in &series.points {
            by_load.entry(Load::of(point.in_flight)).or_default().push(point.clone());
        }
        let mut summaries = BTreeMap::new();
        for (load, points) in &by_load {
            for window in Window::ALL {
                let from = self.data.now_unix_ms - window.millis();
                let first = points.partition_point(|point| point.at <= from);
                summaries.insert((*load, window), Summary::of(&points[first..]));
            }
        }
        Some(Entry {
            series: index,
            source: series.source,
            endpoint: self.endpoints.index(&series.endpoint)?,
            provider: self.providers.index(&series.provider)?,
            model: self.models.index(&series.model)?,
            workload: self.workloads.index(&series.workload)?,
            place: self.places.index(&series.place)?,
            fingerprint: self.fingerprints.index(&series.fingerprint)?,
            loads: by_load.iter().map(|(load, points)| (*load, points.len())).collect(),
            summaries,
            ranks: BTreeMap::new(),
            reliable_ranks: BTreeMap::new(),
            courses: by_load.iter().map(|(load, points)| (*load, course(points, self.data.now_unix_ms))).collect(),
        })
    }

    fn rank(&mut self) {
        let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (index, entry) in self.entries.iter().enumerate() {
            for load in entry.loads.keys() {
                let key = (entry.source, entry.model, entry.workload, entry.place, entry.fingerprint, *load);
                groups.entry(key).or_default().push(index);
            }
        }
        for ((.., load), members) in groups {
            for window in Window::ALL {
                let fails = |index: &usize| self.entries[*index].summary(load, window).is_some_and(Summary::fails);
                let reliable: Vec<usize> = members.iter().copied().filter(|index| !fails(index)).collect();
                for metric in Metric::ALL {
                    let key = (load, window, metric);
                    for (index, ranks) in self.ranks_of(&members, key) {
                        self.entries[index].ranks.insert(key, ranks);
                    }
                    if reliable.len() < members.len() {
                        for (index, ranks) in self.ranks_of(&reliable, key) {
                            self.entries[index].reliable_ranks.insert(key, ranks);
                        }
                    }
                }
            }
        }
    }

    /// The entries of a group that are ranked, with their ranks.
    fn ranks_of(&self, members: &[usize], (load, window, metric): (Load, Window, Metric)) -> Vec<(usize, Ranks)> {
        let with_summary: Vec<(usize, &Summary)> =
            members.iter().filter_map(|index| Some((*index, self.entries[*index].summary(load, window)?))).collect();
        let summaries: Vec<&Summary> = with_summary.iter().map(|(_, summary)| *summary).collect();
        let ranked = with_summary.iter().zip(ranks(&summaries, metric));
        ranked.filter_map(|((index, _), ranks)| Some((*index, ranks?))).collect()
    }

    /// Whether an entry is of the workload, place and source that are shown first.
    pub(crate) fn is_usual(&self, entry: &Entry) -> bool {
        let workload = self.usual.workloads.get(&entry.source);
        self.usual.source == Some(entry.source)
            && workload == Some(&entry.workload)
            && self.usual.places.get(&(entry.source, entry.workload)) == Some(&entry.place)
    }

    /// The entry of an endpoint that is shown first: the usual one, else the one with the most requests.
    pub(crate) fn main_entry(&self, endpoint: usize) -> Option<&Entry> {
        let size = |entry: &Entry| entry.loads.values().sum::<usize>();
        let of_endpoint = self.entries.iter().filter(|entry| entry.endpoint == endpoint);
        of_endpoint.max_by_key(|entry| (self.is_usual(entry), size(entry), std::cmp::Reverse(entry.series)))
    }

    /// What an endpoint answered to tasks in the last 14 days; `None` where it was asked none.
    pub(crate) fn tasks(&self, endpoint: usize) -> Option<Tasks<'_>> {
        let canary = &self.data.canaries[*self.canaries.get(&self.endpoints[endpoint].full)?];
        let from = self.data.now_unix_ms - Window::TwoWeeks.millis();
        let is_shown = |at: i64| at > from && at <= self.data.now_unix_ms;
        let answers = || canary.answers.iter().filter(|(at, _)| is_shown(*at));
        let (asked, right) = (answers().count() as u64, answers().filter(|(_, right)| *right).count() as u64);
        let latest_wrong = canary.latest_wrong.as_ref().filter(|(at, _)| is_shown(*at));
        (asked > 0).then(|| Tasks { asked, right, latest_wrong: latest_wrong.map(|(at, why)| (*at, why.as_str())) })
    }

    pub(crate) fn points(&self, entry: &Entry) -> &[Point] {
        &self.data.series[entry.series].points
    }

    pub(crate) fn price(&self, endpoint: usize) -> Option<&EndpointPrice> {
        self.prices.get(&self.endpoints[endpoint].full).map(|index| &self.data.prices[*index])
    }

    /// Price of a million tokens, three of input to one of output (USD).
    pub(crate) fn blended_price(&self, endpoint: usize) -> Option<f64> {
        let price = self.price(endpoint)?;
        let (input, output) = BLEND;
        let blended = (price.input_usd_per_million * input + price.output_usd_per_million * output) / (input + output);
        (blended.is_finite() && blended >= 0.0).then_some(blended)
    }

    /// The changes of an entry, the newest first.
    pub(crate) fn changes_of<'a>(&'a self, entry: &'a Entry) -> impl Iterator<Item = &'a Change> {
        let series = &self.data.series[entry.series];
        let of_endpoint = self.changes_by_endpoint.get(&series.endpoint).into_iter().flatten();
        of_endpoint.map(|index| &self.changes[*index]).filter(move |change| {
            (change.workload.is_empty() || change.workload == series.workload)
                && (change.place.is_empty() || change.place == series.place)
        })
    }

    /// Whether a change happened, or was found, in the last seven days.
    pub(crate) fn is_of_this_week(&self, change: &Change) -> bool {
        change.at.max(change.since) > self.data.now_unix_ms - 7 * DAY_MS
    }

    /// The change of this week that matters most to who chooses: a regression that lasts, else the newest.
    pub(crate) fn main_change<'a>(&'a self, entry: &'a Entry) -> Option<&'a Change> {
        let shown = |change: &&Change| {
            self.is_of_this_week(change) && !matches!(change.kind, ChangeKind::Suspect | ChangeKind::Quarantine)
        };
        let lasts = |change: &&Change| change.kind == ChangeKind::Regression && change.until.is_none();
        let mut week = self.changes_of(entry).filter(shown);
        let newest = week.next();
        newest.filter(lasts).or_else(|| week.find(lasts)).or(newest)
    }
}

/// Newest last, and in one order whatever order they came in.
fn order(change: &Change) -> (i64, i64, ChangeKind, [&str; 4]) {
    let Change { at, since, kind, endpoint, workload, place, metric, .. } = change;
    (*at, *since, *kind, [endpoint, workload, place, metric])
}

/// The series in one order whatever order they came in, those of one key put together, their points rising in time.
fn merged(mut all: Vec<Series>) -> Vec<Series> {
    fn key(series: &Series) -> (Source, [&str; 6]) {
        let Series { endpoint, provider, model, workload, place, fingerprint, .. } = series;
        (series.source, [endpoint, workload, place, fingerprint, provider, model])
    }
    all.sort_by(|a, b| key(a).cmp(&key(b)));
    let mut out: Vec<Series> = Vec::with_capacity(all.len());
    for series in all {
        match out.last_mut().filter(|last| key(last) == key(&series)) {
            Some(last) => last.points.extend(series.points),
            None => out.push(series),
        }
    }
    for series in &mut out {
        // Kept for minutes, and twice while new pages are made: without the room that growing left.
        series.points.shrink_to_fit();
        series.points.sort_by_key(|point| point.at);
    }
    out
}

/// Daily medians of the output speed; see [`Entry::course`].
fn course(points: &[Point], now_unix_ms: i64) -> Vec<Option<f32>> {
    let mut days: Vec<Vec<f32>> = vec![Vec::new(); COURSE_DAYS];
    for point in slots(points) {
        let ago = ((now_unix_ms - point.at) / DAY_MS) as usize;
        if let (Some(value), true) = (Metric::OutputSpeed.of(point), ago < COURSE_DAYS) {
            days[COURSE_DAYS - 1 - ago].push(value as f32);
        }
    }
    let median = |mut values: Vec<f32>| {
        values.sort_unstable_by(f32::total_cmp);
        (values.len() >= 3).then(|| values[values.len().div_ceil(2) - 1])
    };
    days.into_iter().map(median).collect()
}
