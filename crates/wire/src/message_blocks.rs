//! A message's content as blocks of dialects in which the result of a tool is a block with content of its own.
//!
//! Invariant: every content stands in one block, in its order.

use tokrate_core::{Content, Message, Role};

/// One block.
pub(crate) enum Block<'m> {
    /// Content that stands by itself.
    Content(&'m Content),
    Result(ResultBlock<'m>),
}

/// What a tool has given.
pub(crate) struct ResultBlock<'m> {
    /// The call that it answers.
    pub(crate) id: &'m str,
    pub(crate) text: &'m str,
    pub(crate) failed: bool,
    /// What belongs to it beside its text: in a turn of tools all that follows it, such as pictures.
    pub(crate) more: &'m [Content],
}

/// The blocks of a message.
pub(crate) fn blocks(message: &Message) -> impl Iterator<Item = Block<'_>> {
    let mut rest = message.content.as_slice();
    std::iter::from_fn(move || {
        let (content, after) = rest.split_first()?;
        rest = after;
        let Content::ToolResult { id, text, failed, .. } = content else { return Some(Block::Content(content)) };
        let is_more = |content: &&Content| !matches!(content, Content::ToolResult { .. });
        let count = if message.role == Role::Tool { after.iter().take_while(is_more).count() } else { 0 };
        let (more, left) = after.split_at(count);
        rest = left;
        Some(Block::Result(ResultBlock { id, text, failed: *failed, more }))
    })
}
