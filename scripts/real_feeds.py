#!/usr/bin/env python3
"""Drops that are put into real hourly series, and what `tokrate monitor replay` makes of them: docs/monitor.md has the figures.

    scripts/real_feeds.py target/release/tokrate FOLDER [--drops 0.1,0.2,0.3] [--rounds 10] [--seed 1] [--every 1]

FOLDER is a local copy of a feed; nothing of it is kept. Either lines of JSON, a probe each, in any *.jsonl below it, as those of
github.com/Jwrede/llm-bench-data (CC0): `model`, `timestamp`, `status`, `ttft_ms`. Or any *.csv below it with `timestamp,value`, as those of
github.com/numenta/NAB (MIT): the median of each hour counts, and stands for a speed. Series of less than 32 days are left out.

First the feed as it is: all events of a series and 30 days. What of them is false nobody knows, as real series change. Then, in each round
and for each size, every series gets one drop at a drawn time, after three weeks and five days before its end: a speed is less by that
share from then on, a time to the first token more by as much. A drop is found when a regression that the feed as it is does not have is
reported within 72 hours. Series are grouped by how far an hour is from the same hour of the day before. `--every 3` takes each third hour:
eight samples a day.
"""

import argparse
import collections
import csv
import datetime
import json
import math
import pathlib
import random
import statistics
import subprocess

HOUR = 3600
DAY = 24 * HOUR
LEAST_DAYS = 32
LEARNED = 21 * DAY
LEFT = 5 * DAY
WITHIN = 72 * HOUR
GROUPS = [(0.0, 0.1), (0.1, 0.2), (0.2, 0.35), (0.35, math.inf)]


def seconds(text):
    time = datetime.datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    return time.replace(tzinfo=time.tzinfo or datetime.timezone.utc).timestamp()


def of_lines(path, series):
    for line in path.read_text().splitlines():
        try:
            probe = json.loads(line)
        except ValueError:
            continue
        ok = probe.get("status") in ("healthy", "ok", "degraded")
        value = probe.get("ttft_ms") if ok else None
        series[probe["model"]].append((seconds(probe["timestamp"]), "ttft_ms", value, ok))


def of_table(path, series):
    hours = collections.defaultdict(list)
    with path.open() as file:
        for row in csv.DictReader(file):
            hours[seconds(row["timestamp"]) // HOUR].append(float(row["value"]))
    name = f"csv/{path.stem}"
    series[name] = [(hour * HOUR, "output_speed", statistics.median(values), True) for hour, values in sorted(hours.items())]


def feed(folder, every):
    series = collections.defaultdict(list)
    for path in sorted(folder.rglob("*.jsonl")):
        of_lines(path, series)
    for path in sorted(folder.rglob("*.csv")):
        of_table(path, series)
    kept = {}
    for name, rows in series.items():
        rows.sort(key=lambda row: row[0])
        rows = [row for row in rows if int(row[0] // HOUR) % every == 0]
        good = [row for row in rows if row[2] is not None and row[2] > 0]
        if good and good[-1][0] - good[0][0] >= LEAST_DAYS * DAY and len(good) >= LEAST_DAYS * 24 / every / 2:
            kept[name] = rows
    return kept


def spread(rows):
    by_hour = {round(at / HOUR): math.log(value) for at, _, value, _ in rows if value and value > 0}
    steps = [abs(ln - by_hour[hour - 24]) for hour, ln in by_hour.items() if hour - 24 in by_hour]
    return statistics.median(steps) / 0.6745 / math.sqrt(2) if steps else math.nan


def replay(tokrate, series, drops, size):
    rows = []
    for name, of_name in series.items():
        for at, metric, value, ok in of_name:
            row = {"at": datetime.datetime.fromtimestamp(at, datetime.timezone.utc).isoformat(), "endpoint": name, "ok": ok}
            if value is not None:
                is_after = at >= drops.get(name, math.inf)
                less = 1 - size if is_after else 1.0
                row[metric] = value * less if metric == "output_speed" else value / less
            rows.append((at, json.dumps(row)))
    rows.sort()
    text = "\n".join(line for _, line in rows) + "\n"
    done = subprocess.run([tokrate, "monitor", "replay", "-"], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokrate")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--drops", default="0.1,0.2,0.3")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    series = feed(given.folder, given.every)
    spreads = {name: spread(rows) for name, rows in series.items()}
    months = {name: (rows[-1][0] - rows[0][0]) / (30 * DAY) for name, rows in series.items()}
    as_it_is = replay(given.tokrate, series, {}, 0.0)
    key = lambda event: (event["endpoint"], event["metric"], event["kind"], event["since"])
    known = {key(event) for event in as_it_is}
    group_of = lambda name: next(group for group in GROUPS if group[0] <= spreads[name] < group[1])
    members = collections.defaultdict(list)
    for name in series:
        members[group_of(name)].append(name)
    print(f"{len(series)} series, {sum(map(len, series.values()))} samples, {sum(months.values()):.1f} months of series")
    print("\n| spread | series | events of the feed as it is, per series and 30 days |\n|---|---|---|")
    for group, names in sorted(members.items(), reverse=True):
        kinds = collections.Counter(event["kind"] for event in as_it_is if event["endpoint"] in names)
        total = sum(months[name] for name in names)
        each = ", ".join(f"{kind} {count / total:.2f}" for kind, count in kinds.most_common()) or "none"
        print(f"| {group[0]} to {group[1]} | {len(names)} | {each} |")
    quarantines = sum(event["kind"] == "quarantine" for event in as_it_is)
    print(f"\n{quarantines} times all of it was quarantined")
    drawn = random.Random(given.seed)
    rows = []
    for size in map(float, given.drops.split(",")):
        delays = collections.defaultdict(list)
        for _ in range(given.rounds):
            drops = {name: drawn.uniform(of[0][0] + LEARNED, of[-1][0] - LEFT) for name, of in series.items()}
            found = collections.defaultdict(lambda: math.inf)
            for event in replay(given.tokrate, series, drops, size):
                delay = seconds(event["at"]) - drops.get(event["endpoint"], math.inf)
                if event["kind"] == "regression" and 0 <= delay <= WITHIN and key(event) not in known:
                    found[event["endpoint"]] = min(found[event["endpoint"]], delay)
            for name in series:
                delays[group_of(name)].append(found[name])
        for group, of in delays.items():
            in_time = sum(map(math.isfinite, of))
            middle = statistics.median(of)
            shown = f"{middle / HOUR:.0f} h" if math.isfinite(middle) else "more than 72 h"
            rows.append((in_time / len(of), f"| {group[0]} to {group[1]} | {size:.0%} | {len(of)} | {in_time / len(of):.0%} | {shown} |"))
    print("\n| spread | drop | drops put in | found within 72 h | median delay |\n|---|---|---|---|---|")
    for _, row in sorted(rows):
        print(row)


main()
