"""OpenAI's SDK for Python against the gateway: chat completions, completions, embeddings, models; `responses_checks` has the
rest. Invariant: what is asserted is what the SDK made of the answer, or what the scripted provider read of the request.
"""

import asyncio
import json

import harness
import openai
import pydantic
from harness import (
    BEGINNING, COUNTS, IMPATIENCE, KEY, LONG_TEXT, NARROW_KEY, PATIENCE, PICTURE_URL, PNG, PNG_SEEN, SMALL_KEY, TEXT, THOUGHTS,
    WIRES, check, holds, raises, same, troubled,
)

SETTINGS = {"api_key": KEY, "base_url": f"{harness.GATEWAY}/v1", "max_retries": 0, "timeout": PATIENCE}
client = openai.OpenAI(**SETTINGS)


class GetWeather(pydantic.BaseModel):
    """The weather of a city."""

    city: str
    days: int


class GetTime(pydantic.BaseModel):
    """The time in a zone."""

    zone: str


class Person(pydantic.BaseModel):
    name: str
    age: int


TOOLS = [
    openai.pydantic_function_tool(GetWeather, name="get_weather"), openai.pydantic_function_tool(GetTime, name="get_time"),
]
ARGUMENTS = {"call_weather": {"city": 'Köln "Mitte"', "days": 12}, "call_time": {"zone": "Europe/Berlin"}}
RESULTS = {"call_weather": "21 degrees", "call_time": "noon ☀"}


def asked(mark, text="Hello"):
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"{text} {mark}"}]


def check_usage(usage):
    same(usage.prompt_tokens, COUNTS["input"])
    same(usage.completion_tokens, COUNTS["output"])
    same(usage.total_tokens, COUNTS["input"] + COUNTS["output"])
    same(usage.prompt_tokens_details.cached_tokens, COUNTS["cached"])


