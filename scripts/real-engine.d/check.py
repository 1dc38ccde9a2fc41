"""Send one streaming chat completion with the standard library alone and print each event as it arrives.

A second opinion that shares no code with tokrate: time to first text, the speed after it, and the engine's timings.
"""

import argparse
import http.client
import json
import time


def main() -> None:
    args = parse_args()
    body = {
        "model": "random",
        "messages": [{"role": "user", "content": args.prompt}],
        "max_tokens": args.output_tokens,
        "temperature": args.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
        **json.loads(args.extra),
    }
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {args.api_key}"}
    connection = http.client.HTTPConnection("127.0.0.1", args.port, timeout=60)
    connection.connect()
    began = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    response = connection.getresponse()
    texts, last = [], {}
    while line := response.readline():
        now = time.perf_counter() - began
        if not line.startswith(b"data: "):
            if line.strip():
                print(f"{now * 1e3:9.2f} ms  {line.decode().rstrip()}")
            continue
        payload = line[6:].strip()
        event = {} if payload == b"[DONE]" else json.loads(payload)
        last = event or last
        delta = (event.get("choices") or [{}])[0].get("delta", {})
        if text := delta.get("reasoning_content") or delta.get("content"):
            texts.append((now, text))
        if not args.quiet:
            print(f"{now * 1e3:9.2f} ms  {payload.decode()}")
    report(texts, last)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--api-key", default="")
    parser.add_argument("--prompt", default="Write about the sea.")
    parser.add_argument("--output-tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--extra", default="{}", help="JSON object merged into the request")
    parser.add_argument("--quiet", action="store_true", help="print the summary alone")
    return parser.parse_args()


def report(texts: list[tuple[float, str]], last: dict) -> None:
    tokens = last.get("usage", {}).get("completion_tokens")
    if len(texts) < 2 or not tokens:
        print(f"{len(texts)} text chunks, usage {last.get('usage')}: too little for a speed")
        return
    first, end = texts[0][0], texts[-1][0]
    timings = last.get("timings", {})
    print(f"chunks with text    {len(texts)} for {tokens} tokens")
    print(f"first text          {first * 1e3:.2f} ms    engine's prompt_ms           {timings.get('prompt_ms')}")
    print(f"speed after it      {(tokens - 1) / (end - first):.1f} tok/s  engine's predicted_per_second {timings.get('predicted_per_second')}")


if __name__ == "__main__":
    main()
