//! A bench at one moment, as plain values.

/// Everything that the view shows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Live {
    /// The targets, in their order, with the levels that have ended.
    pub targets: Vec<Target>,
    /// The level that runs, or ran last.
    pub present: Option<Present>,
    /// What the run is doing.
    pub doing: Doing,
    /// Which numbers the curve shows.
    pub shown: Shown,
    /// Seconds since the run began.
    pub seconds: f64,
    /// About how many more it takes (s), if that can be told.
    pub left: Option<f64>,
    /// What the run costs, if its price is known.
    pub money: Option<Money>,
    /// What the run goes on for: the state of a search, of `--until`, why this level was added.
    pub notes: Vec<String>,
    /// Ctrl-C was pressed.
    pub is_interrupted: bool,
}

/// What a run is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Doing {
    /// It sends requests.
    #[default]
    Measuring,
    /// It measures the client's own error at the load of the present level.
    Calibrating,
    /// Everything is measured.
    Ended,
}

/// The numbers of the curve.
#[derive(Clone, PartialEq, Debug)]
pub struct Shown {
    /// What the load is, such as `Requests in flight`.
    pub load: String,
    /// Name and unit of the throughput.
    pub throughput: (String, String),
    /// Name of the time: `TTFT`, or `E2E` where nothing is streamed.
    pub time: String,
}

impl Default for Shown {
    fn default() -> Shown {
        Shown {
            load: "Requests in flight".to_owned(),
            throughput: ("Throughput".to_owned(), "tok/s".to_owned()),
            time: "TTFT".to_owned(),
        }
    }
}

/// One target.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its loads that have been measured, rising, the rounds of one together.
    pub levels: Vec<Level>,
    /// The largest error of the client itself so far.
    pub alarm: Option<Alarm>,
}

/// What makes figures invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alarm {
    /// The level, such as `c = 64`.
    pub level: String,
    /// Why its figures are not valid.
    pub why: String,
}

/// A measured load.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Level {
    /// Such as `c = 8`.
    pub name: LevelName,
    /// Rounds of it.
    pub rounds: u64,
    /// Tokens (or items) per second of all requests together.
    pub throughput: Option<f64>,
    /// Median of the time (s).
    pub p50: Option<f64>,
    /// Its 99th percentile (s).
    pub p99: Option<f64>,
    /// Median output speed of one request (tok/s).
    pub speed: Option<f64>,
    /// Requests that failed.
    pub failed: u64,
    /// Whether the client's own error leaves the figures valid.
    pub is_valid: bool,
}

/// A load, by name and amount.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LevelName {
    /// Such as `c = 8`.
    pub text: String,
    /// Requests in flight, or arrivals per second.
    pub amount: f64,
}

/// The level that runs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Present {
    /// Which target, from 0.
    pub target: usize,
    /// Its load.
    pub name: LevelName,
    /// Which phase of the target it is, from 1.
    pub number: usize,
    /// How many there are at least.
    pub of: usize,
    /// Which round of the load, from 1.
    pub round: u64,
    /// Seconds since it began.
    pub seconds: f64,
    /// How much of it is done, 0 to 1.
    pub share: f64,
    /// What has become of its requests.
    pub counts: Counts,
    /// The figures so far.
    pub figures: Vec<FigureRow>,
    /// Failures by kind, the most frequent first.
    pub errors: Vec<(String, u64)>,
    /// The provider asks to wait so long (s).
    pub wait: Option<f64>,
    /// The client itself.
    pub client: Client,
    /// What is read beside it: engine and graphics processors, a line each.
    pub beside: Vec<String>,
}

/// Requests of the level.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Counts {
    /// Answered.
    pub answered: u64,
    /// Failed.
    pub failed: u64,
    /// Refused for the rate.
    pub limited: u64,
    /// In flight.
    pub in_flight: u64,
    /// Answered per second of the past seconds.
    pub per_second: Option<f64>,
    /// Tokens (or items) per second of all requests together in the past seconds.
    pub throughput: Option<f64>,
}

/// The percentiles of a figure.
#[derive(Clone, PartialEq, Debug)]
pub struct FigureRow {
    /// Its name, such as `TTFT`.
    pub name: String,
    /// In which unit.
    pub unit: Unit,
    /// The percentiles; `None` before the first value.
    pub at: Option<Quantiles>,
}

/// Percentiles, and of how many values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantiles {
    /// The median.
    pub p50: f64,
    /// The 90th percentile; of a speed the 10th.
    pub p90: f64,
    /// The 99th percentile; of a speed the 1st.
    pub p99: f64,
    /// The worst.
    pub worst: f64,
    /// Number of values.
    pub n: u64,
}

/// The unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Tokens per second: less is worse.
    TokensPerSecond,
}

/// The client itself.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Client {
    /// Share of a core that its busiest thread takes.
    pub cpu: Option<f64>,
    /// Its threads.
    pub threads: usize,
    /// How late its timers fire, 99th percentile (s).
    pub timer_lag: Option<f64>,
    /// Its own error at the last level that has ended, such as `TTFT +31 µs, gaps 12 µs (p99) at c = 4`.
    pub error: Option<String>,
}

/// Shares of a core from which on a thread is named as busy, and as the limit.
const BUSY: f64 = 0.7;
const AT_ITS_LIMIT: f64 = 0.9;
/// Timers that fire later than this (s) move figures.
const LATE: f64 = 0.02;

impl Client {
    /// Why it is the limit, or near it, if it is.
    pub fn trouble(&self) -> Option<String> {
        match (self.cpu, self.timer_lag) {
            (Some(cpu), _) if cpu >= AT_ITS_LIMIT => {
                Some("THE CLIENT IS THE LIMIT: a thread of it takes a whole core".to_owned())
            }
            (_, Some(lag)) if lag >= LATE => {
                Some("THE CLIENT MAY BE THE LIMIT: its timers fire late; this machine is too busy".to_owned())
            }
            (Some(cpu), _) if cpu >= BUSY => Some("the client is busy: figures may be its own soon".to_owned()),
            _ => None,
        }
    }
}

/// What a run costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Money {
    /// Spent so far (USD).
    pub spent: f64,
    /// The most that may be spent (USD).
    pub limit: Option<f64>,
}

/// Share of the limit from which on it is near.
const NEAR: f64 = 0.9;

impl Money {
    /// Whether the limit will end the run soon.
    pub fn is_near_limit(&self) -> bool {
        self.limit.is_some_and(|limit| self.spent >= NEAR * limit)
    }
}
