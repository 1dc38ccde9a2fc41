//! The registry: every dialect, its folder and its descriptor, and nothing else.
//!
//! To add a dialect, add its folder as a module and a row below.

pub(crate) mod anthropic;
pub(crate) mod bedrock;
pub(crate) mod cohere;
pub(crate) mod gemini;
pub(crate) mod llama;
pub(crate) mod ollama;
pub(crate) mod openai_chat;
pub(crate) mod openai_completions;
pub(crate) mod openai_responses;

use crate::codec::Descriptor;

/// One row a dialect: what it is, its name in code, and its descriptor.
macro_rules! registry {
    ($($(#[$documentation:meta])+ $dialect:ident => $descriptor:path;)+) => {
        /// A family of request and answer formats.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Dialect {
            $($(#[$documentation])+ $dialect,)+
        }

        impl Dialect {
            /// Every dialect.
            pub const ALL: [Dialect; [$(stringify!($dialect)),+].len()] = [$(Dialect::$dialect),+];

            pub(crate) const fn descriptor(self) -> &'static Descriptor {
                match self {
                    $(Dialect::$dialect => &$descriptor,)+
                }
            }
        }
    };
}

registry! {
    /// OpenAI's chat completions, which nearly every engine and provider also speaks.
    OpenAiChat => openai_chat::DESCRIPTOR;
    /// OpenAI's older text completions.
    OpenAiCompletions => openai_completions::DESCRIPTOR;
    /// OpenAI's responses.
    OpenAiResponses => openai_responses::DESCRIPTOR;
    /// Anthropic's messages.
    Anthropic => anthropic::DESCRIPTOR;
    /// Google's generateContent and streamGenerateContent.
    Gemini => gemini::DESCRIPTOR;
    /// Ollama's chat.
    OllamaChat => ollama::CHAT;
    /// Ollama's text completion.
    OllamaGenerate => ollama::GENERATE;
    /// The native completion of llama.cpp's server.
    LlamaCompletion => llama::DESCRIPTOR;
    /// AWS Bedrock's Converse and ConverseStream.
    BedrockConverse => bedrock::DESCRIPTOR;
    /// Cohere's chat, the second version.
    CohereChat => cohere::DESCRIPTOR;
}
