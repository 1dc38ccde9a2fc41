"""Runs named checks one after the other and says what came of each.

It refuses to know SDKs. Invariant: every check that was registered is told of in one line, and the last line of a suite
names the version that was checked.
"""

import json
import os
import traceback
import urllib.request

GATEWAY = os.environ["SDK_GATEWAY"]
UPSTREAM = os.environ["SDK_UPSTREAM"]
KEY = os.environ["SDK_KEY"]
NARROW_KEY = os.environ["SDK_NARROW_KEY"]
SMALL_KEY = os.environ["SDK_SMALL_KEY"]
SUITE = os.environ["SDK_SUITE"]
# What the scripted provider says: its texts and counts.
SAID = json.loads(os.environ["SDK_SAID"])
TEXT, THOUGHTS, COUNTS = SAID["text"], SAID["thoughts"], SAID["usage"]
# What a long answer says.
LONG_TEXT = TEXT * SAID["long"]
# What comes of an answer that breaks off.
BEGINNING = "".join(SAID["pieces"][:2])
WIRES = ["chat", "responses", "anthropic"]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PNG_SEEN = "image/png:70:1c492093"
PICTURE_URL = "https://pictures.example/cat.png"
# Answers come at once; whoever waits this long (seconds) waits in vain.
PATIENCE = 20.0
# Shorter than the answer of a provider that does not answer (seconds).
IMPATIENCE = 1.0

_checks = []


def check(name):
    """Registers a check; it is given a mark, by which the scripted provider knows its requests."""

    def register(function):
        _checks.append((name, function))
        return function

    return register


def troubled(wire, scene, variant=1):
    """A lane that makes trouble, this suite's own."""
    return f"{wire}-{scene}-{SUITE}-{variant}"


def run(version):
    """Runs everything; ends the process."""
    failures = 0
    wanted = os.environ["SDK_ONLY"]
    for number, (name, function) in enumerate(_checks):
        if wanted not in f"{SUITE}: {name}":
            continue
        try:
            function(Mark(f"{SUITE}.{number}"))
            print(f"ok {SUITE}: {name}", flush=True)
        except BaseException as error:
            failures += 1
            place = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in place if frame.filename.endswith("_checks.py")] or place
            said = f"{type(error).__name__}: {error}".replace("\n", " ")[:600]
            print(f"FAIL {SUITE}: {name}: {said} (line {own[-1].lineno})", flush=True)
    print(f"versions {version}", flush=True)
    raise SystemExit(0)


class Mark:
    """The mark of a check's requests."""

    def __init__(self, mark):
        self.mark = mark

    def __str__(self):
        return f"[mark:{self.mark}]"

    def requests(self, page="/ledger"):
        """What the scripted provider got."""
        with urllib.request.urlopen(f"{UPSTREAM}{page}?mark={self.mark}", timeout=PATIENCE) as answer:
            return json.load(answer)

    def seen(self):
        """How the scripted provider read the only request."""
        (request,) = self.requests()
        return request["seen"]

    def release(self):
        """Lets an answer break off whose beginning was read."""
        return self.requests("/ledger/release")

    def begun(self):
        """Waits until the scripted provider got a request."""
        return self.requests("/ledger/begun")

    def closed(self):
        """Waits until the gateway closed its connection; an error if it does not."""
        return self.requests("/ledger/closed")


def same(actual, expected):
    assert actual == expected, f"{actual!r} instead of {expected!r}"


def holds(whole, part):
    assert part in whole, f"{part!r} is not in {whole!r}"


def raises(kind, function):
    """The error of that kind, and no other, that a function raises."""
    try:
        value = function()
    except kind as error:
        assert type(error) is kind, f"{type(error).__name__} instead of {kind.__name__}: {error}"
        return error
    raise AssertionError(f"no {kind.__name__} but {value!r}")