def on_every_wire(wire):
    @check(f"chat plain on the {wire} lane")
    def _(mark):
        answer = client.chat.completions.create(
            model=f"{wire}-plain", messages=asked(mark), temperature=0.5, max_completion_tokens=64
        )
        (choice,) = answer.choices
        same((choice.message.role, choice.message.content, choice.finish_reason), ("assistant", TEXT, "stop"))
        same((choice.message.tool_calls, choice.message.refusal), (None, None))
        same(answer.object, "chat.completion")
        assert answer.id and answer.model and answer.created > 1_700_000_000, answer
        check_usage(answer.usage)
        seen = mark.seen()
        same(seen["system"], ["Be brief."])
        same(seen["user"], [f"Hello {mark}"])
        same((seen["temperature"], seen["max_tokens"], seen["stream"]), (0.5, 64, False))

    @check(f"chat stream on the {wire} lane: no usage that was not asked for")
    def _(mark):
        chunks = list(client.chat.completions.create(model=f"{wire}-plain", messages=asked(mark), stream=True))
        same("".join(chunk.choices[0].delta.content or "" for chunk in chunks), TEXT)
        same(chunks[0].choices[0].delta.role, "assistant")
        same([chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason], ["stop"])
        same([chunk.usage for chunk in chunks if chunk.usage], [])
        same(len({chunk.id for chunk in chunks}), 1)
        assert len(chunks) >= len(harness.SAID["pieces"]), f"{len(chunks)} chunks"

    @check(f"chat stream with include_usage on the {wire} lane")
    def _(mark):
        options = {"include_usage": True}
        chunks = list(
            client.chat.completions.create(
                model=f"{wire}-plain", messages=asked(mark), stream=True, stream_options=options
            )
        )
        counted = [chunk for chunk in chunks if chunk.usage]
        same([chunk.choices for chunk in counted], [[]])
        same(counted[0], chunks[-1])
        check_usage(counted[0].usage)

    @check(f"chat stream helper on the {wire} lane")
    def _(mark):
        with client.chat.completions.stream(model=f"{wire}-plain", messages=asked(mark)) as stream:
            events = list(stream)
            final = stream.get_final_completion()
        same("".join(event.delta for event in events if event.type == "content.delta"), TEXT)
        same([event.content for event in events if event.type == "content.done"], [TEXT])
        same((final.choices[0].message.content, final.choices[0].finish_reason), (TEXT, "stop"))

    @check(f"chat tools in two turns on the {wire} lane")
    def _(mark):
        messages = asked(mark)
        answer = client.chat.completions.create(model=f"{wire}-tools", messages=messages, tools=TOOLS)
        check_calls(answer.choices[0])
        first = mark.seen()
        same(sorted(first["tools"]), ["get_time", "get_weather"])
        same(first["tools"]["get_weather"]["properties"]["days"]["type"], "integer")
        # The message as it came, as OpenAI's guides do it.
        messages.append(answer.choices[0].message)
        for identifier, text in RESULTS.items():
            messages.append({"role": "tool", "tool_call_id": identifier, "content": text})
        answer = client.chat.completions.create(model=f"{wire}-tools", messages=messages, tools=TOOLS)
        same(answer.choices[0].message.content, "It is 21 degrees and noon ☀.")
        second = mark.requests()[1]["seen"]
        same({name: call["arguments"] for name, call in second["calls"].items()}, ARGUMENTS)
        same((second["results"], second["assistant"]), (RESULTS, ["Let me see."]))

    @check(f"chat tools with streamed arguments on the {wire} lane")
    def _(mark):
        with client.chat.completions.stream(model=f"{wire}-tools", messages=asked(mark), tools=TOOLS) as stream:
            events = list(stream)
            choice = stream.get_final_completion().choices[0]
        check_calls(choice)
        parsed = [call.function.parsed_arguments for call in choice.message.tool_calls]
        same(parsed, [GetWeather(**ARGUMENTS["call_weather"]), GetTime(**ARGUMENTS["call_time"])])
        done = [event for event in events if event.type == "tool_calls.function.arguments.done"]
        same([(event.index, event.name) for event in done], [(0, "get_weather"), (1, "get_time")])
        deltas = [event for event in events if event.type == "tool_calls.function.arguments.delta"]
        assert len(deltas) > 4, f"arguments in {len(deltas)} pieces"

    @check(f"chat with images on the {wire} lane")
    def _(mark):
        content = [
            {"type": "text", "text": f"What is it? {mark}"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            {"type": "image_url", "image_url": {"url": PICTURE_URL}},
        ]
        answer = client.chat.completions.create(model=f"{wire}-sight", messages=[{"role": "user", "content": content}])
        same(answer.choices[0].message.content, f"I see {PNG_SEEN}, url:{PICTURE_URL}.")

    @check(f"chat parsed by a schema on the {wire} lane, whole and streamed")
    def _(mark):
        what = {"model": f"{wire}-json", "messages": asked(mark), "response_format": Person}
        answer = client.chat.completions.parse(**what)
        same(answer.choices[0].message.parsed, Person(name="Ada", age=36))
        with client.chat.completions.stream(**what) as stream:
            same(stream.get_final_completion().choices[0].message.parsed, Person(name="Ada", age=36))
        same([sorted(request["seen"]["format"]["properties"]) for request in mark.requests()], [["age", "name"]] * 2)

    @check(f"chat cut short by the limit on the {wire} lane")
    def _(mark):
        what = {"model": f"{wire}-length", "messages": asked(mark), "max_tokens": 8}
        same(client.chat.completions.create(**what).choices[0].finish_reason, "length")
        chunks = list(client.chat.completions.create(**what, stream=True))
        same(chunks[-1].choices[0].finish_reason, "length")
        same([request["seen"]["max_tokens"] for request in mark.requests()], [8, 8])

    @check(f"chat with reasoning on the {wire} lane: told apart from the answer")
    def _(mark):
        what = {"model": f"{wire}-think", "messages": asked(mark)}
        message = client.chat.completions.create(**what).choices[0].message
        same((message.content, getattr(message, "reasoning_content", None)), (TEXT, THOUGHTS))
        deltas = [chunk.choices[0].delta for chunk in client.chat.completions.create(**what, stream=True)]
        same("".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas), THOUGHTS)
        same("".join(delta.content or "" for delta in deltas), TEXT)

    @check(f"chat bad request on the {wire} lane: BadRequestError with the provider's words")
    def _(mark):
        error = raises(openai.BadRequestError, lambda: ask(troubled(wire, "bad"), mark))
        holds(error.message, "temperature is too hot")
        same(error.type, "invalid_request_error")

    @check(f"chat rate limit on the {wire} lane: RateLimitError with Retry-After")
    def _(mark):
        error = raises(openai.RateLimitError, lambda: ask(troubled(wire, "limited"), mark))
        holds(error.message, "this is too much")
        same(error.response.headers["retry-after"], "1")
        same(len(mark.requests()), 1)

    @check(f"chat refused key of the only lane on the {wire} lane: 401 that does not show it")
    def _(mark):
        error = raises(openai.AuthenticationError, lambda: ask(troubled(wire, "unkeyed"), mark))
        same(error.status_code, 401)
        assert "sk-of" not in str(error.body), error.body

    @check(f"chat failing provider on the {wire} lane: InternalServerError")
    def _(mark):
        error = raises(openai.InternalServerError, lambda: ask(troubled(wire, "failing"), mark))
        same(error.status_code, 502)
        holds(error.message, "the provider is ill")

    for scene, words in [("broken", ""), ("told", "the scene breaks off here")]:

        @check(f"chat {scene} stream on the {wire} lane: APIError after the text that came")
        def _(mark, scene=scene, words=words):
            text = []

            def read():
                what = {"model": troubled(wire, scene), "messages": asked(mark), "stream": True}
                for chunk in client.chat.completions.create(**what):
                    text.append(chunk.choices[0].delta.content or "")
                    if "".join(text) == BEGINNING:
                        mark.release()
                    same(chunk.choices[0].finish_reason, None)

            error = raises(openai.APIError, read)
            holds(error.message, words)
            same("".join(text), BEGINNING)

    @check(f"chat broken whole answer on the {wire} lane: InternalServerError")
    def _(mark):
        raises(openai.InternalServerError, lambda: ask(troubled(wire, "broken", 2), mark))

    @check(f"chat stream closed by the client on the {wire} lane: the provider's connection closes")
    def _(mark):
        stream = client.chat.completions.create(model=troubled(wire, "hold"), messages=asked(mark), stream=True)
        assert next(iter(stream)).choices, "no first chunk"
        stream.close()
        mark.closed()

    @check(f"chat timed out by the client on the {wire} lane: APITimeoutError, the provider's connection closes")
    def _(mark):
        impatient = client.with_options(timeout=IMPATIENCE)
        what = {"model": troubled(wire, "mute"), "messages": asked(mark)}
        raises(openai.APITimeoutError, lambda: impatient.chat.completions.create(**what))
        mark.closed()
        raises(openai.APITimeoutError, lambda: impatient.chat.completions.create(**what, stream=True))
        mark.closed()


