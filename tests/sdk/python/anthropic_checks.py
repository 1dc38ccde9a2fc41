"""Anthropic's SDK for Python against the gateway: messages and models.

Invariant: what is asserted is what the SDK made of the answer, or what the scripted provider read of the request.
"""

import asyncio

import anthropic
import harness
import pydantic
from harness import (
    BEGINNING, COUNTS, IMPATIENCE, KEY, LONG_TEXT, NARROW_KEY, PATIENCE, PICTURE_URL, PNG, PNG_SEEN, SMALL_KEY, TEXT, THOUGHTS,
    WIRES, check, holds, raises, same, troubled,
)

SETTINGS = {"api_key": KEY, "base_url": harness.GATEWAY, "max_retries": 0, "timeout": PATIENCE}
client = anthropic.Anthropic(**SETTINGS)
TOOLS = [
    {
        "name": "get_weather", "description": "The weather of a city.",
        "input_schema": {
            "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    },
    {
        "name": "get_time",
        "input_schema": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]},
    },
]
ARGUMENTS = {"call_weather": {"city": 'Köln "Mitte"', "days": 12}, "call_time": {"zone": "Europe/Berlin"}}
RESULTS = {"call_weather": "21 degrees", "call_time": "noon ☀"}


class Person(pydantic.BaseModel):
    name: str
    age: int


def what(model, mark, **more):
    return {"model": model, "max_tokens": 64, "messages": [{"role": "user", "content": f"Hello {mark}"}], **more}


def ask(model, mark, **more):
    return client.messages.create(**what(model, mark, **more))


def check_usage(usage):
    # Anthropic counts what came from a cache beside the rest.
    same((usage.input_tokens, usage.cache_read_input_tokens), (COUNTS["input"] - COUNTS["cached"], COUNTS["cached"]))
    same(usage.output_tokens, COUNTS["output"])


def texts(message):
    return "".join(block.text for block in message.content if block.type == "text")


def check_order(events):
    """The form that every stream of events has: blocks one after the other, each begun and ended once."""
    kinds = [event.type for event in events]
    same((kinds[0], kinds[-2:]), ("message_start", ["message_delta", "message_stop"]))
    open_block, count = None, 0
    for event in events[1:-2]:
        if event.type == "content_block_start":
            same((open_block, event.index), (None, count))
            open_block, count = event.index, count + 1
        else:
            same(event.index, open_block)
            open_block = None if event.type == "content_block_stop" else open_block
    same(open_block, None)


