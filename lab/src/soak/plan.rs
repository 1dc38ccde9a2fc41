//! What clients do, drawn from a seed: when, what they ask, how they read, and what they get wrong.
//!
//! Invariant: the errand of a number follows from the seed and that number alone.

use super::house::REQUEST_BYTES_MOST;
use serde_json::{Value, json};
use tokrate_core::{Rng, Span};
use tokrate_sim::{Faults, WORDS};

/// Names that clients ask for, one for each mode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Alias {
    Single,
    Hedge,
    Race,
    Race3,
}

impl Alias {
    pub const ALL: [Alias; 4] = [Alias::Single, Alias::Hedge, Alias::Race, Alias::Race3];

    pub fn name(self) -> &'static str {
        match self {
            Alias::Single => "single",
            Alias::Hedge => "hedge",
            Alias::Race => "race",
            Alias::Race3 => "race3",
        }
    }

    /// Its row of the settings.
    pub fn settings(self) -> &'static str {
        match self {
            Alias::Single => {
                "lanes = [\"swift\", \"steady\", \"tardy\", \"crowded\", \"letters\", \"replies\", \"twins\", \"sly\"]\n\
                 objective = \"round-robin\"\nmode = \"off\""
            }
            Alias::Hedge => {
                "lanes = [\"tardy\", \"steady\", \"letters\", \"swift\", \"twins\"]\nmode = \"hedge\"\nextra_share = 0.5"
            }
            Alias::Race => {
                "lanes = [\"swift\", \"letters\", \"replies\", \"twins\", \"crowded\"]\n\
                 objective = \"round-robin\"\nmode = \"race\"\nextra_share = 1.0"
            }
            Alias::Race3 => {
                "lanes = [\"swift\", \"steady\", \"tardy\", \"letters\", \"replies\", \"twins\", \"sly\"]\n\
                 objective = \"peak-ewma\"\nmode = \"race=3\"\nextra_share = 2.0"
            }
        }
    }
}

/// Keys that clients show. Rows carry their names, so that what a kind of client caused can be told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Key {
    /// Clients that learn the name of their call, or an error.
    Stays,
    /// Clients that leave before they have heard anything.
    Leaves,
    /// May ask little.
    Tight,
    /// May ask for one name.
    Narrow,
    /// May spend [`POOR_USD`], and asks only for names whose lanes report what they wrote.
    Poor,
}

/// The month's budget of [`Key::Poor`]: enough for a few answers, so that a short soak comes to its end as well. All its requests
/// have a limit, so nothing may be spent beyond it.
pub const POOR_USD: f64 = 0.002;

impl Key {
    pub const ALL: [Key; 5] = [Key::Stays, Key::Leaves, Key::Tight, Key::Narrow, Key::Poor];

    pub fn name(self) -> &'static str {
        match self {
            Key::Stays => "stays",
            Key::Leaves => "leaves",
            Key::Tight => "tight",
            Key::Narrow => "narrow",
            Key::Poor => "poor",
        }
    }

    pub fn variable(self) -> &'static str {
        match self {
            Key::Stays => "SOAK_KEY_STAYS",
            Key::Leaves => "SOAK_KEY_LEAVES",
            Key::Tight => "SOAK_KEY_TIGHT",
            Key::Narrow => "SOAK_KEY_NARROW",
            Key::Poor => "SOAK_KEY_POOR",
        }
    }

    /// What is shown.
    pub fn value(self) -> &'static str {
        match self {
            Key::Stays => "key-of-those-who-stay",
            Key::Leaves => "key-of-those-who-leave",
            Key::Tight => "key-with-tight-limits",
            Key::Narrow => "key-for-one-name",
            Key::Poor => "key-with-a-budget",
        }
    }

    /// Its limits.
    pub fn settings(self) -> String {
        match self {
            Key::Stays | Key::Leaves => String::new(),
            Key::Tight => "requests_per_minute = 20\ntokens_per_minute = 4000\nstreams = 2\n".to_owned(),
            Key::Narrow => "aliases = [\"single\"]\n".to_owned(),
            Key::Poor => format!("aliases = [\"hedge\", \"race\"]\nusd_per_month = {POOR_USD}\n"),
        }
    }
}

