"""MLflow opens what `tokrate export --mlflow` writes, and finds the figures of the record.

Nothing leaves this machine. Not part of the tests; in an environment with requirements.txt:

    python tests/mlflow/check.py --tokrate target/debug/tokrate
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

# MLflow 3 opens a file store only if it is told to.
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"

import mlflow
from mlflow.tracking import MlflowClient


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokrate", required=True)
    tokrate = str(Path(parser.parse_args().tokrate).resolve())
    with tempfile.TemporaryDirectory(prefix="tokrate-mlflow-") as name:
        folder = Path(name)
        bench = [tokrate, "bench", "-c", "1,4", "-n", "12", "--output-tokens", "30", "--calibration", "off", "--no-html", "--quiet",
                 "--json", "record.json"]
        subprocess.run(bench, cwd=folder, capture_output=True, check=True)
        # Twice: the second takes the place of the first.
        for _ in range(2):
            subprocess.run([tokrate, "export", "record.json", "--mlflow", "mlruns"], cwd=folder, capture_output=True, check=True)
        record = json.loads((folder / "record.json").read_text())
        client = MlflowClient(tracking_uri=f"file://{folder / 'mlruns'}")
        experiment = next(it for it in client.search_experiments() if it.name == "tokrate")
        runs = client.search_runs([experiment.experiment_id])
        assert len(runs) == 1, f"{len(runs)} runs"
        run = runs[0]
        assert run.data.params["model"] == record["conditions"]["model"]
        levels = client.get_metric_history(run.info.run_id, "level/throughput_tok_s")
        wanted = {phase["load"]["concurrency"]: phase["throughput"]["tokens_per_second"] for phase in record["phases"]}
        assert {metric.step: metric.value for metric in levels} == wanted
        for series in record["timeline"]["series"]:
            found = client.get_metric_history(run.info.run_id, f"time/{series['name']}")
            found = sorted((metric.step, metric.value) for metric in found)
            assert found == [(place, value) for place, value in enumerate(series["values"]) if value is not None], series["name"]
        assert [artifact.path for artifact in client.list_artifacts(run.info.run_id)] == ["record.json"]
        print(f"MLflow {mlflow.__version__} reads {len(run.data.metrics)} figures of {len(wanted)} levels as the record has them")


if __name__ == "__main__":
    main()
