"""OpenAI's SDK for Python against the gateway: responses. Part of the suite of `openai_checks`."""

import openai
from harness import (
    BEGINNING, COUNTS, IMPATIENCE, PICTURE_URL, PNG, PNG_SEEN, TEXT, THOUGHTS, WIRES, check, holds, raises, same, troubled,
)
from __main__ import ARGUMENTS, RESULTS, GetTime, GetWeather, Person, client

TOOLS = [
    {
        "type": "function", "name": name, "description": model.__doc__, "strict": True,
        "parameters": {**model.model_json_schema(), "additionalProperties": False},
    }
    for name, model in [("get_weather", GetWeather), ("get_time", GetTime)]
]


def check_usage(usage):
    same((usage.input_tokens, usage.output_tokens), (COUNTS["input"], COUNTS["output"]))
    same(usage.total_tokens, COUNTS["input"] + COUNTS["output"])
    same(usage.input_tokens_details.cached_tokens, COUNTS["cached"])


def check_order(events):
    """The form that every stream of events has."""
    same([event.sequence_number for event in events], list(range(len(events))))
    same(events[0].type, "response.created")
    added = [event.item.id for event in events if event.type == "response.output_item.added"]
    done = [event.item.id for event in events if event.type == "response.output_item.done"]
    same(added, done)
    same(added, [item.id for item in events[-1].response.output])


