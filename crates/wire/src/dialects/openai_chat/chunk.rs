//! One JSON document of the dialect, a stream's chunk or a whole answer, with its fields read and nothing emitted yet.
//!
//! Written as serde visitors and not with `crate::object`, as all other dialects are: a chunk that no template recognises takes
//! 485 ns this way and 700 ns with the shared reader (`decode_speed`, "openai-chat, full parse", fastest of 5 interleaved
//! rounds on two shared cores of an EPYC; 435 and 655 ns without padding), and this dialect is most of what is streamed.
//!
//! Invariant: a field of a wrong type is flagged and costs that field only; of a repeated key the last value counts.

use super::visitor::{Any, Read, Text};
use crate::json_text::{append_unescaped, plain_length};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess};
use serde_json::value::RawValue;
use std::borrow::Cow;
use tokrate_core::{Channel, FinishReason};

/// One text of a document.
pub(super) struct Delta<'a> {
    pub(super) channel: Channel,
    pub(super) text: Cow<'a, str>,
    /// The text as it stands in the document, between the quotes; not known for parts of an array.
    pub(super) raw: Option<&'a str>,
    /// The tool call that it belongs to; its text may be empty then.
    pub(super) call: Option<Call<'a>>,
}

/// Which tool call a text belongs to, as the document has it.
#[derive(Clone, Default)]
pub(super) struct Call<'a> {
    pub(super) index: u64,
    /// Empty if it is absent.
    pub(super) id: Cow<'a, str>,
    /// Empty if it is absent.
    pub(super) name: Cow<'a, str>,
}

/// The fields of one document.
#[derive(Default)]
pub(super) struct Chunk<'a> {
    pub(super) model: Option<Cow<'a, str>>,
    /// Non-empty texts: reasoning, answer, refusal, tools.
    pub(super) deltas: Vec<Delta<'a>>,
    pub(super) finish: Option<FinishReason>,
    /// The usage block as JSON, not `null`.
    pub(super) usage: Option<&'a str>,
    /// The error as JSON, not `null`.
    pub(super) failure: Option<&'a str>,
    /// The value of a field that changes from chunk to chunk and means nothing here.
    pub(super) padding: Option<&'a str>,
    /// llama.cpp's own times as JSON.
    pub(super) timings: Option<&'a str>,
    /// Cerebras' own times as JSON.
    pub(super) time_info: Option<&'a str>,
    /// There is a `message` or `detail` at the top, as in an error without an `error` field.
    pub(super) message: bool,
    /// There is a `choices` field.
    pub(super) choices: bool,
    pub(super) extra_choices: u32,
    /// Something had a wrong type.
    pub(super) malformed: bool,
    /// There is output that is no text: sound or pictures.
    pub(super) opaque: bool,
    /// The same text came under two names and was taken once.
    pub(super) repeated: bool,
}

