"""SDKs that clouds' users have against the gateway: boto3's Bedrock runtime, OpenAI's client for Azure, google-genai for Vertex AI, Cohere's.

Each is pointed at the gateway as its own documents say, with the gateway's key in place of the cloud's. Invariant: what is asserted is what
the SDK made of the answer, or what the scripted provider read of the request.
"""

import os

os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = "/dev/null"

import boto3  # noqa: E402
import botocore  # noqa: E402
import botocore.config  # noqa: E402
import cohere  # noqa: E402
import google.genai  # noqa: E402
import google.oauth2.credentials  # noqa: E402
import harness  # noqa: E402
import openai  # noqa: E402
from google.genai import types  # noqa: E402
from harness import COUNTS, KEY, PATIENCE, PNG_SEEN, TEXT, THOUGHTS, WIRES, check, holds, raises, same  # noqa: E402

ARGUMENTS = {"city": 'Köln "Mitte"', "days": 12}
SCHEMA = {
    "type": "object", "required": ["city", "days"],
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
}
TIME_SCHEMA = {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}


def bedrock(key):
    """A client that shows a key of the gateway: AWS_BEARER_TOKEN_BEDROCK does so too, but only over TLS."""
    config = botocore.config.Config(
        retries={"total_max_attempts": 1}, read_timeout=PATIENCE, proxies={}, signature_version=botocore.UNSIGNED
    )
    client = boto3.client("bedrock-runtime", endpoint_url=harness.GATEWAY, region_name="us-east-1", config=config)

    def show_key(request, **_):
        request.headers["Authorization"] = f"Bearer {key}"

    client.meta.events.register("before-sign.bedrock-runtime", show_key)
    return client


aws = bedrock(KEY)
azure = openai.AzureOpenAI(
    azure_endpoint=harness.GATEWAY, api_version="2024-10-21", api_key=KEY, max_retries=0, timeout=PATIENCE
)
vertex = google.genai.Client(
    vertexai=True, project="p", location="us-central1",
    credentials=google.oauth2.credentials.Credentials(token=KEY),
    http_options=types.HttpOptions(base_url=harness.GATEWAY, timeout=int(PATIENCE * 1000)),
)


def asked(mark, *more):
    return [{"role": "user", "content": [{"text": f"Hello {mark}"}, *more]}]


def tools():
    specs = [("get_weather", SCHEMA), ("get_time", TIME_SCHEMA)]
    return {"tools": [{"toolSpec": {"name": name, "inputSchema": {"json": schema}}} for name, schema in specs]}


def told(stream):
    """Text, reasoning, calls by their block, stop reason and counts of a stream."""
    text, thoughts, calls, stop, usage = "", "", {}, None, None
    for event in stream:
        (kind, value), = event.items()
        match kind:
            case "contentBlockStart":
                calls[value["contentBlockIndex"]] = [value["start"]["toolUse"]["name"], ""]
            case "contentBlockDelta":
                delta = value["delta"]
                text += delta.get("text", "")
                thoughts += delta.get("reasoningContent", {}).get("text", "")
                if "toolUse" in delta:
                    calls[value["contentBlockIndex"]][1] += delta["toolUse"]["input"]
            case "messageStop":
                stop = value["stopReason"]
            case "metadata":
                usage = value["usage"]
    return text, thoughts, list(calls.values()), stop, usage


def check_usage(usage):
    same(usage["inputTokens"] + usage.get("cacheReadInputTokens", 0), COUNTS["input"])
    same(usage["outputTokens"], COUNTS["output"])


