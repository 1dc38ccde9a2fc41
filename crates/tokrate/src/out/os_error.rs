//! Errors of the operating system in words: what is wrong and what to do, without numbers.
//!
//! Where it happened is said by whoever tried. Invariant: no text has the number of an error.

use anyhow::anyhow;
use std::io::{self, ErrorKind};

/// Links that lead in a circle; the kind for it is not in the library yet.
#[cfg(target_os = "linux")]
const LOOP: i32 = 40;
#[cfg(not(target_os = "linux"))]
const LOOP: i32 = 62;

/// An error in words.
pub fn words(error: &io::Error) -> String {
    let known = match error.kind() {
        ErrorKind::PermissionDenied => "permission denied; look at the owner and mode of the file and of its folders",
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only; mount it for writing, or edit a copy",
        ErrorKind::StorageFull => "the disk is full; make room and run this again",
        ErrorKind::QuotaExceeded => "the quota of this user is used up; make room and run this again",
        ErrorKind::NotADirectory => "a part of the path is a file and no folder; check the path",
        ErrorKind::IsADirectory => "it is a folder; name a file",
        ErrorKind::InvalidFilename => "the name is too long, or none that the file system takes; choose another",
        ErrorKind::NotFound => "there is nothing of that name",
        _ if error.raw_os_error() == Some(LOOP) => {
            "it is a link that may not be followed, or links lead in a circle; name the file itself"
        }
        _ => return without_number(&error.to_string()),
    };
    known.to_owned()
}

/// An error with those of the operating system in words.
pub fn in_words(error: anyhow::Error) -> anyhow::Error {
    let is_of_system = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.raw_os_error().is_some())
    };
    if !error.chain().any(is_of_system) {
        return error;
    }
    let said: Vec<String> = error
        .chain()
        .map(|cause| cause.downcast_ref::<io::Error>().map_or_else(|| without_number(&cause.to_string()), words))
        .collect();
    anyhow!("{}", said.join(": "))
}

/// A text without the numbers that the library puts behind errors.
fn without_number(text: &str) -> String {
    let mut pieces = text.split(" (os error ");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| {
        text + piece.trim_start_matches(|sign: char| sign.is_ascii_digit()).trim_start_matches(')')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn no_error_of_the_system_shows_its_number() {
        for number in 1..120 {
            let error = io::Error::from_raw_os_error(number);
            assert!(!words(&error).contains("os error"), "{number}: {}", words(&error));
            let wrapped = Err::<(), _>(error).context("write a.txt").expect_err("it is one");
            let text = format!("{:#}", in_words(wrapped));
            assert!(text.starts_with("write a.txt: ") && !text.contains("os error"), "{text}");
        }
        assert_eq!(in_words(anyhow!("read it")).to_string(), "read it");
    }
}
