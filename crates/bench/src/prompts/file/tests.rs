//! Each kind of file, what is sent of it, and what is refused.

use super::*;
use proptest::prelude::{prop_assert, proptest};
use tokrate_core::Image;

fn texts(file: &PromptFile) -> Vec<Vec<String>> {
    let of = |prompt: &Prompt| prompt.messages.iter().map(|message| message.texts().collect()).collect();
    file.prompts().iter().map(of).collect()
}

fn refused(text: &str, kind: FileKind) -> String {
    PromptFile::parse(text, kind).expect_err("it is bad").to_string()
}

#[test]
fn share_gpt_is_read_up_to_the_first_answer() {
    let text = r#"[
  {"id": "a", "conversations": [{"from": "human", "value": "Hi there"}, {"from": "gpt", "value": "Hello"},
{"from": "human", "value": "More"}]},
  {"id": "b", "conversations": [{"from": "system", "value": "Be short"}, {"from": "human", "value": "Why?"}]}
]"#;
    let file = PromptFile::parse(text, FileKind::Json).expect("prompts");
    assert_eq!(texts(&file), [vec!["Hi there"], vec!["Be short", "Why?"]]);
    assert_eq!(file.prompts()[0].input_tokens, 2);
    assert_eq!(file.prompts()[1].messages[0].role, Role::System);
    assert_eq!(
        (file.prompts()[0].output_tokens, file.prompts()[1].output_tokens),
        (Some(1), None),
        "`Hello`, and none"
    );
    assert!(file.without_answers().prompts().iter().all(|prompt| prompt.output_tokens.is_none()));
}

#[test]
fn json_lines_hold_prompts_in_the_usual_fields() {
    let text = "{\"prompt\": \"one\"}\n\n{\"text\": \"two\", \"id\": 3}\n{\"question\": \"three\"}\n\
                {\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"four\"}]}]}";
    let file = PromptFile::parse(text, FileKind::JsonLines).expect("prompts");
    assert_eq!(texts(&file), [["one"], ["two"], ["three"], ["four"]]);
}

#[test]
fn columns_of_published_datasets_are_found_or_named() {
    let first = |line: &str, prompt: Option<&str>, answer: Option<&str>| {
        let columns = Columns { prompt: prompt.map(str::to_owned), answer: answer.map(str::to_owned) };
        PromptFile::parse_columns(line, FileKind::JsonLines, &columns)
            .map(|file| (texts(&file).remove(0).remove(0), file.prompts()[0].output_tokens))
            .map_err(|bad| bad.to_string())
    };
    let alpaca = r#"{"instruction": "Add these.", "input": "1 and 2", "output": "The sum is 3."}"#;
    assert_eq!(first(alpaca, None, Some("output")), Ok(("Add these.\n\n1 and 2".to_owned(), Some(6))));
    let bench = r#"{"question_id": 81, "turns": ["Write a post.", "Rewrite it."]}"#;
    assert_eq!(first(bench, None, None), Ok(("Write a post.".to_owned(), None)));
    let chosen =
        r#"{"id": 1, "chosen": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}"#;
    assert_eq!(first(chosen, Some("chosen"), None), Ok(("Hi".to_owned(), Some(1))));
    let both = r#"{"prompt": "a", "image": "x.png", "text": "b"}"#;
    assert_eq!(first(both, Some("text"), None), Ok(("b".to_owned(), None)), "the user said which column is sent");
    let error = first(both, Some("body"), None).expect_err("there is none");
    assert!(
        error.starts_with("line 1, column 1: expected an object with `body`; there is prompt, text, image"),
        "{error}"
    );
    let number = first(r#"{"value": 3}"#, Some("value"), None).expect_err("no text");
    assert!(number.contains("a text, a list of texts, or a conversation"), "{number}");
}

#[test]
fn shards_are_one_file_with_a_hash_of_all() {
    let shard = |text: &str| PromptFile::parse(text, FileKind::Lines).expect("prompts");
    let whole = PromptFile::joined(vec![shard("a\n"), shard("b\n")]).expect("two");
    assert_eq!(texts(&whole), [["a"], ["b"]]);
    assert_ne!(whole.hash(), shard("a\n").hash());
    assert_eq!(PromptFile::joined(vec![shard("a\n")]).expect("one").hash(), shard("a\n").hash());
    assert!(PromptFile::joined(Vec::new()).is_none());
}

#[test]
fn pictures_are_sent_with_their_text() {
    let text = r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}]}"#
        .replace('\n', "");
    let file = PromptFile::parse(&text, FileKind::JsonLines).expect("a prompt");
    let picture = Image::Data { media_type: "image/png".to_owned(), base64: "AAAA".to_owned() };
    let url = Image::Url("https://x/y.png".to_owned());
    assert_eq!(
        file.prompts()[0].messages[0].content,
        [Content::Text("What is this?".to_owned()), Content::Image(picture), Content::Image(url)]
    );
    assert_eq!(file.with_images(), 1);
    let audio = r#"{"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}"#;
    let message = refused(audio, FileKind::JsonLines);
    assert!(message.contains("a `detail`; there is `{\"input_audio\""), "{message}");
    assert_eq!(message.matches("there is").count(), 1, "{message}");
}

