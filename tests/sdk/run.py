"""Runs the published SDKs of OpenAI, Anthropic, AWS and Google, for Python and Node, against a gateway of this build.

    python run.py --tokrate target/debug/tokrate --node-modules ~/.cache/tokrate/tools/sdk-node/node_modules [--only PART]

It refuses to install anything. Invariant: nothing leaves loopback, and a suite that does not reach its end is a failure.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "upstream"), str(HERE.parent)]
import script  # noqa: E402
from child import Child  # noqa: E402

SUITES = ["openai-python", "openai-node", "anthropic-python", "anthropic-node", "cloud-python"]
# How often a suite can ask a lane that makes trouble without meeting its cool-down.
VARIANTS = 3
KEY, NARROW_KEY = "sk-of-a-client", "sk-of-a-narrow-client"
PROVIDER_KEY = "sk-of-the-lane"
# All checks together take a fraction of this.
SUITE_SECONDS = 90
WIRES = {"chat": "openai-chat", "responses": "openai-responses", "anthropic": "anthropic"}

# What the suites expect to hear.
SAID = {
    "text": "".join(script.TEXT), "pieces": script.TEXT, "thoughts": "".join(script.THOUGHTS), "usage": script.USAGE,
    "long": script.LONG,
}


def settings(upstream):
    """The gateway's settings: a lane for every scene in every dialect, of its own for whatever makes a lane cool down."""
    lanes = {"sim": 'local = "sim"', "embeddings": lane(upstream, "openai-chat", "text-embedding")}
    lanes["completions-plain"] = lane(upstream, "openai-completions", "plain")
    for wire, dialect in WIRES.items():
        for scene in script.SCENES:
            lanes[f"{wire}-{scene}"] = lane(upstream, dialect, scene)
        for scene in script.TROUBLES:
            for suite in SUITES:
                for variant in range(1, VARIANTS + 1):
                    lanes[f"{wire}-{scene}-{suite}-{variant}"] = lane(upstream, dialect, scene)
    text = '[gateway]\nlisten = "127.0.0.1:0"\nadmin = "off"\nlog = "log.db"\nworkers = 2\n'
    text += '\n[gateway.limits]\nfirst_token = "15s"\ngap = "15s"\n'
    for name, row in lanes.items():
        text += f'\n[gateway.lanes."{name}"]\n{row}\n'
    for wire in WIRES:
        text += f'\n[gateway.aliases."{wire}-alias"]\nlanes = ["{wire}-plain"]\nobjective = "fixed"\n'
    for suite in SUITES:
        for scene in ["failing", "limited", "broken"]:
            lanes_of = f'["chat-{scene}-{suite}-3", "anthropic-{scene}-{suite}-3", "responses-plain"]'
            text += f'\n[gateway.aliases."{scene}-then-well-{suite}"]\nlanes = {lanes_of}\nobjective = "fixed"\n'
        text += f'\n[gateway.keys.small-{suite}]\nkey_env = "TOKRATE_SDK_SMALL_KEY_{suite.replace("-", "_")}"\n'
        text += "requests_per_minute = 1\n"
    three = ", ".join(f'"{wire}-plain"' for wire in WIRES)
    # All three are asked, which a race that is won by completion need not do.
    text += f'\n[gateway.aliases.race]\nlanes = [{three}]\nmode = "race=3"\nwinner = "first-token"\n'
    text += '\n[gateway.keys.team]\nkey_env = "TOKRATE_SDK_KEY"\n'
    narrow = 'key_env = "TOKRATE_SDK_NARROW_KEY"\naliases = ["chat-plain", "anthropic-plain"]\n'
    return text + f"\n[gateway.keys.narrow]\n{narrow}"


def small_key(suite):
    """A key that may ask once a minute."""
    return f"sk-of-a-small-client-{suite}"


def lane(upstream, dialect, scene):
    return f'url = "{upstream}/v1"\ndialect = "{dialect}"\nmodel = "{scene}"\nprovider = "scripted"\nkey_env = "SCRIPTED_KEY"'


def environment(**more):
    """That of this process without proxies, telemetry and keys of others."""
    unwanted = ("OPENAI_", "ANTHROPIC_", "OTEL_", "TOKRATE_", "AWS_", "AZURE_", "GOOGLE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    for name in ["http_proxy", "https_proxy", "all_proxy"]:
        kept.pop(name, None)
        kept.pop(name.upper(), None)
    loopback = {"NO_PROXY": "*", "no_proxy": "*", "OTEL_SDK_DISABLED": "true", "DO_NOT_TRACK": "1"}
    return {**kept, **loopback, "PYTHONDONTWRITEBYTECODE": "1", "SCRIPTED_KEY": PROVIDER_KEY, **more}


def run_suite(suite, arguments, gateway, upstream):
    """The lines that a suite prints, and its exit status."""
    package, language = suite.split("-")
    variables = environment(
        SDK_GATEWAY=gateway, SDK_UPSTREAM=upstream, SDK_KEY=KEY, SDK_NARROW_KEY=NARROW_KEY, SDK_SUITE=suite,
        SDK_SMALL_KEY=small_key(suite),
        SDK_SAID=json.dumps(SAID), SDK_ONLY=arguments.only or "", NODE_PATH=str(arguments.node_modules),
    )
    if language == "python":
        command = [sys.executable, str(HERE / "python" / f"{package}_checks.py")]
    else:
        command = ["node", str(HERE / "node" / f"{package}.js")]
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=SUITE_SECONDS, check=False)
        return done.stdout.splitlines(), done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode().splitlines(), f"not done after {SUITE_SECONDS} s", -1


