"""Tells an answer in three dialects, whole or as a stream, as the providers' own recordings look.

It refuses to decide what is said. Invariant: a stream and a whole body of one answer say the same.
"""

import json

from script import USAGE

MODEL = "scripted-2026-01-01"
CREATED = 1_767_225_600


def event(data, name=None):
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def joined(answer, kind):
    text = "".join(piece[1] for piece in answer.pieces if piece[0] == kind)
    return text or None


def calls(answer):
    return [piece for piece in answer.pieces if piece[0] == "call"]


def refusal(dialect, refused):
    """The body of an error answer."""
    error = {"type": refused.kind, "message": refused.message}
    if refused.details:
        error["details"] = refused.details
    if dialect == "anthropic":
        return {"type": "error", "error": error, "request_id": "req_scripted"}
    return {"error": {**error, "param": None, "code": None}}


def error_event(dialect):
    """An error in the middle of a stream."""
    said = "the scene breaks off here"
    if dialect == "anthropic":
        return event({"type": "error", "error": {"type": "overloaded_error", "message": said}}, "error")
    if dialect == "responses":
        data = {"type": "error", "code": "server_error", "message": said, "param": None, "sequence_number": 99}
        return event(data, "error")
    return event({"error": {"type": "server_error", "message": said, "param": None, "code": "server_error"}})


# chat completions

def chat_usage():
    return {
        "prompt_tokens": USAGE["input"], "completion_tokens": USAGE["output"],
        "total_tokens": USAGE["input"] + USAGE["output"],
        "prompt_tokens_details": {"cached_tokens": USAGE["cached"], "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": USAGE["reasoning"], "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
        },
    }


CHAT_FINISH = {"stop": "stop", "tools": "tool_calls", "length": "length"}


def chat_whole(answer):
    message = {"role": "assistant", "content": joined(answer, "text"), "refusal": joined(answer, "refuse"), "annotations": []}
    if thoughts := joined(answer, "think"):
        message["reasoning_content"] = thoughts
    if made := calls(answer):
        message["tool_calls"] = [
            {"id": identifier, "type": "function", "function": {"name": name, "arguments": "".join(fragments)}}
            for _, identifier, name, fragments in made
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": CHAT_FINISH[answer.finish]}
    return {
        "id": "chatcmpl-scripted", "object": "chat.completion", "created": CREATED, "model": MODEL, "choices": [choice],
        "usage": chat_usage(), "service_tier": "default", "system_fingerprint": "fp_scripted",
    }


def chat_stream(answer, seen):
    def chunk(delta, finish=None, **more):
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}] if delta is not None else []
        if seen["include_usage"]:
            more.setdefault("usage", None)
        return event({
            "id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": CREATED, "model": MODEL,
            "service_tier": "default", "system_fingerprint": "fp_scripted", "choices": choices, **more,
        })

    frames = [chunk({"role": "assistant", "content": "", "refusal": None})]
    index = 0
    for piece in answer.pieces:
        match piece:
            case ("text", text):
                frames.append(chunk({"content": text}))
            case ("think", text):
                frames.append(chunk({"reasoning_content": text}))
            case ("refuse", text):
                frames.append(chunk({"refusal": text}))
            case ("call", identifier, name, fragments):
                begun = {"index": index, "id": identifier, "type": "function", "function": {"name": name, "arguments": ""}}
                frames.append(chunk({"tool_calls": [begun]}))
                for fragment in fragments:
                    frames.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}))
                index += 1
    if answer.end == "whole":
        frames.append(chunk({}, CHAT_FINISH[answer.finish]))
        if seen["include_usage"]:
            frames.append(chunk(None, usage=chat_usage()))
        frames.append(b"data: [DONE]\n\n")
    return frames


# completions

def completions_whole(answer):
    choice = {"index": 0, "text": joined(answer, "text"), "logprobs": None, "finish_reason": CHAT_FINISH[answer.finish]}
    return {
        "id": "cmpl-scripted", "object": "text_completion", "created": CREATED, "model": MODEL, "choices": [choice],
        "usage": chat_usage(),
    }