#[test]
fn a_picture_with_its_detail_is_sent_as_it_is() {
    let part = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}"#;
    let text = format!(r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"What?"}},{part}]}}]}}"#);
    let file = PromptFile::parse(&text, FileKind::JsonLines).expect("a prompt");
    assert!(
        matches!(&file.prompts()[0].messages[0].content[1], Content::Other(json) if json.contains(r#""detail":"low""#))
    );
    assert_eq!((file.with_images(), file.has_detailed_images()), (1, true));
}

#[test]
fn what_a_prompt_needs_and_is_not_sent_is_refused_and_a_conversation_that_goes_on_is_counted() {
    for field in ["image", "images", "tools", "audio"] {
        let text = format!(r#"{{"prompt": "x", "id": 3, "{field}": "foo.png"}}"#);
        let message = refused(&text, FileKind::JsonLines);
        assert!(message.contains(&format!("a prompt without `{field}`, which is not sent")), "{message}");
    }
    assert!(PromptFile::parse(r#"{"prompt": "x", "image": null}"#, FileKind::JsonLines).is_ok());
    let turn = |role: &str| format!(r#"{{"role":"{role}","content":"a"}}"#);
    let line = |roles: &[&str]| {
        let turns: Vec<String> = roles.iter().map(|role| turn(role)).collect();
        format!("{{\"messages\":[{}]}}\n", turns.join(","))
    };
    let text = line(&["user", "assistant", "user"]) + &line(&["user", "assistant"]) + &line(&["user"]);
    let file = PromptFile::parse(&text, FileKind::JsonLines).expect("prompts");
    assert_eq!((file.prompts().len(), file.cut()), (3, 1));
}

#[test]
fn plain_text_is_a_prompt_a_line_or_one() {
    let text = "first\n\nsecond line\n";
    assert_eq!(texts(&PromptFile::parse(text, FileKind::Lines).expect("two")), [["first"], ["second line"]]);
    assert_eq!(texts(&PromptFile::parse(text, FileKind::Whole).expect("one")), [[text]]);
}

#[test]
fn an_entry_that_is_no_prompt_is_refused_with_its_position() {
    let cases = [
        ("[{\"prompt\": \"a\"},\n  {\"prompt\": 3}]", FileKind::Json, "line 2, column "),
        ("[{\"prompt\": \"a\"},\n  {\"other\": 3}]", FileKind::Json, "line 2, column 3: expected an object with"),
        ("[{\"prompt\": \"a\"}", FileKind::Json, "line 1, column 16: expected a JSON array"),
        ("{\"prompt\": \"a\"}\n{\"prompt\": }\n", FileKind::JsonLines, "line 2, column 12: expected an object"),
        ("{\"prompt\": \"\"}", FileKind::JsonLines, "line 1, column 1: expected a prompt with text"),
        (
            "{\"conversations\": [{\"from\": \"gpt\", \"value\": \"x\"}]}",
            FileKind::JsonLines,
            "line 1, column 1: expected a conversation in which somebody asks",
        ),
        ("\n \n", FileKind::Lines, "line 1, column 1: expected at least one prompt"),
        ("", FileKind::Whole, "line 1, column 1: expected at least one prompt"),
        ("[]", FileKind::Json, "line 1, column 1: expected at least one prompt"),
    ];
    for (text, kind, expected) in cases {
        let message = refused(text, kind);
        assert!(message.starts_with(expected), "{text:?}: {message}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_it(text in "(?s).{0,200}", json in "[\\[\\]{}\":,a-z0-9\n ]{0,80}") {
        for kind in [FileKind::Json, FileKind::JsonLines, FileKind::Lines, FileKind::Whole] {
            for text in [&text, &json] {
                match PromptFile::parse(text, kind) {
                    Ok(file) => prop_assert!(!file.prompts().is_empty()),
                    Err(bad) => prop_assert!(bad.line >= 1 && bad.column >= 1),
                }
            }
        }
    }
}