def compare_log(tokrate, folder, requests):
    """Holds the throughput log against what the provider saw; what is wrong, if anything is."""
    command = [str(tokrate.resolve()), "log", "--db", f"{folder}/log.db", "--since", "all", "--by", "lane", "--json"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=SUITE_SECONDS, check=False)
    if done.returncode != 0:
        return done.stderr
    groups = [group for group in json.loads(done.stdout)["groups"] if group["lane"] != "sim"]
    attempts, lost = (sum(group[name] for group in groups) for name in ["attempts", "lost"])
    # One that lost a race may have been given up before it was sent.
    if not attempts - lost <= requests <= attempts:
        return f"{attempts} attempts, {lost} of them lost, and {requests} requests at the provider"
    for group in groups:
        counted = group["input_tokens"], group["output_tokens"]
        expected = script.USAGE["input"] * group["attempts"], script.USAGE["output"] * group["attempts"]
        if group["answered"] == group["attempts"] and group["lane"] != "embeddings" and counted != expected:
            return f"lane {group['lane']}: {counted} tokens instead of {expected}"
    return None


def told(suite, outcome):
    """Prints what came of a suite; returns the number of checks, of those that passed, and the versions."""
    lines, errors, status = outcome
    passed = [line for line in lines if line.startswith("ok ")]
    failed = [line for line in lines if line.startswith("FAIL ")]
    versions = next((line.removeprefix("versions ") for line in lines if line.startswith("versions ")), None)
    for line in passed + failed:
        print(f"sdk: {line}")
    # The line with the versions is the last that a suite prints.
    if versions is None or status != 0:
        failed.append(suite)
        print(f"sdk: FAIL {suite} ended with {status}\n{errors}")
    return len(passed) + len(failed), len(passed), versions or f"{suite} unknown"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokrate", type=pathlib.Path, required=True)
    parser.add_argument("--node-modules", type=pathlib.Path, required=True)
    parser.add_argument("--only", help="only checks whose name has this part")
    arguments = parser.parse_args()
    began = time.monotonic()
    provider = Child("the scripted provider", [sys.executable, str(HERE / "upstream/server.py")], env=environment())
    with tempfile.TemporaryDirectory(prefix="tokrate-sdk-") as folder:
        upstream = provider.read_until("http://").strip()
        pathlib.Path(folder, "tokrate.toml").write_text(settings(upstream))
        small = {f"TOKRATE_SDK_SMALL_KEY_{suite.replace('-', '_')}": small_key(suite) for suite in SUITES}
        variables = environment(TOKRATE_SDK_KEY=KEY, TOKRATE_SDK_NARROW_KEY=NARROW_KEY, **small)
        command = [str(arguments.tokrate.resolve()), "gateway", "--config", "tokrate.toml"]
        gateway = Child("the gateway", command, cwd=folder, env=variables)
        address = gateway.read_until("point an SDK at").split("base URL ")[1].split("/v1")[0]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            outcomes = list(pool.map(lambda suite: run_suite(suite, arguments, address, upstream), SUITES))
        status = gateway.end()
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"{upstream}/ledger/count", timeout=SUITE_SECONDS) as answer:
            wrong_in_log = compare_log(arguments.tokrate, folder, json.load(answer))
        provider.end()
    counts = [told(suite, outcome) for suite, outcome in zip(SUITES, outcomes, strict=True)]
    total, passed = sum(count[0] for count in counts) + 2, sum(count[1] for count in counts)
    wrong_in_end = f"ended with {status}\n{''.join(gateway.lines[-20:])}" if status else None
    for name, wrong in [
        ("ends by itself after SIGTERM", wrong_in_end), ("its log has every attempt and the provider's counts", wrong_in_log),
    ]:
        passed += wrong is None
        print(f"sdk: FAIL gateway: {name}: {wrong}" if wrong else f"sdk: ok gateway: {name}")
    versions = ", ".join(count[2] for count in counts)
    print(f"sdk: {passed} of {total} checks passed ({versions}) in {time.monotonic() - began:.1f} s")
    return 0 if passed == total else 1


if __name__ == "__main__":
    sys.exit(main())
