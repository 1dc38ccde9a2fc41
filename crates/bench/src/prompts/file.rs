//! Prompts from files: ShareGPT JSON, JSON Lines, plain text.
//!
//! Invariant: every prompt has text and a token count; an entry that is not a prompt is an error with its position, never
//! skipped.

use super::Prompt;
use crate::bad_input::{BadInput, hash, shown};
use serde::Deserialize;
use tokrate_core::{Content, Image, Message, Role};
use tokrate_tokens::{Encoding, count};
use tokrate_wire::{Dialect, Routed, decode_request};

/// How a file of prompts is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A JSON array: of ShareGPT conversations (`conversations` of `from` and `value`), or of objects as in JSON Lines.
    Json,
    /// A JSON object on each line, with `prompt`, `text`, `question`, `messages` or `conversations`.
    JsonLines,
    /// A prompt on each line.
    Lines,
    /// One prompt.
    Whole,
}

/// The prompts of a file.
#[derive(Clone, PartialEq, Debug)]
pub struct PromptFile {
    kind: FileKind,
    prompts: Vec<Prompt>,
    cut: usize,
    hash: u64,
}

impl FileKind {
    /// The kind that a file's name suggests.
    pub fn of_name(name: &str) -> FileKind {
        let name = name.to_ascii_lowercase();
        match () {
            () if name.ends_with(".json") => FileKind::Json,
            () if name.ends_with(".jsonl") || name.ends_with(".ndjson") => FileKind::JsonLines,
            () => FileKind::Lines,
        }
    }

    /// A name for records.
    pub const fn name(self) -> &'static str {
        match self {
            FileKind::Json => "JSON",
            FileKind::JsonLines => "JSON Lines",
            FileKind::Lines => "text",
            FileKind::Whole => "whole text",
        }
    }
}

impl PromptFile {
    /// Reads prompts.
    ///
    /// # Errors
    /// The position of the first entry that is not a prompt.
    pub fn parse(text: &str, kind: FileKind) -> Result<PromptFile, BadInput> {
        let content = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (prompts, cut) = match kind {
            FileKind::Json => json(content)?,
            FileKind::JsonLines => json_lines(content)?,
            FileKind::Lines => {
                let lines = content.lines().filter(|line| !line.trim().is_empty());
                (lines.map(|line| prompt(Role::User, line)).collect(), 0)
            }
            FileKind::Whole if content.trim().is_empty() => (Vec::new(), 0),
            FileKind::Whole => (vec![prompt(Role::User, content)], 0),
        };
        if prompts.is_empty() {
            return Err(BadInput::at(1, 1, "at least one prompt, and there is none"));
        }
        Ok(PromptFile { kind, prompts, cut, hash: hash(text) })
    }

    /// The prompts, in the order of the file.
    pub fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    /// How many prompts hold images, whose tokens cannot be counted here.
    pub fn with_images(&self) -> usize {
        // Parts of another kind are pictures with a `detail`.
        let pictured = |message: &Message| {
            message.content.iter().any(|part| matches!(part, Content::Image(_) | Content::Other(_)))
        };
        self.prompts.iter().filter(|prompt| prompt.messages.iter().any(pictured)).count()
    }

    /// Whether an image is asked to be looked at in some `detail`, which only the OpenAI chat API has a place for.
    pub fn has_detailed_images(&self) -> bool {
        let contents = self.prompts.iter().flat_map(|prompt| &prompt.messages).flat_map(|message| &message.content);
        contents.into_iter().any(|part| matches!(part, Content::Other(_)))
    }

    /// How many conversations go on after their first answer, of which only what stands before it is sent.
    pub fn cut(&self) -> usize {
        self.cut
    }

    /// Whether an image is given by URL instead of as data.
    pub fn has_linked_images(&self) -> bool {
        let linked = |part: &Content| matches!(part, Content::Image(Image::Url(_)));
        self.prompts.iter().flat_map(|prompt| &prompt.messages).flat_map(|message| &message.content).any(linked)
    }

