"""Records what the published SDKs ask, and what the scripted provider answers, without a gateway between them.

    python -m venv .tools/record && .tools/record/bin/pip install -r tests/sdk/requirements.txt google-genai==3.4.0 ollama==0.6.3
    .tools/record/bin/python tests/sdk/record.py crates/wire/tests/fixtures/recorded

Bodies are saved as they were on the wire, without HTTP's framing: requests below `requests/DIALECT`, answers below
`scripted`. Google's and Ollama's SDKs have no scripted provider; a stub takes their requests, and its answers are not saved.
It does not judge what was said. Invariant: every file was on a socket of loopback, and holds no word of anybody else.
"""

import argparse
import http.client
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
KEY = "sk-of-the-recorder"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PICTURE_URL = "https://pictures.example/cat.png"
# What the stub answers: enough for the SDKs to go on.
STUB = {
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi."}]}, "finishReason": "STOP"}]},
    "ollama": {"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "content": "Hi."}, "response": "Hi.", "done": True},
}
# Everything is on this machine (seconds).
PATIENCE = 20.0


class Recorder:
    """A relay to the scripted provider that keeps the bodies of the exchange that is under way."""

    def __init__(self, upstream, folder):
        self.upstream, self.folder = urllib.parse.urlsplit(upstream), folder
        self.name = None
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_POST(self):
                recorder.exchange(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def exchange(self, handler):
        asked = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        dialect, name, keep = self.name
        if not name.startswith("refused"):  # they ask what "plain" asks
            self.save(f"requests/{dialect}/{name}.json", asked)
        status, kind, answer = self.answer(handler, dialect, asked)
        if keep:
            end = "sse" if kind.startswith("text/event-stream") else "json"
            self.save(f"scripted/{dialect}-{name}.{end}", answer)
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    def answer(self, handler, dialect, asked):
        if dialect in STUB or dialect.startswith("ollama"):
            stub = STUB["gemini" if dialect == "gemini" else "ollama"]
            if "alt=sse" in handler.path:
                return 200, "text/event-stream", f"data: {json.dumps(stub)}\n\n".encode()
            return 200, "application/json", json.dumps(stub).encode()
        connection = http.client.HTTPConnection(self.upstream.hostname, self.upstream.port, timeout=PATIENCE)
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in ("host", "connection", "authorization", "x-api-key")}
        # However the SDK shows its key: the scripted provider wants it where the dialect has it.
        headers["x-api-key" if dialect == "anthropic" else "authorization"] = KEY if dialect == "anthropic" else f"Bearer {KEY}"
        connection.request("POST", handler.path, asked, headers)
        response = connection.getresponse()
        return response.status, response.getheader("content-type"), response.read()

    def save(self, path, body):
        file = self.folder / path
        assert str(file) not in self.saved, f"{path} was recorded twice"
        self.saved.add(str(file))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)

    saved = set()

    def of(self, dialect, name, keep=True):
        self.name = (dialect, name, keep)


SYSTEM = {"role": "system", "content": "Be brief."}
CHAT_TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "strict": True, "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city", "days"],
        "additionalProperties": False}}},
    {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}}},
]
ARGUMENTS = {"call_weather": '{"city":"Köln \\"Mitte\\"","days":12}', "call_time": '{"zone":"Europe/Berlin"}'}
NAMES = {"call_weather": "get_weather", "call_time": "get_time"}
RESULTS = {"call_weather": "21 degrees", "call_time": "noon ☀"}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"], "additionalProperties": False}


def user(text="Hello"):
    return {"role": "user", "content": text}


def chat(recorder):
    """Chat completions and completions, by OpenAI's SDK."""
    import openai

    client = openai.OpenAI(api_key=KEY, base_url=f"{recorder.url}/v1", max_retries=0, timeout=PATIENCE)

    def ask(name, scene="plain", **asked):
        recorder.of("openai-chat", name)
        try:
            answer = client.chat.completions.create(model=scene, **asked)
            if asked.get("stream"):
                list(answer)
        except openai.APIStatusError as error:
            assert scene in ("bad", "failing", "limited", "unkeyed"), error

    say = [SYSTEM, user()]
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    ask("plain", messages=say, temperature=0.5, max_completion_tokens=64)
    ask("stream", messages=say, stream=True)
    ask("stream-usage", messages=say, **usage, max_tokens=64, stop=["END", "\n\n"], seed=7, top_p=0.9)
    ask("reasoning", "think", messages=say, reasoning_effort="low")
    ask("reasoning-stream", "think", messages=say, **usage, reasoning_effort="low")
    ask("refusal", "refusal", messages=say)
    ask("refusal-stream", "refusal", messages=say, **usage)
    ask("length-stream", "length", messages=say, **usage, max_tokens=3)
    ask("tools", "tools", messages=say, tools=CHAT_TOOLS, tool_choice="auto", parallel_tool_calls=True)
    ask("tools-stream", "tools", messages=say, tools=CHAT_TOOLS, **usage)
    called = [{"id": key, "type": "function", "function": {"name": NAMES[key], "arguments": ARGUMENTS[key]}} for key in NAMES]
    turns = [*say, {"role": "assistant", "content": "Let me see.", "tool_calls": called}]
    turns += [{"role": "tool", "tool_call_id": key, "content": RESULTS[key]} for key in NAMES]
    ask("tool-results", "tools", messages=turns, tools=CHAT_TOOLS)
    picture = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": PICTURE_URL, "detail": "low"}},
               {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]
    ask("pictures", "sight", messages=[{"role": "user", "content": picture}])
    ask("json-schema", "json", messages=say, response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}})
    ask("turns", messages=[*say, {"role": "assistant", "content": "Hi."}, user("And now?")])
    ask("refused-400", "bad", messages=say)
    ask("refused-500", "failing", messages=say, stream=True)
    ask("refused-429", "limited", messages=say)
    recorder.of("openai-completions", "plain")
    client.completions.create(model="plain", prompt="The sea", max_tokens=12, temperature=0.0)
    recorder.of("openai-completions", "stream")
    list(client.completions.create(model="plain", prompt="The sea", max_tokens=12, **usage))


