#!/usr/bin/env python3
"""Hands each answer of a speech server to tokrate and to OpenAI's Python SDK at the same time, and prints what the SDK saw.

For people who want to hold tokrate's stalls and times of sound against another clock; the tests do not need it. It needs `pip install
openai` and a server of /v1/audio/speech, and speaks to no other address than the two that are named:

    scripts/speech_beside_sdk.py --server 127.0.0.1:8880 --port 8305 --model kokoro --voice af_heart --texts texts.jsonl -n 6
    tokrate bench --url http://127.0.0.1:8305/v1 --model kokoro --task speech --voice af_heart --prompts texts.jsonl \\
        --body stream=true -c 1 -n 6 --warmup 0 --no-probe --calibration off --jsonl rows.jsonl

Begin both at about the same time. Requests are paired in the order in which they came, and one of each pair is sent on: both clients
have the same bytes at the same moments, so that stalls, time without sound and ends can be compared answer by answer (`audio` and
`e2e_ns` of rows.jsonl). Texts: JSON Lines with `prompt`, as --prompts takes them.
"""

import argparse
import asyncio
import json
import threading
import time

from openai import OpenAI

BYTES_PER_SECOND = 48_000  # 16 bits, 24,000 samples a second
MIN_STALL = 0.001  # as tokrate counts stalls (s)


async def read_request(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return head, await reader.readexactly(lengths[0]) if lengths else b""


async def serve_client(reader, writer, server, waiting):
    try:
        while True:
            head, body = await read_request(reader)
            if not waiting:
                ended = asyncio.get_running_loop().create_future()
                waiting.append((writer, ended))
                await ended
                continue
            other, ended = waiting.pop()
            await hand_on(head, body, server, (writer, other))
            ended.set_result(None)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def hand_on(head, body, server, clients):
    reader, writer = await asyncio.open_connection(*server)
    request = head.split(b"\r\n")[0] + b"\r\nhost: server\r\nconnection: close\r\ncontent-type: application/json\r\n"
    writer.write(request + b"content-length: %d\r\n\r\n" % len(body) + body)
    piece = (await reader.readuntil(b"\r\n\r\n")).replace(b"connection: close\r\n", b"")
    while piece:
        for client in clients:
            client.write(piece)
        piece = await reader.read(65_536)
    writer.close()


async def proxy(port, server, ready):
    waiting = []
    async with await asyncio.start_server(lambda r, w: serve_client(r, w, server, waiting), "127.0.0.1", port) as listening:
        ready.set()
        await listening.serve_forever()


def measured(client, text, options):
    """One answer: first sound, end, length, stalls and time without sound of a player that begins with the first sound."""
    begun, arrivals, received = time.perf_counter(), [], 0
    asked = {"model": options.model, "voice": options.voice, "input": text, "response_format": "pcm", "extra_body": {"stream": True}}
    with client.audio.speech.with_streaming_response.create(**asked) as answer:
        for piece in answer.iter_bytes():
            received += len(piece)
            arrivals.append((time.perf_counter() - begun, received / BYTES_PER_SECOND))
    ended = time.perf_counter() - begun
    first, played = arrivals[0]
    dry_at, stalls, stalled = first + played, 0, 0.0
    for at, plays in arrivals[1:]:
        if at > dry_at:
            stalled, stalls, dry_at = stalled + at - dry_at, stalls + (at - dry_at >= MIN_STALL), at
        dry_at, played = dry_at + plays - played, plays
    return {"first_ms": round(first * 1e3, 1), "e2e_ms": round(ended * 1e3, 1), "plays_s": round(played, 3), "stalls": stalls,
            "stalled_ms": round(stalled * 1e3, 1), "pieces": len(arrivals)}


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--server", "--model", "--voice", "--texts"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--port", type=int, default=8305)
    parser.add_argument("-n", type=int, default=6)
    options = parser.parse_args()
    host, port = options.server.rsplit(":", 1)
    ready = threading.Event()
    threading.Thread(target=lambda: asyncio.run(proxy(options.port, (host, int(port)), ready)), daemon=True).start()
    ready.wait()
    client = OpenAI(base_url=f"http://127.0.0.1:{options.port}/v1", api_key="none", max_retries=0, timeout=600)
    with open(options.texts, encoding="utf-8") as lines:
        texts = [json.loads(line)["prompt"] for line in lines if line.strip()]
    for number in range(options.n):
        print(json.dumps({"answer": number, **measured(client, texts[number % len(texts)], options)}), flush=True)


if __name__ == "__main__":
    main()
