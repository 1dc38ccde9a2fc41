//! `tokrate export`: a record in the forms of programs that keep experiments. MLflow itself reads them in `tests/tables`.

use crate::folder::Folder;
use crate::tool::run;
use serde_json::Value;

#[test]
fn a_record_becomes_one_run_however_often_it_is_exported() {
    let folder = Folder::new("export");
    let line = "bench -c 1,2 -n 6 --warmup 0 --output-tokens 20 --calibration off --no-html --quiet --json record.json";
    assert_eq!(run(&folder, &line.split_whitespace().collect::<Vec<_>>()).code, Some(0));
    let export = || {
        let done = run(&folder, &["export", "record.json", "--mlflow", "mlruns", "--wandb", "wandb"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.stdout
    };
    let told = export();
    assert_eq!(told, export());
    let place = |form: &str| {
        let line =
            told.lines().find_map(|line| line.strip_prefix(&format!("{form}: "))).expect("it says where").to_owned();
        folder.join(&line)
    };
    let read =
        |path: std::path::PathBuf| std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let mlflow = place("mlflow");
    let runs = std::fs::read_dir(mlflow.parent().expect("an experiment")).expect("a folder");
    assert_eq!(runs.filter(|entry| entry.as_ref().expect("one").path().is_dir()).count(), 1);
    let record: Value = serde_json::from_str(&folder.read("record.json")).expect("JSON");
    let lines = read(mlflow.join("metrics/level/throughput_tok_s"));
    let found: Vec<Vec<f64>> =
        lines.lines().map(|line| line.split(' ').map(|number| number.parse().expect("a number")).collect()).collect();
    for (level, (line, load)) in found.iter().zip([1.0, 2.0]).enumerate() {
        assert_eq!(
            line[1..],
            [record["phases"][level]["throughput"]["tokens_per_second"].as_f64().expect("measured"), load]
        );
    }
    assert_eq!(read(mlflow.join("params/model")), record["conditions"]["model"].as_str().expect("a name"));
    let slices = record["timeline"]["series"][0]["values"].as_array().expect("slices").len();
    assert_eq!(read(mlflow.join("metrics/time/requests_begun")).lines().count(), slices);
    let history = read(place("wandb").join("wandb-history.jsonl"));
    assert_eq!(history.lines().count(), 2 + slices);
    assert!(
        history.lines().all(|line| serde_json::from_str::<Value>(line).is_ok_and(|line| line["_timestamp"].is_f64()))
    );
    assert_eq!(run(&folder, &["export", "record.json"]).code, Some(2), "a form is needed");
}