def responses(recorder):
    """The Responses API, by OpenAI's SDK."""
    import openai

    client = openai.OpenAI(api_key=KEY, base_url=f"{recorder.url}/v1", max_retries=0, timeout=PATIENCE)
    tools = [{"type": "function", **tool["function"]} for tool in CHAT_TOOLS]

    def ask(name, scene="plain", **asked):
        recorder.of("openai-responses", name)
        try:
            answer = client.responses.create(model=scene, **asked)
            if asked.get("stream"):
                list(answer)
        except openai.APIStatusError as error:
            assert scene in ("bad", "failing"), error

    ask("plain", input="Hello", instructions="Be brief.", max_output_tokens=64, temperature=0.5)
    ask("stream", input="Hello", stream=True, store=False)
    ask("input-list", input=[SYSTEM, user()], top_p=0.9)
    ask("history", input=[user(), {"role": "assistant", "content": "Hi."}, user("And now?")], stream=True)
    ask("reasoning", "think", input="Hello", reasoning={"effort": "low"})
    ask("reasoning-stream", "think", input="Hello", reasoning={"effort": "low", "summary": "auto"}, stream=True)
    ask("refusal", "refusal", input="Hello")
    ask("refusal-stream", "refusal", input="Hello", stream=True)
    ask("length-stream", "length", input="Hello", max_output_tokens=16, stream=True)
    ask("tools", "tools", input="Hello", tools=tools, tool_choice="auto", parallel_tool_calls=True)
    ask("tools-stream", "tools", input="Hello", tools=tools, stream=True)
    turns = [user()]
    turns += [{"type": "function_call", "call_id": key, "name": NAMES[key], "arguments": ARGUMENTS[key]} for key in NAMES]
    turns += [{"type": "function_call_output", "call_id": key, "output": RESULTS[key]} for key in NAMES]
    ask("tool-results", "tools", input=turns, tools=tools)
    picture = [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "low"}]
    ask("picture", "sight", input=[{"role": "user", "content": picture}])
    ask("json-schema", "json", input="Hello", text={"format": {"type": "json_schema", "name": "person", "schema": SCHEMA, "strict": True}})
    ask("refused-400", "bad", input="Hello")
    ask("refused-500", "failing", input="Hello", stream=True)