/// Dialects of clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Spoken {
    Chat,
    Completions,
    Responses,
    Messages,
}

impl Spoken {
    /// Its name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Spoken::Chat => "openai-chat",
            Spoken::Completions => "openai-completions",
            Spoken::Responses => "openai-responses",
            Spoken::Messages => "anthropic",
        }
    }

    pub fn path(self) -> &'static str {
        match self {
            Spoken::Chat => "/v1/chat/completions",
            Spoken::Completions => "/v1/completions",
            Spoken::Responses => "/v1/responses",
            Spoken::Messages => "/v1/messages",
        }
    }

    fn body(self, model: &str, prompt: &str, tokens: u64, stream: bool) -> Value {
        let messages = json!([{"role": "user", "content": prompt}]);
        match self {
            Spoken::Chat | Spoken::Messages => {
                json!({"model": model, "stream": stream, "max_tokens": tokens, "messages": messages})
            }
            Spoken::Completions => json!({"model": model, "stream": stream, "max_tokens": tokens, "prompt": prompt}),
            Spoken::Responses => {
                json!({"model": model, "stream": stream, "max_output_tokens": tokens, "input": prompt})
            }
        }
    }
}

/// How a client takes its answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Manner {
    Reads,
    /// A little at a time.
    ReadsSlowly,
    /// Goes away so many milliseconds after it asked, whatever has come.
    LeavesAfter(u64),
    /// Goes away once it has the head and so many bytes of the body.
    LeavesWithin(usize),
}

/// What is wrong with a request that cannot be understood, and the status that it must get.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mistake {
    NoJson,
    NoModel,
    UnknownModel,
    TwoModels,
    TooLarge,
    TooDeep,
    UnknownMode,
    UnknownPath,
    UnknownKey,
    ForbiddenName,
    /// The body breaks off.
    BreaksOff,
}

impl Mistake {
    const ALL: [Mistake; 11] = [
        Mistake::NoJson,
        Mistake::NoModel,
        Mistake::UnknownModel,
        Mistake::TwoModels,
        Mistake::TooLarge,
        Mistake::TooDeep,
        Mistake::UnknownMode,
        Mistake::UnknownPath,
        Mistake::UnknownKey,
        Mistake::ForbiddenName,
        Mistake::BreaksOff,
    ];

    /// The status that it must get; `None` if nobody is there to hear it.
    pub fn status(self) -> Option<u16> {
        match self {
            Mistake::NoJson | Mistake::NoModel | Mistake::TwoModels | Mistake::TooDeep | Mistake::UnknownMode => {
                Some(400)
            }
            Mistake::UnknownModel | Mistake::UnknownPath => Some(404),
            Mistake::TooLarge => Some(413),
            Mistake::UnknownKey => Some(401),
            Mistake::ForbiddenName => Some(403),
            Mistake::BreaksOff => None,
        }
    }
}

/// What a client comes for.
#[derive(Clone, PartialEq, Debug)]
pub enum Purpose {
    /// A call that can be answered.
    Call(Manner),
    Mistake(Mistake),
    /// The list of models.
    Look,
}

/// One client's errand.
#[derive(Clone, PartialEq, Debug)]
pub struct Errand {
    pub number: u64,
    pub purpose: Purpose,
    pub key: Key,
    pub alias: Alias,
    pub spoken: Spoken,
    pub stream: bool,
    /// Most output tokens.
    pub tokens: u64,
    /// What the lanes are asked to do wrong.
    pub fault: Option<&'static str>,
    /// Whether a connection of its own is opened.
    pub is_apart: bool,
    /// The request.
    pub bytes: Vec<u8>,
}