def check_calls(choice):
    same((choice.finish_reason, choice.message.content), ("tool_calls", "Let me see."))
    calls = [(call.id, call.type, call.function.name) for call in choice.message.tool_calls]
    same(calls, [("call_weather", "function", "get_weather"), ("call_time", "function", "get_time")])
    arguments = {call.id: json.loads(call.function.arguments) for call in choice.message.tool_calls}
    same(arguments, ARGUMENTS)


def ask(model, mark, **more):
    return client.chat.completions.create(model=model, messages=asked(mark), **more)


for each in WIRES:
    on_every_wire(each)


@check("chat with stop, top_p and a forced tool on the anthropic lane")
def _(mark):
    choice = {"type": "function", "function": {"name": "get_time"}}
    ask("anthropic-tools", mark, stop=["END", "###"], top_p=0.25, tools=TOOLS, tool_choice=choice)
    seen = mark.seen()
    same((seen["stop"], seen["top_p"], seen["tool_choice"]), (["END", "###"], 0.25, {"type": "tool", "name": "get_time"}))


@check("chat refusal on the chat lane, whole and parsed from a stream")
def _(mark):
    message = ask("chat-refusal", mark).choices[0].message
    same((message.refusal, message.content), ("I can't do that.", None))
    with client.chat.completions.stream(
        model="chat-refusal", messages=asked(mark), response_format=Person
    ) as stream:
        message = stream.get_final_completion().choices[0].message
    same((message.refusal, message.parsed), ("I can't do that.", None))


@check("chat refusal on the responses and anthropic lanes: refused or filtered, never an empty stop")
def _(mark):
    message = ask("responses-refusal", mark).choices[0].message
    holds([message.refusal, message.content], "I can't do that.")
    same(ask("anthropic-refusal", mark).choices[0].finish_reason, "content_filter")


@check("chat JSON mode on the chat and responses lanes")
def _(mark):
    for wire in ["chat", "responses"]:
        answer = ask(f"{wire}-json", mark, response_format={"type": "json_object"})
        same(answer.choices[0].message.content, '{"name":"Ada","age":36}')
    same([request["seen"]["format"] for request in mark.requests()], ["object", "object"])