def completions_stream(answer, seen):
    def chunk(text, finish=None, **more):
        choices = [{"index": 0, "text": text, "logprobs": None, "finish_reason": finish}] if text is not None else []
        head = {"id": "cmpl-scripted", "object": "text_completion", "created": CREATED, "model": MODEL}
        return event({**head, "choices": choices, **more})

    frames = [chunk(text) for _, text in answer.pieces] + [chunk("", CHAT_FINISH[answer.finish])]
    if seen["include_usage"]:
        frames.append(chunk(None, usage=chat_usage()))
    return [*frames, b"data: [DONE]\n\n"]


# responses

def responses_items(answer):
    """The items of the answer, each with the fragments that it is streamed in."""
    items, thoughts, said = [], [], []
    for piece in answer.pieces:
        match piece:
            case ("think", text):
                thoughts.append(text)
            case ("text" | "refuse" as kind, text):
                said.append((kind, text))
            case _:
                pass
    if thoughts:
        summary = [{"type": "summary_text", "text": "".join(thoughts)}]
        items.append(({"type": "reasoning", "id": "rs_scripted", "summary": summary}, thoughts))
    if said:
        text = "".join(text for _, text in said)
        part = {"type": "refusal", "refusal": text}
        if said[0][0] == "text":
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": "msg_scripted", "status": "completed", "role": "assistant", "content": [part]}
        items.append((message, [text for _, text in said]))
    for number, (_, identifier, name, fragments) in enumerate(calls(answer)):
        item = {
            "type": "function_call", "id": f"fc_scripted_{number}", "status": "completed", "call_id": identifier,
            "name": name, "arguments": "".join(fragments),
        }
        items.append((item, fragments))
    return items


def response(answer, status, items):
    done = status in ["completed", "incomplete"]
    usage = {
        "input_tokens": USAGE["input"], "input_tokens_details": {"cached_tokens": USAGE["cached"]},
        "output_tokens": USAGE["output"], "output_tokens_details": {"reasoning_tokens": USAGE["reasoning"]},
        "total_tokens": USAGE["input"] + USAGE["output"],
    }
    return {
        "id": "resp_scripted", "object": "response", "created_at": CREATED, "status": status, "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None, "instructions": None,
        "max_output_tokens": None, "model": MODEL, "output": items, "parallel_tool_calls": True,
        "previous_response_id": None, "reasoning": {"effort": None, "summary": None}, "store": True, "temperature": 1.0,
        "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": 1.0, "truncation": "disabled",
        "usage": usage if done else None, "user": None, "metadata": {},
    }


def responses_end(answer):
    return "incomplete" if answer.finish == "length" else "completed"


def responses_whole(answer):
    return response(answer, responses_end(answer), [item for item, _ in responses_items(answer)])


def responses_stream(answer, _seen):
    frames = []

    def tell(kind, **data):
        frames.append(event({"type": kind, "sequence_number": len(frames), **data}, kind))

    tell("response.created", response=response(answer, "in_progress", []))
    tell("response.in_progress", response=response(answer, "in_progress", []))
    for place, (item, fragments) in enumerate(responses_items(answer)):
        empty = {"reasoning": {"summary": []}, "message": {"content": []}, "function_call": {"arguments": ""}}
        begun = {**item, **empty[item["type"]]}
        if "status" in begun:
            begun["status"] = "in_progress"
        tell("response.output_item.added", output_index=place, item=begun)
        tell_item(tell, {"item_id": item["id"], "output_index": place}, item, fragments, answer.end == "whole")
        if answer.end == "whole":
            tell("response.output_item.done", output_index=place, item=item)
    if answer.end == "whole":
        end = responses_end(answer)
        tell(f"response.{end}", response=response(answer, end, [item for item, _ in responses_items(answer)]))
    return frames


