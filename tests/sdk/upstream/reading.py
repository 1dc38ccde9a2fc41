"""Reads requests of three dialects into one form, as strictly as the providers do.

It refuses to know what is answered. Invariant: a field that the provider does not have is an error, so nothing that a
gateway adds, forgets or leaves in another dialect's words goes unseen.
"""

import base64
import json
import zlib


class Wrong(Exception):
    """Why a request is refused, and what a program can read of it."""

    def __init__(self, message, details=None):
        super().__init__(message)
        self.details = details


def demand(condition, message):
    if not condition:
        raise Wrong(message)


def only(what, fields, known):
    other = sorted(set(fields) - set(known.split()))
    demand(not other, f"{what}: unknown field {other[0] if other else ''}")


# A field of the tests' own, which the same dialect must hand on.
OWN = " x_custom"


def read(dialect, body):
    """The request as a plain form; `Wrong` says what is the matter with it."""
    demand(isinstance(body, dict), "the request is no object")
    seen = {
        "stream": body.get("stream") or False,
        "include_usage": (body.get("stream_options") or {}).get("include_usage", False),
        "system": [], "user": [], "assistant": [], "images": [], "tools": {}, "tool_choice": body.get("tool_choice"),
        "calls": {}, "results": {}, "format": None, "max_tokens": None, "stop": [],
        "temperature": body.get("temperature"), "top_p": body.get("top_p"),
    }
    READERS[dialect](body, seen)
    missing = set(seen["calls"]) - set(seen["results"])
    demand(not missing, f"calls without results: {sorted(missing)}")
    return seen


def image(address):
    if not address.startswith("data:"):
        return f"url:{address}"
    head, _, data = address[5:].partition(",")
    demand(head.endswith(";base64"), "a data URL is not base64")
    return picture(head.removesuffix(";base64"), data)


def picture(media_type, data):
    raw = base64.b64decode(data, validate=True)
    return f"{media_type}:{len(raw)}:{zlib.crc32(raw):08x}"


def texts(parts, kinds):
    if isinstance(parts, str):
        return [parts]
    demand(isinstance(parts, list), "content is neither text nor parts")
    for part in parts:
        demand(part.get("type") in kinds, f"a part {part.get('type')} where {kinds} are known")
    return [part["text"] for part in parts]


def call(seen, identifier, name, arguments):
    seen["calls"][identifier] = {"name": name, "arguments": arguments}


def result(seen, identifier, text):
    demand(identifier in seen["calls"], f"a result of no call: {identifier}")
    demand(identifier not in seen["results"], f"two results of one call: {identifier}")
    seen["results"][identifier] = text


def read_chat(body, seen):
    only("chat", body, "model messages stream stream_options max_tokens max_completion_tokens temperature top_p stop seed"
         " tools tool_choice parallel_tool_calls response_format reasoning_effort user metadata store n" + OWN)
    if body.get("stream_options") is not None:
        demand(body.get("stream"), "stream_options without stream")
        only("stream_options", body["stream_options"], "include_usage include_obfuscation")
    for message in body["messages"]:
        read_chat_message(message, seen)
    for tool in body.get("tools") or []:
        only("tool", tool, "type function")
        only("function", tool["function"], "name description parameters strict")
        seen["tools"][tool["function"]["name"]] = tool["function"].get("parameters")
    form = body.get("response_format") or {"type": "text"}
    if form["type"] == "json_object":
        only("response_format", form, "type")
        seen["format"] = "object"
    elif form["type"] == "json_schema":
        only("json_schema", form["json_schema"], "name description schema strict")
        seen["format"] = form["json_schema"]["schema"]
    seen["max_tokens"] = body.get("max_completion_tokens") or body.get("max_tokens")
    stop = body.get("stop") or []
    seen["stop"] = [stop] if isinstance(stop, str) else stop


def read_chat_message(message, seen):
    match message["role"]:
        case "system" | "developer":
            seen["system"] += texts(message["content"], ["text"])
        case "user":
            if isinstance(message["content"], str):
                return seen["user"].append(message["content"])
            for part in message["content"]:
                match part["type"]:
                    case "text":
                        seen["user"].append(part["text"])
                    case "image_url":
                        only("image_url", part["image_url"], "url detail")
                        seen["images"].append(image(part["image_url"]["url"]))
                    case other:
                        raise Wrong(f"a part {other}")
        case "assistant":
            seen["assistant"] += texts(message.get("content") or "", ["text", "refusal"])
            for made in message.get("tool_calls") or []:
                # Clients may send back what they parsed of the arguments.
                only("tool_call", made, "id type function")
                only("function", made["function"], "name arguments parsed_arguments")
                call(seen, made["id"], made["function"]["name"], json.loads(made["function"]["arguments"]))
        case "tool":
            only("message", message, "role tool_call_id content")
            result(seen, message["tool_call_id"], "".join(texts(message["content"], ["text"])))
        case other:
            raise Wrong(f"a role {other}")


