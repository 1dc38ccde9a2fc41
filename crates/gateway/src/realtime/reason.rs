//! Why a session on a WebSocket ended.

/// Why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    LaneClosed,
    ClientClosed,
    /// Both have said that they close.
    BothClosed,
    Silence,
    /// A limit of the key, or a session that is not begun as it should be, as the client is told.
    Limit(String),
    /// The gateway ends.
    Dropped,
}
