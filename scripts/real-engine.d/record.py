"""Save short answers of a running llama-server byte for byte, with a README that says what was asked.

Bodies are saved as received, after HTTP chunk framing is taken off; the one `.http` file keeps status line, headers
and framing too. Start the server with an API key to have the refusal of a request without one recorded as well.
"""

import argparse
import datetime
import http.client
import json
import pathlib
import socket

GREEDY = {"model": "random", "temperature": 0, "seed": 1, "ignore_eos": True}
USER = [{"role": "user", "content": "Write about the sea."}]
CHAT = {**GREEDY, "messages": USER, "max_tokens": 12}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
# The vocabulary has no token for these two signs, so each comes as four tokens of one byte each.
BYTES = {"grammar": 'root ::= "a\U0001f9edb\U0001fabc!"', "ignore_eos": False, "max_tokens": 16}
# The chat template knows these tags, so the engine takes them out and streams what is between them as reasoning.
THINKING = {"grammar": 'root ::= "<think>\\nHm, so.\\n</think>\\n\\nOk then."', "ignore_eos": False, "max_tokens": 40}
# Other dialects that the same server speaks.
MESSAGES = {"model": "random", "temperature": 0, "messages": USER, "max_tokens": 12}
NATIVE = {"temperature": 0, "seed": 1, "ignore_eos": True, "prompt": "The sea", "n_predict": 12}
RESPONSES = {"model": "random", "temperature": 0, "input": "Write about the sea.", "max_output_tokens": 12}
CASES = [
    ("anthropic-stream.sse", "/v1/messages", {**MESSAGES, "stream": True}),
    ("anthropic-answer.json", "/v1/messages", MESSAGES),
    ("anthropic-error-no-messages.json", "/v1/messages", {"model": "random", "max_tokens": 12}),
    ("native-stream.sse", "/completion", {**NATIVE, "stream": True}),
    ("native-answer.json", "/completion", NATIVE),
    ("native-stream-bytes.sse", "/completion", {**NATIVE, "stream": True, **BYTES, "n_predict": 16}),
    ("responses-stream.sse", "/v1/responses", {**RESPONSES, "stream": True}),
    ("responses-stream-thinking.sse", "/v1/responses", {**RESPONSES, "stream": True, **THINKING}),
    ("responses-answer.json", "/v1/responses", RESPONSES),
    ("stream-usage.sse", "/v1/chat/completions", {**CHAT, **USAGE}),
    ("stream-no-usage.sse", "/v1/chat/completions", {**CHAT, "stream": True}),
    ("stream-timings-per-token.sse", "/v1/chat/completions", {**CHAT, **USAGE, "timings_per_token": True}),
    ("stream-bytes.sse", "/v1/chat/completions", {**CHAT, **USAGE, **BYTES}),
    ("stream-reasoning.sse", "/v1/chat/completions", {**CHAT, **USAGE, **THINKING}),
    ("answer-reasoning.json", "/v1/chat/completions", {**CHAT, **THINKING}),
    ("stream-text-completion.sse", "/v1/completions", {**GREEDY, **USAGE, "prompt": "The sea", "max_tokens": 12}),
    ("answer.json", "/v1/chat/completions", CHAT),
    ("models.json", "/v1/models", None),
    ("error-no-messages.json", "/v1/chat/completions", {**GREEDY, "stream": True}),
    ("error-not-json.json", "/v1/chat/completions", "{"),
    ("error-context.json", "/v1/chat/completions", {**CHAT, **USAGE, "messages": [{"role": "user", "content": "sea " * 5000}]}),
    ("error-not-found.json", "/v1/nowhere", {}),
    ("error-unauthorized.json", "/v1/chat/completions", CHAT),
]