def on_every_wire(wire):
    @check(f"boto3 converse on the {wire} lane")
    def _(mark):
        answer = aws.converse(
            modelId=f"{wire}-plain", messages=asked(mark), system=[{"text": "Be brief."}],
            inferenceConfig={"maxTokens": 64, "temperature": 0.5},
        )
        same(answer["output"]["message"], {"role": "assistant", "content": [{"text": TEXT}]})
        same(answer["stopReason"], "end_turn")
        check_usage(answer["usage"])
        seen = mark.seen()
        same((seen["system"], seen["user"]), (["Be brief."], [f"Hello {mark}"]))
        same((seen["temperature"], seen["max_tokens"], seen["stream"]), (0.5, 64, False))

    @check(f"boto3 converse_stream on the {wire} lane")
    def _(mark):
        answer = aws.converse_stream(modelId=f"{wire}-plain", messages=asked(mark))
        text, thoughts, calls, stop, usage = told(answer["stream"])
        same((text, thoughts, calls, stop), (TEXT, "", [], "end_turn"))
        check_usage(usage)

    @check(f"boto3 converse_stream with thoughts on the {wire} lane")
    def _(mark):
        text, thoughts, _, _, _ = told(aws.converse_stream(modelId=f"{wire}-think", messages=asked(mark))["stream"])
        same((text, thoughts), (TEXT, "".join(THOUGHTS)))

    @check(f"boto3 tools in two turns on the {wire} lane")
    def _(mark):
        messages = asked(mark)
        answer = aws.converse(modelId=f"{wire}-tools", messages=messages, toolConfig=tools())
        message = answer["output"]["message"]
        calls = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        same([call["name"] for call in calls], ["get_weather", "get_time"])
        same((calls[0]["input"], answer["stopReason"]), (ARGUMENTS, "tool_use"))
        results = [
            {"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": text}]}}
            for call, text in zip(calls, ["21 degrees", "noon ☀"], strict=True)
        ]
        messages += [message, {"role": "user", "content": results}]
        answer = aws.converse(modelId=f"{wire}-tools", messages=messages, toolConfig=tools())
        same(answer["output"]["message"]["content"][0]["text"], "It is 21 degrees and noon ☀.")

    @check(f"boto3 tools with streamed arguments on the {wire} lane")
    def _(mark):
        stream = aws.converse_stream(modelId=f"{wire}-tools", messages=asked(mark), toolConfig=tools())["stream"]
        _, _, calls, stop, _ = told(stream)
        same([name for name, _ in calls], ["get_weather", "get_time"])
        same((calls[0][1], stop), ('{"city":"Köln \\"Mitte\\"","days":12}', "tool_use"))

    @check(f"boto3 a picture on the {wire} lane")
    def _(mark):
        import base64

        picture = {"image": {"format": "png", "source": {"bytes": base64.b64decode(harness.PNG)}}}
        aws.converse(modelId=f"{wire}-sight", messages=asked(mark, picture))
        same(mark.seen()["images"], [PNG_SEEN])

    @check(f"google-genai for Vertex on the {wire} lane")
    def _(mark):
        answer = vertex.models.generate_content(model=f"{wire}-plain", contents=f"Hello {mark}")
        same(answer.text, TEXT)
        same(answer.usage_metadata.prompt_token_count, COUNTS["input"])

    @check(f"google-genai for Vertex streams on the {wire} lane")
    def _(mark):
        chunks = vertex.models.generate_content_stream(model=f"{wire}-plain", contents=f"Hello {mark}")
        same("".join(chunk.text or "" for chunk in chunks), TEXT)


for wire in WIRES:
    on_every_wire(wire)


@check("boto3 converse_stream against the simulated engine, byte for byte")
def _(mark):
    answer = aws.converse_stream(
        modelId="sim", messages=asked(mark), inferenceConfig={"maxTokens": 20}, system=[{"text": "Be brief."}]
    )
    text, _, _, stop, usage = told(answer["stream"])
    assert text and stop == "max_tokens" and usage["outputTokens"] == 20, (text, stop, usage)


@check("boto3 a forced tool is called by the simulated engine")
def _(mark):
    config = {**tools(), "toolChoice": {"tool": {"name": "get_time"}}}
    answer = aws.converse(modelId="sim", messages=asked(mark), toolConfig=config)
    (call,) = [block["toolUse"] for block in answer["output"]["message"]["content"] if "toolUse" in block]
    same((call["name"], answer["stopReason"]), ("get_time", "tool_use"))
    assert isinstance(call["input"]["zone"], str), call


@check("boto3 a model that is unknown")
def _(mark):
    error = raises(aws.exceptions.ResourceNotFoundException, lambda: aws.converse(modelId="none", messages=asked(mark)))
    holds(str(error), "none")


@check("boto3 a key that is unknown")
def _(mark):
    other = bedrock("sk-of-nobody")
    raises(
        other.exceptions.AccessDeniedException,
        lambda: other.converse(modelId="chat-plain", messages=asked(mark)),
    )


