#!/usr/bin/env python3
"""What it costs a gateway when a client holds bodies, or a crowd without a key holds connections: docs/gateway.md has the figures.

    scripts/exhaustion.py target/debug/tokrate [SOFT HARD]

Starts the binary's gateway on loopback with two keys (one of a single call at once), one simulated lane and limits of open files of
SOFT and HARD (1024 and 1024 without them), and prints its resident memory and what a client with the other key hears, and when.
"""

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time

ADDRESS = ("127.0.0.1", 18411)
LENGTH = 31 << 20
CROWD = 1020
SETTINGS = """
[gateway]
admin = "off"
log = "off"
workers = 2
[gateway.lanes.sim]
local = "sim:prompt"
[gateway.aliases.auto]
lanes = ["sim"]
[gateway.keys.narrow]
key_env = "NARROW"
streams = 1
[gateway.keys.good]
key_env = "GOOD"
"""


def start(binary, soft, hard, folder):
    settings = os.path.join(folder, "tokrate.toml")
    with open(settings, "w") as file:
        file.write(SETTINGS)
    gateway = subprocess.Popen(
        [os.path.abspath(binary), "gateway", "--config", settings, "--listen", "%s:%d" % ADDRESS],
        env=dict(os.environ, NARROW="sk-narrow", GOOD="sk-good"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        stdout=subprocess.PIPE,
        cwd=folder,
    )
    gateway.stdout.readline()
    return gateway


def resident(gateway):
    with open(f"/proc/{gateway.pid}/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))


def connect():
    stream = socket.create_connection(ADDRESS)
    stream.settimeout(10)
    return stream


def head(key, length):
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        "host: %s:%d" % ADDRESS,
        f"authorization: Bearer {key}",
        "content-type: application/json",
        f"content-length: {length}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def answered():
    body = json.dumps({"model": "auto", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}).encode()
    began = time.monotonic()
    try:
        stream = connect()
        stream.sendall(head("sk-good", len(body)) + body)
        said = stream.recv(65536).split(b"\r\n")[0].decode() or "closed"
    except OSError as error:
        said = f"not answered ({error})"
    return f"{said} after {1e3 * (time.monotonic() - began):.0f} ms"


def tell(gateway, what):
    # What was written has to be read before it can be counted.
    time.sleep(1)
    print(f"{what}: {resident(gateway)} MiB; a client with a key: {answered()}", flush=True)


def hold_bodies(count):
    """Connections of one key that have sent a body but for its last byte."""
    held = []
    for _ in range(count):
        held.append(connect())
        try:
            held[-1].sendall(head("sk-narrow", LENGTH))
            time.sleep(0.02)
            held[-1].sendall(b" " * (LENGTH - 1))
        except OSError:
            pass  # It was turned away by its head.
    return held


def crowd(asked):
    """Connections without a key that have asked this, and nothing since."""
    streams = []
    for _ in range(CROWD):
        try:
            streams.append(connect())
            streams[-1].sendall(asked)
        except OSError:
            pass  # It was turned away.
    return streams


def main():
    binary, soft, hard = sys.argv[1], *(int(limit) for limit in sys.argv[2:4] or (1024, 1024))
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    health = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with tempfile.TemporaryDirectory() as folder:
        gateway = start(binary, soft, hard, folder)
        try:
            tell(gateway, "at rest")
            held = hold_bodies(30)
            tell(gateway, "30 x 31 MiB by a key of one call at once")
            for stream in held:
                stream.close()
            for what, asked in [("1,020 idle connections", b""), ("1,020 that asked for /healthz once", health)]:
                streams = crowd(asked)
                tell(gateway, what)
                for stream in streams:
                    stream.close()
                time.sleep(1)
        finally:
            gateway.terminate()


main()
