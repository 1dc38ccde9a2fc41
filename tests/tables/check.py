"""DuckDB and pandas open what `tokrate monitor export` and `tokrate bench --chunks` write, and find in every form what the JSON lines say.

Nothing leaves this machine. Invariant: the truth is read with Python's own json module, so that no reader is held against itself.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile
from datetime import datetime
from pathlib import Path

import duckdb
import pandas
import pyarrow.parquet

FORMS = ["jsonl", "csv", "parquet"]
TEXTS = ["endpoint", "workload", "place", "source", "error", "id"]
NUMBERS = ["ttft_ms", "output_speed", "e2e_ms", "input_tokens", "cost_usd"]


def exported(tokrate: str, folder: Path) -> None:
    """Two weeks of the simulated fleet, in every form."""
    demo = subprocess.run(
        [tokrate, "monitor", "--demo", "--board", "off"],
        env={**os.environ, "TMPDIR": str(folder)}, capture_output=True, text=True, check=True,
    )
    line = next(line for line in demo.stdout.splitlines() if line.startswith("The probes: "))
    database = line.removeprefix("The probes: ")
    for form in FORMS:
        command = [tokrate, "monitor", "export", f"--{form}", str(folder / f"rows.{form}"), "--all", "--db", database]
        subprocess.run(command, capture_output=True, check=True)


def truth(folder: Path) -> dict:
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert len(rows) > 1_000, f"{len(rows)} rows are no fleet"
    assert any(not row["ok"] for row in rows), "no failure, so nothing shows that a missing number is null"
    times = sorted(datetime.fromisoformat(row["at"]) for row in rows)
    summary = {"rows": len(rows), "ok": sum(row["ok"] for row in rows)}
    summary["first"], summary["last"] = (round(time.timestamp() * 1_000) for time in (times[0], times[-1]))
    for name in TEXTS:
        summary[name] = len({row[name] for row in rows if name in row})
    for name in NUMBERS:
        values = [row[name] for row in rows if name in row]
        summary[name] = (len(values), statistics.median(values) if values else None)
    return summary


def of_duckdb(path: Path) -> dict:
    reader = {"jsonl": "read_json_auto", "csv": "read_csv_auto", "parquet": "read_parquet"}[path.suffix[1:]]
    table = f"{reader}('{path}')"
    one = lambda sql: duckdb.sql(sql).fetchall()[0]
    summary = {"rows": one(f"SELECT count(*) FROM {table}")[0], "ok": one(f"SELECT count(*) FROM {table} WHERE ok")[0]}
    at = f'SELECT epoch_ms(min("at"::TIMESTAMPTZ)), epoch_ms(max("at"::TIMESTAMPTZ)) FROM {table}'
    summary["first"], summary["last"] = one(at)
    for name in TEXTS:
        summary[name] = one(f"SELECT count(DISTINCT {name}) FROM {table}")[0]
    for name in NUMBERS:
        summary[name] = one(f"SELECT count({name}), median({name}) FROM {table}")
    return summary


def of_pandas(path: Path) -> dict:
    read = {"jsonl": lambda path: pandas.read_json(path, lines=True), "csv": pandas.read_csv, "parquet": pandas.read_parquet}
    frame = read[path.suffix[1:]](path)
    if path.suffix == ".parquet":
        types = frame.dtypes
        assert str(types["at"]) == "datetime64[ms, UTC]", types["at"]
        assert pandas.api.types.is_float_dtype(types["ttft_ms"]), types["ttft_ms"]
        assert pandas.api.types.is_bool_dtype(frame["ok"].dropna().infer_objects()), types["ok"]
    times = pandas.to_datetime(frame["at"], utc=True, format=None if path.suffix == ".parquet" else "ISO8601")
    summary = {"rows": len(frame), "ok": int(frame["ok"].astype(bool).sum())}
    summary["first"], summary["last"] = (round(time.timestamp() * 1_000) for time in (times.min(), times.max()))
    for name in TEXTS:
        summary[name] = int(frame[name].nunique())
    for name in NUMBERS:
        values = frame[name].dropna()
        summary[name] = (len(values), float(values.median()) if len(values) else None)
    return summary


def held(reader: str, form: str, found: dict, wanted: dict) -> None:
    for name, value in wanted.items():
        if isinstance(value, tuple):
            count, median = value
            same = found[name][0] == count and (median is None or math.isclose(found[name][1], median, rel_tol=1e-9))
        else:
            same = found[name] == value
        assert same, f"{reader} on {form}: {name} is {found[name]}, and the rows say {value}"


def arrivals(tokrate: str, folder: Path) -> int:
    """Every arrival of a run, in columns, held against the rows of the same run; as many as need two groups of rows."""
    command = [tokrate, "bench", "--concurrency", "32", "--requests", "700", "--output-tokens", "100", "--input-tokens", "30",
               "--calibration", "off", "--no-html", "--quiet", "--jsonl", "rows.jsonl", "--chunks", "arrivals.parquet"]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
    rows = {row["request_id"]: row for row in map(json.loads, (folder / "rows.jsonl").read_text().splitlines())}
    wanted = {
        name: (row["tokens_std"], row["text_events"], row["last_text_at_ns"] - row["first_text_at_ns"], row["warmup"])
        for name, row in rows.items()
    }
    path = folder / "arrivals.parquet"
    found = duckdb.sql(
        f"SELECT request_id, sum(tokens), sum(events), max(at_ns) - min(at_ns), any_value(warmup), "
        f"max(index) + 1 = count(*), count(target) + count(*) - count(channel) FROM '{path}' GROUP BY request_id"
    ).fetchall()
    assert {row[0]: row[1:5] for row in found} == wanted, "DuckDB finds other arrivals than the rows say"
    assert all(whole and none == 0 for *_, whole, none in found), "indices have holes, or a value is there that is not"
    frame = pandas.read_parquet(path)
    sums = frame.groupby("request_id").agg(tokens=("tokens", "sum"), events=("events", "sum"))
    assert all(tuple(sums.loc[name]) == want[:2] for name, want in wanted.items()), "pandas finds other arrivals"
    assert pyarrow.parquet.ParquetFile(path).num_row_groups > 1, "there is only a group for the level"
    return len(frame)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokrate", required=True)
    tokrate = parser.parse_args().tokrate
    with tempfile.TemporaryDirectory(prefix="tokrate-tables-") as name:
        folder = Path(name)
        exported(tokrate, folder)
        wanted = truth(folder)
        for form in FORMS:
            held("DuckDB", form, of_duckdb(folder / f"rows.{form}"), wanted)
            held("pandas", form, of_pandas(folder / f"rows.{form}"), wanted)
        count = arrivals(tokrate, folder)
        size = (folder / "arrivals.parquet").stat().st_size
        print(f"They read {count} arrivals alike, {size / count:.1f} bytes each")
        sizes = ", ".join(f"{form} {(folder / f'rows.{form}').stat().st_size / 1e6:.1f} MB" for form in FORMS)
        print(f"DuckDB {duckdb.__version__} and pandas {pandas.__version__} read {wanted['rows']} rows alike: {sizes}")


if __name__ == "__main__":
    main()