def on_every_wire(wire):
    @check(f"messages plain on the {wire} lane")
    def _(mark):
        answer = ask(f"{wire}-plain", mark, system="Be brief.", extra_body={"temperature": 0.5})
        same([block.type for block in answer.content], ["text"])
        same((texts(answer), answer.stop_reason, answer.stop_sequence), (TEXT, "end_turn", None))
        same((answer.type, answer.role), ("message", "assistant"))
        assert answer.id and answer.model, answer
        check_usage(answer.usage)
        seen = mark.seen()
        same((seen["system"], seen["user"]), (["Be brief."], [f"Hello {mark}"]))
        same((seen["temperature"], seen["max_tokens"], seen["stream"]), (0.5, 64, False))

    @check(f"messages stream on the {wire} lane: events in order")
    def _(mark):
        events = list(ask(f"{wire}-plain", mark, stream=True))
        check_order(events)
        deltas = [event.delta.text for event in events if event.type == "content_block_delta"]
        same("".join(deltas), TEXT)
        assert len(deltas) >= len(harness.SAID["pieces"]), deltas
        same((events[-2].delta.stop_reason, events[-2].usage.output_tokens), ("end_turn", COUNTS["output"]))

    @check(f"messages stream helper on the {wire} lane: text and counts accumulated")
    def _(mark):
        with client.messages.stream(**what(f"{wire}-plain", mark)) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        same((text, texts(final), final.stop_reason), (TEXT, TEXT, "end_turn"))
        check_usage(final.usage)

    @check(f"messages tools in two turns on the {wire} lane, streamed input in the first")
    def _(mark):
        with client.messages.stream(**what(f"{wire}-tools", mark, tools=TOOLS)) as stream:
            events = list(stream)
            first = stream.get_final_message()
        check_calls(first)
        pieces = [event.partial_json for event in events if event.type == "input_json"]
        assert len(pieces) > 4, f"input in {len(pieces)} pieces"
        check_calls(ask(f"{wire}-tools", mark, tools=TOOLS))
        results = [{"type": "tool_result", "tool_use_id": name, "content": text} for name, text in RESULTS.items()]
        # The content as it came, as Anthropic's guides do it.
        history = [*what("", mark)["messages"], {"role": "assistant", "content": first.content}]
        answer = ask(f"{wire}-tools", mark, tools=TOOLS, messages=[*history, {"role": "user", "content": results}])
        same(texts(answer), "It is 21 degrees and noon ☀.")
        last = mark.requests()[-1]["seen"]
        same({name: call["arguments"] for name, call in last["calls"].items()}, ARGUMENTS)
        same((last["results"], last["assistant"]), (RESULTS, ["Let me see."]))
        same(last["tools"]["get_weather"]["required"], ["city", "days"])

    @check(f"messages tool runner of the SDK on the {wire} lane")
    def _(mark):
        @anthropic.beta_tool
        def get_weather(city: str, days: int) -> str:
            """The weather of a city."""
            same({"city": city, "days": days}, ARGUMENTS["call_weather"])
            return RESULTS["call_weather"]

        @anthropic.beta_tool
        def get_time(zone: str) -> str:
            """The time in a zone."""
            same({"zone": zone}, ARGUMENTS["call_time"])
            return RESULTS["call_time"]

        # The runner begins a thread, which this provider refuses in the words that make the runner go on without one; for
        # lanes of another dialect the gateway does, and asks nobody.
        runner = client.beta.messages.tool_runner(**what(f"{wire}-tools", mark, tools=[get_weather, get_time]))
        same(texts(runner.until_done()), "It is 21 degrees and noon ☀.")
        same(len(mark.requests()), 3 if wire == "anthropic" else 2)

    @check(f"messages with images on the {wire} lane")
    def _(mark):
        content = [
            {"type": "text", "text": f"What is it? {mark}"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {"type": "image", "source": {"type": "url", "url": PICTURE_URL}},
        ]
        answer = ask(f"{wire}-sight", mark, messages=[{"role": "user", "content": content}])
        same(texts(answer), f"I see {PNG_SEEN}, url:{PICTURE_URL}.")

    @check(f"messages parsed by a schema on the {wire} lane, whole and streamed")
    def _(mark):
        answer = client.messages.parse(**what(f"{wire}-json", mark, output_format=Person))
        same(answer.parsed_output, Person(name="Ada", age=36))
        with client.messages.stream(**what(f"{wire}-json", mark, output_format=Person)) as stream:
            same(stream.get_final_message().parsed_output, Person(name="Ada", age=36))
        same([sorted(request["seen"]["format"]["properties"]) for request in mark.requests()], [["age", "name"]] * 2)

    @check(f"messages cut short by the limit on the {wire} lane: max_tokens")
    def _(mark):
        same(ask(f"{wire}-length", mark).stop_reason, "max_tokens")
        same(list(ask(f"{wire}-length", mark, stream=True))[-2].delta.stop_reason, "max_tokens")

    @check(f"messages with thinking on the {wire} lane: a block of its own")
    def _(mark):
        for message in [ask(f"{wire}-think", mark), streamed(f"{wire}-think", mark)]:
            same([block.type for block in message.content], ["thinking", "text"])
            same((message.content[0].thinking, texts(message)), (THOUGHTS, TEXT))
            assert isinstance(message.content[0].signature, str), message
        # Sent back as it came, which other dialects leave out.
        history = [*what("", mark)["messages"], {"role": "assistant", "content": message.content}]
        answer = ask(f"{wire}-plain", mark, messages=[*history, {"role": "user", "content": "And?"}])
        same(texts(answer), TEXT)

    @check(f"messages errors on the {wire} lane: 400, 401, 429, 502, each as its own class")
    def _(mark):
        error = raises(anthropic.BadRequestError, lambda: ask(troubled(wire, "bad"), mark))
        holds(error.message, "temperature is too hot")
        same((error.body["type"], error.body["error"]["type"]), ("error", "invalid_request_error"))
        error = raises(anthropic.RateLimitError, lambda: ask(troubled(wire, "limited"), mark))
        same((error.response.headers["retry-after"], error.body["error"]["type"]), ("1", "rate_limit_error"))
        # A single lane's refusal of the gateway's key comes as the provider's own.
        for scene, kind, expected in [
            ("failing", anthropic.InternalServerError, (502, "api_error")),
            ("unkeyed", anthropic.AuthenticationError, (401, "authentication_error")),
        ]:
            error = raises(kind, lambda scene=scene: ask(troubled(wire, scene), mark))
            same((error.status_code, error.body["error"]["type"]), expected)
            assert "sk-of" not in str(error.body), error.body
        raises(anthropic.InternalServerError, lambda: ask(troubled(wire, "broken", 2), mark))

    for scene in ["broken", "told"]:

        @check(f"messages {scene} stream on the {wire} lane: an error after the text that came")
        def _(mark, scene=scene):
            text = []

            def read():
                with client.messages.stream(**what(troubled(wire, scene), mark)) as stream:
                    for piece in stream.text_stream:
                        text.append(piece)
                        if "".join(text) == BEGINNING:
                            mark.release()

            try:
                read()
            except anthropic.APIStatusError as error:
                same(error.body["type"], "error")
                holds(["api_error", "overloaded_error"], error.body["error"]["type"])
            else:
                raise AssertionError("no error")
            same("".join(text), BEGINNING)

    @check(f"messages stream closed by the client on the {wire} lane: the provider's connection closes")
    def _(mark):
        with client.messages.stream(**what(troubled(wire, "hold"), mark)) as stream:
            assert next(iter(stream.text_stream)), "no first text"
        mark.closed()

    @check(f"messages timed out by the client on the {wire} lane: APITimeoutError, the provider's connection closes")
    def _(mark):
        impatient = client.with_options(timeout=IMPATIENCE)
        raises(anthropic.APITimeoutError, lambda: impatient.messages.create(**what(troubled(wire, "mute"), mark)))
        mark.closed()


def streamed(model, mark):
    with client.messages.stream(**what(model, mark)) as stream:
        return stream.get_final_message()


def check_calls(message):
    same((message.stop_reason, texts(message)), ("tool_use", "Let me see."))
    calls = [block for block in message.content if block.type == "tool_use"]
    same([call.name for call in calls], ["get_weather", "get_time"])
    same({call.id: call.input for call in calls}, ARGUMENTS)


for each in WIRES:
    on_every_wire(each)


@check("messages with stop_sequences, top_p and a forced tool on the chat lane")
def _(mark):
    choice = {"type": "tool", "name": "get_time"}
    further = {"top_p": 0.25}
    ask("chat-tools", mark, stop_sequences=["END", "###"], tools=TOOLS, tool_choice=choice, extra_body=further)
    seen = mark.seen()
    forced = {"type": "function", "function": {"name": "get_time"}}
    same((seen["stop"], seen["top_p"], seen["tool_choice"]), (["END", "###"], 0.25, forced))


@check("messages with cache_control, metadata and betas reach their own dialect as they are")
def _(mark):
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    ask("anthropic-plain", mark, system=system, metadata={"user_id": "u1"}, extra_headers={"anthropic-beta": "some-beta"})
    (request,) = mark.requests()
    holds(request["body"], '"cache_control":{"type":"ephemeral"}')
    same(request["headers"]["anthropic-beta"], "some-beta")
    # Elsewhere the first means nothing and the second is the user.
    ask("chat-plain", mark, system=system, metadata={"user_id": "u1"})
    second = mark.requests()[1]
    holds(second["body"].replace(" ", ""), '"user":"u1"')
    same(second["seen"]["system"], ["Be brief."])


@check("a field of nobody's is handed on in the same dialect and refused by name in another")
def _(mark):
    ask("anthropic-plain", mark, extra_body={"x_custom": 1})
    holds(mark.requests()[0]["body"], '"x_custom":1')
    error = raises(anthropic.BadRequestError, lambda: ask("chat-plain", mark, extra_body={"x_custom": 1}))
    holds(error.body["error"]["message"], "x_custom")


@check("a refusal: its stop reason on the anthropic lane, its words on the chat lane")
def _(mark):
    same(ask("anthropic-refusal", mark).stop_reason, "refusal")
    same(texts(ask("chat-refusal", mark)), "I can't do that.")


@check("rate limit: the SDK tries again after Retry-After and gets the answer; RateLimitError if it stays")
def _(mark):
    again = client.with_options(max_retries=1)
    same(texts(again.messages.create(**what(troubled("anthropic", "limited-once"), mark))), TEXT)
    raises(anthropic.RateLimitError, lambda: again.messages.create(**what(troubled("anthropic", "limited", 2), mark)))
    same(len(mark.requests()), 4)


@check("headers of the gateway and the provider through with_raw_response")
def _(mark):
    raw = client.messages.with_raw_response.create(**what("anthropic-alias", mark))
    same((raw.headers["x-tokrate-provider"], raw.headers["x-tokrate-winner"]), ("scripted", "anthropic-plain"))
    same((raw.headers["x-tokrate-attempts"], float(raw.headers["x-tokrate-race-cost-usd"])), ("1", 0.0))
    assert raw.headers["x-tokrate-call"] and float(raw.headers["x-tokrate-answer-ms"]) > 0, raw.headers
    same((raw.parse()._request_id, texts(raw.parse())), ("req_scripted", TEXT))
    raw = client.messages.with_raw_response.create(**what("chat-alias", mark, stream=True))
    same(raw.headers["x-tokrate-winner"], "chat-plain")
    holds(raw.headers["content-type"], "text/event-stream")


@check("keys: x-api-key and bearer are taken; a wrong one is an AuthenticationError, one for few names a PermissionDeniedError")
def _(mark):
    bearer = anthropic.Anthropic(**{**SETTINGS, "api_key": None, "auth_token": KEY})
    same(texts(bearer.messages.create(**what("anthropic-plain", mark))), TEXT)
    same(mark.requests()[0]["headers"], {"x-api-key": "sk-of-the-lane", "anthropic-version": "2023-06-01"})
    stranger = client.with_options(api_key="sk-of-a-stranger")
    error = raises(anthropic.AuthenticationError, lambda: stranger.messages.create(**what("anthropic-plain", mark)))
    same(error.body["error"]["type"], "authentication_error")
    assert "sk-of" not in str(error.body), error.body
    narrow = client.with_options(api_key=NARROW_KEY)
    error = raises(anthropic.PermissionDeniedError, lambda: narrow.messages.create(**what("anthropic-tools", mark)))
    same(error.body["error"]["type"], "permission_error")


@check("an unknown model: NotFoundError; max_tokens left out: BadRequestError from either dialect")
def _(mark):
    error = raises(anthropic.NotFoundError, lambda: ask("no-such-model", mark))
    same(error.body["error"]["type"], "not_found_error")
    raises(anthropic.BadRequestError, lambda: ask("anthropic-plain", mark, max_tokens=anthropic.omit))


@check("models: list, retrieve, unknown")
def _(_mark):
    models = list(client.models.list())
    holds([model.id for model in models], "anthropic-alias")
    model = client.models.retrieve("anthropic-alias")
    same((model.id, model.type, model.display_name), ("anthropic-alias", "model", "anthropic-alias"))
    assert model.created_at.year >= 2026, model
    error = raises(anthropic.NotFoundError, lambda: client.models.retrieve("no-such-model"))
    same(error.body["error"]["type"], "not_found_error")
    narrow = client.with_options(api_key=NARROW_KEY)
    same(sorted(model.id for model in narrow.models.list()), ["anthropic-plain", "chat-plain"])


@check("counting tokens beforehand is asked of the provider: its NotFoundError comes as it is")
def _(mark):
    counted = lambda: client.messages.count_tokens(model="anthropic-plain", messages=what("", mark)["messages"])
    holds(raises(anthropic.NotFoundError, counted).message, "nothing at /v1/messages/count_tokens")


@check("the simulated engine: whole and streamed, with the right counts")
def _(mark):
    whole = ask("sim", mark, max_tokens=12)
    same((whole.stop_reason, whole.usage.output_tokens), ("max_tokens", 12))
    assert texts(whole) and whole.usage.input_tokens > 0, whole
    with client.messages.stream(**what("sim", mark, max_tokens=12)) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    same((texts(final), final.usage.input_tokens), (text, whole.usage.input_tokens))


@check("failover before the first byte, over lanes of three dialects: whole, streamed, and from an answer that breaks off")
def _(mark):
    for scene, stream in [("failing", False), ("limited", True), ("broken", False)]:
        asked = what(f"{scene}-then-well-{harness.SUITE}", mark, stream=stream)
        raw = client.messages.with_raw_response.create(**asked)
        same((raw.headers["x-tokrate-attempts"], raw.headers["x-tokrate-winner"]), ("3", "responses-plain"))
        if not stream:
            same(texts(raw.parse()), TEXT)
    same([request["dialect"] for request in mark.requests()], ["chat", "anthropic", "responses"] * 3)


@check("a race of lanes of three dialects: one whole answer, whoever wins")
def _(mark):
    raw = client.messages.with_raw_response.create(**what("race", mark))
    same((raw.headers["x-tokrate-attempts"], texts(raw.parse())), ("3", TEXT))
    same(texts(streamed("race", mark)), TEXT)


@check("long answers of every dialect, piece by piece and whole")
def _(mark):
    for wire in WIRES:
        same(texts(streamed(f"{wire}-long", mark)), LONG_TEXT)
        same(texts(ask(f"{wire}-long", mark)), LONG_TEXT)


@check("a key that used up its requests a minute: RateLimitError with Retry-After")
def _(mark):
    small = client.with_options(api_key=SMALL_KEY)
    same(texts(small.messages.create(**what("anthropic-plain", mark))), TEXT)
    error = raises(anthropic.RateLimitError, lambda: small.messages.create(**what("anthropic-plain", mark)))
    assert 0 < int(error.response.headers["retry-after"]) <= 60, error.response.headers
    same((error.body["error"]["type"], len(mark.requests())), ("rate_limit_error", 1))


@check("what another dialect has no words for: BadRequestError with its place, and nothing is sent")
def _(mark):
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
    refused = {
        "tools[0]": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        "messages[0].content[0]": {"messages": [{"role": "user", "content": [document]}]},
        "diagnostics": {"extra_body": {"diagnostics": {"level": "all"}}},
    }
    for place, more in refused.items():
        error = raises(anthropic.BadRequestError, lambda more=more: ask("chat-plain", mark, **more))
        holds(error.body["error"]["message"], f"`{place}`")
    same(mark.requests(), [])


@check("a thread on the chat lane: refused by name, for it would be lost")
def _(mark):
    for thread in [{"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}]:
        try:
            ask("chat-plain", mark, extra_body={"thread": thread})
        except anthropic.BadRequestError as error:
            holds(error.body["error"]["message"], "thread")
            same(error.body["error"]["details"], {"error_code": "thread_unsupported_request"})
        else:
            raise AssertionError("it was not refused")
    same(mark.requests(), [])


@check("what tools, thinking and failed results are called on the chat lane")
def _(mark):
    choice = {"type": "any", "disable_parallel_tool_use": True}
    ask("chat-tools", mark, tools=TOOLS, tool_choice=choice)
    request = mark.requests()[-1]
    same(request["seen"]["tool_choice"], "required")
    holds(request["body"], '"parallel_tool_calls":false')
    ask("chat-plain", mark, thinking={"type": "adaptive"}, output_config={"effort": "high"})
    holds(mark.requests()[-1]["body"], '"reasoning_effort":"high"')
    made = [{"type": "tool_use", "id": "t1", "name": "get_time", "input": {}}]
    failed = [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no clock"}]
    messages = [
        *what("", mark)["messages"], {"role": "assistant", "content": made},
        {"role": "user", "content": [*failed, {"type": "text", "text": "Guess."}]},
    ]
    ask("chat-plain", mark, messages=messages)
    seen = mark.requests()[-1]["seen"]
    same((seen["results"], seen["user"]), ({"t1": "Error: no clock"}, [f"Hello {mark}", "Guess."]))


@check("async: six streams at once, each its own")
def _(mark):
    async def one(asynchronous, wire):
        async with asynchronous.messages.stream(**what(f"{wire}-plain", mark)) as stream:
            return texts(await stream.get_final_message())

    async def all_of_them():
        async with anthropic.AsyncAnthropic(**SETTINGS) as asynchronous:
            return await asyncio.gather(*(one(asynchronous, wire) for wire in WIRES * 2))

    same(asyncio.run(all_of_them()), [TEXT] * 6)


@check("async: a cancelled task closes the provider's connection")
def _(mark):
    async def cancelled():
        async with anthropic.AsyncAnthropic(**SETTINGS) as asynchronous:
            task = asyncio.create_task(asynchronous.messages.create(**what(troubled("anthropic", "hold", 2), mark)))
            await asyncio.to_thread(mark.begun)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                return
            raise AssertionError("it was not cancelled")

    asyncio.run(cancelled())
    mark.closed()


if __name__ == "__main__":
    harness.run(f"anthropic python {anthropic.__version__}")
