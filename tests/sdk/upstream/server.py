"""A scripted provider on loopback: speaks OpenAI's chat, completions, responses and embeddings, and Anthropic's messages.

It refuses to know what the scenes mean. Invariant: everything that was asked lies in the ledger under the mark that its
text holds, and so does how each request ended: with the whole answer sent, or with its connection closed by the other side.

    GET /ledger?mark=M          the requests with that mark
    GET /ledger/begun?mark=M    the same, once there is one
    GET /ledger/release?mark=M  the same; answers that are to break off when their beginning was read, do so now
    GET /ledger/count           how many requests there were in all
    GET /ledger/closed?mark=M   the same, once the other side closed the connection of the last of them
"""

import asyncio
import base64
import json
import os
import re
import struct
import sys
import urllib.parse

import reading
import script
import telling

KEY = os.environ["SCRIPTED_KEY"]
PATHS = {
    "/v1/chat/completions": "chat", "/v1/responses": "responses", "/v1/messages": "anthropic",
    "/v1/completions": "completions", "/v1/embeddings": "embeddings",
}
MARK = re.compile(r"\[mark:([\w.-]+)\]")
SHOWN = ["authorization", "x-api-key", "anthropic-version", "anthropic-beta", "cookie"]
# What is waited for comes at once or never (seconds).
PATIENCE = 5.0


class Ledger:
    def __init__(self):
        self.entries, self.released = [], set()
        self.changed = asyncio.Condition()

    def of(self, mark):
        return [entry for entry in self.entries if entry["mark"] == mark]

    async def note(self, entry, ended):
        async with self.changed:
            entry["ended"] = ended
            self.changed.notify_all()

    async def begin(self, entry):
        async with self.changed:
            self.entries.append(entry)
            self.changed.notify_all()

    async def release(self, mark):
        async with self.changed:
            self.released.add(mark)
            self.changed.notify_all()

    async def wait_for(self, is_so):
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(is_so), PATIENCE)

    async def wait(self, path, mark):
        """Until what the path asks for is so."""

        def is_so():
            entries = self.of(mark)
            return bool(entries) and (path == "/ledger/begun" or entries[-1]["ended"] == "closed")

        await self.wait_for(is_so)


