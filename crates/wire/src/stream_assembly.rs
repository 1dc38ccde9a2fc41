//! What a dialect gives so that a stream of it can be put back into one body.

use std::fmt::Debug;

/// Which requests a stream is an exact answer to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AssembledRequests {
    /// Those whose fields its dialect's table has, with values that ask for one text.
    OfKnownFields,
    /// All that have none of these fields, unless with the value `false`.
    Without(&'static [&'static str]),
}

/// Collects the documents of one stream of a dialect.
pub(crate) trait Assembly: Debug + Send {
    /// Takes a document: the data of an event, or a line. Anything else than an answer's part is ignored.
    fn take(&mut self, document: &Document<'_>);

    /// The body; `None` if no part of an answer came.
    fn body(&mut self) -> Option<String>;

    /// Whether the body is what the server would have sent, as far as its dialect is known.
    fn is_exact(&self) -> bool;

    /// Bytes held in memory.
    fn held_bytes(&self) -> usize;
}

/// A document of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document<'a> {
    /// The name of its event; empty if it has none.
    pub(crate) name: &'a [u8],
    pub(crate) json: &'a str,
}
