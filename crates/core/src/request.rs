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
    /// Sampling seed.
    pub seed: Option<u64>,
    /// Further top-level fields: name and JSON text.
    pub extra: Vec<(String, String)>,
}

/// One message of a conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
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
