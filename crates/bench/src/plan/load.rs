//! Load shapes as plain values.
//!
//! Invariant: a shape holds everything the plan needs; two runs of one shape differ by their seed only.

use super::ramp::Ramp;
use crate::agents::AgentTrace;
use std::sync::Arc;
use tokrate_core::{RequestsPerSecond, Rng, Span};

/// How requests arrive.
#[derive(Clone, PartialEq, Debug)]
pub enum Load {
    /// So many requests in flight; the next starts when one ends.
    Closed {
        /// Requests in flight.
        concurrency: u32,
    },
    /// The same of requests with several texts each.
    Batched {
        /// Requests in flight.
        concurrency: u32,
        /// Texts of a request.
        batch: u32,
    },
    /// Arrivals on an absolute schedule, whatever happens to the answers.
    Open {
        /// Mean arrivals per second.
        rate: RequestsPerSecond,
        /// How the gaps between arrivals are drawn.
        arrivals: Arrivals,
        /// In-flight requests at which an arrival is forfeited (counted, never sent): keeps a dead server from
        /// eating the client.
        in_flight_limit: u32,
    },
    /// A closed loop whose concurrency changes with time.
    ClosedRamp {
        /// Requests in flight over time; whole numbers.
        ramp: Ramp,
    },
    /// An open loop whose rate changes with time.
    OpenRamp {
        /// Mean arrivals per second over time.
        ramp: Ramp,
        /// How the gaps between arrivals are drawn.
        arrivals: Arrivals,
        /// As of [`Load::Open`].
        in_flight_limit: u32,
    },
    /// The arrivals of a recorded trace, on their absolute schedule.
    Trace {
        /// When each request is due, from the start of the phase on; never falling.
        due: Arc<[Span]>,
        /// As of [`Load::Open`].
        in_flight_limit: u32,
    },
    /// Conversations: each sends its next turn when the answer to the one before has ended and was thought about.
    Sessions {
        /// Sessions at the same time; one that has ended makes room for the next.
        sessions: u32,
        /// Turns of each, those that send results of tools included.
        turns: u32,
        /// Time between an answer's end and the next turn of its session.
        think: Think,
        /// Calls of tools in between, if there are any.
        tools: Option<ToolTimes>,
    },
    /// Recorded sessions of agents, whose steps wait for each other and for their tools.
    Agents {
        /// The sessions.
        trace: Arc<AgentTrace>,
        /// When they begin.
        beginning: Beginning,
    },
}

/// The most requests in flight that are reckoned with where nothing bounds them.
const UNBOUNDED_IN_FLIGHT: u32 = 4096;

/// When sessions begin.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Beginning {
    /// So many at the same time; the next begins when one has ended. Tools and agents are so many times as fast as recorded.
    AtOnce(u32, f64),
    /// At the times of the trace, which runs so many times as fast.
    OwnTimes(f64),
}

/// How the gaps of an open loop are drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arrivals {
    /// All gaps are 1 / rate.
    Constant,
    /// Exponential gaps of mean 1 / rate: a Poisson process.
    Poisson,
    /// Gamma-distributed gaps of mean 1 / rate. The shape is what vLLM's bench calls burstiness: 1 is Poisson, less is more
    /// bursty, more is more even; the coefficient of variation of the gaps is 1 / sqrt(shape).
    Gamma {
        /// Shape of the distribution, above 0.
        shape: f64,
    },
}

/// Turns that send the result of a tool, not what a user thought of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ToolTimes {
    /// So many after each turn of the user.
    pub each: u32,
    /// How long a tool takes.
    pub time: Think,
}

/// How long a user of a session thinks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Think {
    /// Always as long.
    Fixed(Span),
    /// Exponentially distributed, of this mean.
    Exponential(Span),
}

/// Reaction to a 429 response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backoff {
    /// `Retry-After` is honoured.
    #[default]
    Obey,
    /// None: the next request is sent as if nothing had been.
    Ignore,
}

impl Load {
    /// Texts of a request, where the load says so.
    pub fn batch(&self) -> Option<u32> {
        if let Load::Batched { batch, .. } = self { Some(*batch) } else { None }
    }

