//! The batches and statements that go to ClickHouse, without an engine.

use super::*;
use proptest::prelude::*;
use std::sync::Mutex;

#[test]
fn values_become_typed_parameters_and_never_text_of_a_statement() {
    let hostile = "'; DROP TABLE attempts; --\t\\\n\0";
    let values = vec![Value::Text(hostile.to_owned()), Value::Integer(-5)];
    let (sql, bound) = bind("SELECT 1 FROM attempts WHERE lane = ? AND id > ?", values);
    assert_eq!(sql, "SELECT 1 FROM attempts WHERE lane = {p0:String} AND id > {p1:Int64}");
    assert_eq!(bound[0], ("param_p0".to_owned(), "'; DROP TABLE attempts; --\\t\\\\\\n\\0".to_owned()));
    assert_eq!(bound[1], ("param_p1".to_owned(), "-5".to_owned()));
}

/// Answers with the same each time, and keeps what it was sent.
struct Echo(u16, Vec<u8>, Mutex<Vec<(String, Vec<u8>)>>);

impl Post for Echo {
    fn post(&self, query: &str, body: Vec<u8>) -> Result<(u16, Vec<u8>), String> {
        self.2.lock().expect("no panic").push((query.to_owned(), body));
        Ok((self.0, self.1.clone()))
    }
}

fn database(status: u16, answer: &[u8]) -> (ClickHouse, Arc<Echo>) {
    let echo = Arc::new(Echo(status, answer.to_vec(), Mutex::default()));
    let address = ClickHouseAddress::parse("clickhouse://ada@127.0.0.1/rates").expect("an address");
    (ClickHouse::new(&address, Arc::<Echo>::clone(&echo)), echo)
}

#[test]
fn a_refusal_says_where_and_why_on_one_line() {
    let (clickhouse, _) =
        database(403, b"Code: 516. DB::Exception: ada: Authentication failed:\n password is incorrect");
    let error = clickhouse.server_version().expect_err("refused").to_string();
    insta::assert_snapshot!(error, @"use clickhouse://ada@127.0.0.1:8123/rates: it refused (HTTP 403): Code: 516. DB::Exception: ada: Authentication failed: password is incorrect; check the user, its password (`store_key_env`) and its rights");
}

#[test]
fn an_answer_of_another_server_is_no_rows() {
    let (clickhouse, _) = database(200, b"<html>It works!</html>");
    let error = clickhouse.server_version().expect_err("garbled").to_string();
    insta::assert_snapshot!(error, @"reach clickhouse://ada@127.0.0.1:8123/rates: its answer is not understood; check that a ClickHouse server listens there");
}

#[test]
fn an_insert_names_its_token_and_the_exact_parser() {
    let (clickhouse, echo) = database(200, b"");
    clickhouse.insert("attempts", "0a1b-7", b"{}\n".to_vec()).expect("taken");
    let sent = echo.2.lock().expect("no panic").remove(0);
    insta::assert_snapshot!(sent.0, @"database=rates&query=INSERT%20INTO%20attempts%20SETTINGS%20insert_deduplication_token%20%3D%20%270a1b-7%27%2C%20precise_float_parsing%20%3D%201%2C%20max_partitions_per_insert_block%20%3D%200%2C%20async_insert%20%3D%200%20FORMAT%20JSONEachRow");
    assert_eq!(sent.1, b"{}\n");
}

#[test]
fn rows_are_read_by_the_types_that_the_answer_names() {
    let answer = b"\x03\x01n\x01t\x01x\x0fNullable(Int64)\x16LowCardinality(String)\x07Float64\
                   \x00\xff\xff\xff\xff\xff\xff\xff\xff\x02a'\x00\x00\x00\x00\x00\x00\xf0\x3f\
                   \x01\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    let (clickhouse, _) = database(200, answer);
    let rows = clickhouse.rows("SELECT n, t, x FROM t", Vec::new()).expect("readable");
    let text = |text: &str| Value::Text(text.to_owned());
    assert_eq!(
        rows,
        [vec![Value::Integer(-1), text("a'"), Value::Real(1.0)], vec![Value::Null, text(""), Value::Real(0.0)]]
    );
}

proptest! {
    #[test]
    fn any_answer_is_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..60_usize) {
        let _ = row_binary::visit(&bytes, &mut |_| Ok(()));
        let good = b"\x02\x01n\x01t\x05Int64\x06String\x01\x00\x00\x00\x00\x00\x00\x00\x02ab";
        let mut bent = good.to_vec();
        bent.truncate(cut);
        bent.extend_from_slice(&bytes);
        let _ = row_binary::visit(&bent, &mut |_| Ok(()));
    }
}
