//! The clients' tasks, drawn from a seed: when they start, what they request, how they read, and which requests are invalid.
//!
//! Invariant: the task of a number follows from the seed and that number alone.

use super::archive;
use super::gateway::MAX_REQUEST_BYTES;
use serde_json::{Value, json};
use tokrate_core::{Rng, Span};
use tokrate_sim::{Faults, WORDS};

/// Aliases that clients request, one for each mode.
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

    /// Its table in the settings.
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

/// Virtual keys of the clients. Rows carry their names, which tells the kinds of clients apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Key {
    /// For clients that read at least the response head.
    Reads,
    /// For clients that may disconnect before the response head.
    Disconnects,
    /// Has low rate limits.
    Tight,
    /// Is limited to one alias.
    Narrow,
    /// May spend [`BUDGET_USD`], and requests only aliases whose lanes report true counts.
    Budgeted,
}

/// The month's budget of [`Key::Budgeted`]: enough for a few answers, so that a short soak comes to its end as well. All its requests
/// have a limit, so nothing may be spent beyond it.
pub const BUDGET_USD: f64 = 0.002;

impl Key {
    pub const ALL: [Key; 5] = [Key::Reads, Key::Disconnects, Key::Tight, Key::Narrow, Key::Budgeted];

    pub fn name(self) -> &'static str {
        match self {
            Key::Reads => "stays",
            Key::Disconnects => "leaves",
            Key::Tight => "tight",
            Key::Narrow => "narrow",
            Key::Budgeted => "poor",
        }
    }

    pub fn variable(self) -> &'static str {
        match self {
            Key::Reads => "SOAK_KEY_STAYS",
            Key::Disconnects => "SOAK_KEY_LEAVES",
            Key::Tight => "SOAK_KEY_TIGHT",
            Key::Narrow => "SOAK_KEY_NARROW",
            Key::Budgeted => "SOAK_KEY_POOR",
        }
    }

    /// The secret that clients present.
    pub fn value(self) -> &'static str {
        match self {
            Key::Reads => "key-of-those-who-stay",
            Key::Disconnects => "key-of-those-who-leave",
            Key::Tight => "key-with-tight-limits",
            Key::Narrow => "key-for-one-name",
            Key::Budgeted => "key-with-a-budget",
        }
    }

    /// Its limits.
    pub fn settings(self) -> String {
        match self {
            Key::Reads | Key::Disconnects => String::new(),
            Key::Tight => "requests_per_minute = 20\ntokens_per_minute = 4000\nstreams = 2\n".to_owned(),
            Key::Narrow => "aliases = [\"single\"]\n".to_owned(),
            Key::Budgeted => format!("aliases = [\"hedge\", \"race\", \"ears\"]\nusd_per_month = {BUDGET_USD}\n"),
        }
    }
}

/// Dialects of clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ClientDialect {
    Chat,
    Completions,
    Responses,
    Messages,
    /// Bedrock's, whose streams are binary.
    Converse,
}

impl ClientDialect {
    #[cfg(test)]
    pub const ALL: [ClientDialect; 5] = [
        ClientDialect::Chat,
        ClientDialect::Completions,
        ClientDialect::Responses,
        ClientDialect::Messages,
        ClientDialect::Converse,
    ];

    /// Its name in the log.
    pub fn name(self) -> &'static str {
        match self {
            ClientDialect::Chat => "openai-chat",
            ClientDialect::Completions => "openai-completions",
            ClientDialect::Responses => "openai-responses",
            ClientDialect::Messages => "anthropic",
            ClientDialect::Converse => "bedrock-converse",
        }
    }

    /// The path of a request; Bedrock's names the model and the shape.
    fn path(self, model: &str, stream: bool) -> String {
        match self {
            ClientDialect::Chat => "/v1/chat/completions".to_owned(),
            ClientDialect::Completions => "/v1/completions".to_owned(),
            ClientDialect::Responses => "/v1/responses".to_owned(),
            ClientDialect::Messages => "/v1/messages".to_owned(),
            ClientDialect::Converse => {
                format!("/model/{model}/converse{}", if stream { "-stream" } else { "" })
            }
        }
    }

    fn body(self, model: &str, prompt: &str, tokens: u64, stream: bool) -> Value {
        let messages = json!([{"role": "user", "content": prompt}]);
        match self {
            ClientDialect::Chat | ClientDialect::Messages => {
                json!({"model": model, "stream": stream, "max_tokens": tokens, "messages": messages})
            }
            ClientDialect::Completions => {
                json!({"model": model, "stream": stream, "max_tokens": tokens, "prompt": prompt})
            }
            ClientDialect::Converse => json!({
                "messages": [{"role": "user", "content": [{"text": prompt}]}],
                "inferenceConfig": {"maxTokens": tokens},
            }),
            ClientDialect::Responses => {
                json!({"model": model, "stream": stream, "max_output_tokens": tokens, "input": prompt})
            }
        }
    }
}