    /// Whether requests wait for others to end.
    pub fn is_closed(&self) -> bool {
        match self {
            Load::Closed { .. } | Load::Batched { .. } | Load::ClosedRamp { .. } | Load::Sessions { .. } => true,
            Load::Agents { .. } => true,
            Load::Open { .. } | Load::OpenRamp { .. } | Load::Trace { .. } => false,
        }
    }

    /// The most requests that may be in flight.
    pub fn max_in_flight(&self) -> u32 {
        match self {
            Load::Closed { concurrency } | Load::Batched { concurrency, .. } => *concurrency,
            Load::ClosedRamp { ramp } => ramp.from.max(ramp.to) as u32,
            Load::Sessions { sessions, .. } => *sessions,
            Load::Agents { trace, beginning } => match beginning {
                Beginning::AtOnce(sessions, _) => sessions.saturating_mul(trace.width()),
                Beginning::OwnTimes(_) => {
                    (trace.sessions.len() as u32).saturating_mul(trace.width()).min(UNBOUNDED_IN_FLIGHT)
                }
            },
            Load::Open { in_flight_limit, .. }
            | Load::OpenRamp { in_flight_limit, .. }
            | Load::Trace { in_flight_limit, .. } => *in_flight_limit,
        }
    }

    /// Arrivals per second of an open loop: the mean, of a ramp the most.
    pub fn rate(&self) -> Option<f64> {
        match self {
            Load::Closed { .. } | Load::Batched { .. } | Load::ClosedRamp { .. } => None,
            Load::Sessions { .. } | Load::Agents { .. } => None,
            Load::Open { rate, .. } => Some(rate.per_second()),
            Load::OpenRamp { ramp, .. } => Some(ramp.from.max(ramp.to)),
            Load::Trace { due, .. } => {
                let time = due.last().map_or(0.0, |last| last.as_secs_f64());
                // A trace that has no length has no rate; all at once is then as many as there are, in a second.
                Some(if time > 0.0 { due.len() as f64 / time } else { due.len() as f64 })
            }
        }
    }

    /// The level in a few words, such as `concurrency 8`.
    pub fn name(&self) -> String {
        match self {
            Load::Closed { concurrency } => format!("concurrency {concurrency}"),
            Load::Batched { concurrency, batch } => format!("concurrency {concurrency}, {batch} a request"),
            Load::Open { rate, arrivals, .. } => format!("{rate} {}", arrivals.name()),
            Load::ClosedRamp { ramp } => format!("concurrency {ramp}"),
            Load::OpenRamp { ramp, arrivals, .. } => {
                let (arrivals, growth, over) = (arrivals.name(), ramp.growth.name(), ramp.over.as_secs_f64());
                format!("{}..{} req/s {arrivals}, {growth} over {over} s", ramp.from, ramp.to)
            }
            Load::Trace { due, .. } => {
                format!("trace of {} request{}", due.len(), if due.len() == 1 { "" } else { "s" })
            }
            Load::Sessions { sessions, turns, .. } => format!("{sessions} sessions of {turns} turns"),
            Load::Agents { trace, beginning } => match beginning {
                Beginning::AtOnce(sessions, _) => {
                    format!("{sessions} agent session{}", if *sessions == 1 { "" } else { "s" })
                }
                Beginning::OwnTimes(_) => format!("agent trace of {} sessions", trace.sessions.len()),
            },
        }
    }

    /// The arrival process as listed in the conditions: everything that distinguishes two loads but for their level.
    pub fn arrivals(&self) -> String {
        match self {
            Load::Closed { .. } | Load::Batched { .. } => "closed".to_owned(),
            Load::Open { arrivals, .. } => arrivals.in_full(),
            Load::ClosedRamp { ramp } => format!("closed, concurrency {ramp}"),
            Load::OpenRamp { ramp, arrivals, .. } => format!("{}, {ramp} req/s", arrivals.in_full()),
            Load::Trace { due, .. } => {
                format!("trace of {} request{}", due.len(), if due.len() == 1 { "" } else { "s" })
            }
            Load::Sessions { turns, think, tools, .. } => {
                let tools = tools.map(|tools| {
                    format!(", after each prompt {} results of tools, each in {}", tools.each, tools.time)
                });
                format!("sessions of {turns} turns, think time {think}{}", tools.unwrap_or_default())
            }
            Load::Agents { trace, beginning } => {
                let steps = format!("agent sessions of a trace with {} steps", trace.steps.len());
                match beginning {
                    Beginning::AtOnce(_, speed) => format!("{steps}, the next when one has ended{}", faster(*speed)),
                    Beginning::OwnTimes(speed) => format!("{steps}, on their own times{}", faster(*speed)),
                }
            }
        }
    }

