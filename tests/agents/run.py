"""Lets Claude Code, Codex CLI, opencode and aider do a whole small task through a gateway of this build.

    python run.py --tokrate target/debug/tokrate --node-modules ~/.cache/tokrate/tools/agents-node/node_modules [--only PART]

The model is `tokrate sim` with a script of answers and calls of tools for each agent; agents, gateway, files and tests are real. Each agent
runs twice: on a lane of its own dialect and on one of another, by translation. It refuses to install anything. Invariant: nothing leaves
loopback, where the system can have a network of its own for that (Linux); everywhere agents are told to send nothing anywhere else.
"""

import argparse
import concurrent.futures
import fcntl
import json
import os
import pathlib
import platform
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from child import Child  # noqa: E402

TASK = "Mend greeting.py so that the test in test_greeting.py passes."
BROKEN = 'def greeting(name):\n    return "Good bye, " + name\n'
MENDED = 'def greeting(name):\n    return "Hello, " + name\n'
TEST = """\
import unittest

from greeting import greeting


class Greeting(unittest.TestCase):
    def test_it_says_hello(self):
        self.assertEqual(greeting("Ada"), "Hello, Ada")
"""
# The whole of it takes a fraction of this.
AGENT_SECONDS = 120
KEY = "sk-of-an-agent"
INSIDE = "TOKRATE_AGENTS_INSIDE"


class Agent:
    """How an agent is started, what it speaks, and how many calls its script has."""

    def __init__(self, name, own, other, calls, *, names_session=True):
        self.name, self.own, self.other, self.calls, self.names_session = name, own, other, calls, names_session


AGENTS = [
    Agent("claude-code", "anthropic", "openai-chat", 4),
    Agent("codex", "openai-responses", "openai-chat", 4),
    Agent("opencode", "openai-chat", "anthropic", 5),
    Agent("aider", "openai-chat", "anthropic", 2, names_session=False),
]


def command(agent, model, base, home, tools):
    """The command line of an agent, and the variables that point it at the gateway."""
    if agent == "claude-code":
        program = tools.native("@anthropic-ai/claude-code-{}", "claude")
        line = [program, "-p", TASK, "--dangerously-skip-permissions"]
        return line, {
            "ANTHROPIC_BASE_URL": base, "ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_MODEL": model,
            "ANTHROPIC_SMALL_FAST_MODEL": model, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1",
        }
    if agent == "codex":
        (home / ".codex").mkdir()
        (home / ".codex/config.toml").write_text(
            f'model = "{model}"\nmodel_provider = "tokrate"\nweb_search = "disabled"\n\n[model_providers.tokrate]\nname = "tokrate"\n'
            f'base_url = "{base}/v1"\nenv_key = "TOKRATE_KEY"\nwire_api = "responses"\n'
            # Tools of OpenAI's own dialect, which no other can carry.
            '\n[features]\nmulti_agent = false\n'
        )
        line = ["node", tools.modules / "@openai/codex/bin/codex.js", "exec", "--skip-git-repo-check"]
        return [*line, "--dangerously-bypass-approvals-and-sandbox", TASK], {"TOKRATE_KEY": KEY}
    if agent == "opencode":
        provider = {
            "npm": "@ai-sdk/openai-compatible", "name": "tokrate", "models": {model: {"name": model}},
            "options": {"baseURL": f"{base}/v1", "apiKey": "{env:TOKRATE_KEY}"},
        }
        settings = {"model": f"tokrate/{model}", "autoupdate": False, "share": "disabled", "provider": {"tokrate": provider}}
        folder = home / ".config/opencode"
        folder.mkdir(parents=True)
        (folder / "opencode.json").write_text(json.dumps(settings))
        return [tools.native("opencode-{}", "bin/opencode"), "run", TASK], {
            "TOKRATE_KEY": KEY, "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
        }
    flags = ["--no-analytics", "--no-check-update", "--no-show-model-warnings", "--no-git", "--yes-always", "--no-pretty"]
    line = [pathlib.Path(sys.executable).parent / "aider", "--model", f"openai/{model}", "--edit-format", "diff", *flags]
    line += ["--auto-test", "--test-cmd", "python3 -m unittest", "--message", TASK, "greeting.py"]
    return line, {"OPENAI_API_BASE": f"{base}/v1", "OPENAI_API_KEY": KEY}


