"""What the scripted provider says: a scene (the lane's model) and a request come to an answer, in no dialect yet.

It refuses to know dialects and sockets. Invariant: the same scene and request give the same answer.
"""

from dataclasses import dataclass, field

# Counts of every answer. `input` includes what came from a cache, `output` includes reasoning.
USAGE = {"input": 40, "cached": 16, "output": 21, "reasoning": 5}

# Scenes that end well, and scenes that make a lane cool down or keep it waiting.
SCENES = ["plain", "tools", "sight", "json", "refusal", "think", "length", "long"]
TROUBLES = ["bad", "limited", "limited-once", "unkeyed", "failing", "broken", "told", "hold", "mute"]


@dataclass
class Answer:
    """What is said: pieces are ("text", text), ("think", text), ("refuse", text) or ("call", id, name, fragments)."""

    pieces: list
    finish: str = "stop"  # stop, tools, length
    end: str = "whole"  # whole, cut (the connection is closed), told (an error event), hold (until the client goes)


@dataclass
class Refusal:
    """An error status and what is said about it."""

    status: int
    kind: str
    message: str
    headers: dict = field(default_factory=dict)
    details: dict | None = None


TEXT = ["The quick ", "brown fox", " jumps \u00fcber", " \U0001f98a", " \"quoted\"\n", "and done."]
# How often a long answer says it.
LONG = 300
THOUGHTS = ["First, ", "I think."]
# Arguments cut within a key, a number, an escape and a letter of two bytes.
CALLS = [
    ("call", "call_weather", "get_weather", ['{"ci', 'ty":"K\u00f6', 'ln \\', '"Mitte\\""', ',"days":1', "2}"]),
    ("call", "call_time", "get_time", ["{", '"zone":', '"Europe/Berlin"}']),
]


def answer(scene, seen, times):
    """The answer of a scene; `times` is how often this request was made before."""
    text = [("text", piece) for piece in TEXT]
    match scene:
        case "plain":
            return Answer(text)
        case "long":
            return Answer(text * LONG)
        case "length":
            return Answer(text[:3], finish="length")
        case "think":
            return Answer([("think", piece) for piece in THOUGHTS] + text)
        case "refusal":
            return Answer([("refuse", "I can't "), ("refuse", "do that.")])
        case "tools":
            return tools(seen)
        case "sight":
            return Answer([("text", f"I see {', '.join(seen['images']) or 'nothing'}.")])
        case "json":
            if seen["format"] is None:
                return Refusal(400, "invalid_request_error", "this scene wants a format")
            return Answer([("text", piece) for piece in ['{"na', 'me":"Ada"', ',"age":3', "6}"]])
        case "bad":
            return Refusal(400, "invalid_request_error", "the scene says that temperature is too hot")
        case "limited":
            return limited()
        case "limited-once":
            return limited() if times == 0 else Answer(text)
        case "unkeyed":
            return Refusal(401, "authentication_error", "the scene says that this key is wrong")
        case "failing":
            return Refusal(500, "server_error", "the scene says that the provider is ill")
        case "broken":
            return Answer(text[:2], end="cut")
        case "told":
            return Answer(text[:2], end="told")
        case "hold":
            return Answer(text[:2], end="hold")
        case "mute":
            return Answer([], end="hold")
    return Refusal(404, "not_found_error", f"there is no scene {scene}")


def limited():
    return Refusal(429, "rate_limit_error", "the scene says that this is too much", {"retry-after": "1"})


def tools(seen):
    """Two calls; when their results are there, a text made of them."""
    wanted = {piece[2] for piece in CALLS}
    if not seen["results"]:
        if set(seen["tools"]) != wanted:
            return Refusal(400, "invalid_request_error", f"this scene wants the tools {sorted(wanted)}")
        return Answer([("text", "Let me see."), *CALLS], finish="tools")
    if list(seen["results"]) != [piece[1] for piece in CALLS]:
        return Refusal(400, "invalid_request_error", f"results of other calls: {list(seen['results'])}")
    return Answer([("text", "It is "), ("text", " and ".join(seen["results"].values())), ("text", ".")])