/// Faults that make an engine report or say something else than it made: only the engine that is known for it has them.
const SLY: [&str; 5] = ["usage_inflated", "hidden_reasoning", "replay", "repeat", "same_start"];

/// All errands of a soak.
#[derive(Clone, Debug)]
pub struct Plan {
    root: Rng,
    /// Between one errand and the next, on average.
    gap: Span,
}

impl Plan {
    pub fn new(seed: u64, rate: f64) -> Plan {
        Plan { root: Rng::root(seed).child("soak"), gap: Span::from_secs_f64(1.0 / rate) }
    }

    /// Time from an errand to the one that follows.
    pub fn gap(&self, number: u64) -> Span {
        self.root.child("gaps").nth(number).exponential(self.gap)
    }

    /// The errand of a number.
    pub fn errand(&self, number: u64) -> Errand {
        let mut rng = self.root.child("errands").nth(number);
        let mut one_of = |count: usize| rng.below(count as u64) as usize;
        let alias = Alias::ALL[one_of(4)];
        // Chat is what most clients speak.
        let spoken = [Spoken::Chat, Spoken::Chat, Spoken::Completions, Spoken::Responses, Spoken::Messages][one_of(5)];
        let (stream, percent, percent_of_reading) = (one_of(4) > 0, one_of(100), one_of(100));
        let (later, part) = (one_of(400) as u64, one_of(6000));
        let mistake = Mistake::ALL[one_of(Mistake::ALL.len())];
        let purpose = match (percent, percent_of_reading) {
            (0, _) => Purpose::Look,
            (1..=4, _) => Purpose::Mistake(mistake),
            (_, 0..=5) => Purpose::Call(Manner::LeavesAfter(later)),
            (_, 6..=13) if stream => Purpose::Call(Manner::LeavesWithin(part)),
            (_, 14..=19) => Purpose::Call(Manner::ReadsSlowly),
            _ => Purpose::Call(Manner::Reads),
        };
        let key = match (&purpose, one_of(100)) {
            (Purpose::Call(Manner::LeavesAfter(_)), _) => Key::Leaves,
            (Purpose::Mistake(Mistake::ForbiddenName), _) => Key::Narrow,
            (Purpose::Call(_), 0..=3) => Key::Tight,
            (Purpose::Call(_), 4..=6) if alias == Alias::Single => Key::Narrow,
            (Purpose::Call(_), 7..=12) if matches!(alias, Alias::Hedge | Alias::Race) => Key::Poor,
            _ => Key::Stays,
        };
        let tokens = match one_of(20) {
            0 => 300 + one_of(300) as u64,
            _ => 8 + one_of(120) as u64,
        };
        let kinds: Vec<&'static str> = Faults::KINDS.into_iter().filter(|kind| !SLY.contains(kind)).collect();
        let kind = kinds[one_of(kinds.len())];
        // What is asked of all lanes at once leaves nobody to turn to.
        let fault = (matches!(purpose, Purpose::Call(_)) && one_of(100) < 5).then_some(kind);
        let is_apart = one_of(4) == 0;
        let prompt_words = 1 + one_of(150);
        let mut prompt = format!("errand {number}:");
        (0..prompt_words).for_each(|_| prompt.push_str(WORDS[one_of(WORDS.len())]));
        let mut errand =
            Errand { number, purpose, key, alias, spoken, stream, tokens, fault, is_apart, bytes: Vec::new() };
        errand.bytes = errand.request(&prompt);
        errand
    }
}