@check("a field of nobody's is handed on in the same dialect and refused by name in another")
def _(mark):
    ask("chat-plain", mark, extra_body={"x_custom": {"deep": [1, 2]}})
    holds(mark.requests()[0]["body"], '"x_custom":{"deep":[1,2]}')
    refused = lambda **more: raises(openai.BadRequestError, lambda: ask("anthropic-plain", mark, **more))
    holds(refused(extra_body={"x_custom": 1}).message, "x_custom")
    holds(refused(logit_bias={"50256": -100}).message, "logit_bias")
    holds(refused(n=2).message, "n")
    same(len(mark.requests()), 1)


@check("rate limit: the SDK tries again after Retry-After and gets the answer")
def _(mark):
    again = client.with_options(max_retries=1)
    answer = again.chat.completions.create(model=troubled("chat", "limited-once"), messages=asked(mark))
    same(answer.choices[0].message.content, TEXT)
    same([request["ended"] for request in mark.requests()], ["whole", "whole"])


@check("rate limit that stays: RateLimitError after the SDK's own retry")
def _(mark):
    again = client.with_options(max_retries=1)
    what = {"model": troubled("chat", "limited", 2), "messages": asked(mark)}
    raises(openai.RateLimitError, lambda: again.chat.completions.create(**what))
    same(len(mark.requests()), 2)


@check("headers of the gateway and the provider through with_raw_response")
def _(mark):
    raw = client.chat.completions.with_raw_response.create(model="chat-alias", messages=asked(mark))
    same(raw.parse().choices[0].message.content, TEXT)
    check_headers(raw.headers, "chat-plain")
    same(raw.headers["x-request-id"], "req_scripted")
    same(raw.parse()._request_id, "req_scripted")
    with client.chat.completions.with_streaming_response.create(
        model="anthropic-alias", messages=asked(mark), stream=True
    ) as raw:
        check_headers(raw.headers, "anthropic-plain", "ttft")
        holds(raw.headers["content-type"], "text/event-stream")
        same("".join(chunk.choices[0].delta.content or "" for chunk in raw.parse()), TEXT)


def check_headers(headers, lane, time="answer"):
    same((headers["x-tokrate-provider"], headers["x-tokrate-winner"]), ("scripted", lane))
    same((headers["x-tokrate-attempts"], float(headers["x-tokrate-race-cost-usd"])), ("1", 0.0))
    assert headers["x-tokrate-call"], headers
    assert int(headers["x-tokrate-overhead-us"]) >= 0 and float(headers[f"x-tokrate-{time}-ms"]) > 0, headers


@check("the mode of a call: race is obeyed, nonsense is a BadRequestError")
def _(mark):
    ask("chat-plain", mark, extra_headers={"x-tokrate-mode": "race=2"})
    wrong = {"x-tokrate-mode": "nonsense"}
    error = raises(openai.BadRequestError, lambda: ask("chat-plain", mark, extra_headers=wrong))
    holds(error.message, "x-tokrate-mode")


@check("a wrong key: AuthenticationError; a key for few names: PermissionDeniedError")
def _(mark):
    stranger = client.with_options(api_key="sk-of-a-stranger")
    what = {"model": "chat-plain", "messages": asked(mark)}
    error = raises(openai.AuthenticationError, lambda: stranger.chat.completions.create(**what))
    assert "sk-of" not in str(error.body), error.body
    raises(openai.AuthenticationError, lambda: stranger.chat.completions.create(**what, stream=True))
    raises(openai.AuthenticationError, lambda: list(stranger.models.list()))
    narrow = client.with_options(api_key=NARROW_KEY)
    same(narrow.chat.completions.create(**what).choices[0].message.content, TEXT)
    what["model"] = "chat-tools"
    raises(openai.PermissionDeniedError, lambda: narrow.chat.completions.create(**what))


@check("the client's key stays at the gateway, the lane's own is sent")
def _(mark):
    ask("chat-plain", mark)
    ask("anthropic-plain", mark)
    chat, anthropic = (request["headers"] for request in mark.requests())
    same(chat, {"authorization": "Bearer sk-of-the-lane"})
    same(anthropic, {"x-api-key": "sk-of-the-lane", "anthropic-version": "2023-06-01"})


@check("an unknown model: NotFoundError; none at all: BadRequestError")
def _(mark):
    error = raises(openai.NotFoundError, lambda: ask("no-such-model", mark))
    holds(error.message, "no-such-model")
    raises(openai.BadRequestError, lambda: ask(openai.omit, mark))
    raises(openai.BadRequestError, lambda: ask("chat-plain", mark, extra_body={"model": 7}))


