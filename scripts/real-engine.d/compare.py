"""Put tokrate's per-request times beside the engine's own, from what `real-engine bench` left in one folder.

Reads `requests.jsonl` (tokrate, one request a line), `server.log` (llama-server's two timing lines per request) and
`before.prom` / `after.prom` (its counters). Both sides define the speed alike: (tokens - 1) / (last - first token).
The engine's prompt time starts when it takes the request up; tokrate's TTFT starts when the request was sent, so it
also holds the wait for a slot, templating, tokenising and the way back: it may exceed the engine's, never fall below.
"""

import json
import pathlib
import re
import statistics
import sys

PROMPT = re.compile(r"id\s+(\d+) \| task (\d+) \| +prompt eval time = +([\d.]+) ms / +(\d+) tokens")
DECODE = re.compile(r"id\s+(\d+) \| task (\d+) \| +eval time = +([\d.]+) ms / +(\d+) tokens")


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    engine = engine_requests((folder / "server.log").read_text(errors="replace"))
    counters = deltas((folder / "before.prom").read_text(), (folder / "after.prom").read_text())
    seen = [flat(json.loads(line)) for line in (folder / "requests.jsonl").read_text().splitlines() if line.strip()]
    print_counters(counters, len(engine))
    ours = [row for row in map(client_request, seen) if row]
    print_comparison(ours, engine)


def engine_requests(log: str) -> list[dict]:
    """One entry per request in the order in which the engine finished them."""
    done, prompts = [], {}
    for line in log.splitlines():
        if found := PROMPT.search(line):
            prompts[found[2]] = (float(found[3]), int(found[4]))
        elif found := DECODE.search(line):
            prompt_ms, prompt_tokens = prompts.pop(found[2], (None, None))
            decode_ms, tokens = float(found[3]), int(found[4])
            speed = (tokens - 1) / decode_ms * 1e3 if tokens > 1 and decode_ms > 0 else None
            done.append({"ttft_ms": prompt_ms, "prompt_tokens": prompt_tokens, "tokens": tokens, "speed": speed})
    return done


def deltas(before: str, after: str) -> dict[str, float]:
    old, new = counters(before), counters(after)
    return {name: value - old.get(name, 0.0) for name, value in new.items() if name.endswith("_total")}


def counters(text: str) -> dict[str, float]:
    lines = (line.split() for line in text.splitlines() if line.startswith("llamacpp:"))
    return {words[0].removeprefix("llamacpp:"): float(words[-1]) for words in lines}


def flat(value: dict, prefix: str = "") -> dict:
    """Nested keys joined with dots, so that a field is found wherever the record keeps it."""
    found = {}
    for key, inner in value.items():
        found |= flat(inner, f"{prefix}{key}.") if isinstance(inner, dict) else {prefix + key: inner}
    return found


SCALE_TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


def milliseconds(row: dict, name: str) -> float | None:
    for key, value in row.items():
        stem, _, unit = key.rsplit(".", 1)[-1].rpartition("_")
        if stem == name and unit in SCALE_TO_MS and isinstance(value, (int, float)):
            return value * SCALE_TO_MS[unit]
    return None


def named(row: dict, *names: str):
    for name in names:
        for key, value in row.items():
            if key.rsplit(".", 1)[-1] == name and value is not None:
                return value
    return None


def client_request(row: dict) -> dict | None:
    ttft = milliseconds(row, "ttft")
    if ttft is None or named(row, "warmup", "is_warmup") is True:
        return None
    return {
        "ttft_ms": ttft,
        "speed": named(row, "output_speed", "output_speed_tok_s", "output_speed_tps"),
        "tokens": named(row, "tokens_reported", "output_tokens_reported"),
        "level": named(row, "concurrency", "level", "phase"),
    }


def print_counters(total: dict[str, float], requests: int) -> None:
    seconds, tokens = total.get("tokens_predicted_seconds_total", 0.0), total.get("tokens_predicted_total", 0.0)
    print(f"\nengine's counters over the run, warm-up included: {requests} requests, {total.get('prompt_tokens_total', 0):.0f} prompt tokens, {tokens:.0f} output tokens")
    if seconds > 0:
        print(f"  mean output speed of a request: {(tokens - requests) / seconds:.1f} tok/s")


def print_comparison(ours: list[dict], engine: list[dict]) -> None:
    """Without a key that both sides share, requests are not paired: medians of the two whole sets are compared."""
    print(f"\n{'':34}{'tokrate':>12}{'engine':>12}{'tokrate - engine':>20}")
    for label, key, unit in (("time to first token, median", "ttft_ms", "ms"), ("output speed, median", "speed", "tok/s"), ("output tokens, sum", "tokens", "")):
        fold = sum if key == "tokens" else statistics.median
        mine = [row[key] for row in ours if row[key] is not None]
        theirs = [row[key] for row in engine[-len(ours):] if row[key] is not None]
        if not mine or not theirs:
            print(f"{label:34}{'-' if not mine else format(fold(mine), '.2f'):>12}{'-' if not theirs else format(fold(theirs), '.2f'):>12}")
            continue
        a, b = fold(mine), fold(theirs)
        share = f"{(a - b) / b * 100:+.1f} %" if b else ""
        print(f"{label:34}{a:12.2f}{b:12.2f}{a - b:+12.2f} {share:>9} {unit}")
    print(f"{'requests':34}{len(ours):12}{len(engine):12}   the engine's first {max(len(engine) - len(ours), 0)} are taken for warm-up and left out")


if __name__ == "__main__":
    main()
