"""A small source of every kind, made up here: what the contract of importers is held against."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECRET = "sk-very-secret"
CHAT = {"model": "m-1", "messages": [{"role": "user", "content": "hi"}], "stream": True}


@dataclass(frozen=True, slots=True)
class Made:
    """What a source holds: its bytes, or a folder's files, and what an import of it must count."""

    data: bytes | dict[str, bytes]
    rows: int
    refused: int = 0
    timed: int = 0  # requests with an arrival
    frames_timed: int = 0  # requests of which a frame has a time
    zone: str | None = None

    def put(self, path: Path) -> Path:
        """Write it to a path, whose name says nothing."""
        if isinstance(self.data, bytes):
            path.write_bytes(self.data)
            return path
        for name, data in self.data.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        return path


def lines(*values: object) -> bytes:
    return b"".join((value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n" for value in values)


def tnetstring(value: object) -> bytes:
    """A value as mitmproxy writes it."""
    match value:
        case None:
            data, mark = b"", b"~"
        case bool():
            data, mark = str(value).lower().encode(), b"!"
        case int():
            data, mark = str(value).encode(), b"#"
        case float():
            data, mark = repr(value).encode(), b"^"
        case bytes():
            data, mark = value, b","
        case str():
            data, mark = value.encode(), b";"
        case list():
            data, mark = b"".join(map(tnetstring, value)), b"]"
        case dict():
            data, mark = b"".join(tnetstring(of) for pair in value.items() for of in pair), b"}"
    return str(len(data)).encode() + b":" + data + mark


def har_entry(**changes: Any) -> dict[str, Any]:
    entry = {
        "startedDateTime": "2026-03-01T10:00:00.500Z",
        "_resourceType": "fetch",
        "request": {
            "method": "POST",
            "url": f"https://me:{SECRET}@api.example/v1/chat/completions?api-key={SECRET}&api-version=1",
            "headers": [
                {"name": ":authority", "value": "api.example"},
                {"name": "Authorization", "value": f"Bearer {SECRET}"},
                {"name": "Cookie", "value": f"session={SECRET}"},
                {"name": "Content-Type", "value": "application/json"},
                {"name": "Accept-Encoding", "value": "gzip"},
            ],
            "postData": {"mimeType": "application/json", "text": json.dumps(CHAT, separators=(", ", ":"))},
        },
        "response": {
            "status": 200,
            "headers": [{"name": "set-cookie", "value": SECRET}, {"name": "server", "value": "x"}],
            "content": {"mimeType": "text/event-stream", "text": 'data: {"a":1}\n\ndata: [DONE]\n\n'},
        },
    }
    return entry | changes


TIMED_EVENTS = [
    {"time": 1772359200.75, "eventName": "message", "eventId": "", "data": '{"a":1}'},
    {"time": 1772359201.25, "eventName": "end", "eventId": "7", "data": "x\ny"},
]


def har(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"log": {"version": "1.2", "pages": [{"id": "p", "title": "]}"}], "entries": entries}}).encode()


def flow(**changes: Any) -> dict[str, Any]:
    return {
        "version": 21,
        "type": "http",
        "id": "f-1",
        "error": None,
        "request": {
            "method": b"POST",
            "scheme": b"https",
            "host": "api.example",
            "port": 443,
            "path": f"/v1/chat/completions?key={SECRET}".encode(),
            "headers": [[b"X-Api-Key", SECRET.encode()], [b"content-type", b"application/json"]],
            "content": json.dumps(CHAT).encode(),
            "timestamp_start": 1772359200.5,
        },
        "response": {
            "status_code": 200,
            "headers": [[b"content-type", b"text/event-stream"]],
            "content": b"data: 1\n\ndata: [DONE]\n\n",
            "timestamp_start": 1772359200.6,
        },
    } | changes


def rrpair_markdown(request: str = "### REQUEST ###", *, body: str = '{\n  "model": "m-1"\n}') -> bytes:
    return f"""{request}
```
POST http://localhost:3000/v1/chat/completions?token={SECRET} HTTP/1.1
Accept: text/event-stream\\, text/plain, */*
Authorization: Bearer {SECRET}
Content-Type: application/json
```

```
{body}
```

### RESPONSE ###
```
HTTP/1.1 200 OK
Content-Type: text/event-stream
```

```
data: 1

data: [DONE]

```

### METADATA ###
```
direction: IN
uuid: e252ee74-7c7c-4525-9a6a-a1242dcd203a
ts: 2026-03-01T10:00:00.203304001Z
duration: 12ms
tags: source=goproxy
```
""".encode()


def rrpair_json(at: str = "2026-03-01T10:00:01Z", **changes: Any) -> dict[str, Any]:
    return {
        "msgType": "rrpair",
        "ts": at,
        "l7protocol": "http",
        "duration": 5,
        "http": {
            "req": {
                "uri": "/v1/chat/completions",
                "method": "POST",
                "host": "h",
                "headers": {"Authorization": [SECRET], "X-Two": ["a", "b"]},
                "bodyBase64": base64.b64encode(json.dumps(CHAT, indent=2).encode()).decode(),
            },
            "res": {"statusCode": 200, "contentType": "application/json", "bodyBase64": "e30="},
        },
    } | changes


def litellm(**changes: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "trace_id": "t-1",
        "call_type": "acompletion",
        "stream": True,
        "status": "success",
        "startTime": 1772359200.25,
        "completionStartTime": 1772359200.5,
        "endTime": 1772359201.25,
        "model": "gpt-4o",
        "model_group": "m-1",
        "messages": [{"role": "user", "content": "hi"}],
        "model_parameters": {"max_tokens": 64, "temperature": 0, "api_key": SECRET, "extra_headers": {"a": SECRET}},
        "prompt_tokens": 9,
        "completion_tokens": 12,
        "response": {"choices": []},
        "metadata": {"user_api_key_hash": SECRET},
    } | changes


def langfuse(**changes: Any) -> dict[str, Any]:
    return {
        "id": "o-1",
        "traceId": "t-1",
        "type": "GENERATION",
        "startTime": "2026-03-01T10:00:00.250Z",
        "completionStartTime": "2026-03-01T10:00:00.500Z",
        "endTime": "2026-03-01T10:00:01.250Z",
        "model": "m-1",
        "modelParameters": {"temperature": 0, "max_tokens": 64},
        "input": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "output": {"role": "assistant", "content": "hello"},
        "usageDetails": {"input": 9, "output": 12},
    } | changes


def aiperf(**changes: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "session_num": 0,
            "x_request_id": "r-1",
            "x_correlation_id": "c-1",
            "request_start_ns": 1_772_359_200_250_000_001,
            "benchmark_phase": "profiling",
        },
        "metrics": {
            "input_sequence_length": {"value": 550, "unit": "tokens"},
            "output_sequence_length": {"value": 3, "unit": "tokens"},
            "time_to_first_token": {"value": 100.5, "unit": "ms"},
            "inter_chunk_latency": {"value": [10.0, 20.25], "unit": "ms"},
        },
        "error": None,
    } | changes