@check("models: list, retrieve, unknown, and those of a key for few names")
def _(_mark):
    names = [model.id for model in client.models.list()]
    for name in ["chat-plain", "anthropic-plain", "chat-alias", "sim"]:
        holds(names, name)
    model = client.models.retrieve("chat-alias")
    same((model.id, model.object), ("chat-alias", "model"))
    assert model.created > 0 and model.owned_by, model
    raises(openai.NotFoundError, lambda: client.models.retrieve("no-such-model"))
    narrow = client.with_options(api_key=NARROW_KEY)
    same(sorted(model.id for model in narrow.models.list()), ["anthropic-plain", "chat-plain"])


@check("completions: plain, stream, stream with include_usage")
def _(mark):
    what = {"model": "completions-plain", "prompt": f"Say it {mark}"}
    answer = client.completions.create(**what)
    same((answer.choices[0].text, answer.choices[0].finish_reason), (TEXT, "stop"))
    check_usage(answer.usage)
    chunks = list(client.completions.create(**what, stream=True))
    same("".join(chunk.choices[0].text for chunk in chunks), TEXT)
    same([chunk.usage for chunk in chunks if chunk.usage], [])
    chunks = list(client.completions.create(**what, stream=True, stream_options={"include_usage": True}))
    check_usage(chunks[-1].usage)
    same(chunks[-1].choices, [])


@check("embeddings: one text, several, as base64 and as numbers")
def _(mark):
    text = f"é {mark}"
    answer = client.embeddings.create(model="embeddings", input=[text, "more"])
    same([row.embedding for row in answer.data], [[len(text), 0.0, 0.5], [4.0, 1.0, 0.5]])
    same((answer.usage.prompt_tokens, answer.object), (8, "list"))
    answer = client.embeddings.create(model="embeddings", input=text, encoding_format="float")
    same(answer.data[0].embedding, [len(text), 0.0, 0.5])
    refused = raises(openai.NotFoundError, lambda: client.embeddings.create(model="anthropic-plain", input="x"))
    holds(refused.message, "has no lane with `embeddings`")


@check("the simulated engine: chat and completions, whole and streamed, with the right counts")
def _(mark):
    what = {"model": "sim", "max_tokens": 12}
    whole = client.chat.completions.create(**what, messages=asked(mark))
    assert whole.choices[0].message.content and whole.usage.completion_tokens == 12, whole
    chunks = list(
        client.chat.completions.create(**what, messages=asked(mark), stream=True, stream_options={"include_usage": True})
    )
    same((chunks[-1].usage.completion_tokens, chunks[-1].usage.prompt_tokens), (12, whole.usage.prompt_tokens))
    text = client.completions.create(**what, prompt="Go on")
    assert text.choices[0].text and text.usage.completion_tokens == 12, text
    assert "".join(chunk.choices[0].text for chunk in client.completions.create(**what, prompt="Go", stream=True))


@check("failover before the first byte, over lanes of three dialects: whole, streamed, and from an answer that breaks off")
def _(mark):
    for scene, stream in [("failing", False), ("limited", True), ("broken", False)]:
        raw = client.chat.completions.with_raw_response.create(
            model=f"{scene}-then-well-{harness.SUITE}", messages=asked(mark), stream=stream
        )
        same((raw.headers["x-tokrate-attempts"], raw.headers["x-tokrate-winner"]), ("3", "responses-plain"))
        answer = raw.parse()
        text = "".join(chunk.choices[0].delta.content or "" for chunk in answer) if stream else answer.choices[0].message.content
        same(text, TEXT)
    same([request["dialect"] for request in mark.requests()], ["chat", "anthropic", "responses"] * 3)


@check("a race of lanes of three dialects: one whole answer, whoever wins")
def _(mark):
    for stream in [False, True]:
        raw = client.chat.completions.with_raw_response.create(model="race", messages=asked(mark), stream=stream)
        same((raw.headers["x-tokrate-attempts"], raw.headers["x-tokrate-provider"]), ("3", "scripted"))
        answer = raw.parse()
        text = "".join(chunk.choices[0].delta.content or "" for chunk in answer) if stream else answer.choices[0].message.content
        same(text, TEXT)