    /// How the file is written.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// A hash of the whole text.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// An object that holds a prompt in one of the usual ways.
#[derive(Deserialize)]
struct Entry {
    conversations: Option<Vec<ShareGptTurn>>,
    messages: Option<Vec<ChatMessage>>,
    prompt: Option<String>,
    text: Option<String>,
    question: Option<String>,
    /// Everything else: ids and the like.
    #[serde(flatten)]
    others: serde_json::Map<String, serde_json::Value>,
}

/// Fields that belong to what a model is asked, and that are not sent: leaving them out would be another measurement.
const UNSENT: [&str; 12] = [
    "image",
    "images",
    "image_url",
    "picture",
    "pictures",
    "audio",
    "video",
    "file",
    "files",
    "tools",
    "functions",
    "response_format",
];

/// A turn as ShareGPT spells it.
#[derive(Deserialize)]
struct ShareGptTurn {
    from: String,
    value: String,
}

/// A message as chat APIs spell it.
#[derive(Deserialize)]
struct ChatMessage {
    role: String,
    content: ChatContent,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ChatContent {
    Text(String),
    Parts(Vec<serde_json::Value>),
}

const EXPECTED: &str =
    "an object with the text of a prompt in `prompt`, `text`, `question`, `messages` or `conversations`";

/// The prompts, and how many conversations go on after them.
type Read = (Vec<Prompt>, usize);

fn json(content: &str) -> Result<Read, BadInput> {
    // Each element by itself, so that a bad one is known by its place.
    let elements: Vec<&serde_json::value::RawValue> = serde_json::from_str(content)
        .map_err(|error| BadInput::json(1, &error, "a JSON array of conversations or prompts"))?;
    let mut prompts = Vec::with_capacity(elements.len());
    let mut all_cut = 0;
    let (mut place, mut line, mut line_start) = (0, 1, 0);
    for element in elements {
        let start = element.get().as_ptr() as usize - content.as_ptr() as usize;
        for (offset, _) in content[place..start].match_indices('\n') {
            line += 1;
            line_start = place + offset + 1;
        }
        place = start;
        let column = content[line_start..start].chars().count() + 1;
        let entry: Entry = serde_json::from_str(element.get()).map_err(|error| {
            let mut bad = BadInput::json(line, &error, EXPECTED);
            if error.line() <= 1 {
                bad.column += column - 1;
            }
            bad
        })?;
        let (prompt, is_cut) = entry.prompt().map_err(|expected| BadInput::at(line, column, expected))?;
        prompts.push(prompt);
        all_cut += usize::from(is_cut);
    }
    Ok((prompts, all_cut))
}

fn json_lines(content: &str) -> Result<Read, BadInput> {
    let (mut prompts, mut all_cut) = (Vec::new(), 0);
    for (number, line) in (1..).zip(content.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let entry: Entry = serde_json::from_str(line).map_err(|error| BadInput::json(number, &error, EXPECTED))?;
        let (prompt, is_cut) = entry.prompt().map_err(|expected| {
            // What stands there is said once.
            let found =
                if expected.contains("; there is ") { String::new() } else { format!("; there is {}", shown(line)) };
            BadInput::at(number, 1, format!("{expected}{found}"))
        })?;
        prompts.push(prompt);
        all_cut += usize::from(is_cut);
    }
    Ok((prompts, all_cut))
}

impl Entry {
    /// The prompt: of a conversation what precedes its first answer; and whether it goes on after that.
    fn prompt(self) -> Result<(Prompt, bool), String> {
        if let Some(field) =
            UNSENT.into_iter().find(|field| self.others.get(*field).is_some_and(|value| !value.is_null()))
        {
            let instead = match field {
                "tools" | "functions" | "response_format" => "leave it out, or send one for all with --body",
                _ => "leave it out, or write it as a part of a message: `messages` with `image_url`",
            };
            return Err(format!("a prompt without `{field}`, which is not sent from here; {instead}"));
        }
        let (messages, is_cut): (Vec<Message>, bool) = if let Some(turns_of) = self.conversations {
            let turns =
                turns_of.into_iter().map(|turns_of| Ok((role_of(&turns_of.from), vec![Content::Text(turns_of.value)])));
            until_answered(turns)?
        } else if let Some(spoken) = self.messages {
            until_answered(spoken.into_iter().map(|spoken| Ok((role_of(&spoken.role), spoken.content.read()?))))?
        } else {
            let text = self.prompt.or(self.text).or(self.question).ok_or_else(|| EXPECTED.to_owned())?;
            (vec![Message::text(Role::User, text)], false)
        };
        let tokens: usize = messages.iter().flat_map(|message| message.texts()).map(tokens_of).sum();
        if tokens == 0 {
            return Err("a prompt with text, and it is empty".to_owned());
        }
        Ok((Prompt { messages, input_tokens: tokens as u64, output_tokens: None }, is_cut))
    }
}

impl ChatContent {
    /// The parts, as the OpenAI chat API spells them: text and images. Parts that not every server accepts are rejected.
    fn read(self) -> Result<Vec<Content>, String> {
        let parts = match self {
            ChatContent::Text(text) => return Ok(vec![Content::Text(text)]),
            ChatContent::Parts(parts) => parts,
        };
        let message = serde_json::json!({ "role": "user", "content": parts });
        let body = serde_json::json!({ "model": "", "messages": [message] }).to_string();
        let read = decode_request(&Routed::from(Dialect::OpenAiChat), body.as_bytes());
        let read = read.map_err(|error| format!("parts of a message as the OpenAI chat API spells them: {error}"))?;
        let parts: Vec<Content> = read.messages.into_iter().flat_map(|message| message.content).collect();
        let is_sent = |part: &&Content| match part {
            Content::Text(_) | Content::Image(_) => true,
            Content::Other(json) => is_detailed_image(json),
            _ => false,
        };
        const SENT: &str = "parts of type `text`, or `image_url` with a `url` and a `detail`";
        match parts.iter().find(|part| !is_sent(part)) {
            Some(Content::Other(json)) => Err(format!("{SENT}; there is {}", shown(json))),
            Some(_) => Err(SENT.to_owned()),
            None => Ok(parts),
        }
    }
}

/// Whether a part is an image with a `detail`, which is sent as it is.
fn is_detailed_image(json: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Part {
        r#type: String,
        image_url: Linked,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Linked {
        #[serde(rename = "url")]
        _url: String,
        #[serde(rename = "detail")]
        _detail: String,
    }
    serde_json::from_str::<Part>(json).is_ok_and(|Part { r#type, image_url: Linked { .. } }| r#type == "image_url")
}

/// Role, if known, and content.
type Turn = (Option<Role>, Vec<Content>);

fn until_answered(turns: impl Iterator<Item = Result<Turn, String>>) -> Result<(Vec<Message>, bool), String> {
    let mut messages = Vec::new();
    let mut turns = turns;
    let mut is_cut = false;
    while let Some(turn) = turns.next() {
        let (role, content) = turn?;
        match role {
            Some(Role::Assistant) if messages.iter().any(|message: &Message| message.role == Role::User) => {
                is_cut = turns.next().is_some();
                break;
            }
            // A conversation that begins with an answer was cut; everything before the first question is dropped.
            Some(Role::Assistant) => {}
            Some(role) => messages.push(Message { role, content }),
            None => return Err("the speakers human, user, system, gpt or assistant".to_owned()),
        }
    }
    if messages.iter().all(|message| message.role != Role::User) {
        return Err("a conversation in which somebody asks (`human` or `user`)".to_owned());
    }
    Ok((messages, is_cut))
}

/// Who speaks, by the names in use.
fn role_of(name: &str) -> Option<Role> {
    match name.to_ascii_lowercase().as_str() {
        "human" | "user" => Some(Role::User),
        "system" | "developer" => Some(Role::System),
        "gpt" | "assistant" | "chatgpt" | "bing" | "bard" | "model" => Some(Role::Assistant),
        _ => None,
    }
}

fn prompt(role: Role, text: &str) -> Prompt {
    let messages = vec![Message::text(role, text)];
    Prompt { messages, input_tokens: tokens_of(text) as u64, output_tokens: None }
}

fn tokens_of(text: &str) -> usize {
    count(Encoding::O200kBase, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};
    use tokrate_core::Image;

    fn texts(file: &PromptFile) -> Vec<Vec<String>> {
        let of = |prompt: &Prompt| prompt.messages.iter().map(|message| message.texts().collect()).collect();
        file.prompts().iter().map(of).collect()
    }

    fn refused(text: &str, kind: FileKind) -> String {
        PromptFile::parse(text, kind).expect_err("it is bad").to_string()
    }

    #[test]
    fn share_gpt_is_read_up_to_the_first_answer() {
        let text = r#"[
  {"id": "a", "conversations": [{"from": "human", "value": "Hi there"}, {"from": "gpt", "value": "Hello"},
    {"from": "human", "value": "More"}]},
  {"id": "b", "conversations": [{"from": "system", "value": "Be short"}, {"from": "human", "value": "Why?"}]}
]"#;
        let file = PromptFile::parse(text, FileKind::Json).expect("prompts");
        assert_eq!(texts(&file), [vec!["Hi there"], vec!["Be short", "Why?"]]);
        assert_eq!(file.prompts()[0].input_tokens, 2);
        assert_eq!(file.prompts()[1].messages[0].role, Role::System);
    }

    #[test]
    fn json_lines_hold_prompts_in_the_usual_fields() {
        let text = "{\"prompt\": \"one\"}\n\n{\"text\": \"two\", \"id\": 3}\n{\"question\": \"three\"}\n\
                    {\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"four\"}]}]}";
        let file = PromptFile::parse(text, FileKind::JsonLines).expect("prompts");
        assert_eq!(texts(&file), [["one"], ["two"], ["three"], ["four"]]);
    }

    #[test]
    fn pictures_are_sent_with_their_text() {
        let text = r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}]}"#
            .replace('\n', "");
        let file = PromptFile::parse(&text, FileKind::JsonLines).expect("a prompt");
        let picture = Image::Data { media_type: "image/png".to_owned(), base64: "AAAA".to_owned() };
        let url = Image::Url("https://x/y.png".to_owned());
        assert_eq!(
            file.prompts()[0].messages[0].content,
            [Content::Text("What is this?".to_owned()), Content::Image(picture), Content::Image(url)]
        );
        assert_eq!(file.with_images(), 1);
        let audio = r#"{"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}"#;
        let message = refused(audio, FileKind::JsonLines);
        assert!(message.contains("a `detail`; there is `{\"input_audio\""), "{message}");
        assert_eq!(message.matches("there is").count(), 1, "{message}");
    }

