//! A chat request, independent of its dialect.
//!
//! Fields without a name of their own are kept as raw JSON text. Invariant: what is not set is not sent.

/// One chat request.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ChatRequest {
    /// The model name, as the endpoint names it.
    pub model: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Request a streamed answer.
    pub stream: bool,
    /// Request token counts in the stream (`stream_options.include_usage`).
    pub include_usage: bool,
    /// Limit of output tokens.
    pub max_output_tokens: Option<u32>,
    /// Send the limit under the older name `max_tokens`, which many engines still require.
    pub legacy_max_tokens: bool,
    /// Ask the engine to continue past its end token, so that the output has the requested length (vLLM, SGLang,
    /// llama.cpp).
    pub ignore_eos: bool,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling: share of the probability mass to sample from.
    pub top_p: Option<f64>,
    /// Stop sequences.
    pub stop: Vec<String>,
    /// Sampling seed.
    pub seed: Option<u64>,
    /// Tools that the model may call.
    pub tools: Vec<Tool>,
    /// Which tools it should call.
    pub tool_choice: Option<ToolChoice>,
    /// Further top-level fields as name and JSON text, in the dialect that the request was read from or will be written
    /// in.
    pub extra: Vec<(String, String)>,
}

/// One message of a conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The role.
    pub role: Role,
    /// The parts, in order.
    pub content: Vec<Content>,
}

/// One part of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// Text.
    Text(String),
    /// Earlier reasoning of the model, sent back to it.
    Reasoning {
        /// The text; may be empty if there is only a signature.
        text: String,
        /// The signature of the provider.
        signature: Option<String>,
    },
    /// An image.
    Image(Image),
    /// A tool call by the model.
    ToolCall {
        /// Its identifier.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments, as JSON text.
        arguments: String,
    },
    /// The result of a tool call.
    ToolResult {
        /// The identifier of the call.
        id: String,
        /// The tool's name, for dialects that repeat it; may be empty.
        name: String,
        /// The text of the result.
        text: String,
        /// Whether the tool failed.
        failed: bool,
    },
    /// Another kind of part, as JSON of its dialect.
    Other(String),
}

/// An image, by reference or inline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Image {
    /// Its URL.
    Url(String),
    /// Inline data.
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
    /// A message with a single text part.
    pub fn text(role: Role, text: impl Into<String>) -> Message {
        Message { role, content: vec![Content::Text(text.into())] }
    }

    /// All texts that the model reads: text, reasoning, arguments, results.
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

/// The role of a message.
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
