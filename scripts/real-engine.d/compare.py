"""Put tokrate's per-request times beside the engine's own, from what `real-engine bench` left in one folder.

Reads `requests.jsonl` (tokrate, one request a line), `server.log` (llama-server's timing lines, one group a request)
and `before.prom` / `after.prom` (its counters). Both sides define the speed alike: (tokens - 1) / (last - first token).
The engine's prompt time starts when it takes the request up; tokrate's TTFT starts when the request was sent, so it
also holds the wait for a slot, templating, tokenising and the way back: it may exceed the engine's, never fall below.

Neither side knows the other's name for a request. Requests are paired by the moment they finished: the two clocks are
laid on each other at the last request, and each of tokrate's takes the engine's nearest one. What is left over on the
engine's side is warm-up.
"""

import json
import pathlib
import re
import statistics
import sys

STAMP = r"(\d+)\.(\d+)\.(\d+)\.(\d+) .*id +\d+ \| task (\d+) \| +"  # minutes, seconds, milliseconds, microseconds, task
PROMPT = re.compile(STAMP + r"prompt eval time = +([\d.]+) ms")
DECODE = re.compile(STAMP + r"eval time = +([\d.]+) ms / +(\d+) tokens")
TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    engine = engine_requests((folder / "server.log").read_text(errors="replace"))
    lines = (folder / "requests.jsonl").read_text().splitlines()
    ours = [request for line in lines if line.strip() and (request := client_request(flat(json.loads(line))))]
    print_counters(deltas(folder), len(engine))
    if not ours or not engine:
        sys.exit(f"nothing to compare: {len(ours)} of tokrate's {len(lines)} lines hold a TTFT, the engine logged {len(engine)} requests")
    print_table(pair(ours, engine))


# ---- the engine's side ----


def engine_requests(log: str) -> list[dict]:
    """One entry per request in the order in which the engine finished them."""
    done, prompt_ms = [], {}
    for line in log.splitlines():
        if found := PROMPT.search(line):
            prompt_ms[found[5]] = float(found[6])
        elif found := DECODE.search(line):
            minutes, seconds, milli, micro = (int(found[i]) for i in range(1, 5))
            decode_ms, tokens = float(found[6]), int(found[7])
            done.append({
                "finish_ms": (minutes * 60 + seconds) * 1e3 + milli + micro / 1e3,
                "ttft_ms": prompt_ms.pop(found[5]),
                "speed": (tokens - 1) / decode_ms * 1e3 if tokens > 1 and decode_ms > 0 else None,
                "tokens": tokens,
            })
    return done


def deltas(folder: pathlib.Path) -> dict[str, float]:
    before, after = (counters((folder / name).read_text()) for name in ("before.prom", "after.prom"))
    return {name: value - before.get(name, 0.0) for name, value in after.items()}


def counters(text: str) -> dict[str, float]:
    rows = (line.split() for line in text.splitlines() if line.startswith("llamacpp:"))
    return {row[0].removeprefix("llamacpp:"): float(row[-1]) for row in rows}


def print_counters(change: dict[str, float], requests: int) -> None:
    tokens, seconds = change["tokens_predicted_total"], change["tokens_predicted_seconds_total"]
    print(f"\nengine's counters, warm-up included: {requests} requests, {change['prompt_tokens_total']:.0f} prompt tokens "
          f"({change.get('prompt_tokens_cached_total', 0):.0f} more from its cache), {tokens:.0f} output tokens")
    if seconds > 0:
        print(f"mean output speed of a request by its counters: {(tokens - requests) / seconds:.1f} tok/s")


# ---- tokrate's side ----


def flat(value: dict, prefix: str = "") -> dict:
    """Nested keys joined with dots, so that a field is found wherever the record keeps it."""
    found = {}
    for key, inner in value.items():
        found |= flat(inner, f"{prefix}{key}.") if isinstance(inner, dict) else {prefix + key: inner}
    return found


def client_request(row: dict) -> dict | None:
    ttft = milliseconds(row, "ttft")
    if ttft is None:
        return None
    sent, e2e = milliseconds(row, "sent_at"), milliseconds(row, "e2e")
    return {
        "finish_ms": None if sent is None or e2e is None else sent + e2e,
        "ttft_ms": ttft,
        "speed": named(row, "output_speed"),
        "tokens": named(row, "tokens_reported"),
        "level": named(row, "concurrency"),
        "warmup": named(row, "warmup") is True,
    }


def milliseconds(row: dict, name: str) -> float | None:
    for key, value in row.items():
        stem, _, unit = key.rsplit(".", 1)[-1].rpartition("_")
        if stem == name and unit in TO_MS and isinstance(value, int | float):
            return value * TO_MS[unit]
    return None


def named(row: dict, name: str):
    return next((value for key, value in row.items() if key.rsplit(".", 1)[-1] == name and value is not None), None)


# ---- both ----


def pair(ours: list[dict], engine: list[dict]) -> list[tuple[dict, dict]]:
    if any(request["finish_ms"] is None for request in ours):
        return list(zip(ours, engine[-len(ours):]))
    ours = sorted(ours, key=lambda request: request["finish_ms"])
    offset = engine[-1]["finish_ms"] - ours[-1]["finish_ms"]
    free, pairs = list(engine), []
    for request in reversed(ours):
        if free:
            nearest = min(free, key=lambda other: abs(other["finish_ms"] - request["finish_ms"] - offset))
            free.remove(nearest)
            pairs.append((request, nearest))
    return pairs


def print_table(pairs: list[tuple[dict, dict]]) -> None:
    pairs = [(ours, engine) for ours, engine in pairs if not ours["warmup"]]
    print("\nmedians                 TTFT, ms                                output speed of a request, tok/s")
    print("concurrency     n    tokrate     engine    added, least..most    tokrate     engine   difference")
    for level in sorted({str(ours["level"]) for ours, _ in pairs}, key=lambda name: (len(name), name)):
        print_level(level, [(ours, engine) for ours, engine in pairs if str(ours["level"]) == level])
    unlike = sum(ours["tokens"] not in (None, engine["tokens"]) for ours, engine in pairs)
    early = sum(ours["ttft_ms"] < engine["ttft_ms"] for ours, engine in pairs)
    if unlike or early:
        print(f"\n{unlike} pairs differ in output tokens, in {early} tokrate's TTFT is below the engine's: neither can be, so these")
        print("were paired wrongly or one side is wrong. Run with --concurrency 1 to leave no doubt about the pairs.")


def print_level(level: str, pairs: list[tuple[dict, dict]]) -> None:
    median = statistics.median
    added = [ours["ttft_ms"] - engine["ttft_ms"] for ours, engine in pairs]
    row = f"{level:>11}{len(pairs):6}{median(o['ttft_ms'] for o, _ in pairs):11.2f}{median(e['ttft_ms'] for _, e in pairs):11.2f}"
    row += f"{median(added):9.2f}, {min(added):.2f}..{max(added):.2f}".ljust(24)
    speeds = [(ours["speed"], engine["speed"]) for ours, engine in pairs if ours["speed"] and engine["speed"]]
    if speeds:
        apart = median((ours - engine) / engine * 100 for ours, engine in speeds)
        row += f"{median(s for s, _ in speeds):9.1f}{median(s for _, s in speeds):11.1f}{apart:+11.2f} %"
    else:
        row += "   no output speed in tokrate's lines (too few tokens for one?)"
    print(row)


if __name__ == "__main__":
    main()
