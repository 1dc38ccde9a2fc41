//! Order, broken lines and bounds of a batch.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn results(input: &str, threads: usize) -> Vec<Value> {
    let mut output = Vec::new();
    merge_all(input.as_bytes(), &mut output, &Merger::default(), threads).expect("it ends");
    let text = String::from_utf8(output).expect("UTF-8");
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn case(id: impl Into<Value>, old: &str) -> String {
    let update = json!({"old_string": old, "new_string": "new\n"}).to_string();
    let id: Value = id.into();
    json!({"id": id, "path": "a.txt", "original": "one\ntwo\none\n", "update": update, "instruction": "x"}).to_string()
}

#[test]
fn a_line_has_one_result_in_its_place() {
    let input = [
        case("a", "two\n"),
        case(7, "one\n"),
        "{\"id\": \"cut\", ".to_owned(),
        String::new(),
        "{\"id\": \"typed\", \"original\": 3, \"update\": \"x\"}".to_owned(),
        "{\"id\": \"short\", \"original\": \"x\"}".to_owned(),
        "[1]".to_owned(),
        "{\"id\": \"tongue\", \"original\": \"x\", \"update\": \"y\", \"language\": \"cobol\"}".to_owned(),
        case("last", "three\n"),
    ];
    for (end, threads) in [("\n", 1), ("", 4), ("\r\n\n", 3)] {
        let results = results(&(input.join("\n") + end), threads);
        let seen: Vec<String> = results
            .iter()
            .map(|row| {
                let reported = row["message"].as_str().filter(|_| row["code"] == "bad_line").unwrap_or_default();
                format!("{} {} {} {} {reported}", row["id"], row["status"], row["by"], row["code"])
            })
            .collect();
        insta::assert_snapshot!("rows", seen.join("\n"));
        assert_eq!(results[0]["output"], "one\nnew\none\n");
        assert_eq!(results[1]["candidates"], json!([[1, 1], [3, 3]]));
        assert!(results.iter().all(|row| row["micros"].is_u64()));
    }
}

#[test]
fn many_lines_keep_their_order() {
    let input: String = (0..3000).map(|id| case(id, if id % 3 == 0 { "one\n" } else { "two\n" }) + "\n").collect();
    let results = results(&input, 8);
    let ids: Vec<u64> = results.iter().filter_map(|row| row["id"].as_u64()).collect();
    assert_eq!(ids, (0..3000).collect::<Vec<u64>>());
    assert!(results.iter().enumerate().all(|(id, row)| (row["status"] == "refused") == (id % 3 == 0)));
}

/// Takes a few bytes, then no more.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| std::io::Error::other("the disk is full"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_batch() {
    let input: String = (0..5000).map(|id| case(id, "two\n") + "\n").collect();
    let ended = merge_all(input.as_bytes(), Full(100_000), &Merger::default(), 4);
    assert!(ended.is_err_and(|error| format!("{error:#}").contains("the disk is full")));
}

#[test]
fn the_window_bounds_lines_and_bytes_but_lets_one_in() {
    let window = Window::new(2, 10);
    assert!(window.admit(100), "the first one always");
    window.release(100);
    assert!(window.admit(6) && window.admit(4));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| window.admit(1));
        window.release(6);
        assert!(waiting.join().expect("no panic"), "room was given back");
        let waiting = scope.spawn(|| window.admit(1));
        window.close();
        assert!(!waiting.join().expect("no panic"), "closed");
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_lines_have_their_results(lines in proptest::collection::vec("[{}\\[\\]\":,a-z0-9 \u{e9}\\\\]{0,30}", 0..20)) {
        let filled = lines.iter().filter(|line| !line.trim().is_empty()).count();
        prop_assert_eq!(results(&lines.join("\n"), 2).len(), filled);
    }
}