class Connection:
    def __init__(self, ledger, reader, writer):
        self.ledger, self.reader, self.writer = ledger, reader, writer

    async def serve(self):
        try:
            while await self.exchange():
                pass
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            pass
        finally:
            self.writer.close()

    async def exchange(self):
        """One request; false if the connection is over."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        fields = [line.partition(":") for line in head[1:] if line]
        headers = {name.lower(): value.strip() for name, _, value in fields}
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        address = urllib.parse.urlsplit(target)
        if method == "GET":
            query = dict(urllib.parse.parse_qsl(address.query))
            return await self.ledger_page(address.path, query.get("mark", ""))
        dialect = PATHS.get(address.path)
        if dialect is None:
            return await self.send(404, {"error": {"type": "not_found_error", "message": f"nothing at {address.path}"}})
        return await self.answer(dialect, headers, body)

    async def ledger_page(self, path, mark):
        if path == "/ledger/count":
            return await self.send(200, len(self.ledger.entries))
        if path == "/ledger/release":
            await self.ledger.release(mark)
        elif path != "/ledger":
            try:
                await self.ledger.wait(path, mark)
            except TimeoutError:
                return await self.send(504, self.ledger.of(mark))
        return await self.send(200, self.ledger.of(mark))

    async def answer(self, dialect, headers, body):
        text = body.decode()
        asked = json.loads(text)
        scene = asked.get("model", "")
        mark = MARK.search(text)
        times = sum(entry["scene"] == scene for entry in self.ledger.of(mark and mark[1]))
        shown = {name: headers[name] for name in SHOWN if name in headers}
        entry = {
            "mark": mark and mark[1], "dialect": dialect, "scene": scene, "headers": shown, "body": text, "seen": None,
            "ended": None,
        }
        await self.ledger.begin(entry)
        said = self.decide(dialect, scene, headers, asked, entry, times)
        try:
            alive = await self.say(dialect, said, entry)
        except ConnectionError:
            await self.ledger.note(entry, "closed")
            raise
        await self.ledger.note(entry, "whole" if alive else ("closed" if alive is None else "cut"))
        return alive

    def decide(self, dialect, scene, headers, asked, entry, times):
        shown = headers.get("x-api-key") if dialect == "anthropic" else headers.get("authorization", "")[7:]
        if shown != KEY:
            return script.Refusal(401, "authentication_error", "this is not the key of the lane")
        if dialect == "anthropic" and "anthropic-version" not in headers:
            return script.Refusal(400, "invalid_request_error", "anthropic-version: header is required")
        if dialect == "embeddings":
            return asked
        try:
            entry["seen"] = reading.read(dialect, asked)
        except (reading.Wrong, KeyError, TypeError, ValueError) as wrong:
            message = f"refused by the scripted provider: {wrong!r}"
            return script.Refusal(400, "invalid_request_error", message, details=getattr(wrong, "details", None))
        return script.answer(scene, entry["seen"], times)

    async def say(self, dialect, said, entry):
        """True: go on; false: cut here; None: the other side closed."""
        if isinstance(said, dict):
            return await self.send(200, embeddings(said))
        if isinstance(said, script.Refusal):
            return await self.send(said.status, telling.refusal(dialect, said), said.headers)
        if not said.pieces:
            return await self.hold()
        if not entry["seen"]["stream"]:
            if said.end == "hold":
                return await self.hold()
            if said.end != "whole":
                # The half of it, under the length of the whole.
                body = json.dumps(telling.WHOLE[dialect](said)).encode()
                self.head(200, {"content-length": str(len(body)), "content-type": "application/json"})
                self.writer.write(body[: len(body) // 2])
                await self.writer.drain()
                return False
            return await self.send(200, telling.WHOLE[dialect](said))
        named = {"request-id": "req_scripted", "x-request-id": "req_scripted"}
        self.head(200, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked", **named})
        for frame in telling.STREAM[dialect](said, entry["seen"]):
            await self.piece(frame)
        if said.end == "hold":
            return await self.hold()
        if said.end in ["cut", "told"]:
            await self.ledger.wait_for(lambda: entry["mark"] in self.ledger.released)
            if said.end == "cut":
                return False
            await self.piece(telling.error_event(dialect))
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()
        return True

    async def piece(self, frame):
        self.writer.write(b"%x\r\n%s\r\n" % (len(frame), frame))
        await self.writer.drain()

    async def hold(self):
        """Until the other side closes."""
        await self.reader.read(1)
        return None

    def head(self, status, headers):
        lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def send(self, status, body, headers=None):
        text = json.dumps(body).encode()
        about = {"content-type": "application/json", "content-length": str(len(text)), "request-id": "req_scripted"}
        self.head(status, {**about, "x-request-id": "req_scripted", **(headers or {})})
        self.writer.write(text)
        await self.writer.drain()
        return True


def embeddings(asked):
    """A vector for each input, as numbers or in base64, as asked."""
    inputs = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
    rows = []
    for index, text in enumerate(inputs):
        vector = [len(text), index, 0.5]
        if asked.get("encoding_format") == "base64":
                vector = base64.b64encode(struct.pack("<3f", *vector)).decode()
        rows.append({"object": "embedding", "index": index, "embedding": vector})
    usage = {"prompt_tokens": 8, "total_tokens": 8}
    return {"object": "list", "data": rows, "model": "scripted-embedding", "usage": usage}


async def main():
    ledger = Ledger()
    server = await asyncio.start_server(
        lambda reader, writer: Connection(ledger, reader, writer).serve(), "127.0.0.1", 0, limit=1 << 24
    )
    print("http://{}:{}".format(*server.sockets[0].getsockname()), flush=True)
    # The runner holds the other end of stdin; when it ends, so does this.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