def tell_item(tell, where, item, fragments, whole):
    if item["type"] == "function_call":
        kind, end = "response.function_call_arguments", {"arguments": item["arguments"], "name": item["name"]}
    elif item["type"] == "reasoning":
        where = {**where, "summary_index": 0}
        kind, end = "response.reasoning_summary_text", {"text": item["summary"][0]["text"]}
        part, name = item["summary"][0], "reasoning_summary_part"
        tell(f"response.{name}.added", **where, part={**part, "text": ""})
    else:
        where = {**where, "content_index": 0}
        part, name = item["content"][0], "content_part"
        key = "refusal" if part["type"] == "refusal" else "text"
        kind, end = f"response.{part['type']}", {key: part[key]}
        tell("response.content_part.added", **where, part={**part, key: ""})
    for fragment in fragments:
        tell(f"{kind}.delta", **where, delta=fragment, **({"logprobs": []} if kind.endswith("output_text") else {}))
    if whole:
        tell(f"{kind}.done", **where, **end)
        if item["type"] != "function_call":
            tell(f"response.{name}.done", **where, part=part)


# Anthropic's messages

ANTHROPIC_FINISH = {"stop": "end_turn", "tools": "tool_use", "length": "max_tokens"}


def anthropic_usage():
    return {
        "input_tokens": USAGE["input"] - USAGE["cached"], "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": USAGE["cached"], "output_tokens": USAGE["output"], "service_tier": "standard",
    }


def anthropic_blocks(answer):
    """The blocks of the answer, each with the deltas that it is streamed in."""
    blocks = []
    for kind, name in [("think", "thinking"), ("text", "text")]:
        texts = [piece[1] for piece in answer.pieces if piece[0] == kind]
        if not texts:
            continue
        block = {"type": name, name: "".join(texts)}
        deltas = [{"type": f"{name}_delta", name: text} for text in texts]
        if name == "thinking":
            block["signature"] = "c2VhbGVk"
            deltas.append({"type": "signature_delta", "signature": "c2VhbGVk"})
        blocks.append((block, deltas))
    for _, identifier, name, fragments in calls(answer):
        block = {"type": "tool_use", "id": identifier, "name": name, "input": json.loads("".join(fragments))}
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in ["", *fragments]]
        blocks.append((block, deltas))
    return blocks


def anthropic_message(content, stop_reason, usage):
    return {
        "id": "msg_scripted", "type": "message", "role": "assistant", "model": MODEL, "content": content,
        "stop_reason": stop_reason, "stop_sequence": None, "usage": usage,
    }


def anthropic_finish(answer):
    return "refusal" if joined(answer, "refuse") else ANTHROPIC_FINISH[answer.finish]


def anthropic_whole(answer):
    content = [block for block, _ in anthropic_blocks(answer)]
    return anthropic_message(content, anthropic_finish(answer), anthropic_usage())


def anthropic_stream(answer, _seen):
    begun = {**anthropic_usage(), "output_tokens": 1}
    frames = [event({"type": "message_start", "message": anthropic_message([], None, begun)}, "message_start")]
    for index, (block, deltas) in enumerate(anthropic_blocks(answer)):
        empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}
        begun = {"type": "content_block_start", "index": index, "content_block": {**block, **empty[block["type"]]}}
        frames.append(event(begun, "content_block_start"))
        if index == 0:
            frames.append(event({"type": "ping"}, "ping"))
        for delta in deltas:
            frames.append(event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta"))
        if answer.end == "whole":
            frames.append(event({"type": "content_block_stop", "index": index}, "content_block_stop"))
    if answer.end == "whole":
        delta = {"stop_reason": anthropic_finish(answer), "stop_sequence": None}
        frames.append(event({"type": "message_delta", "delta": delta, "usage": anthropic_usage()}, "message_delta"))
        frames.append(event({"type": "message_stop"}, "message_stop"))
    return frames


WHOLE = {
    "chat": chat_whole, "responses": responses_whole, "anthropic": anthropic_whole, "completions": completions_whole,
}
STREAM = {
    "chat": chat_stream, "responses": responses_stream, "anthropic": anthropic_stream, "completions": completions_stream,
}
