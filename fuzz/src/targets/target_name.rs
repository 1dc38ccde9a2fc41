//! Names of targets and base URLs: what is read is written so that it reads the same, and no URL's credentials are ever shown.
//!
//! It does not connect to anything. Invariant: the first byte of the input says what the rest is; a bit of it puts a key into a
//! URL's places for one.

use crate::text;
use tokrate_catalog::{Kind, TargetName};
use tokrate_net::Target;

const KEY: &str = "skverysecret";

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else { return };
    let text = text(bytes);
    match kind % 4 {
        0 => named(text),
        1 => addressed(text),
        // It is no key where anybody wrote it.
        2.. if text.contains(KEY) => {}
        // With one of these in it, what follows is a path and no password to anybody if the URL can be read.
        2 => hidden(&format!("http://{text}:{KEY}@h/v1"), text.contains(['/', '?', '#'])),
        _ => hidden(&format!("https://h/{text}?key={KEY}"), false),
    }
}

fn named(typed: &str) {
    match TargetName::parse(typed) {
        Ok(name) => {
            let written = name.to_string();
            assert_eq!(TargetName::parse(&written).as_ref().map(ToString::to_string), Ok(written.clone()));
            assert_eq!(TargetName::parse(&written), Ok(name));
            assert!(name.at.is_none() || name.row.kind == Kind::Local);
            assert!(name.model.is_none_or(|model| !model.is_empty()));
            if let Some(at) = name.at {
                let base = Target::parse(&format!("http://{at}/v1"));
                assert!(base.is_ok() || at.contains('[') || at.starts_with(['.', '-', '_']), "{at}: {base:?}");
            }
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("read the target"), "{message}");
            assert!(!typed.contains("://") || !message.contains(typed), "a URL is not repeated");
        }
    }
}

fn addressed(url: &str) {
    match Target::parse(url) {
        Ok(target) => {
            let written = target.to_string();
            assert_eq!(Target::parse(&written).as_ref().ok(), Some(&target), "{url:?} {written:?}");
            assert!(!target.host().is_empty() && target.port() > 0);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The message about a URL with a key in it does not hold the key, and one that can be read holds none.
fn hidden(url: &str, may_be_path: bool) {
    match Target::parse(url) {
        Ok(target) => assert!(may_be_path || !target.to_string().contains(KEY), "{url:?} became {target}"),
        Err(error) => assert!(!error.to_string().contains(KEY), "{url:?}: {error}"),
    }
}