    #[test]
    fn a_picture_with_its_detail_is_sent_as_it_is() {
        let part = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}"#;
        let text = format!(r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"What?"}},{part}]}}]}}"#);
        let file = PromptFile::parse(&text, FileKind::JsonLines).expect("a prompt");
        assert!(
            matches!(&file.prompts()[0].messages[0].content[1], Content::Other(json) if json.contains(r#""detail":"low""#))
        );
        assert_eq!((file.with_images(), file.has_detailed_images()), (1, true));
    }

    #[test]
    fn what_a_prompt_needs_and_is_not_sent_is_refused_and_a_conversation_that_goes_on_is_counted() {
        for field in ["image", "images", "tools", "audio"] {
            let text = format!(r#"{{"prompt": "x", "id": 3, "{field}": "foo.png"}}"#);
            let message = refused(&text, FileKind::JsonLines);
            assert!(message.contains(&format!("a prompt without `{field}`, which is not sent")), "{message}");
        }
        assert!(PromptFile::parse(r#"{"prompt": "x", "image": null}"#, FileKind::JsonLines).is_ok());
        let turn = |role: &str| format!(r#"{{"role":"{role}","content":"a"}}"#);
        let line = |roles: &[&str]| {
            let turns: Vec<String> = roles.iter().map(|role| turn(role)).collect();
            format!("{{\"messages\":[{}]}}\n", turns.join(","))
        };
        let text = line(&["user", "assistant", "user"]) + &line(&["user", "assistant"]) + &line(&["user"]);
        let file = PromptFile::parse(&text, FileKind::JsonLines).expect("prompts");
        assert_eq!((file.prompts().len(), file.cut()), (3, 1));
    }

    #[test]
    fn plain_text_is_a_prompt_a_line_or_one() {
        let text = "first\n\nsecond line\n";
        assert_eq!(texts(&PromptFile::parse(text, FileKind::Lines).expect("two")), [["first"], ["second line"]]);
        assert_eq!(texts(&PromptFile::parse(text, FileKind::Whole).expect("one")), [[text]]);
    }

    #[test]
    fn an_entry_that_is_no_prompt_is_refused_with_its_position() {
        let cases = [
            ("[{\"prompt\": \"a\"},\n  {\"prompt\": 3}]", FileKind::Json, "line 2, column "),
            ("[{\"prompt\": \"a\"},\n  {\"other\": 3}]", FileKind::Json, "line 2, column 3: expected an object with"),
            ("[{\"prompt\": \"a\"}", FileKind::Json, "line 1, column 16: expected a JSON array"),
            ("{\"prompt\": \"a\"}\n{\"prompt\": }\n", FileKind::JsonLines, "line 2, column 12: expected an object"),
            ("{\"prompt\": \"\"}", FileKind::JsonLines, "line 1, column 1: expected a prompt with text"),
            (
                "{\"conversations\": [{\"from\": \"gpt\", \"value\": \"x\"}]}",
                FileKind::JsonLines,
                "line 1, column 1: expected a conversation in which somebody asks",
            ),
            ("\n \n", FileKind::Lines, "line 1, column 1: expected at least one prompt"),
            ("", FileKind::Whole, "line 1, column 1: expected at least one prompt"),
            ("[]", FileKind::Json, "line 1, column 1: expected at least one prompt"),
        ];
        for (text, kind, expected) in cases {
            let message = refused(text, kind);
            assert!(message.starts_with(expected), "{text:?}: {message}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "(?s).{0,200}", json in "[\\[\\]{}\":,a-z0-9\n ]{0,80}") {
            for kind in [FileKind::Json, FileKind::JsonLines, FileKind::Lines, FileKind::Whole] {
                for text in [&text, &json] {
                    match PromptFile::parse(text, kind) {
                        Ok(file) => prop_assert!(!file.prompts().is_empty()),
                        Err(bad) => prop_assert!(bad.line >= 1 && bad.column >= 1),
                    }
                }
            }
        }
    }
}