/// Reads a document. Fails on broken syntax only.
pub(super) fn read_chunk(json: &str) -> Result<Chunk<'_>, serde_json::Error> {
    let mut chunk = Chunk::default();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    Any(Root(&mut chunk)).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(chunk)
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum RootKey {
    Model,
    Choices,
    Usage,
    XGroq,
    Error,
    Message,
    Detail,
    Obfuscation,
    Timings,
    TimeInfo,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum ChoiceKey {
    Index,
    Delta,
    Message,
    FinishReason,
    Usage,
    Error,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum AnswerKey {
    Content,
    Refusal,
    ReasoningContent,
    Reasoning,
    ReasoningText,
    ToolCalls,
    FunctionCall,
    Audio,
    Images,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum PartKey {
    Text,
    Refusal,
    Thinking,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum ToolKey {
    Index,
    Id,
    Function,
    Name,
    Arguments,
    #[serde(other)]
    Other,
}

/// The document itself, or an array of which the first element is taken (Google's errors).
struct Root<'c, 'a>(&'c mut Chunk<'a>);

/// An array whose elements are read one by one.
struct Choices<'c, 'a>(&'c mut Chunk<'a>);

struct Choice<'c, 'a>(&'c mut Chunk<'a>);

/// A `delta` or a `message`, whose texts replace those from `first` on.
struct Answer<'c, 'a> {
    chunk: &'c mut Chunk<'a>,
    first: usize,
}

/// `content`: a string, or an array of parts.
struct Content<'c, 'a> {
    deltas: &'c mut Vec<Delta<'a>>,
    channel: Channel,
    malformed: &'c mut bool,
}

/// One element of an array of parts; `thinking` may hold parts of its own.
struct ContentPart<'c, 'a>(Content<'c, 'a>);

/// `tool_calls`, or a legacy `function_call`.
struct Tools<'c, 'a> {
    deltas: &'c mut Vec<Delta<'a>>,
    malformed: &'c mut bool,
}

/// One element of `tool_calls`, its `function`, or a legacy `function_call`.
struct ToolCall<'c, 'a> {
    call: &'c mut Call<'a>,
    arguments: &'c mut Option<Delta<'a>>,
    malformed: &'c mut bool,
}

/// A field kept as JSON; `null` counts as absent.
fn raw<'a, A: MapAccess<'a>>(object: &mut A) -> Result<Option<&'a str>, A::Error> {
    let json = object.next_value::<&'a RawValue>()?.get();
    Ok((json != "null").then_some(json))
}

impl<'a> Read<'a> for Root<'_, 'a> {
    type Out = ();

    fn wrong(self) {
        self.0.malformed = true;
    }

    fn null(self) {
        self.0.malformed = true;
    }

    fn array<A: SeqAccess<'a>>(self, mut array: A) -> Result<(), A::Error> {
        if array.next_element_seed(Any(Root(self.0)))?.is_none() {
            self.0.malformed = true;
        }
        while array.next_element::<IgnoredAny>()?.is_some() {
            self.0.malformed = true;
        }
        Ok(())
    }

    fn object<A: MapAccess<'a>>(self, mut object: A) -> Result<(), A::Error> {
        let chunk = self.0;
        while let Some(key) = object.next_key::<RootKey>()? {
            match key {
                RootKey::Model => chunk.model = object.next_value_seed(Any(Text(&mut chunk.malformed)))?,
                RootKey::Choices => {
                    chunk.choices = true;
                    chunk.deltas.clear();
                    (chunk.finish, chunk.extra_choices, chunk.opaque) = (None, 0, false);
                    object.next_value_seed(Any(Choices(chunk)))?;
                }
                RootKey::Usage => chunk.usage = raw(&mut object)?.or(chunk.usage),
                RootKey::XGroq => {
                    let inner = object.next_value_seed(Any(GroqUsage))?;
                    chunk.usage = chunk.usage.or(inner);
                }
                RootKey::Error => chunk.failure = raw(&mut object)?,
                RootKey::Message | RootKey::Detail => chunk.message = raw(&mut object)?.is_some(),
                RootKey::Obfuscation => chunk.padding = raw(&mut object)?,
                RootKey::Timings => chunk.timings = raw(&mut object)?,
                RootKey::TimeInfo => chunk.time_info = raw(&mut object)?,
                RootKey::Other => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// `x_groq`, of which only the usage block is of interest.
struct GroqUsage;

impl<'a> Read<'a> for GroqUsage {
    type Out = Option<&'a str>;

    fn wrong(self) -> Self::Out {
        None
    }

    fn null(self) -> Self::Out {
        None
    }

    fn object<A: MapAccess<'a>>(self, mut object: A) -> Result<Self::Out, A::Error> {
        let mut usage = None;
        while let Some(key) = object.next_key::<RootKey>()? {
            match key {
                RootKey::Usage => usage = raw(&mut object)?,
                _ => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        Ok(usage)
    }
}

impl<'a> Read<'a> for Choices<'_, 'a> {
    type Out = ();

    fn wrong(self) {
        self.0.malformed = true;
    }

    fn null(self) {}

    fn array<A: SeqAccess<'a>>(self, mut array: A) -> Result<(), A::Error> {
        while array.next_element_seed(Any(Choice(self.0)))?.is_some() {}
        Ok(())
    }
}

impl<'a> Read<'a> for Choice<'_, 'a> {
    type Out = ();

    fn wrong(self) {
        self.0.malformed = true;
    }

    fn null(self) {
        self.0.malformed = true;
    }

    fn object<A: MapAccess<'a>>(self, mut object: A) -> Result<(), A::Error> {
        let chunk = self.0;
        let (first, was_opaque) = (chunk.deltas.len(), chunk.opaque);
        let (mut index, mut finish, mut usage, mut failure) = ("0", None, None, None);
        while let Some(key) = object.next_key::<ChoiceKey>()? {
            match key {
                ChoiceKey::Index => index = raw(&mut object)?.unwrap_or("0"),
                ChoiceKey::Delta | ChoiceKey::Message => {
                    object.next_value_seed(Any(Answer { chunk, first }))?;
                }
                ChoiceKey::FinishReason => finish = object.next_value_seed(Any(Text(&mut chunk.malformed)))?,
                ChoiceKey::Usage => usage = raw(&mut object)?,
                ChoiceKey::Error => failure = raw(&mut object)?,
                ChoiceKey::Other => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        if index != "0" {
            // A whole number of another choice; its text is not measured.
            if index.parse::<u64>().is_ok_and(|index| index > 0) {
                chunk.deltas.truncate(first);
                chunk.opaque = was_opaque;
                chunk.extra_choices += 1;
                return Ok(());
            }
            chunk.malformed = true;
        }
        chunk.finish = finish.as_deref().and_then(finish_reason).or(chunk.finish);
        chunk.usage = chunk.usage.or(usage);
        chunk.failure = chunk.failure.or(failure);
        Ok(())
    }
}

impl<'a> Read<'a> for Answer<'_, 'a> {
    type Out = ();

    fn wrong(self) {
        self.chunk.malformed = true;
    }

    fn null(self) {}

    fn object<A: MapAccess<'a>>(self, mut object: A) -> Result<(), A::Error> {
        let Chunk { deltas, malformed, repeated, opaque, .. } = self.chunk;
        deltas.truncate(self.first);
        let (mut content, mut tools) = (Vec::new(), Vec::new());
        let (mut refusal, mut reasoning) = (None, [None, None, None]);
        while let Some(key) = object.next_key::<AnswerKey>()? {
            match key {
                AnswerKey::Content => {
                    content.clear();
                    read_content(&mut object, &mut content, malformed)?;
                }
                AnswerKey::Refusal => refusal = read_text(&mut object, Channel::Answer, malformed)?,
                AnswerKey::ReasoningContent => {
                    reasoning[0] = read_text(&mut object, Channel::Reasoning, malformed)?;
                }
                AnswerKey::Reasoning => reasoning[1] = read_text(&mut object, Channel::Reasoning, malformed)?,
                AnswerKey::ReasoningText => reasoning[2] = read_text(&mut object, Channel::Reasoning, malformed)?,
                AnswerKey::ToolCalls | AnswerKey::FunctionCall => {
                    let mut latest = Vec::new();
                    object.next_value_seed(Any(Tools { deltas: &mut latest, malformed }))?;
                    // The older field stands as `null` beside the newer one.
                    if !latest.is_empty() {
                        tools = latest;
                    }
                }
                AnswerKey::Audio | AnswerKey::Images => *opaque |= raw(&mut object)?.is_some_and(|json| json != "[]"),
                AnswerKey::Other => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        for delta in reasoning.into_iter().flatten() {
            // Some engines send the same text under two names.
            if deltas[self.first..].iter().any(|earlier| earlier.text == delta.text) {
                *repeated = true;
            } else {
                deltas.push(delta);
            }
        }
        deltas.append(&mut content);
        deltas.extend(refusal);
        deltas.append(&mut tools);
        Ok(())
    }
}

impl<'a> Read<'a> for Content<'_, 'a> {
    type Out = ();

    fn wrong(self) {
        *self.malformed = true;
    }

    fn null(self) {}

    fn text(self, text: Cow<'a, str>) {
        push(self.deltas, self.channel, text);
    }

    fn array<A: SeqAccess<'a>>(self, mut array: A) -> Result<(), A::Error> {
        let Content { deltas, channel, malformed } = self;
        while array.next_element_seed(Any(ContentPart(Content { deltas, channel, malformed })))?.is_some() {}
        Ok(())
    }
}

impl<'a> Read<'a> for ContentPart<'_, 'a> {
    type Out = ();

    fn wrong(self) {
        *self.0.malformed = true;
    }

    fn null(self) {
        *self.0.malformed = true;
    }

    fn text(self, text: Cow<'a, str>) {
        self.0.text(text);
    }

    fn object<A: MapAccess<'a>>(self, mut object: A) -> Result<(), A::Error> {
        let Content { deltas, channel, malformed } = self.0;
        while let Some(key) = object.next_key::<PartKey>()? {
            match key {
                PartKey::Text | PartKey::Refusal => {
                    if let Some(text) = object.next_value_seed(Any(Text(malformed)))? {
                        push(deltas, channel, text);
                    }
                }
                // Depth ends here: raw_text of thinking, thinking is no longer looked for.
                PartKey::Thinking if channel == Channel::Answer => {
                    object.next_value_seed(Any(Content { deltas, channel: Channel::Reasoning, malformed }))?;
                }
                PartKey::Thinking | PartKey::Other => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

impl<'a> Read<'a> for Tools<'_, 'a> {
    type Out = ();

    fn wrong(self) {
        *self.malformed = true;
    }

    fn null(self) {}

    fn array<A: SeqAccess<'a>>(self, mut array: A) -> Result<(), A::Error> {
        let Tools { deltas, malformed } = self;
        for position in 0.. {
            let (mut call, mut arguments) = (Call { index: position, ..Call::default() }, None);
            let reader = ToolCall { call: &mut call, arguments: &mut arguments, malformed };
            if array.next_element_seed(Any(reader))?.is_none() {
                break;
            }
            deltas.push(delta_of(call, arguments));
        }
        Ok(())
    }

    fn object<A: MapAccess<'a>>(self, object: A) -> Result<(), A::Error> {
        let (mut call, mut arguments) = (Call::default(), None);
        ToolCall { call: &mut call, arguments: &mut arguments, malformed: self.malformed }.object(object)?;
        if !call.name.is_empty() || arguments.is_some() {
            self.deltas.push(delta_of(call, arguments));
        }
        Ok(())
    }
}

impl<'a> Read<'a> for ToolCall<'_, 'a> {
    type Out = ();

    fn wrong(self) {
        *self.malformed = true;
    }

    fn null(self) {
        *self.malformed = true;
    }

    fn object<A: MapAccess<'a>>(self, mut object: A) -> Result<(), A::Error> {
        let ToolCall { call, arguments, malformed } = self;
        while let Some(key) = object.next_key::<ToolKey>()? {
            match key {
                ToolKey::Index => match raw(&mut object)?.map(str::parse) {
                    Some(Ok(index)) => call.index = index,
                    Some(Err(_)) => *malformed = true,
                    None => {}
                },
                ToolKey::Id => call.id = object.next_value_seed(Any(Text(malformed)))?.unwrap_or_default(),
                ToolKey::Name => call.name = object.next_value_seed(Any(Text(malformed)))?.unwrap_or_default(),
                ToolKey::Arguments => *arguments = read_text(&mut object, Channel::Tool, malformed)?,
                ToolKey::Function => object.next_value_seed(Any(ToolCall { call, arguments, malformed }))?,
                ToolKey::Other => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The arguments of a call, possibly empty, with the call that they belong to.
fn delta_of<'a>(call: Call<'a>, arguments: Option<Delta<'a>>) -> Delta<'a> {
    let empty = Delta { channel: Channel::Tool, text: Cow::Borrowed(""), raw: None, call: None };
    Delta { call: Some(call), ..arguments.unwrap_or(empty) }
}

fn push<'a>(deltas: &mut Vec<Delta<'a>>, channel: Channel, text: Cow<'a, str>) {
    if !text.is_empty() {
        deltas.push(Delta { channel, text, raw: None, call: None });
    }
}

/// `content`: nearly always a string, otherwise `null` or an array of parts.
fn read_content<'a, A: MapAccess<'a>>(
    object: &mut A,
    deltas: &mut Vec<Delta<'a>>,
    malformed: &mut bool,
) -> Result<(), A::Error> {
    let json = object.next_value::<&'a RawValue>()?.get();
    if json.starts_with('[') {
        let mut parts = serde_json::Deserializer::from_str(json);
        let reader = Content { deltas, channel: Channel::Answer, malformed };
        return Any(reader).deserialize(&mut parts).map_err(A::Error::custom);
    }
    deltas.extend(text_of(json, Channel::Answer, malformed).map_err(A::Error::custom)?);
    Ok(())
}

/// A field that is a string or `null`.
fn read_text<'a, A: MapAccess<'a>>(
    object: &mut A,
    channel: Channel,
    malformed: &mut bool,
) -> Result<Option<Delta<'a>>, A::Error> {
    let json = object.next_value::<&'a RawValue>()?.get();
    text_of(json, channel, malformed).map_err(A::Error::custom)
}

/// The text of a JSON value; `None` for `null` and the empty string. Fails on lone halves of surrogate pairs.
fn text_of<'a>(json: &'a str, channel: Channel, malformed: &mut bool) -> Result<Option<Delta<'a>>, &'static str> {
    let Some(raw_text) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        *malformed |= json != "null";
        return Ok(None);
    };
    if raw_text.is_empty() {
        return Ok(None);
    }
    let mut text = Cow::Borrowed(raw_text);
    if plain_length(raw_text.as_bytes()) < raw_text.len() {
        let mut unescaped = String::with_capacity(raw_text.len());
        if !append_unescaped(raw_text.as_bytes(), &mut unescaped) {
            return Err("half of a surrogate pair");
        }
        text = Cow::Owned(unescaped);
    }
    Ok(Some(Delta { channel, text, raw: Some(raw_text), call: None }))
}

/// The reasons of OpenAI and their synonyms in other engines; the empty string is no reason.
pub(crate) fn finish_reason(name: &str) -> Option<FinishReason> {
    const NAMES: [(&str, FinishReason); 12] = [
        ("stop", FinishReason::Stop),
        ("length", FinishReason::Length),
        ("tool_calls", FinishReason::ToolCalls),
        ("content_filter", FinishReason::ContentFilter),
        ("function_call", FinishReason::ToolCalls),
        ("max_tokens", FinishReason::Length),
        ("eos", FinishReason::Stop),
        ("eos_token", FinishReason::Stop),
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("tool_use", FinishReason::ToolCalls),
        ("safety", FinishReason::ContentFilter),
    ];
    let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    (!name.is_empty()).then(|| known.map_or(FinishReason::Other, |(_, reason)| *reason))
}