def main() -> None:
    args = parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, path, body in CASES:
        key = args.api_key if name != "error-unauthorized.json" else ""
        if name == "error-unauthorized.json" and not args.api_key:
            continue
        status, kind, answer = ask(args, path, body, key)
        (out / name).write_bytes(answer)
        rows.append((name, path, describe(body), status, kind))
        print(f"{status} {len(answer):6} bytes  {name}")
    raw = ask_raw(args, "/v1/chat/completions", {**CHAT, **USAGE, "max_tokens": 4})
    (out / "stream-usage.http").write_bytes(raw)
    print(f"    {len(raw):6} bytes  stream-usage.http")
    rows.append(("stream-usage.http", "/v1/chat/completions", "as stream-usage.sse, 4 tokens; the whole HTTP/1.1 response", 200, "text/event-stream"))
    (out / ".gitattributes").write_text("* -text\n")  # byte for byte on every platform
    (out / "README.md").write_text(readme(args, rows))


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--api-key", default="")
    parser.add_argument("--engine", required=True, help="name and version for the README")
    parser.add_argument("--out", required=True)
    return parser.parse_args()


def ask(args: argparse.Namespace, path: str, body: dict | str | None, key: str) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection(args.host, args.port, timeout=60)
    data = body if isinstance(body, str) or body is None else json.dumps(body)
    connection.request("GET" if body is None else "POST", path, data, headers(key))
    response = connection.getresponse()
    return response.status, response.getheader("Content-Type", ""), response.read()


def ask_raw(args: argparse.Namespace, path: str, body: dict) -> bytes:
    data = json.dumps(body).encode()
    fields = {"Host": "localhost", **headers(args.api_key), "Content-Length": str(len(data)), "Connection": "close"}
    head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    with socket.create_connection((args.host, args.port), timeout=60) as stream:
        stream.sendall(head.encode() + b"\r\n" + data)
        received = b""
        while piece := stream.recv(65536):
            received += piece
    return received


def headers(key: str) -> dict[str, str]:
    fields = {"Content-Type": "application/json"}
    if key:
        fields["Authorization"] = f"Bearer {key}"
    return fields


def describe(body: dict | str | None) -> str:
    if body is None:
        return "GET"
    if isinstance(body, str):
        return f"body `{body}`"
    shown = {k: v for k, v in body.items() if k not in ("model", "temperature", "seed", "messages")}
    if "messages" in body and body["messages"] != USER:
        shown["messages"] = "one of 5,000 words, more than the context holds"
    return f"`{json.dumps(shown)}`"


def readme(args: argparse.Namespace, rows: list[tuple]) -> str:
    table = "\n".join(f"| {name} | {path} | {asked} | {status} | {kind} |" for name, path, asked, status, kind in rows)
    return f"""# Answers of llama-server, as received

Recorded by this project on {datetime.date.today()} with `scripts/real-engine record`, from
{args.engine}, serving a model of random
weights that `scripts/real-engine install` writes. The text is therefore noise; the framing is the engine's own.
Bodies are byte for byte what arrived, without HTTP chunk framing; the `.http` file has status line, headers and framing.

Every request names model `random`, temperature 0, seed 1; chat requests hold one user message, "Write about the sea."
`error-unauthorized.json` was asked without the API key that the server was started with.

| file | path | asked | status | content type |
|---|---|---|---|---|
{table}

- The first event of a chat stream carries the role and `"content": null`, no text: it is no sign of a first text. It is sent
  when the first token is there, and shares a write with that token's text when that can be shown (see the `.http` file).
- With `include_usage`, the event with `finish_reason` has no usage; one more follows with empty `choices`, `usage` and `timings`.
  Without it, `timings` rides on the event with `finish_reason`. A text completion has no extra event: its last one holds all.
- `stream-bytes.sse`: a sign made of four byte tokens arrives in one event, so there are fewer events than tokens.
- `stream-reasoning.sse`: reasoning comes as `reasoning_content`. The tags are tokens that are counted and never shown, so
  long pauses follow the role event and the end of the reasoning. Usage does not tell reasoning tokens apart.
- A body that is not JSON is answered with 500 and `server_error`, though the fault is the client's.
- The Anthropic form counts prompt tokens in `message_start` and output tokens in `message_delta`, and sends no `timings`; the
  native form sends `timings` with its last event; the form of the Responses API sends its usage with `response.completed`.
- `timings` is the engine's own clock: `prompt_ms` from the start of work on the request to its first token,
  `predicted_ms` from the first token to the last, `predicted_per_second` = (`predicted_n` - 1) / `predicted_ms` * 1000.
"""


if __name__ == "__main__":
    main()
