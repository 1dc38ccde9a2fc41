//! A model that was not trained to merge: what it is told to write, and the file that the engine makes of it.
//!
//! Invariant: what comes out is a file that the engine would have accepted of its own fallback model, for the edit that the client sent.

use crate::check::edit_of;
use crate::fallback::{TAG_TRAINED_MODELS, unwrap_text};
use crate::merge_result::MergeResult;
use tokrate_apply::{Options, accept};

/// What such a model is told. Blocks come first: they are short, and what they do not speak of stays as it is by itself.
pub const INSTRUCTIONS: &str = "You merge an edit into a file. The last message holds the file in <code> and the edit in <update>, \
perhaps with an <instruction>. The edit shows changed lines and some of their neighbours; comments with dots, such as \
`... existing code ...`, stand for lines of the file that stay as they are. Answer with the changes alone, as blocks of this form:\n\
<<<<<<< SEARCH\n\
lines of the file, copied exactly: every blank, tab and comment\n\
=======\n\
the lines that take their place\n\
>>>>>>> REPLACE\n\
Each SEARCH holds whole lines that stand in the file one after the other, enough of them to be found once only; to insert lines, repeat \
a neighbouring line in both parts. Blocks stand in the order of the file and do not overlap. Carry out the edit and nothing else. \
If more than half of the file changes, answer instead with the whole new file between <updated-code> and </updated-code>. Write no \
explanation, no fence and nothing around that.";

/// Whether a model has to be told: those that merge were trained on the tags.
pub fn needs_instructions(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    !TAG_TRAINED_MODELS.iter().any(|start| name.starts_with(start))
}

/// The file that a model's answer to a request of an edit (OpenAI's chat) comes to, as the client asked for it.
///
/// # Errors
/// Why there is none, as a sentence.
pub fn merge_answer(request: &[u8], text: &str) -> Result<String, String> {
    let request = edit_of(request)?;
    let edit = &request.edit;
    let refused = |refused: tokrate_apply::Refused| {
        format!("the model's answer was not accepted: {}: {}", refused.code.name(), refused.message)
    };
    let check = |file: &str| accept(edit.original.as_bytes(), edit.update.as_bytes(), file, &edit.options).map(|_| ());
    let whole = unwrap_text(text);
    let file = match check(whole) {
        Ok(()) => whole.to_owned(),
        Err(why) => {
            // The form is the model's, and not the one that the client has named for its own edit.
            let options = Options { format: None, instruction: None, ..edit.options.clone() };
            let update = blocks(text).unwrap_or(whole);
            let file = match MergeResult::by_engine(edit.original.as_bytes(), update.as_bytes(), &options) {
                MergeResult::Merged { merged, .. } => merged.text,
                // A whole file that breaks the law is no edit either: the first reason says more.
                MergeResult::Refused { refused: other, .. } => {
                    return Err(refused(if whole.len() == text.len() { other } else { why }));
                }
            };
            check(&file).map_err(refused)?;
            file
        }
    };
    Ok(if request.form.is_tagged() { format!("<updated-code>{file}</updated-code>") } else { file })
}

/// The part of a text from the first block of SEARCH to the end of the last: models write a word before it all the same.
fn blocks(text: &str) -> Option<&str> {
    let is_mark = |line: &str, mark: &str| line.trim_start().starts_with(mark);
    let (mut at, mut from, mut to) = (0, None, None);
    for line in text.split_inclusive('\n') {
        if is_mark(line, "<<<<<<<") {
            from.get_or_insert(at);
        }
        at += line.len();
        if is_mark(line, ">>>>>>>") {
            to = Some(at);
        }
    }
    from.zip(to).filter(|(from, to)| from < to).map(|(from, to)| &text[from..to])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "def a():\n    return 1\n\n\ndef b():\n    return 2\n";

    fn request(update: &str, more: &str) -> Vec<u8> {
        let content = serde_json::Value::from(format!("<code>{FILE}</code>\n<update>{update}</update>{more}"));
        format!(r#"{{"model":"apply","messages":[{{"role":"user","content":{content}}}]}}"#).into_bytes()
    }

    const UPDATE: &str = "# ... existing code ...\n\n\ndef b():\n    return 3\n";

    fn merged(text: &str) -> Result<String, String> {
        merge_answer(&request(UPDATE, ""), text)
    }

    #[test]
    fn blocks_and_a_whole_file_come_to_the_same_file_whatever_stands_around_them() {
        let wanted = FILE.replace("return 2", "return 3");
        let block = "<<<<<<< SEARCH\ndef b():\n    return 2\n=======\ndef b():\n    return 3\n>>>>>>> REPLACE\n";
        for answer in [
            block,
            &format!("Here are the changes:\n\n```python\n{block}```\nDone."),
            &format!("<updated-code>\n{wanted}</updated-code>"),
            &format!("```python\n{wanted}```"),
            &wanted,
        ] {
            assert_eq!(merged(answer).as_deref(), Ok(&*wanted), "{answer}");
        }
    }

    #[test]
    fn what_does_more_or_less_than_the_edit_is_refused_with_the_reason() {
        for (answer, said) in [
            ("Sure! I have changed the function for you.", "not accepted"),
            ("", "not accepted"),
            ("<<<<<<< SEARCH\ndef c():\n=======\ndef d():\n>>>>>>> REPLACE\n", "not accepted"),
            (
                "<<<<<<< SEARCH\n    return 1\n=======\n    return 9\n>>>>>>> REPLACE\n<<<<<<< SEARCH\n    return 2\n=======\n    return 3\n>>>>>>> REPLACE\n",
                "not accepted",
            ),
            (&format!("<updated-code>{}</updated-code>", FILE.replace("return 1", "return 9")), "not accepted"),
            (">>>>>>> REPLACE\n<<<<<<< SEARCH\n", "not accepted"),
            ("</updated-code><updated-code>", "not accepted"),
        ] {
            let error = merged(answer).expect_err(answer);
            assert!(error.contains(said), "{answer}: {error}");
        }
        assert!(merge_answer(b"{}", "x").expect_err("no edit").contains("no edit"));
    }

    #[test]
    fn only_models_that_were_not_made_for_it_are_told() {
        for (model, is_told) in [
            ("gpt-5-mini", true),
            ("claude-haiku", true),
            ("morph-v3-fast", false),
            ("morph/morph-v3-large", false),
            ("relace-apply-3", false),
        ] {
            assert_eq!(needs_instructions(model), is_told, "{model}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_model_says_keeps_the_lines_that_the_edit_does_not_speak_of(
            parts in proptest::collection::vec(proptest::sample::select(vec![
                "<<<<<<< SEARCH\n", "=======\n", ">>>>>>> REPLACE\n", "def a():\n", "def b():\n", "    return 1\n", "    return 2\n",
                "    return 3\n", "<updated-code>", "</updated-code>", "```\n", "# ... existing code ...\n", "\n", "word ",
            ]), 0..14),
        ) {
            if let Ok(file) = merged(&parts.concat()) {
                proptest::prop_assert!(file.starts_with("def a():\n    return 1\n"), "{file}");
                proptest::prop_assert!(file.contains("def b():\n    return 3\n"), "{file}");
            }
        }
    }
}