impl Errand {
    fn request(&self, prompt: &str) -> Vec<u8> {
        let Errand { alias, spoken, tokens, stream, .. } = self;
        let mut body = spoken.body(alias.name(), prompt, *tokens, *stream).to_string();
        let (mut method, mut path, mut key, mut headers) = ("POST", spoken.path(), self.key.value(), String::new());
        match self.purpose {
            Purpose::Look => {
                (method, path) = ("GET", "/v1/models");
                body.clear();
            }
            Purpose::Call(_) => {}
            Purpose::Mistake(Mistake::NoJson) => body.truncate(body.len() / 2),
            Purpose::Mistake(Mistake::NoModel) => body = body.replace("\"model\"", "\"modell\""),
            Purpose::Mistake(Mistake::UnknownModel) => {
                body = spoken.body("nobody", prompt, *tokens, *stream).to_string()
            }
            Purpose::Mistake(Mistake::TwoModels) => body.insert_str(1, "\"model\":\"single\","),
            Purpose::Mistake(Mistake::TooLarge) => {
                body = spoken
                    .body(alias.name(), &prompt.repeat(1 + REQUEST_BYTES_MOST / prompt.len()), *tokens, *stream)
                    .to_string();
            }
            Purpose::Mistake(Mistake::TooDeep) => {
                body.insert_str(1, &format!("\"x\":{}{},", "[".repeat(200), "]".repeat(200)));
            }
            Purpose::Mistake(Mistake::UnknownMode) => headers.push_str("x-tokrate-mode: fastest\r\n"),
            Purpose::Mistake(Mistake::UnknownPath) => path = "/v1/somewhere",
            Purpose::Mistake(Mistake::UnknownKey) => key = "nobody's",
            Purpose::Mistake(Mistake::ForbiddenName) => {
                body = spoken.body("race", prompt, *tokens, *stream).to_string()
            }
            Purpose::Mistake(Mistake::BreaksOff) => {}
        }
        if let Some(fault) = self.fault {
            headers.push_str(&format!("x-tokrate-fault: {fault}\r\n"));
        }
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
             {headers}content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes();
        if self.purpose == Purpose::Mistake(Mistake::BreaksOff) {
            request.truncate(request.len() - body.len() / 2);
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_errands_in_any_order() {
        let (one, two) = (Plan::new(7, 25.0), Plan::new(7, 25.0));
        let there: Vec<Errand> = (0..300).map(|number| one.errand(number)).collect();
        let mut back: Vec<Errand> = (0..300).rev().map(|number| two.errand(number)).collect();
        back.reverse();
        assert_eq!(there, back);
        assert!((0..300).all(|number| one.gap(number) == two.gap(number)));
        assert_ne!(Plan::new(8, 25.0).errand(0), there[0]);
    }

    #[test]
    fn a_few_thousand_errands_hold_every_mode_dialect_mistake_and_fault() {
        let plan = Plan::new(1, 25.0);
        let errands: Vec<Errand> = (0..8_000).map(|number| plan.errand(number)).collect();
        let calls = || errands.iter().filter(|errand| matches!(errand.purpose, Purpose::Call(_)));
        for alias in Alias::ALL {
            for spoken in [Spoken::Chat, Spoken::Completions, Spoken::Responses, Spoken::Messages] {
                for stream in [false, true] {
                    let is_such =
                        |errand: &&Errand| (errand.alias, errand.spoken, errand.stream) == (alias, spoken, stream);
                    assert!(calls().filter(is_such).count() > 50, "{alias:?} {spoken:?} {stream}");
                }
            }
            for kind in Faults::KINDS.into_iter().filter(|kind| !SLY.contains(kind)) {
                let has = |errand: &Errand| (errand.alias, errand.fault) == (alias, Some(kind));
                assert!(alias != Alias::Single || calls().any(has), "{kind}");
            }
        }
        for key in Key::ALL {
            assert!(calls().filter(|errand| errand.key == key).count() > 30, "{key:?}");
        }
        for mistake in Mistake::ALL {
            assert!(errands.iter().any(|errand| errand.purpose == Purpose::Mistake(mistake)), "{mistake:?}");
        }
        let seconds: f64 = (0..8_000).map(|number| plan.gap(number).as_secs_f64()).sum();
        assert!((300.0..340.0).contains(&seconds), "{seconds}");
    }
}