@check("boto3 a path that no lane has says so")
def _(mark):
    body = '{"anthropic_version":"bedrock-2023-05-31"}'
    call = lambda: aws.invoke_model(modelId="chat-plain", body=body, contentType="application/json")  # noqa: E731
    error = raises(aws.exceptions.ResourceNotFoundException, call)
    holds(str(error), "invoke")


@check("Azure's client on a deployment")
def _(mark):
    messages = [{"role": "user", "content": f"Hello {mark}"}]
    answer = azure.chat.completions.create(model="chat-plain", messages=messages)
    same((answer.choices[0].message.content, answer.usage.prompt_tokens), (TEXT, COUNTS["input"]))
    same(mark.seen()["user"], [f"Hello {mark}"])


@check("Azure's client streams")
def _(mark):
    messages = [{"role": "user", "content": f"Hello {mark}"}]
    chunks = list(azure.chat.completions.create(model="anthropic-plain", messages=messages, stream=True))
    same("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), TEXT)


@check("Azure's client with a key that is unknown")
def _(mark):
    other = azure.with_options(api_key="sk-of-nobody")
    raises(openai.AuthenticationError, lambda: other.chat.completions.create(model="chat-plain", messages=[]))


cohere_client = cohere.ClientV2(api_key=KEY, base_url=harness.GATEWAY, timeout=PATIENCE)
COHERE_TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}
    for name, schema in [("get_weather", SCHEMA), ("get_time", TIME_SCHEMA)]
]


def cohere_on(wire):
    @check(f"cohere chat on the {wire} lane")
    def _(mark):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Hello {mark}"}]
        answer = cohere_client.chat(model=f"{wire}-plain", messages=messages, max_tokens=64, temperature=0.5)
        same([part.text for part in answer.message.content], [TEXT])
        same((answer.finish_reason, answer.usage.billed_units.input_tokens), ("COMPLETE", COUNTS["input"]))
        seen = mark.seen()
        same((seen["system"], seen["user"], seen["max_tokens"]), (["Be brief."], [f"Hello {mark}"], 64))

    @check(f"cohere chat streams on the {wire} lane")
    def _(mark):
        text, end = "", None
        messages = [{"role": "user", "content": f"Hello {mark}"}]
        for event in cohere_client.chat_stream(model=f"{wire}-plain", messages=messages):
            if event.type == "content-delta":
                text += event.delta.message.content.text or ""
            end = event
        same((text, end.type, end.delta.finish_reason), (TEXT, "message-end", "COMPLETE"))
        same(end.delta.usage.billed_units.output_tokens, COUNTS["output"])

    @check(f"cohere tools in two turns on the {wire} lane")
    def _(mark):
        messages = [{"role": "user", "content": f"Hello {mark}"}]
        answer = cohere_client.chat(model=f"{wire}-tools", messages=messages, tools=COHERE_TOOLS)
        calls = answer.message.tool_calls
        same(([call.function.name for call in calls], answer.finish_reason), (["get_weather", "get_time"], "TOOL_CALL"))
        messages.append(answer.message.model_dump(exclude_none=True))
        for call, text in zip(calls, ["21 degrees", "noon ☀"], strict=True):
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
        answer = cohere_client.chat(model=f"{wire}-tools", messages=messages, tools=COHERE_TOOLS)
        same(answer.message.content[0].text, "It is 21 degrees and noon ☀.")


for wire in WIRES:
    cohere_on(wire)


@check("cohere chat against the simulated engine, byte for byte")
def _(mark):
    messages = [{"role": "user", "content": f"Hello {mark}"}]
    events = list(cohere_client.chat_stream(model="sim", messages=messages, max_tokens=20))
    same((events[-1].delta.finish_reason, events[-1].delta.usage.tokens.output_tokens), ("MAX_TOKENS", 20))


@check("cohere a model that is unknown")
def _(mark):
    error = raises(cohere.NotFoundError, lambda: cohere_client.chat(model="none", messages=[]))
    holds(str(error), "none")


if __name__ == "__main__":
    harness.run(f"boto3 {boto3.__version__}, openai {openai.__version__}, google-genai {google.genai.__version__}, cohere {cohere.__version__}")
