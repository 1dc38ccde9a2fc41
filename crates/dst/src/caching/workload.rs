//! What clients do: conversations with pauses, agents whose tools append to the prompt, questions behind shared system prompts.

use tokrate_core::{Rng, Span};
use tokrate_engine::Part;

/// A way to use a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionKind {
    /// People, who read and think between turns.
    Conversation,
    /// Tools that answer within seconds, behind long instructions.
    Agent,
    /// One question each, behind one of many long system prompts.
    SharedPrompt,
    /// Several questions about a long document that nobody else asks about.
    Document,
    /// A task that is given to several workers at once, each with a part of its own at the end.
    FanOut,
    /// Questions about passages that a search found: a short head that many share, then passages that others have as well, in another order.
    Retrieval,
    /// Tools whose results make the prompt grow to 50,000 tokens and more, call by call.
    GrowingTools,
}

/// Which sessions there are.
#[derive(Clone, PartialEq, Debug)]
pub struct CacheWorkload {
    /// Kinds, each as often as the others.
    pub kinds: Vec<SessionKind>,
}

/// The mean of many sessions.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeanSession {
    /// Prompt tokens, each counted once, but for shared system prompts, which are counted for none.
    pub new_tokens: f64,
    pub output_tokens: f64,
    /// Of a call.
    pub context: f64,
}

/// One session.
#[derive(Clone, Debug)]
pub(super) struct Session {
    kind: SessionKind,
    rng: Rng,
    pub parts: Vec<Part>,
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    turns_left: u32,
    contents: u64,
    /// Content of the answer.
    pub answer: u64,
}

/// The longest prompt of a session: it ends there.
const MAX_PROMPT: u32 = 60_000;
/// Workers of a task.
const FAN_OUT: u64 = 6;

/// Passages that a search can find.
const PASSAGES: u64 = 300;

/// One of so many, of which the first are used most: by Zipf's law.
fn by_zipf(of: u64, rng: &mut Rng) -> u64 {
    let weights: Vec<f64> = (1..=of).map(|rank| 1.0 / rank as f64).collect();
    let mut drawn = rng.unit() * weights.iter().sum::<f64>();
    let chosen = weights.iter().position(|weight| {
        drawn -= weight;
        drawn <= 0.0
    });
    chosen.unwrap_or(0) as u64
}

/// A passage, which is the same whoever finds it.
fn passage(number: u64) -> Part {
    const LENGTHS: u64 = 60;
    let tokens = 600 + (Rng::root(LENGTHS).nth(number).unit() * 800.0) as u32;
    Part { content: (LENGTHS << 32) | number, tokens }
}

impl Session {
    pub fn draw(workload: &CacheWorkload, root: &Rng, id: u64) -> Session {
        let mut rng = root.nth(id);
        let kind = workload.kinds[rng.below(workload.kinds.len() as u64) as usize];
        let (name, prompts, low, high, turns) = match kind {
            SessionKind::Conversation => (1, 8, 300, 1_500, 6.0),
            SessionKind::Agent => (2, 5, 5_000, 12_000, 15.0),
            SessionKind::SharedPrompt => (3, 80, 1_500, 6_000, 1.0),
            SessionKind::Document => (4, 3, 400, 900, 4.0),
            SessionKind::FanOut => (5, 4, 1_000, 4_000, 1.0),
            SessionKind::Retrieval => (6, 4, 150, 400, 2.0),
            SessionKind::GrowingTools => (7, 3, 3_000, 6_000, 25.0),
        };
        let chosen = by_zipf(prompts, &mut rng);
        let length = low + (Rng::root(name).nth(chosen).unit() * f64::from(high - low)) as u32;
        let system = Part { content: (name << 32) | chosen, tokens: length };
        let mut left = 1;
        while turns > 1.0 && left < 200 && rng.chance(1.0 - 1.0 / turns) {
            left += 1;
        }
        let mut session = Session {
            kind,
            rng,
            prompt_tokens: length,
            parts: vec![system],
            output_tokens: 0,
            turns_left: left,
            contents: (1 << 60) | (id << 12),
            answer: 0,
        };
        session.add_body();
        session.turn();
        session
    }

    /// What a session is about, which stands between the system prompt and the first turn.
    fn add_body(&mut self) {
        let body = match self.kind {
            SessionKind::Conversation | SessionKind::Agent | SessionKind::SharedPrompt | SessionKind::GrowingTools => {
                Vec::new()
            }
            SessionKind::Document => vec![self.own_part(8_000, 30_000)],
            SessionKind::FanOut => vec![self.own_part(2_000, 8_000)],
            SessionKind::Retrieval => (0..6).map(|_| passage(by_zipf(PASSAGES, &mut self.rng))).collect(),
        };
        self.prompt_tokens += body.iter().map(|part| part.tokens).sum::<u32>();
        self.parts.extend(body);
    }