def on_every_wire(wire):
    @check(f"responses plain on the {wire} lane")
    def _(mark):
        answer = client.responses.create(
            model=f"{wire}-plain", instructions="Be brief.", input=f"Hello {mark}", temperature=0.5, max_output_tokens=64
        )
        same((answer.output_text, answer.status, answer.object), (TEXT, "completed", "response"))
        same((answer.error, answer.incomplete_details), (None, None))
        assert answer.id and answer.model and answer.created_at > 1_700_000_000, answer
        check_usage(answer.usage)
        seen = mark.seen()
        same((seen["system"], seen["user"]), (["Be brief."], [f"Hello {mark}"]))
        same((seen["temperature"], seen["max_tokens"], seen["stream"]), (0.5, 64, False))

    @check(f"responses stream on the {wire} lane")
    def _(mark):
        events = list(client.responses.create(model=f"{wire}-plain", input=f"Hello {mark}", stream=True))
        same("".join(event.delta for event in events if event.type == "response.output_text.delta"), TEXT)
        same([event.text for event in events if event.type == "response.output_text.done"], [TEXT])
        check_order(events)
        same((events[-1].type, events[-1].response.output_text), ("response.completed", TEXT))
        check_usage(events[-1].response.usage)

    @check(f"responses stream helper on the {wire} lane")
    def _(mark):
        with client.responses.stream(model=f"{wire}-plain", input=f"Hello {mark}") as stream:
            snapshots = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
            final = stream.get_final_response()
        same((snapshots[-1], final.output_text, final.status), (TEXT, TEXT, "completed"))
        check_usage(final.usage)

    @check(f"responses tools in two turns on the {wire} lane, streamed arguments in the first")
    def _(mark):
        history = [{"role": "user", "content": f"Hello {mark}"}]
        with client.responses.stream(model=f"{wire}-tools", input=history, tools=TOOLS) as stream:
            events = list(stream)
            final = stream.get_final_response()
        calls = [item for item in final.output if item.type == "function_call"]
        same([(call.call_id, call.name) for call in calls], [("call_weather", "get_weather"), ("call_time", "get_time")])
        same({call.call_id: call.parsed_arguments for call in calls}, ARGUMENTS)
        same(final.output_text, "Let me see.")
        deltas = [event for event in events if event.type == "response.function_call_arguments.delta"]
        assert len(deltas) > 4, f"arguments in {len(deltas)} pieces"
        # The output as it came, as OpenAI's guides do it.
        for item in final.output:
            history.append(item.to_dict(mode="json") if item.type != "function_call" else sent_back(item))
        for identifier, text in RESULTS.items():
            history.append({"type": "function_call_output", "call_id": identifier, "output": text})
        answer = client.responses.create(model=f"{wire}-tools", input=history, tools=TOOLS)
        same(answer.output_text, "It is 21 degrees and noon ☀.")
        second = mark.requests()[1]["seen"]
        same({name: call["arguments"] for name, call in second["calls"].items()}, ARGUMENTS)
        same((second["results"], second["assistant"]), (RESULTS, ["Let me see."]))

    @check(f"responses with images on the {wire} lane")
    def _(mark):
        content = [
            {"type": "input_text", "text": f"What is it? {mark}"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
            {"type": "input_image", "image_url": PICTURE_URL, "detail": "auto"},
        ]
        answer = client.responses.create(model=f"{wire}-sight", input=[{"role": "user", "content": content}])
        same(answer.output_text, f"I see {PNG_SEEN}, url:{PICTURE_URL}.")

    @check(f"responses parsed by a schema on the {wire} lane, whole and streamed")
    def _(mark):
        what = {"model": f"{wire}-json", "input": f"Who? {mark}", "text_format": Person}
        same(client.responses.parse(**what).output_parsed, Person(name="Ada", age=36))
        with client.responses.stream(**what) as stream:
            same(stream.get_final_response().output_parsed, Person(name="Ada", age=36))
        same([sorted(request["seen"]["format"]["properties"]) for request in mark.requests()], [["age", "name"]] * 2)

    @check(f"responses cut short by the limit on the {wire} lane: incomplete")
    def _(mark):
        what = {"model": f"{wire}-length", "input": f"Hello {mark}", "max_output_tokens": 16}
        answer = client.responses.create(**what)
        same((answer.status, answer.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        events = list(client.responses.create(**what, stream=True))
        same((events[-1].type, events[-1].response.status), ("response.incomplete", "incomplete"))

    @check(f"responses with reasoning on the {wire} lane: an item of its own")
    def _(mark):
        what = {"model": f"{wire}-think", "input": f"Hello {mark}"}
        answer = client.responses.create(**what)
        same([item.type for item in answer.output], ["reasoning", "message"])
        same((thoughts(answer.output[0]), answer.output_text), (THOUGHTS, TEXT))
        events = list(client.responses.create(**what, stream=True))
        check_order(events)
        final = events[-1].response
        same((thoughts(final.output[0]), final.output_text), (THOUGHTS, TEXT))

    @check(f"responses errors on the {wire} lane: 400, 429, 502, each as its own class")
    def _(mark):
        ask = lambda scene: client.responses.create(model=troubled(wire, scene, 2), input=f"Hello {mark}")
        holds(raises(openai.BadRequestError, lambda: ask("bad")).message, "temperature is too hot")
        same(raises(openai.RateLimitError, lambda: ask("limited-once")).response.headers["retry-after"], "1")
        same(raises(openai.InternalServerError, lambda: ask("failing")).status_code, 502)

    @check(f"responses broken stream on the {wire} lane: no response.completed, and an error")
    def _(mark):
        what = {"model": troubled(wire, "told", 2), "input": f"Hello {mark}", "stream": True}
        text, ends = "", []
        try:
            for event in client.responses.create(**what):
                text += event.delta if event.type == "response.output_text.delta" else ""
                if text == BEGINNING:
                    mark.release()
                ends += [event.type] if event.type in ENDS else []
        except openai.APIError as error:
            ends.append(type(error).__name__)
        same(text, BEGINNING)
        assert ends in [["error"], ["response.failed"], ["APIError"]], ends

    @check(f"responses stream closed by the client on the {wire} lane: the provider's connection closes")
    def _(mark):
        stream = client.responses.create(model=troubled(wire, "hold"), input=f"Hello {mark}", stream=True)
        same(next(iter(stream)).type, "response.created")
        stream.close()
        mark.closed()


ENDS = ["response.completed", "response.incomplete", "response.failed", "error"]


def sent_back(item):
    """A call without what the SDK's helper added to it."""
    return {key: value for key, value in item.to_dict(mode="json").items() if key != "parsed_arguments"}


def thoughts(item):
    return "".join(part.text for part in [*item.summary, *(item.content or [])])


for each in WIRES:
    on_every_wire(each)


@check("responses refusal on the responses and chat lanes")
def _(mark):
    for wire in ["responses", "chat"]:
        answer = client.responses.create(model=f"{wire}-refusal", input=f"Hello {mark}")
        (part,) = answer.output[0].content
        holds([getattr(part, "refusal", None), getattr(part, "text", None)], "I can't do that.")


@check("responses of the simulated engine, whole and streamed")
def _(mark):
    what = {"model": "sim", "input": f"Hello {mark}", "max_output_tokens": 12}
    whole = client.responses.create(**what)
    assert whole.output_text and whole.usage.output_tokens == 12, whole
    with client.responses.stream(**what) as stream:
        events = list(stream)
    # It stopped at the limit, which the helper's own end does not count as one.
    final = events[-1].response
    same((events[-1].type, final.usage.output_tokens), ("response.incomplete", 12))
    same(final.output_text, "".join(event.delta for event in events if event.type == "response.output_text.delta"))


@check("responses headers of the gateway through with_raw_response")
def _(mark):
    raw = client.responses.with_raw_response.create(model="responses-alias", input=f"Hello {mark}")
    same((raw.headers["x-tokrate-winner"], raw.parse().output_text), ("responses-plain", TEXT))


@check("responses timed out by the client: APITimeoutError, the provider's connection closes")
def _(mark):
    impatient = client.with_options(timeout=IMPATIENCE)
    what = {"model": troubled("responses", "mute", 2), "input": f"Hello {mark}"}
    raises(openai.APITimeoutError, lambda: impatient.responses.create(**what))
    mark.closed()