def anthropic(recorder):
    """Messages, by Anthropic's SDK."""
    import anthropic as sdk

    client = sdk.Anthropic(api_key=KEY, base_url=recorder.url, max_retries=0, timeout=PATIENCE)
    tools = [{"name": tool["function"]["name"], "description": "It tells.", "input_schema": tool["function"]["parameters"]} for tool in CHAT_TOOLS]

    def ask(name, scene="plain", **asked):
        recorder.of("anthropic", name)
        try:
            answer = client.messages.create(model=scene, **{"max_tokens": 64, "messages": [user()], **asked})
            if asked.get("stream"):
                list(answer)
        except sdk.APIStatusError as error:
            assert scene in ("bad", "failing", "limited"), error

    ask("plain")
    ask("system", system="Be brief.", stop_sequences=["END"], extra_body={"temperature": 0.5, "top_p": 0.9})
    ask("cache-control", system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}], metadata={"user_id": "somebody"})
    ask("stream", stream=True)
    ask("turns", messages=[user(), {"role": "assistant", "content": "Hi."}, user("And now?")], stream=True)
    ask("thinking", "think", max_tokens=2048, thinking={"type": "enabled", "budget_tokens": 1024})
    ask("thinking-stream", "think", max_tokens=2048, thinking={"type": "enabled", "budget_tokens": 1024}, stream=True)
    thought = [{"type": "thinking", "thinking": "First, I think.", "signature": "c2lnbmVk"}, {"type": "text", "text": "Hi."}]
    ask("thinking-turns", "think", max_tokens=2048, thinking={"type": "enabled", "budget_tokens": 1024}, messages=[user(), {"role": "assistant", "content": thought}, user("And now?")])
    ask("refusal", "refusal")
    ask("length-stream", "length", max_tokens=3, stream=True)
    ask("tools", "tools", tools=tools, tool_choice={"type": "auto"})
    ask("tools-stream", "tools", tools=tools, stream=True, tool_choice={"type": "any", "disable_parallel_tool_use": False})
    used = [{"type": "tool_use", "id": key, "name": NAMES[key], "input": json.loads(ARGUMENTS[key])} for key in NAMES]
    told = [{"type": "tool_result", "tool_use_id": key, "content": RESULTS[key]} for key in NAMES]
    turns = [user(), {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, *used]}]
    ask("tool-results", "tools", tools=tools, messages=[*turns, {"role": "user", "content": told}])
    told = [{**told[0], "is_error": True}, {**told[1], "content": [{"type": "text", "text": RESULTS["call_time"]}]}]
    ask("tool-error", "tools", tools=tools, messages=[*turns, {"role": "user", "content": told}], stream=True)
    picture = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}, {"type": "text", "text": "What is it?"}]
    ask("picture", "sight", messages=[{"role": "user", "content": picture}])
    ask("picture-url", "sight", messages=[{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": PICTURE_URL}}]}])
    ask("refused-400", "bad")
    ask("refused-429", "limited")
    ask("refused-500", "failing", stream=True)


def gemini(recorder):
    """generateContent, by Google's SDK; the answers are a stub's."""
    from google import genai
    from google.genai import types

    client = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=recorder.url, api_version="v1beta", timeout=int(PATIENCE * 1000)))
    weather = types.FunctionDeclaration(name="get_weather", description="The weather of a city.", parameters_json_schema=SCHEMA)
    tools = [types.Tool(function_declarations=[weather])]

    def ask(name, contents="Hello", stream=False, **config):
        recorder.of("gemini", name, keep=False)
        call = client.models.generate_content_stream if stream else client.models.generate_content
        answer = call(model="m", contents=contents, config=types.GenerateContentConfig(**config) if config else None)
        if stream:
            list(answer)

    ask("text")
    ask("stream", stream=True, system_instruction="Be brief.", temperature=0.5, top_p=0.9, top_k=40, max_output_tokens=64, stop_sequences=["END"], seed=7)
    ask("thinking", thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_budget=1024))
    ask("json-schema", response_mime_type="application/json", response_json_schema=SCHEMA)
    off = types.AutomaticFunctionCallingConfig(disable=True)
    any_tool = types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="ANY"))
    ask("tools", tools=tools, tool_config=any_tool, automatic_function_calling=off)
    called = types.Content(role="model", parts=[types.Part.from_function_call(name="get_weather", args={"name": "Köln \"Mitte\"", "age": 12})])
    told = types.Content(role="user", parts=[types.Part.from_function_response(name="get_weather", response={"result": "21 degrees ☀"})])
    asked = types.Content(role="user", parts=[types.Part.from_text(text="Hello")])
    ask("tool-results", [asked, called, told], tools=tools, automatic_function_calling=off)
    import base64

    ask("picture", [types.Part.from_bytes(data=base64.b64decode(PNG), mime_type="image/png"), "What is it?"])
    ask("turns", [asked, types.Content(role="model", parts=[types.Part.from_text(text="Hi.")]), asked], stream=True)


def ollama(recorder):
    """Ollama's chat and generate, by its SDK; the answers are a stub's."""
    import ollama as sdk

    client = sdk.Client(host=recorder.url, timeout=PATIENCE)

    def chat(name, messages, **asked):
        recorder.of("ollama-chat", name, keep=False)
        answer = client.chat(model="m", messages=messages, **asked)
        if asked.get("stream"):
            list(answer)

    def generate(name, **asked):
        recorder.of("ollama-generate", name, keep=False)
        answer = client.generate(model="m", prompt="The sea", **asked)
        if asked.get("stream"):
            list(answer)

    chat("plain", [SYSTEM, user()])
    chat("stream", [user()], stream=True, options={"temperature": 0.5, "num_predict": 64, "seed": 7, "stop": ["END"]})
    chat("tools", [user()], tools=CHAT_TOOLS)
    called = [{"function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 12}}}]
    chat("tool-results", [user(), {"role": "assistant", "content": "", "tool_calls": called}, {"role": "tool", "tool_name": "get_weather", "content": "21 degrees ☀"}])
    chat("picture", [{"role": "user", "content": "What is it?", "images": [PNG]}])
    chat("thinking", [user()], think=True, stream=True)
    generate("plain", options={"num_predict": 12})
    generate("stream", system="Be brief.", stream=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    environment = {"PATH": os.environ["PATH"], "SCRIPTED_KEY": KEY, "PYTHONDONTWRITEBYTECODE": "1"}
    provider = subprocess.Popen(
        [sys.executable, HERE / "upstream/server.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    recorder = Recorder(provider.stdout.readline().strip(), folder)
    for suite in [chat, responses, anthropic, gemini, ollama]:
        suite(recorder)
    provider.stdin.close()
    provider.wait(PATIENCE)
    print(f"{len(recorder.saved)} files, {sum(pathlib.Path(file).stat().st_size for file in recorder.saved)} bytes")


if __name__ == "__main__":
    main()
