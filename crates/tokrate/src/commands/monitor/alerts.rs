//! `tokrate monitor alert-test`: whether a receiver gets what it is sent.

use crate::commands::Verdict;
use crate::config::file::File;
use crate::config::monitor::resolve;
use crate::flags::monitor::AlertTestFlags;
use anyhow::{Context, Result};
use tokrate_monitor::send_test_alert;
use tokrate_net::Clock;

/// Sends one.
pub fn test(flags: &AlertTestFlags) -> Result<Verdict> {
    let settings = resolve(&File::read(flags.config.as_deref())?)?;
    let known: Vec<&str> = settings.alerts.receivers.iter().map(|receiver| receiver.name.as_str()).collect();
    let receiver = settings.alerts.receivers.iter().find(|receiver| receiver.name == flags.receiver);
    let receiver = receiver.with_context(|| match known.is_empty() {
        true => "find a receiver: there is none; write [monitor.alerts.receivers.NAME]".to_owned(),
        false => format!("find the receiver `{}`; there are {}", flags.receiver, known.join(", ")),
    })?;
    send_test_alert(&settings.alerts, &settings.prober, &flags.receiver, Clock::monotonic())
        .map_err(|error| anyhow::anyhow!("send a test alert to `{}` ({receiver}): {error}", receiver.name))?;
    anstream::println!("sent a test alert to `{}`: {receiver}", receiver.name);
    Ok(Verdict::Good)
}