def read_responses(body, seen):
    only("responses", body, "model input instructions stream stream_options max_output_tokens temperature top_p tools"
         " tool_choice parallel_tool_calls text reasoning store metadata user include" + OWN)
    if body.get("instructions"):
        seen["system"].append(body["instructions"])
    items = body["input"]
    if isinstance(items, str):
        seen["user"].append(items)
        items = []
    for item in items:
        read_item(item, seen)
    for tool in body.get("tools") or []:
        only("tool", tool, "type name description parameters strict")
        seen["tools"][tool["name"]] = tool["parameters"]
    form = (body.get("text") or {}).get("format") or {"type": "text"}
    if form["type"] != "text":
        only("text.format", form, "type name description schema strict")
        seen["format"] = form.get("schema", "object")
    seen["max_tokens"] = body.get("max_output_tokens")


def read_item(item, seen):
    match item.get("type", "message"):
        case "message" if item["role"] in ["system", "developer"]:
            seen["system"] += texts(item["content"], ["input_text"])
        case "message" if item["role"] == "assistant":
            seen["assistant"] += texts(item["content"], ["output_text"])
        case "message":
            if isinstance(item["content"], str):
                return seen["user"].append(item["content"])
            for part in item["content"]:
                match part["type"]:
                    case "input_text":
                        seen["user"].append(part["text"])
                    case "input_image":
                        only("input_image", part, "type image_url detail")
                        seen["images"].append(image(part["image_url"]))
                    case other:
                        raise Wrong(f"a part {other}")
        case "function_call":
            call(seen, item["call_id"], item["name"], json.loads(item["arguments"]))
        case "function_call_output":
            result(seen, item["call_id"], "".join(texts(item["output"], ["input_text"])))
        case "reasoning":
            only("reasoning", item, "id type summary content encrypted_content status")
        case other:
            raise Wrong(f"an item {other}")


# Anthropic's SDK goes on without a thread when it hears this.
NO_THREADS = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}


def read_anthropic(body, seen):
    if body.get("thread"):
        raise Wrong("threads are not held here", NO_THREADS)
    only("messages", body, "model messages system max_tokens stream temperature top_p top_k stop_sequences tools tool_choice"
         " thinking metadata output_config service_tier" + OWN)
    demand(isinstance(body.get("max_tokens"), int), "max_tokens is required")
    seen["max_tokens"] = body["max_tokens"]
    seen["stop"] = body.get("stop_sequences") or []
    seen["system"] += texts(body.get("system") or [], ["text"])
    open_calls = set()
    for message in body["messages"]:
        only("message", message, "role content")
        if message["role"] == "system":
            seen["system"] += texts(message["content"], ["text"])
            continue
        demand(message["role"] in ["user", "assistant"], f"a role {message['role']}")
        made = read_anthropic_message(message, seen)
        answered = open_calls & set(seen["results"])
        demand(answered == open_calls, "a tool_use is not followed by its tool_result in the next message")
        open_calls = made
    for tool in body.get("tools") or []:
        only("tool", tool, "name description input_schema strict type")
        demand(isinstance(tool["input_schema"], dict), "input_schema is no object")
        seen["tools"][tool["name"]] = tool["input_schema"]
    form = (body.get("output_config") or {}).get("format")
    if form:
        only("format", form, "type schema")
        demand(form["type"] == "json_schema", "the only format is json_schema")
        seen["format"] = form["schema"]


def read_anthropic_message(message, seen):
    """Returns the calls that the message makes."""
    made = set()
    if isinstance(message["content"], str):
        seen[message["role"]].append(message["content"])
        return made
    demand(message["content"], "a message without content")
    for block in message["content"]:
        match block["type"]:
            case "text":
                demand(block["text"], "an empty text block")
                seen[message["role"]].append(block["text"])
            case "image":
                source = block["source"]
                by_address = source["type"] == "url"
                only("source", source, "type url" if by_address else "type media_type data")
                seen["images"].append(
                    f"url:{source['url']}" if by_address else picture(source["media_type"], source["data"])
                )
            case "tool_use":
                # Clients send back what their provider wrote into a block.
                only("tool_use", block, "type id name input caller")
                demand(isinstance(block["input"], dict), "the input of a tool_use is no object")
                call(seen, block["id"], block["name"], block["input"])
                made.add(block["id"])
            case "tool_result":
                only("tool_result", block, "type tool_use_id content is_error")
                result(seen, block["tool_use_id"], "".join(texts(block.get("content") or "", ["text"])))
            case "thinking":
                demand(block.get("signature"), "thinking without its signature")
            case other:
                raise Wrong(f"a block {other}")
    return made


def read_completions(body, seen):
    only("completions", body, "model prompt stream stream_options max_tokens temperature top_p stop" + OWN)
    demand(isinstance(body["prompt"], str), "the prompt is no text")
    seen["user"].append(body["prompt"])
    seen["max_tokens"] = body.get("max_tokens")


READERS = {
    "chat": read_chat, "responses": read_responses, "anthropic": read_anthropic, "completions": read_completions,
}
