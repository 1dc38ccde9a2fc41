//! Scripted answers: which text and which calls of tools a request is answered with, so that an agent does a whole task without a
//! model.
//!
//! Rules hold nothing but what they say: the same request is answered in the same way, however often and beside whatever others.
//! Invariant: a rule answers only requests that offer the tools it calls.

use tokrate_core::{ChatRequest, Message, Role};

/// Rules in order; the first that fits a request answers it. A request that none fits is answered with words.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AnswerScript {
    /// The rules.
    pub rules: Vec<ScriptRule>,
}

/// One answer, and the requests that it is for: those for which everything holds that it names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScriptRule {
    /// Place of the answer in the conversation: 1 for the first that the model gives.
    pub turn: Option<u32>,
    /// Stands in the last message, which may be the result of a tool.
    pub last: Option<String>,
    /// Stands in some message, instructions included.
    pub contains: Option<String>,
    /// A tool that the request offers.
    pub offers: Option<String>,
    /// The answer's text; may be empty beside calls.
    pub text: String,
    /// The tools that are called, in order.
    pub calls: Vec<ScriptedCall>,
}

/// A call of a tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptedCall {
    /// Name of the tool.
    pub tool: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}

impl AnswerScript {
    /// The rule that answers a request.
    pub(crate) fn rule_for(&self, request: &ChatRequest) -> Option<&ScriptRule> {
        let turn = turn_of(&request.messages);
        self.rules.iter().find(|rule| rule.fits(request, turn))
    }
}

impl ScriptRule {
    fn fits(&self, request: &ChatRequest, turn: u32) -> bool {
        let offers = |name: &str| request.tools.iter().any(|tool| tool.name == name);
        let has = |message: &Message, wanted: &str| message.texts().any(|text| text.contains(wanted));
        let messages = &request.messages;
        self.turn.is_none_or(|wanted| wanted == turn)
            && self.last.as_deref().is_none_or(|wanted| messages.last().is_some_and(|last| has(last, wanted)))
            && self.contains.as_deref().is_none_or(|wanted| messages.iter().any(|message| has(message, wanted)))
            && self.offers.as_deref().is_none_or(offers)
            && self.calls.iter().all(|call| offers(&call.tool))
    }
}

/// One more than the answers that the model has given. Some dialects have an item for the text of an answer and one for each call
/// of it: what stands together is one answer.
fn turn_of(messages: &[Message]) -> u32 {
    let is_answer = |message: &Message| message.role == Role::Assistant;
    let begun = messages.iter().enumerate().filter(|(place, message)| {
        is_answer(message) && place.checked_sub(1).is_none_or(|before| !is_answer(&messages[before]))
    });
    u32::try_from(begun.count()).unwrap_or(u32::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::{Content, Tool};

    fn call(tool: &str) -> ScriptedCall {
        ScriptedCall { tool: tool.to_owned(), arguments: "{}".to_owned() }
    }

    fn request(roles: &[(Role, &str)], tools: &[&str]) -> ChatRequest {
        let tool = |name: &&str| Tool { name: (*name).to_owned(), description: None, parameters: None };
        let messages = roles.iter().map(|(role, text)| Message::text(*role, *text)).collect();
        ChatRequest { messages, tools: tools.iter().map(tool).collect(), ..ChatRequest::default() }
    }

    #[test]
    fn the_first_rule_of_which_everything_holds_answers() {
        let named = |text: &str| Some(text.to_owned());
        let rules = vec![
            ScriptRule { turn: Some(1), calls: vec![call("write")], text: "one".to_owned(), ..ScriptRule::default() },
            ScriptRule { last: named("written"), text: "two".to_owned(), ..ScriptRule::default() },
            ScriptRule { contains: named("title"), text: "three".to_owned(), ..ScriptRule::default() },
            ScriptRule { offers: named("bash"), text: "four".to_owned(), ..ScriptRule::default() },
        ];
        let script = AnswerScript { rules };
        let answered = |roles: &[(Role, &str)], tools: &[&str]| {
            script.rule_for(&request(roles, tools)).map(|rule| rule.text.clone()).unwrap_or_default()
        };
        let asked = (Role::User, "create a file");
        assert_eq!(answered(&[asked], &["write", "bash"]), "one");
        assert_eq!(answered(&[asked], &["bash"]), "four", "it cannot call what is not offered");
        assert_eq!(answered(&[(Role::System, "make a title"), asked], &[]), "three");
        let after = [asked, (Role::Assistant, ""), (Role::Tool, "it was written")];
        assert_eq!(answered(&after, &["write", "bash"]), "two");
        assert_eq!(answered(&[asked, (Role::Assistant, ""), (Role::Tool, "failed")], &["write"]), "");
    }

    #[test]
    fn an_answers_text_and_its_calls_are_one_turn() {
        let of = |roles: &[Role]| turn_of(&roles.iter().map(|role| Message::text(*role, "")).collect::<Vec<_>>());
        use Role::{Assistant, Tool, User};
        assert_eq!(of(&[User]), 1);
        assert_eq!(of(&[User, Assistant, Assistant, Tool, Tool]), 2);
        assert_eq!(of(&[User, Assistant, Tool, Assistant, Tool, User]), 3);
    }

    #[test]
    fn the_result_of_a_tool_is_looked_through_too() {
        let result =
            Content::ToolResult { id: "1".to_owned(), name: String::new(), text: "3 passed".to_owned(), failed: false };
        let message = Message { role: Role::Tool, content: vec![result] };
        let request = ChatRequest { messages: vec![message], ..ChatRequest::default() };
        let rule = ScriptRule { last: Some("passed".to_owned()), text: "done".to_owned(), ..ScriptRule::default() };
        assert!(AnswerScript { rules: vec![rule] }.rule_for(&request).is_some());
    }
}