@check("long answers of every dialect, piece by piece and whole")
def _(mark):
    for wire in WIRES:
        chunks = [chunk.choices[0].delta.content or "" for chunk in ask(f"{wire}-long", mark, stream=True)]
        same("".join(chunks), LONG_TEXT)
        assert len(chunks) > harness.SAID["long"], f"{len(chunks)} chunks"
        same(ask(f"{wire}-long", mark).choices[0].message.content, LONG_TEXT)


@check("a key that used up its requests a minute: RateLimitError with Retry-After")
def _(mark):
    small = client.with_options(api_key=SMALL_KEY)
    what = {"model": "chat-plain", "messages": asked(mark)}
    same(small.chat.completions.create(**what).choices[0].message.content, TEXT)
    error = raises(openai.RateLimitError, lambda: small.chat.completions.create(**what))
    assert 0 < int(error.response.headers["retry-after"]) <= 60, error.response.headers
    same((error.type, len(mark.requests())), ("rate_limit_error", 1))


@check("what another dialect has no words for: BadRequestError with its place, and nothing is sent")
def _(mark):
    audio = [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]
    refused = {
        "response_format": {"response_format": {"type": "json_object"}},
        "messages[0].content[0]": {"messages": [{"role": "user", "content": audio}]},
        "seed": {"seed": 7},
        "logprobs": {"logprobs": True},
        "store": {"store": True},
    }
    for place, more in refused.items():
        what = {"model": "anthropic-plain", "messages": asked(mark), **more}
        error = raises(openai.BadRequestError, lambda what=what: client.chat.completions.create(**what))
        holds(error.message, f"`{place}`")
    same(mark.requests(), [])


@check("what tools and thinking are called on the anthropic lane")
def _(mark):
    for choice, called in [("none", "none"), ("auto", "auto"), ("required", "any")]:
        ask("anthropic-tools", mark, tools=TOOLS, tool_choice=choice)
        same(mark.requests()[-1]["seen"]["tool_choice"], {"type": called})
    ask("anthropic-tools", mark, tools=TOOLS, parallel_tool_calls=False)
    same(mark.requests()[-1]["seen"]["tool_choice"], {"type": "auto", "disable_parallel_tool_use": True})
    ask("anthropic-plain", mark, reasoning_effort="high")
    holds(mark.requests()[-1]["body"], '"effort":"high"')
    messages = [*asked(mark), {"role": "developer", "content": "Be polite."}, {"role": "user", "content": "And?"}]
    client.chat.completions.create(model="anthropic-plain", messages=messages)
    seen = mark.requests()[-1]["seen"]
    same((seen["system"], seen["user"]), (["Be brief.", "Be polite."], [f"Hello {mark}", "And?"]))


@check("a request of megabytes, over every dialect")
def _(mark):
    data = PNG[:4] * 500_000
    content = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}]
    for wire in WIRES:
        answer = client.chat.completions.create(model=f"{wire}-sight", messages=[{"role": "user", "content": content}])
        holds(answer.choices[0].message.content, "image/png:1500000:")


@check("what is not offered is a NotFoundError")
def _(_mark):
    holds(raises(openai.NotFoundError, client.fine_tuning.jobs.list).message, "not found")
    # Files of other keys, and which of many lanes is meant.
    holds(raises(openai.PermissionDeniedError, client.files.list).message, "what other keys have made")
    holds(raises(openai.BadRequestError, lambda: client.moderations.create(input="x")).message, "x-tokrate-model")
    # Only the lane that began a response in the background has it.
    holds(raises(openai.NotFoundError, lambda: client.responses.retrieve("r")).message, "is not known here")


@check("async: eight streams at once, each its own")
def _(mark):
    async def one(asynchronous, number):
        model = f"{WIRES[number % 3]}-plain"
        stream = await asynchronous.chat.completions.create(model=model, messages=asked(mark), stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def all_of_them():
        async with openai.AsyncOpenAI(**SETTINGS) as asynchronous:
            return await asyncio.gather(*(one(asynchronous, number) for number in range(8)))

    same(asyncio.run(all_of_them()), [TEXT] * 8)


@check("async: a cancelled task closes the provider's connection")
def _(mark):
    async def cancelled():
        async with openai.AsyncOpenAI(**SETTINGS) as asynchronous:
            what = {"model": troubled("chat", "hold", 2), "messages": asked(mark)}
            task = asyncio.create_task(asynchronous.chat.completions.create(**what))
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
    import realtime_checks  # noqa: F401
    import responses_checks  # noqa: F401

    harness.run(f"openai python {openai.__version__}")
