//! Prompts from files: ShareGPT JSON, JSON Lines, plain text; shards of a dataset are joined.
//!
//! Invariant: every prompt has text and a token count; an entry that is not a prompt is an error with its position, never
//! skipped.

mod entry;

pub use entry::Columns;

use super::Prompt;
use crate::bad_input::{BadInput, hash, shown};
use entry::Entry;
use tokrate_core::{Content, Image, Message, Role};
use tokrate_tokens::{Encoding, count};

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
        PromptFile::parse_columns(text, kind, &Columns::default())
    }

    /// Reads prompts from these columns; of plain text there are none.
    ///
    /// # Errors
    /// As of [`PromptFile::parse`].
    pub fn parse_columns(text: &str, kind: FileKind, columns: &Columns) -> Result<PromptFile, BadInput> {
        let content = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (prompts, cut) = match kind {
            FileKind::Json => json(content, columns)?,
            FileKind::JsonLines => json_lines(content, columns)?,
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

    /// Shards of a dataset as one, in their order.
    pub fn joined(shards: Vec<PromptFile>) -> Option<PromptFile> {
        let is_one = shards.len() == 1;
        let text: String = shards.iter().map(|shard| format!("{:016x}", shard.hash)).collect();
        let mut whole = shards.into_iter().reduce(|mut whole, shard| {
            whole.prompts.extend(shard.prompts);
            whole.cut += shard.cut;
            whole
        })?;
        whole.hash = if is_one { whole.hash } else { hash(&text) };
        Some(whole)
    }

    /// The same without the lengths of its answers.
    pub fn without_answers(mut self) -> PromptFile {
        self.prompts.iter_mut().for_each(|prompt| prompt.output_tokens = None);
        self
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

const EXPECTED: &str =
    "an object with the text of a prompt in `prompt`, `text`, `question`, `messages` or `conversations`";

/// The prompts, and how many conversations go on after them.
type Read = (Vec<Prompt>, usize);

fn json(content: &str, columns: &Columns) -> Result<Read, BadInput> {
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
        let (prompt, is_cut) = entry.prompt(columns).map_err(|expected| BadInput::at(line, column, expected))?;
        prompts.push(prompt);
        all_cut += usize::from(is_cut);
    }
    Ok((prompts, all_cut))
}

fn json_lines(content: &str, columns: &Columns) -> Result<Read, BadInput> {
    let (mut prompts, mut all_cut) = (Vec::new(), 0);
    for (number, line) in (1..).zip(content.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let entry: Entry = serde_json::from_str(line).map_err(|error| BadInput::json(number, &error, EXPECTED))?;
        let (prompt, is_cut) = entry.prompt(columns).map_err(|expected| {
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

fn prompt(role: Role, text: &str) -> Prompt {
    let messages = vec![Message::text(role, text)];
    Prompt { messages, input_tokens: tokens_of(text) as u64, output_tokens: None }
}

fn tokens_of(text: &str) -> usize {
    count(Encoding::O200kBase, text)
}

#[cfg(test)]
mod tests;