def vllm(**changes: Any) -> dict[str, Any]:
    return {
        "date": "20260301-100000",
        "model_id": "m-1",
        "num_prompts": 3,
        "input_lens": [100, 200, 300],
        "output_lens": [3, 1, 0],
        "ttfts": [0.1, 0.2, 0.0],
        "itls": [[0.01, 0.02], [], []],
        "start_times": [5000.5, 5000.75, 5001.0],
        "generated_texts": ["a", "b", ""],
        "errors": ["", "", "refused"],
    } | changes


MADE: dict[str, Callable[[], Made]] = {
    "loadgen": lambda: Made(
        lines(
            {"path": "/v1/chat/completions", "at_s": 0.5, "body": CHAT, "class": "a"},
            {"path": "/v1/models"},
            b"{",
            {"path": "/v1/chat/completions", "at_s": 2.0, "response": {"status": 200, "frames": [{"ms": 1.5}]}},
        ),
        rows=3,
        refused=1,
        timed=2,
        frames_timed=1,
    ),
    "openai-batch": lambda: Made(
        lines(
            {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": CHAT},
            {"custom_id": "b", "method": "POST", "url": f"https://h/v1/responses?key={SECRET}", "body": {"input": "x"}},
            {"custom_id": "c", "method": "POST", "body": CHAT},
        ),
        rows=2,
        refused=1,
    ),
    "sharegpt": lambda: Made(
        json.dumps(
            [
                {
                    "id": "x",
                    "conversations": [
                        {"from": "gpt", "value": "before anybody asked"},
                        {"from": "human", "value": "one"},
                        {"from": "gpt", "value": "1"},
                        {"from": "human", "value": "two"},
                    ],
                },
                {"id": "y", "conversations": []},
                {"id": "z", "conversations": [{"from": "human", "value": "three"}]},
            ],
            indent=2,
        ).encode(),
        rows=3,
        refused=1,
    ),
    "har": lambda: Made(
        har(
            har_entry(),
            har_entry(_eventSourceMessages=TIMED_EVENTS, startedDateTime="2026-03-01T12:00:00.500+02:00"),
            har_entry(request={"method": "OPTIONS", "url": "https://h/v1"}),
            har_entry(request={"method": "GET", "url": "data:text/plain,x"}),
        ),
        rows=2,
        refused=2,
        timed=2,
        frames_timed=1,
        zone="+02:00, UTC",
    ),
    "rrpair": lambda: Made(
        {
            "host/1.md": rrpair_markdown(),
            "host/2.md": rrpair_markdown("### REQUEST (MOCK) ###", body="plain\n```json"),
            "host/3.json": json.dumps(rrpair_json()).encode(),
            "host/4.json": json.dumps(rrpair_json(l7protocol="postgres", http=None)).encode(),
            "host/5.md": b"",
            "host/readme.txt": b"not a pair",
        },
        rows=3,
        refused=2,
        timed=3,
        zone="UTC",
    ),
    "litellm": lambda: Made(
        lines(litellm(), litellm(stream=False, completionStartTime=None), litellm(call_type="aembedding")),
        rows=2,
        refused=1,
        timed=2,
        frames_timed=2,
        zone="UTC",
    ),
    "langfuse": lambda: Made(
        json.dumps([langfuse(), langfuse(type="SPAN"), langfuse(completionStartTime=None, endTime=None)]).encode(),
        rows=2,
        refused=1,
        timed=2,
        frames_timed=1,
        zone="UTC",
    ),
    "aiperf": lambda: Made(
        lines(aiperf(), aiperf(metrics={"error_isl": {"value": 5}}, error={"code": 499})),
        rows=1,
        refused=1,
        timed=1,
        frames_timed=1,
        zone="UTC",
    ),
    "aiperf-inputs": lambda: Made(
        json.dumps(
            {"data": [{"session_id": "s", "payloads": [CHAT, CHAT]}, {"session_id": "t", "payloads": []}]}
        ).encode(),
        rows=2,
        refused=1,
    ),
    "vllm": lambda: Made(json.dumps(vllm()).encode(), rows=2, refused=1, timed=2, frames_timed=2),
    "vllm-dataset": lambda: Made(
        lines({"prompt": "one", "output_tokens": 10}, {"prompt": "two"}, {"prompt": 3}), rows=2, refused=1
    ),
    "mitmproxy": lambda: Made(
        tnetstring(flow()) + tnetstring(flow(type="tcp")) + tnetstring(flow(error={"msg": "gone"}))[:-9],
        rows=1,
        refused=2,
        timed=1,
        zone="UTC",
    ),
    "mooncake": lambda: Made(
        lines(
            {"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [0, 1]},
            {"timestamp": 2999, "input_length": 600, "output_length": 7, "hash_ids": [0, 2]},
            {"timestamp": 6000, "input_length": 600, "output_length": 0, "hash_ids": [0, 2]},
        ),
        rows=2,
        refused=1,
        timed=2,
    ),
    "bailian": lambda: Made(
        lines(
            *(
                {
                    "chat_id": chat,
                    "parent_chat_id": parent,
                    "timestamp": at,
                    "input_length": 40,
                    "output_length": 9,
                    "type": "text",
                    "turn": 1,
                    "hash_ids": [7, 8, 9],
                }
                for chat, parent, at in ((3, -1, 61.114), (4, 3, 62.5), (9, 4, 63.25))
            ),
            {"chat_id": "x", "timestamp": 1, "input_length": 4, "output_length": 1},
        ),
        rows=3,
        refused=1,
        timed=3,
    ),
    "azure": lambda: Made(
        b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        b"2024-05-10 00:00:00.009930+00:00,2162,5\r\n"
        b"2024-05-10 00:00:00+00:00,2399,6\r\n"
        b"2024-05-10 00:00:01.5+00:00,10\r\n",
        rows=2,
        refused=1,
        timed=2,
        zone="+00:00",
    ),
    "burstgpt": lambda: Made(
        b"Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        b"19440110.0,s-1,43,GPT-4,906,446,1352,Conversation log\n"
        b"19440161.0,s-1,2,ChatGPT,36,29,65,API log\n"
        b"19440161.0,s-2,2,ChatGPT,36,0,36,API log\n",
        rows=2,
        refused=1,
        timed=2,
    ),
}