/// How a client reads its answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ReadMode {
    Normal,
    /// A little at a time.
    Slow,
    /// Disconnects that many milliseconds after its request, whatever has come.
    DisconnectsAfter(u64),
    /// Disconnects once it has the head and that many bytes of the body.
    DisconnectsWithin(usize),
}

/// Requests that must be refused.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum InvalidRequest {
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
    Truncated,
}

impl InvalidRequest {
    const ALL: [InvalidRequest; 11] = [
        InvalidRequest::NoJson,
        InvalidRequest::NoModel,
        InvalidRequest::UnknownModel,
        InvalidRequest::TwoModels,
        InvalidRequest::TooLarge,
        InvalidRequest::TooDeep,
        InvalidRequest::UnknownMode,
        InvalidRequest::UnknownPath,
        InvalidRequest::UnknownKey,
        InvalidRequest::ForbiddenName,
        InvalidRequest::Truncated,
    ];

    /// The status that it must get; `None` if the client has disconnected by then.
    pub fn status(self) -> Option<u16> {
        match self {
            InvalidRequest::NoJson
            | InvalidRequest::NoModel
            | InvalidRequest::TwoModels
            | InvalidRequest::TooDeep
            | InvalidRequest::UnknownMode => Some(400),
            InvalidRequest::UnknownModel | InvalidRequest::UnknownPath => Some(404),
            InvalidRequest::TooLarge => Some(413),
            InvalidRequest::UnknownKey => Some(401),
            InvalidRequest::ForbiddenName => Some(403),
            InvalidRequest::Truncated => None,
        }
    }
}

/// What a client requests.
#[derive(Clone, PartialEq, Debug)]
pub enum Purpose {
    /// A call that can be answered.
    Call(ReadMode),
    Invalid(InvalidRequest),
    /// The list of models.
    ListModels,
    /// A form with a file.
    Upload(Upload),
}

/// A form with a file; its bytes follow from its task's number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Upload {
    /// Bytes of the file: some fit into what a gateway holds of a request, others are passed on as they come.
    pub bytes: usize,
    /// Whether a transcript is asked for, which costs a fee; else it is a file to be kept.
    pub is_transcript: bool,
    number: u64,
}