    /// As a record spells it.
    pub fn row(&self) -> tokrate_record::Load {
        match self {
            Load::Closed { concurrency } => tokrate_record::Load::Closed { concurrency: *concurrency },
            Load::Batched { concurrency, batch } => {
                tokrate_record::Load::Batched { concurrency: *concurrency, batch: *batch }
            }
            Load::Open { rate, in_flight_limit, .. } => {
                tokrate_record::Load::Open { rate: rate.per_second(), cap: Some(*in_flight_limit) }
            }
            Load::ClosedRamp { ramp } => tokrate_record::Load::ClosedRamp {
                from: ramp.from as u32,
                to: ramp.to as u32,
                seconds: ramp.over.as_secs_f64(),
            },
            Load::OpenRamp { ramp, in_flight_limit, .. } => tokrate_record::Load::OpenRamp {
                from: ramp.from,
                to: ramp.to,
                seconds: ramp.over.as_secs_f64(),
                cap: Some(*in_flight_limit),
            },
            Load::Trace { in_flight_limit, .. } => {
                tokrate_record::Load::Trace { rate: self.rate().unwrap_or(0.0), cap: Some(*in_flight_limit) }
            }
            Load::Sessions { sessions, turns, .. } => {
                tokrate_record::Load::Sessions { sessions: *sessions, turns: *turns }
            }
            Load::Agents { beginning, .. } => tokrate_record::Load::Agents {
                sessions: match beginning {
                    Beginning::AtOnce(sessions, _) => Some(*sessions),
                    Beginning::OwnTimes(_) => None,
                },
            },
        }
    }
}

/// How fast a trace runs, where that is not its own speed.
fn faster(speed: f64) -> String {
    if speed == 1.0 { String::new() } else { format!(", {speed} times as fast") }
}

impl Arrivals {
    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Arrivals::Constant => "constant",
            Arrivals::Poisson => "poisson",
            Arrivals::Gamma { .. } => "gamma",
        }
    }

    /// The name with its parameters.
    fn in_full(self) -> String {
        match self {
            Arrivals::Gamma { shape } => format!("gamma, burstiness {shape}"),
            plain => plain.name().to_owned(),
        }
    }

    /// A gap of that mean.
    pub(super) fn gap(self, mean: Span, rng: &mut Rng) -> Span {
        match self {
            Arrivals::Constant => mean,
            Arrivals::Poisson => rng.exponential(mean),
            Arrivals::Gamma { shape } => {
                Span::from_nanos((rng.gamma(shape) / shape * mean.as_nanos() as f64).round() as u64)
            }
        }
    }

    /// A gap of mean 1, for schedules whose rate changes.
    pub(super) fn unit_gap(self, rng: &mut Rng) -> f64 {
        match self {
            Arrivals::Constant => 1.0,
            Arrivals::Poisson => -(1.0 - rng.unit()).ln(),
            Arrivals::Gamma { shape } => rng.gamma(shape) / shape,
        }
    }
}

impl Think {
    /// The think time before one turn; `rng` is that turn's own.
    pub(super) fn draw(self, rng: &mut Rng) -> Span {
        match self {
            Think::Fixed(span) => span,
            Think::Exponential(mean) => rng.exponential(mean),
        }
    }
}

impl std::fmt::Display for Think {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Think::Fixed(span) => write!(formatter, "{} s", span.as_secs_f64()),
            Think::Exponential(mean) => write!(formatter, "exponential, mean {} s", mean.as_secs_f64()),
        }
    }
}
