"""OpenAI's SDK for Python against the gateway: sessions of the realtime API with the simulated engine. Part of the suite of
`openai_checks`; the second check speaks `websockets` itself, as a browser would."""

import asyncio
import json

import openai
import websockets
from harness import GATEWAY, KEY, check, same
from __main__ import SETTINGS, client

ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "How fast are you?"}]}


@check("a realtime session: two responses of text, with their counts")
def _(mark):
    with client.realtime.connect(model="sim") as session:
        same(session.recv().type, "session.created")
        session.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        same(session.recv().type, "session.updated")
        for _ in range(2):
            session.conversation.item.create(item=ITEM)
            session.response.create(response={"max_output_tokens": 24})
            events = []
            for event in session:
                events.append(event)
                if event.type == "response.done":
                    break
            text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
            response = events[-1].response
            same((response.status, response.output[0].content[0].text), ("completed", text))
            same((response.usage.output_tokens, response.usage.output_token_details.text_tokens), (24, 24))
            assert text and response.usage.input_tokens > 0, response.usage


@check("a realtime session of sound, asynchronously")
def _(mark):
    async def spoken():
        async with openai.AsyncOpenAI(**SETTINGS) as asynchronous, asynchronous.realtime.connect(model="sim") as session:
            await session.conversation.item.create(item=ITEM)
            await session.response.create(response={"output_modalities": ["audio"], "max_output_tokens": 8})
            sounds = 0
            async for event in session:
                sounds += event.type == "response.output_audio.delta"
                if event.type == "response.done":
                    same(event.response.usage.output_token_details.audio_tokens, 8)
                    assert sounds > 0
                    return

    asyncio.run(spoken())


@check("a realtime session as a browser opens it, and its close code")
def _(mark):
    async def opened():
        address = GATEWAY.replace("http://", "ws://") + "/v1/realtime?model=sim"
        protocols = ["realtime", f"openai-insecure-api-key.{KEY}"]
        async with websockets.connect(address, subprotocols=protocols, proxy=None) as socket:
            same(socket.subprotocol, "realtime")
            same(json.loads(await socket.recv())["type"], "session.created")
            await (await socket.ping())
            await socket.close(code=3001)
            same(socket.close_code, 3001)
        for wrong, status in [("openai-insecure-api-key.wrong", 401), ("openai-insecure-api-key.", 401)]:
            try:
                await websockets.connect(address, subprotocols=["realtime", wrong], proxy=None)
            except websockets.InvalidStatus as refused:
                same(refused.response.status_code, status)
            else:
                raise AssertionError("it was let in")

    asyncio.run(opened())
