//! Why phases were added to those that were listed, in words for the record.
//!
//! Invariant: steps that were taken for the same reason are said once, with the loads that they led to.

/// Why a phase was added.
#[derive(Clone, PartialEq, Debug)]
pub struct Reason {
    words: String,
    /// The load that the step led to, by its axis, where the words do not name it.
    load: Option<(&'static str, f64)>,
}

impl Reason {
    /// One that names its load itself.
    pub fn of(words: String) -> Reason {
        Reason { words, load: None }
    }

    /// A step of a kind that is taken again and again.
    pub(super) fn step(words: &str, axis: &'static str, load: f64) -> Reason {
        Reason { words: words.to_owned(), load: Some((axis, load)) }
    }

    /// The reasons as sentences, in the order in which they came first.
    pub fn sentences(reasons: &[Reason]) -> Vec<String> {
        let mut kinds: Vec<&str> = Vec::new();
        for reason in reasons {
            if !kinds.contains(&reason.words.as_str()) {
                kinds.push(&reason.words);
            }
        }
        let sentence = |words: &str| {
            let mut axis = "";
            let mut loads: Vec<(f64, usize)> = Vec::new();
            for (name, load) in reasons.iter().filter(|reason| reason.words == words).filter_map(|reason| reason.load) {
                axis = name;
                match loads.iter_mut().find(|(known, _)| *known == load) {
                    Some((_, times)) => *times += 1,
                    None => loads.push((load, 1)),
                }
            }
            let shown = loads.iter().map(|(load, times)| match times {
                1 => load.to_string(),
                2 => format!("{load} (twice)"),
                n => format!("{load} ({n} times)"),
            });
            let shown: Vec<String> = shown.collect();
            if shown.is_empty() { words.to_owned() } else { format!("{words}: {axis} {}", shown.join(", ")) }
        };
        kinds.into_iter().map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_said_once_with_its_levels() {
        let again = |load| Reason::step("measured again", "concurrency", load);
        let reasons = [
            Reason::step("doubled", "concurrency", 2.0),
            Reason::step("doubled", "concurrency", 4.0),
            again(3.0),
            again(3.0),
            Reason::of("level 7 was added".to_owned()),
            again(3.0),
        ];
        assert_eq!(
            Reason::sentences(&reasons),
            ["doubled: concurrency 2, 4", "measured again: concurrency 3 (3 times)", "level 7 was added"]
        );
    }
}
