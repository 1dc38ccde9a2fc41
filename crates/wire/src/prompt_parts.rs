//! The parts of a request's body that providers' prompt caches go by, in the order in which a model reads them: tools, instructions, messages.
//!
//! Invariant: a body that only had messages appended has the same parts up to where they end; what else is in a body changes nothing.

use crate::object::fields;

/// In every dialect, in the order of the prompt; of the names in a row a body has one.
const PARTS: [&[&str]; 4] = [
    &["tools", "functions"],
    &["system", "instructions", "systemInstruction", "system_instruction"],
    &["messages", "input", "contents", "prompt"],
    // Behind a prompt of Ollama's or the completions API.
    &["suffix"],
];
/// What keeps prompts apart that are otherwise the same: vLLM's `cache_salt`; by OpenAI's key requests are sent to machines.
const SALTS: [&str; 2] = ["cache_salt", "prompt_cache_key"];

/// The parts of a prompt as the client wrote them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PromptParts<'a> {
    parts: [&'a str; PARTS.len()],
    salts: [&'a str; SALTS.len()],
}

impl<'a> PromptParts<'a> {
    /// Cuts them out of a body that is known to be JSON. What is missing is empty.
    pub fn of(body: &'a [u8]) -> PromptParts<'a> {
        let mut found = PromptParts::default();
        let Some(fields) = std::str::from_utf8(body).ok().and_then(fields) else { return found };
        for (name, json) in fields.map_while(Result::ok) {
            if let Some(place) = PARTS.iter().position(|names| names.contains(&&*name)) {
                found.parts[place] = json;
            } else if let Some(place) = SALTS.iter().position(|salt| *salt == name) {
                found.salts[place] = json;
            }
        }
        found
    }

    /// The parts, in the order of the prompt.
    pub fn parts(&self) -> impl Iterator<Item = &'a str> {
        self.parts.into_iter()
    }

    /// What keeps it apart from equal prompts.
    pub fn salts(&self) -> impl Iterator<Item = &'a str> {
        self.salts.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(body: &str) -> Vec<&str> {
        PromptParts::of(body.as_bytes()).parts().filter(|part| !part.is_empty()).collect()
    }

    #[test]
    fn every_dialect_s_prompt_is_found_in_the_order_in_which_a_model_reads_it() {
        let chat = r#"{"model":"m","messages":[{"role":"user","content":"a"}],"stream":true,"tools":[1]}"#;
        assert_eq!(parts(chat), ["[1]", r#"[{"role":"user","content":"a"}]"#]);
        assert_eq!(parts(r#"{"messages":[2],"system":"s","max_tokens":5}"#), [r#""s""#, "[2]"]);
        assert_eq!(parts(r#"{"contents":[3],"systemInstruction":{"parts":[]}}"#), [r#"{"parts":[]}"#, "[3]"]);
        assert_eq!(parts(r#"{"input":"hi","instructions":"i"}"#), [r#""i""#, r#""hi""#]);
        assert_eq!(parts(r#"{"prompt":"p","suffix":"s"}"#), [r#""p""#, r#""s""#]);
        assert_eq!(parts("[1]"), Vec::<&str>::new());
        assert_eq!(PromptParts::of(&[0xff]), PromptParts::default());
    }

    #[test]
    fn a_salt_is_no_part() {
        let body = br#"{"prompt":"p","cache_salt":"x","prompt_cache_key":"y"}"#;
        let found = PromptParts::of(body);
        assert_eq!(found.salts().collect::<Vec<_>>(), [r#""x""#, r#""y""#]);
        assert_eq!(found.parts().collect::<String>(), r#""p""#);
    }
}