    /// A part that no other session has, of so many tokens.
    fn own_part(&mut self, low: u32, high: u32) -> Part {
        let tokens = low + (self.rng.unit() * f64::from(high - low)) as u32;
        Part { content: self.content(), tokens }
    }

    /// The other sessions that begin with it, under the numbers from `id` on: the same but for what was appended last.
    pub fn siblings(&self, id: u64) -> Vec<Session> {
        let others = if self.kind == SessionKind::FanOut { FAN_OUT - 1 } else { 0 };
        let sibling = |number: u64| {
            let (mut session, id) = (self.clone(), id + number);
            (session.rng, session.contents) = (self.rng.nth(id), (1 << 60) | (id << 12));
            let task = session.parts.pop().expect("a session has a turn");
            (session.prompt_tokens, session.turns_left) = (session.prompt_tokens - task.tokens, 1);
            session.turn();
            session
        };
        (0..others).map(sibling).collect()
    }

    /// Tokens that a session appends and is answered, in the mean, and how much they vary.
    fn lengths(&self) -> [(f64, f64); 2] {
        match self.kind {
            SessionKind::Conversation => [(120.0, 1.0), (250.0, 0.7)],
            SessionKind::Agent => [(600.0, 1.2), (80.0, 0.8)],
            SessionKind::SharedPrompt => [(150.0, 0.8), (150.0, 0.7)],
            SessionKind::Document => [(60.0, 0.8), (200.0, 0.8)],
            SessionKind::FanOut => [(200.0, 1.0), (300.0, 0.8)],
            SessionKind::Retrieval => [(60.0, 0.8), (250.0, 0.7)],
            SessionKind::GrowingTools => [(1_500.0, 1.0), (150.0, 0.8)],
        }
    }

    fn turn(&mut self) {
        let [asked, answered] = self.lengths().map(|(mean, variation)| {
            let tokens = mean * self.rng.log_normal(variation);
            tokens.round().clamp(4.0, 8_000.0) as u32
        });
        let content = self.content();
        self.parts.push(Part { content, tokens: asked });
        self.prompt_tokens += asked;
        self.output_tokens = answered;
        self.answer = self.content();
        self.turns_left -= 1;
    }

    fn content(&mut self) -> u64 {
        self.contents += 1;
        self.contents
    }

    /// It was answered: when the next turn is, if there is one.
    pub fn answered(&mut self) -> Option<Span> {
        if self.turns_left == 0 || self.prompt_tokens + self.output_tokens > MAX_PROMPT {
            return None;
        }
        let pause = match self.kind {
            SessionKind::Conversation => Span::from_secs(2) + self.rng.exponential(Span::from_secs(30)),
            SessionKind::Document | SessionKind::Retrieval => {
                Span::from_secs(2) + self.rng.exponential(Span::from_secs(10))
            }
            SessionKind::GrowingTools => Span::from_millis(500) + self.rng.exponential(Span::from_secs(3)),
            SessionKind::Agent | SessionKind::SharedPrompt | SessionKind::FanOut => {
                Span::from_millis(300) + self.rng.exponential(Span::from_secs(2))
            }
        };
        self.parts.push(Part { content: self.answer, tokens: self.output_tokens });
        self.prompt_tokens += self.output_tokens;
        self.turn();
        Some(pause)
    }
}

impl CacheWorkload {
    /// Of one kind.
    pub fn of(kind: SessionKind) -> CacheWorkload {
        CacheWorkload { kinds: vec![kind] }
    }

    /// All three.
    pub fn mixed() -> CacheWorkload {
        CacheWorkload { kinds: vec![SessionKind::Conversation, SessionKind::Agent, SessionKind::SharedPrompt] }
    }

    pub(super) fn mean_session(&self) -> MeanSession {
        const DRAWN: u64 = 2_000;
        let root = Rng::root(0).child("mean-session");
        let (mut new, mut output, mut context, mut calls) = (0.0, 0.0, 0.0, 0.0);
        for id in 0..DRAWN {
            let mut session = Session::draw(self, &root, id);
            for other in session.siblings(id) {
                new += other.parts.last().map_or(0.0, |own| f64::from(own.tokens));
                output += f64::from(other.output_tokens);
                context += f64::from(other.prompt_tokens);
                calls += 1.0;
            }
            let mut before = f64::from(session.parts[0].tokens);
            loop {
                new += f64::from(session.prompt_tokens) - before;
                output += f64::from(session.output_tokens);
                context += f64::from(session.prompt_tokens);
                calls += 1.0;
                before = f64::from(session.prompt_tokens + session.output_tokens);
                if session.answered().is_none() {
                    break;
                }
            }
        }
        let drawn = DRAWN as f64;
        MeanSession { new_tokens: new / drawn, output_tokens: output / drawn, context: context / calls }
    }
}