class Tools:
    """The programs of Node's packages."""

    def __init__(self, modules):
        self.modules = modules.resolve()
        machine = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        self.machine = f"{platform.system().lower()}-{machine}"

    def native(self, package, program):
        """A program that is built for this machine. What would put it in its place runs only where packages may run scripts."""
        return self.modules / package.format(self.machine) / program


def environment(home, **more):
    """That of this process without proxies and keys of others, with a home of its own."""
    unwanted = ("OPENAI_", "ANTHROPIC_", "CLAUDE", "CODEX", "OPENCODE", "AIDER", "OTEL_", "TOKRATE_", "XDG_", "GIT_")
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(unwanted)}
    # Where there is no network of its own, whoever asks for an address outside reaches nobody.
    nobody = {name: "http://127.0.0.1:9" for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"]}
    quiet = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost", "DO_NOT_TRACK": "1", "DISABLE_TELEMETRY": "1"}
    return {**kept, **nobody, **quiet, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", "TERM": "dumb", **more}


def run(agent, lane, arguments, tools, folder):
    """Runs an agent on a lane of that dialect; what went wrong, and what it printed."""
    place = pathlib.Path(folder, f"{agent.name}-{lane}")
    work, home = place / "work", place / "home"
    work.mkdir(parents=True)
    home.mkdir()
    (work / "greeting.py").write_text(BROKEN)
    (work / "test_greeting.py").write_text(TEST)
    script = (HERE / f"scripts/{agent.name}.toml").read_text().replace("@WORK@", str(work))
    (place / "script.toml").write_text(script)
    tokrate, bare = str(arguments.tokrate.resolve()), environment(home)
    line = [tokrate, "sim", "--listen", "127.0.0.1:0", "--speed", "inf", "--delay", "1ms", "--script", "script.toml"]
    sim = Child("tokrate sim", line, cwd=place, env=bare)
    upstream = sim.read_until("serving model").split(" at ")[1].split("/v1")[0]
    (place / "tokrate.toml").write_text(
        '[gateway]\nlisten = "127.0.0.1:0"\nadmin = "off"\nlog = "log.db"\nworkers = 1\n'
        f'\n[gateway.lanes.model]\nurl = "{upstream}/v1"\ndialect = "{lane}"\nmodel = "sim"\n'
        '\n[gateway.aliases.agent]\nlanes = ["model"]\n\n[gateway.keys.agent]\nkey_env = "AGENT_KEY"\n'
    )
    gateway = Child(
        "tokrate gateway", [tokrate, "gateway", "--config", "tokrate.toml"], cwd=place, env={**bare, "AGENT_KEY": KEY}
    )
    base = gateway.read_until("point an SDK at").split("base URL ")[1].split("/v1")[0]
    line, variables = command(agent.name, "agent", base, home, tools)
    try:
        done = subprocess.run(
            line, cwd=work, env=environment(home, PWD=str(work), **variables), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=AGENT_SECONDS, check=False,
        )
        printed, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        printed, status = (late.stdout or b"").decode(), f"not done after {AGENT_SECONDS} s"
    ended = gateway.end()
    sim.end()
    wrong = [] if status == 0 else [f"it ended with {status}"]
    wrong += [] if ended == 0 else [f"the gateway ended with {ended}"]
    wrong += judge(agent, lane, work, place, tokrate, bare)
    return wrong, printed + ("".join(gateway.lines) if wrong else "")


def judge(agent, lane, work, place, tokrate, bare):
    """What is wrong with the files and with the log."""
    wrong = []
    if (work / "greeting.py").read_text() != MENDED:
        wrong.append(f"greeting.py is {(work / 'greeting.py').read_text()!r}")
    test = subprocess.run([sys.executable, "-m", "unittest"], cwd=work, env=bare, capture_output=True, text=True, check=False)
    if test.returncode != 0:
        wrong.append(f"the test fails: {test.stderr}")
    line = [tokrate, "log", "--db", "log.db", "--since", "all", "--calls", "100", "--json"]
    logged = subprocess.run(line, cwd=place, env=bare, capture_output=True, text=True, check=False)
    if logged.returncode != 0:
        return [*wrong, f"its log cannot be read: {logged.stderr}"]
    rows = [row for call in json.loads(logged.stdout)["calls"] for row in call]
    if len(rows) != agent.calls:
        wrong.append(f"{len(rows)} calls are logged instead of {agent.calls}")
    for row in rows:
        expected = {"end": "answered", "alias": "agent", "key": "agent", "dialect_in": agent.own, "dialect_out": lane, "status": 200}
        found = {name: row[name] for name in expected}
        if found != expected:
            wrong.append(f"a row has {found} instead of {expected}")
        if not row["input_tokens"] or not row["output_tokens"]:
            wrong.append(f"a row has {row['input_tokens']} and {row['output_tokens']} tokens")
        if agent.names_session and not row.get("session"):
            wrong.append("a row has no session")
    return wrong


def version(agent, tools):
    """The version that an agent says it is."""
    with tempfile.TemporaryDirectory() as home:
        path = pathlib.Path(home)
        program = command(agent.name, "agent", "http://127.0.0.1:9", path, tools)[0]
        line = program[:2] if program[0] == "node" else program[:1]
        done = subprocess.run([*line, "--version"], env=environment(path), capture_output=True, text=True, check=False)
    return f"{agent.name} {(done.stdout.split() or ['unknown'])[-1 if agent.name != 'claude-code' else 0]}"


def network_of_its_own():
    """Starts this program again in a network that has loopback and nothing else, where the system lets it."""
    line = ["unshare", "--net", "--map-root-user", sys.executable, *sys.argv]
    can = shutil.which("unshare") and subprocess.run([*line[:3], "true"], capture_output=True, check=False).returncode == 0
    if can:
        os.execvpe(line[0], line, {**os.environ, INSIDE: "1"})
    print("agents: this system has no network of its own for them; they are only told to send nothing anywhere else")


def loopback_up():
    """Switches loopback on in a new network (SIOCSIFFLAGS with IFF_UP and IFF_RUNNING)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14s", b"lo", 0x41, b""))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokrate", type=pathlib.Path, required=True)
    parser.add_argument("--node-modules", type=pathlib.Path, required=True)
    parser.add_argument("--only", help="only agents whose name has this part")
    parser.add_argument("--show", action="store_true", help="print what the agents print")
    arguments = parser.parse_args()
    if INSIDE in os.environ:
        loopback_up()
    else:
        network_of_its_own()
    tools, began = Tools(arguments.node_modules), time.monotonic()
    agents = [agent for agent in AGENTS if (arguments.only or "") in agent.name]
    if not tools.native("opencode-{}", "bin/opencode").exists():
        # Its package for Node fetches a program for each machine by a script, and scripts do not run; pinned is that of one machine.
        print(f"agents: opencode is left out: what is pinned has no program of it for {tools.machine}")
        agents = [agent for agent in agents if agent.name != "opencode"]
    runs = [(agent, lane) for agent in agents for lane in (agent.own, agent.other)]
    passed = 0
    with tempfile.TemporaryDirectory(prefix="tokrate-agents-") as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        outcomes = pool.map(lambda one: (one, run(*one, arguments, tools, folder)), runs)
        for (agent, lane), (wrong, printed) in outcomes:
            passed += not wrong
            print(f"agents: {'FAIL' if wrong else 'ok'} {agent.name} on a lane of {lane}{': ' if wrong else ''}{'; '.join(wrong)}")
            if wrong or arguments.show:
                print(printed)
        versions = ", ".join(version(agent, tools) for agent in agents)
    print(f"agents: {passed} of {len(runs)} tasks were done ({versions}) in {time.monotonic() - began:.1f} s")
    return 0 if passed == len(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
