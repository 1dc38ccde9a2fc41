//! A chat request, independent of how a dialect spells it.
//!
//! It refuses to know JSON: fields without a name of their own travel as raw JSON text.
//! Invariant: what is not set is not sent.

/// One chat request.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ChatRequest {
    /// The model's name as the endpoint knows it.
    pub model: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Ask for the answer piece by piece.
    pub stream: bool,
    /// Ask for token counts in the stream (`stream_options.include_usage`).
    pub include_usage: bool,
    /// Upper limit of output tokens.
    pub max_output_tokens: Option<u32>,
    /// Send the limit under the older name `max_tokens`, which many engines still want.
    pub legacy_max_tokens: bool,
    /// Ask the engine to go on past its end token, so that the output has the length asked for (vLLM, SGLang, llama.cpp).
    pub ignore_eos: bool,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling: share of the probability mass that is drawn from.
    pub top_p: Option<f64>,
    /// Texts at which the answer ends.
    pub stop: Vec<String>,
    /// Sampling seed.
    pub seed: Option<u64>,
    /// Tools that the model may call.
    pub tools: Vec<Tool>,
    /// Which of them it should call.
    pub tool_choice: Option<ToolChoice>,
    /// Further top-level fields: name and JSON text, in the dialect that the request was read from or is written in.
    pub extra: Vec<(String, String)>,
}

/// One message of a conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<Content>,
}

/// One part of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// Text.
    Text(String),
    /// The model's earlier thinking, sent back to it.
    Reasoning {
        /// What it thought; may be empty when only a signature stands for it.
        text: String,
        /// The provider's seal on it.
        signature: Option<String>,
    },
    /// A picture.
    Image(Image),
    /// A call that the model made.
    ToolCall {
        /// Its identifier.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments, as JSON text.
        arguments: String,
    },
    /// What a called tool answered.
    ToolResult {
        /// The identifier of the call.
        id: String,
        /// The tool's name, in dialects that repeat it; may be empty.
        name: String,
        /// The answer's text.
        text: String,
        /// Whether the tool failed.
        failed: bool,
    },
    /// A part of another kind, as the JSON it was in its dialect.
    Other(String),
}

/// A picture, by reference or whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Image {
    /// Where it lies.
    Url(String),
    /// The picture itself.
    Data {
        /// Its media type, such as `image/png`.
        media_type: String,
        /// Its bytes in base64.
        base64: String,
    },
}

/// A tool that the model may call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// JSON Schema of its arguments, as JSON text.
    pub parameters: Option<String>,
}

/// Which tools should be called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// None.
    Never,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

impl Message {
    /// A message that is one text.
    pub fn text(role: Role, text: impl Into<String>) -> Message {
        Message { role, content: vec![Content::Text(text.into())] }
    }

    /// Every text of it that a model reads as words: texts, thinking, arguments, results.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|content| match content {
            Content::Text(text) | Content::Reasoning { text, .. } | Content::ToolResult { text, .. } => {
                Some(text.as_str())
            }
            Content::ToolCall { arguments, .. } => Some(arguments.as_str()),
            Content::Image(_) | Content::Other(_) => None,
        })
    }
}

/// Who speaks in a conversation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Instructions.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The result of a tool.
    Tool,
}

impl Role {
    /// The name on the wire in OpenAI's dialects.
    pub const fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}
