//! Connections that are opened before an exchange needs them. Invariant: at most one is being opened for this at a time, and a failure
//! is left to the exchange that will meet it.

use super::Client;
use crate::config::HttpVersion;
use crate::exchange::ConnectionUse;
use std::cell::Cell;
use tokrate_core::Tick;

impl Client {
    /// When the last exchange began.
    pub fn used_at(&self) -> Option<Tick> {
        self.used_at.get()
    }

    /// Whether an exchange that began now would find a connection, as far as is known without asking the kernel.
    pub fn is_warm(&self) -> bool {
        match self.dialer.config.http {
            HttpVersion::Http1 => self.http1.has_idle(),
            HttpVersion::Http2 => self.http2.has_room(&self.dialer.config.http2),
        }
    }

    /// Opens a connection for a later exchange, unless there is one or one is being opened.
    pub async fn warm(&self) {
        if !self.dialer.config.reuse || self.is_warm() || self.warming.replace(true) {
            return;
        }
        let _warming = ResetOnDrop(&self.warming);
        let used = &mut ConnectionUse::default();
        match self.dialer.config.http {
            HttpVersion::Http1 => self.http1.open_idle(&self.dialer, used).await,
            // The stream is given back at once; the connection stays.
            HttpVersion::Http2 => drop(self.http2.take(&self.dialer, used).await),
        }
    }
}

struct ResetOnDrop<'a>(&'a Cell<bool>);

impl Drop for ResetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
