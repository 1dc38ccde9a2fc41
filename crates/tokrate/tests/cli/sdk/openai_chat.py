"""Sends requests through OpenAI's published SDK for Python; prints what it makes of the answers as JSON."""

import json
import sys

import openai

asked = json.load(sys.stdin)
client = openai.OpenAI(api_key="none", base_url=asked["url"] + "/v1", max_retries=0)


def counts(usage):
    names = ["prompt_tokens", "completion_tokens", "total_tokens"]
    return usage and {name: getattr(usage, name) for name in names}


def answer(request):
    try:
        raw = client.chat.completions.with_raw_response.create(**request)
    except openai.APIStatusError as error:
        body = error.body or {}
        return {"status": error.status_code, "code": body.get("code"), "type": body.get("type"), "message": body.get("message")}
    apply = raw.headers.get("x-tokrate-apply")
    if not request.get("stream"):
        whole = raw.parse()
        choice = whole.choices[0]
        return {
            "apply": apply,
            "text": choice.message.content,
            "finish": choice.finish_reason,
            "usage": counts(whole.usage),
            "model": whole.model,
        }
    text, finish, usage, chunks = "", None, None, 0
    for chunk in raw.parse():
        chunks += 1
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
        usage = chunk.usage or usage
    return {"apply": apply, "text": text, "finish": finish, "usage": counts(usage), "chunks": chunks}


answers = [answer(request) for request in asked["requests"]]
models = [model.id for model in client.models.list()]
json.dump({"answers": answers, "models": models}, sys.stdout)