impl Upload {
    fn form(self, model: &str) -> Vec<u8> {
        let mut rng = Rng::root(self.number).child("file");
        let field = |name: &str, value: &str| {
            format!("--soak\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let first = if self.is_transcript { field("model", model) } else { field("purpose", "batch") };
        let file = "--soak\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
        let mut form = [first.as_bytes(), file.as_bytes()].concat();
        let from = form.len();
        // Boundaries that almost stand there are among it. The file is the same whatever the model's name is.
        while form.len() - from < self.bytes {
            form.extend_from_slice(&rng.next_u64().to_le_bytes());
            if rng.below(64) == 0 {
                form.extend_from_slice(b"\r\n--soa-");
            }
        }
        form.extend_from_slice(b"\r\n--soak--\r\n");
        form
    }

    /// Of the form as its lane must get it.
    pub fn digest(self) -> u64 {
        archive::digest(&self.form(archive::MODEL))
    }
}

/// The task of one client.
#[derive(Clone, PartialEq, Debug)]
pub struct Task {
    pub number: u64,
    pub purpose: Purpose,
    pub key: Key,
    pub alias: Alias,
    pub dialect: ClientDialect,
    pub stream: bool,
    /// Most output tokens.
    pub tokens: u64,
    /// The fault that all lanes are asked for.
    pub fault: Option<&'static str>,
    /// Whether it opens a connection of its own.
    pub has_own_connection: bool,
    /// The request.
    pub bytes: Vec<u8>,
}

/// Faults after which an engine's counts or text are not what it wrote: only the dishonest engine has them, because the audit
/// must expect them.
const DISHONEST_FAULTS: [&str; 5] = ["usage_inflated", "hidden_reasoning", "replay", "repeat", "same_start"];

/// All tasks of a soak.
#[derive(Clone, Debug)]
pub struct Plan {
    root: Rng,
    /// Between one task and the next, on average.
    gap: Span,
}

impl Plan {
    pub fn new(seed: u64, rate: f64) -> Plan {
        Plan { root: Rng::root(seed).child("soak"), gap: Span::from_secs_f64(1.0 / rate) }
    }

    /// Time from a task to the one that follows.
    pub fn gap(&self, number: u64) -> Span {
        self.root.child("gaps").nth(number).exponential(self.gap)
    }

    /// The task of a number.
    pub fn task(&self, number: u64) -> Task {
        let mut rng = self.root.child("errands").nth(number);
        let mut one_of = |count: usize| rng.below(count as u64) as usize;
        let alias = Alias::ALL[one_of(4)];
        // Most clients use the chat dialect.
        let dialect = [
            ClientDialect::Chat,
            ClientDialect::Chat,
            ClientDialect::Completions,
            ClientDialect::Responses,
            ClientDialect::Messages,
            ClientDialect::Converse,
        ][one_of(6)];
        let (stream, percent, percent_of_reading) = (one_of(4) > 0, one_of(100), one_of(100));
        let (later, part) = (one_of(400), one_of(6000));
        let invalid = InvalidRequest::ALL[one_of(InvalidRequest::ALL.len())];
        let purpose = match (percent, percent_of_reading) {
            (0, _) => Purpose::ListModels,
            (1..=4, _) => Purpose::Invalid(invalid),
            (5..=7, _) => Purpose::Upload(Upload { bytes: 1 + later * part / 4, is_transcript: stream, number }),
            (_, 0..=5) => Purpose::Call(ReadMode::DisconnectsAfter(later as u64)),
            (_, 6..=13) if stream => Purpose::Call(ReadMode::DisconnectsWithin(part)),
            (_, 14..=19) => Purpose::Call(ReadMode::Slow),
            _ => Purpose::Call(ReadMode::Normal),
        };
        let key = match (&purpose, one_of(100)) {
            (Purpose::Call(ReadMode::DisconnectsAfter(_)), _) => Key::Disconnects,
            (Purpose::Invalid(InvalidRequest::ForbiddenName), _) => Key::Narrow,
            (Purpose::Upload(upload), 0..=39) if upload.is_transcript => Key::Budgeted,
            (Purpose::Call(_), 0..=3) => Key::Tight,
            (Purpose::Call(_), 4..=6) if alias == Alias::Single => Key::Narrow,
            (Purpose::Call(_), 7..=12) if matches!(alias, Alias::Hedge | Alias::Race) => Key::Budgeted,
            _ => Key::Reads,
        };
        // What is wrong with a request is said in dialects that name the model in the body.
        let dialect = match purpose {
            Purpose::Invalid(_) | Purpose::Upload(_) if dialect == ClientDialect::Converse => ClientDialect::Chat,
            Purpose::Upload(_) => ClientDialect::Chat,
            _ => dialect,
        };
        let tokens = match one_of(20) {
            0 => 300 + one_of(300) as u64,
            _ => 8 + one_of(120) as u64,
        };
        let kinds: Vec<&'static str> =
            Faults::KINDS.into_iter().filter(|kind| !DISHONEST_FAULTS.contains(kind)).collect();
        let kind = kinds[one_of(kinds.len())];
        // The fault hits all lanes at once, so no failover helps.
        let fault = (matches!(purpose, Purpose::Call(_)) && one_of(100) < 5).then_some(kind);
        let has_own_connection = one_of(4) == 0;
        let prompt_words = 1 + one_of(150);
        let mut prompt = format!("errand {number}:");
        (0..prompt_words).for_each(|_| prompt.push_str(WORDS[one_of(WORDS.len())]));
        let mut task =
            Task { number, purpose, key, alias, dialect, stream, tokens, fault, has_own_connection, bytes: Vec::new() };
        task.bytes = task.request(&prompt);
        task
    }
}

impl Task {
    /// Whether it sends a form.
    pub fn is_upload(&self) -> bool {
        matches!(self.purpose, Purpose::Upload(_))
    }

    /// A form; a file names no model, so that a header says whose it is.
    fn upload(&self, upload: Upload) -> Vec<u8> {
        let path = if upload.is_transcript { "/v1/audio/transcriptions" } else { "/v1/files" };
        let form = upload.form(archive::ALIAS);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nx-tokrate-model: {}\r\n\
             content-type: multipart/form-data; boundary=soak\r\ncontent-length: {}\r\n\r\n",
            self.key.value(),
            archive::ALIAS,
            form.len()
        );
        [head.into_bytes(), form].concat()
    }

    fn request(&self, prompt: &str) -> Vec<u8> {
        let Task { alias, dialect, tokens, stream, .. } = self;
        if let Purpose::Upload(upload) = self.purpose {
            return self.upload(upload);
        }
        let mut body = dialect.body(alias.name(), prompt, *tokens, *stream).to_string();
        let of_dialect = dialect.path(alias.name(), *stream);
        let (mut method, mut path, mut key, mut headers) = ("POST", &*of_dialect, self.key.value(), String::new());
        match self.purpose {
            Purpose::ListModels => {
                (method, path) = ("GET", "/v1/models");
                body.clear();
            }
            Purpose::Call(_) | Purpose::Upload(_) => {}
            Purpose::Invalid(InvalidRequest::NoJson) => body.truncate(body.len() / 2),
            Purpose::Invalid(InvalidRequest::NoModel) => body = body.replace("\"model\"", "\"modell\""),
            Purpose::Invalid(InvalidRequest::UnknownModel) => {
                body = dialect.body("nobody", prompt, *tokens, *stream).to_string()
            }
            Purpose::Invalid(InvalidRequest::TwoModels) => body.insert_str(1, "\"model\":\"single\","),
            Purpose::Invalid(InvalidRequest::TooLarge) => {
                body = dialect
                    .body(alias.name(), &prompt.repeat(1 + MAX_REQUEST_BYTES / prompt.len()), *tokens, *stream)
                    .to_string();
            }
            Purpose::Invalid(InvalidRequest::TooDeep) => {
                body.insert_str(1, &format!("\"x\":{}{},", "[".repeat(200), "]".repeat(200)));
            }
            Purpose::Invalid(InvalidRequest::UnknownMode) => headers.push_str("x-tokrate-mode: fastest\r\n"),
            Purpose::Invalid(InvalidRequest::UnknownPath) => path = "/v1/somewhere",
            Purpose::Invalid(InvalidRequest::UnknownKey) => key = "nobody's",
            Purpose::Invalid(InvalidRequest::ForbiddenName) => {
                body = dialect.body("race", prompt, *tokens, *stream).to_string()
            }
            Purpose::Invalid(InvalidRequest::Truncated) => {}
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
        if self.purpose == Purpose::Invalid(InvalidRequest::Truncated) {
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
        let there: Vec<Task> = (0..300).map(|number| one.task(number)).collect();
        let mut back: Vec<Task> = (0..300).rev().map(|number| two.task(number)).collect();
        back.reverse();
        assert_eq!(there, back);
        assert!((0..300).all(|number| one.gap(number) == two.gap(number)));
        assert_ne!(Plan::new(8, 25.0).task(0), there[0]);
    }

    #[test]
    fn a_few_thousand_errands_hold_every_mode_dialect_mistake_and_fault() {
        let plan = Plan::new(1, 25.0);
        let tasks: Vec<Task> = (0..8_000).map(|number| plan.task(number)).collect();
        let calls = || tasks.iter().filter(|task| matches!(task.purpose, Purpose::Call(_)));
        for alias in Alias::ALL {
            for dialect in ClientDialect::ALL {
                for stream in [false, true] {
                    let is_such = |task: &&Task| (task.alias, task.dialect, task.stream) == (alias, dialect, stream);
                    assert!(calls().filter(is_such).count() > 50, "{alias:?} {dialect:?} {stream}");
                }
            }
            for kind in Faults::KINDS.into_iter().filter(|kind| !DISHONEST_FAULTS.contains(kind)) {
                let has = |task: &Task| (task.alias, task.fault) == (alias, Some(kind));
                assert!(alias != Alias::Single || calls().any(has), "{kind}");
            }
        }
        for key in Key::ALL {
            assert!(calls().filter(|task| task.key == key).count() > 30, "{key:?}");
        }
        let uploads = || {
            tasks.iter().filter_map(|task| match task.purpose {
                Purpose::Upload(upload) => Some((upload.is_transcript, upload.bytes > MAX_REQUEST_BYTES, task.key)),
                _ => None,
            })
        };
        for (is_transcript, is_large) in [(false, false), (false, true), (true, false), (true, true)] {
            assert!(uploads().filter(|found| (found.0, found.1) == (is_transcript, is_large)).count() > 10);
        }
        assert!(uploads().any(|(is_transcript, _, key)| is_transcript && key == Key::Budgeted));
        for invalid in InvalidRequest::ALL {
            assert!(tasks.iter().any(|task| task.purpose == Purpose::Invalid(invalid)), "{invalid:?}");
        }
        let seconds: f64 = (0..8_000).map(|number| plan.gap(number).as_secs_f64()).sum();
        assert!((300.0..340.0).contains(&seconds), "{seconds}");
    }
}
