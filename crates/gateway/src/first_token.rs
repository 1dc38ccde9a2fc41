//! When the router hears of a winner's first token: once it has been written to the client, who does not wait for that.
//!
//! It refuses to know clocks and routers. Invariant: each is told once, and at the latest when its attempt is settled.

/// What the router has heard of the winner's first token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum FirstToken {
    /// The router knows, or there is none.
    #[default]
    Told,
    /// Of this attempt, on its way to the client.
    Unwritten(usize),
    /// Of this attempt; the connection has written whatever it was given.
    Written(usize),
}

impl FirstToken {
    /// An attempt won.
    pub fn came(attempt: usize) -> FirstToken {
        FirstToken::Unwritten(attempt)
    }

    /// There is nothing more to give to the connection for now, so that it writes. Whether the call wants to be looked at again
    /// after that.
    pub fn waits(&mut self) -> bool {
        let FirstToken::Unwritten(attempt) = *self else { return false };
        *self = FirstToken::Written(attempt);
        true
    }

    /// The call is looked at: the attempt of which the router is to hear now.
    pub fn take_written(&mut self) -> Option<usize> {
        let FirstToken::Written(attempt) = *self else { return None };
        *self = FirstToken::Told;
        Some(attempt)
    }

    /// An attempt is settled: whether the router is to hear of it now.
    pub fn take_of(&mut self, settled: usize) -> bool {
        let (FirstToken::Unwritten(attempt) | FirstToken::Written(attempt)) = *self else { return false };
        let is_it = attempt == settled;
        if is_it {
            *self = FirstToken::Told;
        }
        is_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_and_only_after_the_connection_could_write() {
        let mut first = FirstToken::came(2);
        assert_eq!(first.take_written(), None, "its bytes are still handed on");
        assert!(first.waits(), "so that it is not told with the second token only");
        assert!(!first.waits(), "one more look is enough");
        assert_eq!(first.take_written(), Some(2));
        assert_eq!((first.take_written(), first.waits(), first.take_of(2)), (None, false, false));
    }

    #[test]
    fn it_is_told_at_the_latest_when_its_attempt_is_settled() {
        for waits in [false, true] {
            let mut first = FirstToken::came(1);
            assert!(!waits || first.waits());
            assert!(!first.take_of(0), "a loser is settled before");
            assert!(first.take_of(1));
            assert_eq!(first, FirstToken::Told);
        }
        assert_eq!((FirstToken::default().take_of(0), FirstToken::default().waits()), (false, false));
    }
}
