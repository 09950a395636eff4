"""Ask a server through the official clients, and tell what they made of its streams.

    ask.py URL < questions

A question is a line `{"client", "wish", "cap", "prompt"}`, its answer a line: what was said of each kind, the calls,
why it ended, the usage, the error, and what a strict reading of the client's own types complains of. Needs openai,
anthropic, ollama and boto3; nothing of the project.
"""

import json
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache
from typing import Any

import anthropic
import boto3
import botocore.exceptions
import ollama
import openai
import pydantic
from botocore.config import Config

MODEL = "sim:1"
TOOL = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
ONCE = {"max_retries": 0, "timeout": 20.0}
AWS = {"region": "us-east-1", "access_key": "none", "secret_key": "none"}


class Seen:
    """What one answer came to."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {
            "text": "", "reasoning": "", "calls": [], "finish": None, "usage": {}, "error": None, "complaints": [],
        }  # fmt: skip

    def say(self, kind: str, text: str | None) -> None:
        self.told[kind] += text or ""

    def call(self, id: str | None, name: str, arguments: object = "") -> None:
        self.told["calls"].append({"id": id, "name": name, "arguments": arguments})

    def argue(self, text: str | None) -> None:
        self.told["calls"][-1]["arguments"] += text or ""

    def finish(self, reason: str | None) -> None:
        self.told["finish"] = reason or self.told["finish"]

    def use(self, read: int | None, written: int | None, reasoning: int | None = None) -> None:
        self.told["usage"] = {"input": read, "output": written, "reasoning": reasoning}

    def fail(self, error: str, status: int | None = None, word: str | None = None) -> None:
        self.told["error"] = {"type": error, "status": status, "word": word}

    def check(self, said: pydantic.BaseModel, *, but: str = "") -> None:
        """Read a value again by the types that the client claims for it: by itself it takes anything."""
        try:
            type(said).model_validate(said.model_dump(mode="json", exclude_unset=True, by_alias=True))
        except pydantic.ValidationError as error:
            for one in error.errors():
                place = ".".join(map(str, one["loc"]))
                if not (but and place.endswith(but)):
                    self.told["complaints"].append(f"{type(said).__name__}.{place}: {one['msg']}")


class Asked:
    """One question, as each client wants it."""

    def __init__(self, url: str, *, wish: str, cap: int | None, prompt: str) -> None:
        self.url = url
        self.headers = {"x-sim": wish} if wish else {}
        self.cap = cap
        self.prompt = prompt
        self.messages = [{"role": "user", "content": prompt}]

    def capped(self, name: str) -> dict[str, Any]:
        return {} if self.cap is None else {name: self.cap}


# OpenAI.


@cache
def openai_client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", **ONCE)


def openai_chat(asked: Asked, seen: Seen) -> None:
    stream = openai_client(asked.url).chat.completions.create(
        model=MODEL, messages=asked.messages, stream=True, stream_options={"include_usage": True},
        extra_headers=asked.headers, **asked.capped("max_completion_tokens"),
    )  # fmt: skip
    for chunk in stream:
        take_chunk(chunk, seen)


def openai_chat_helper(asked: Asked, seen: Seen) -> None:
    tool = {"type": "function", "function": {"name": "look_up", "parameters": TOOL, "strict": True}}
    with openai_client(asked.url).chat.completions.stream(
        model=MODEL, messages=asked.messages, tools=[tool], stream_options={"include_usage": True},
        extra_headers=asked.headers,
    ) as stream:  # fmt: skip
        for event in stream:
            if event.type == "chunk" and event.chunk.choices:
                seen.say("reasoning", getattr(event.chunk.choices[0].delta, "reasoning_content", None))
        whole = stream.get_final_completion()
    choice = whole.choices[0]
    seen.say("text", choice.message.content)
    for call in choice.message.tool_calls or ():
        seen.call(call.id, call.function.name, call.function.arguments)
        assert call.function.parsed_arguments == json.loads(call.function.arguments)
    seen.finish(choice.finish_reason)
    take_openai_usage(whole.usage, seen)


def take_chunk(chunk: Any, seen: Seen) -> None:
    seen.check(chunk)
    for choice in chunk.choices:
        seen.say("reasoning", getattr(choice.delta, "reasoning_content", None))
        seen.say("text", choice.delta.content)
        for call in choice.delta.tool_calls or ():
            if call.index == len(seen.told["calls"]):
                seen.call(call.id, call.function.name)
            seen.argue(call.function.arguments)
        seen.finish(choice.finish_reason)
    take_openai_usage(chunk.usage, seen)


def take_openai_usage(usage: Any, seen: Seen) -> None:
    if usage is not None:
        details = usage.completion_tokens_details
        seen.use(usage.prompt_tokens, usage.completion_tokens, details and details.reasoning_tokens)


def openai_completions(asked: Asked, seen: Seen) -> None:
    stream = openai_client(asked.url).completions.create(
        model=MODEL, prompt=asked.prompt, stream=True, stream_options={"include_usage": True},
        extra_headers=asked.headers, **asked.capped("max_tokens"),
    )  # fmt: skip
    for chunk in stream:
        seen.check(chunk, but="finish_reason")  # OpenAI itself says null there until the end, against this type
        for choice in chunk.choices:
            seen.say("text", choice.text)
            seen.finish(choice.finish_reason)
        take_openai_usage(chunk.usage, seen)


def openai_responses(asked: Asked, seen: Seen) -> None:
    stream = openai_client(asked.url).responses.create(
        model=MODEL, input=asked.prompt, stream=True, extra_headers=asked.headers, **asked.capped("max_output_tokens")
    )
    for place, event in enumerate(stream):
        seen.check(event)
        if event.sequence_number != place:
            seen.told["complaints"].append(f"event {place} has the number {event.sequence_number}")
        match event.type:
            case "response.output_text.delta":
                seen.say("text", event.delta)
            case "response.reasoning_text.delta":
                seen.say("reasoning", event.delta)
            case "response.function_call_arguments.delta":
                seen.argue(event.delta)
            case "response.output_item.added" if event.item.type == "function_call":
                seen.call(event.item.call_id, event.item.name)
            case "error":
                seen.fail("error", word=event.code)
            case "response.failed":
                seen.fail("response.failed", word=event.response.error.code)
            case "response.completed" | "response.incomplete":
                take_response(event.response, seen)


def openai_responses_helper(asked: Asked, seen: Seen) -> None:
    tool = {"type": "function", "name": "look_up", "parameters": TOOL, "strict": True}
    with openai_client(asked.url).responses.stream(
        model=MODEL, input=asked.prompt, tools=[tool], extra_headers=asked.headers
    ) as stream:
        whole = stream.get_final_response()
    seen.say("text", whole.output_text)
    for item in whole.output:
        if item.type == "function_call":
            seen.call(item.call_id, item.name, item.arguments)
            assert item.parsed_arguments == json.loads(item.arguments)
        elif item.type == "reasoning":
            seen.say("reasoning", "".join(part.text for part in item.content or ()))
    take_response(whole, seen)


def take_response(response: Any, seen: Seen) -> None:
    details, usage = response.incomplete_details, response.usage
    seen.finish(details.reason if details else response.status)
    seen.use(usage.input_tokens, usage.output_tokens, usage.output_tokens_details.reasoning_tokens)


# Anthropic.


@cache
def anthropic_client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="none", **ONCE)


@cache
def anthropic_bedrock_client(url: str) -> anthropic.AnthropicBedrock:
    return anthropic.AnthropicBedrock(base_url=url, **{f"aws_{name}": value for name, value in AWS.items()}, **ONCE)


def anthropic_messages(asked: Asked, seen: Seen) -> None:
    take_messages(anthropic_client(asked.url), asked, seen)


def anthropic_bedrock(asked: Asked, seen: Seen) -> None:
    take_messages(anthropic_bedrock_client(asked.url), asked, seen)


def take_messages(client: Any, asked: Asked, seen: Seen) -> None:
    stream = client.messages.create(
        model=MODEL, messages=asked.messages, max_tokens=asked.cap or 1000, stream=True, extra_headers=asked.headers
    )
    for event in stream:
        seen.check(event)
        match event.type:
            case "content_block_start" if event.content_block.type == "tool_use":
                seen.call(event.content_block.id, event.content_block.name)
            case "content_block_delta":
                take_delta(event.delta, seen)
            case "message_delta":
                seen.finish(event.delta.stop_reason)
                details = event.usage.output_tokens_details
                seen.use(event.usage.input_tokens, event.usage.output_tokens, details and details.thinking_tokens)


def take_delta(delta: Any, seen: Seen) -> None:
    match delta.type:
        case "text_delta":
            seen.say("text", delta.text)
        case "thinking_delta":
            seen.say("reasoning", delta.thinking)
        case "input_json_delta":
            seen.argue(delta.partial_json)


def anthropic_helper(asked: Asked, seen: Seen) -> None:
    tool = {"name": "look_up", "input_schema": TOOL}
    with anthropic_client(asked.url).messages.stream(
        model=MODEL, messages=asked.messages, max_tokens=1000, tools=[tool], extra_headers=asked.headers
    ) as stream:
        whole = stream.get_final_message()
    for block in whole.content:
        match block.type:
            case "text":
                seen.say("text", block.text)
            case "thinking":
                seen.say("reasoning", block.thinking)
            case "tool_use":
                seen.call(block.id, block.name, json.dumps(block.input, separators=(",", ":")))
    seen.finish(whole.stop_reason)
    details = whole.usage.output_tokens_details
    seen.use(whole.usage.input_tokens, whole.usage.output_tokens, details and details.thinking_tokens)


# Ollama.


def ollama_client(asked: Asked) -> closing[ollama.Client]:
    return closing(ollama.Client(host=asked.url, headers=asked.headers, timeout=20, trust_env=False))


def ollama_options(asked: Asked) -> dict[str, Any]:
    return {"stream": True, "model": MODEL, "options": asked.capped("num_predict")}


def ollama_chat(asked: Asked, seen: Seen) -> None:
    with ollama_client(asked) as client:
        for line in client.chat(messages=asked.messages, **ollama_options(asked)):
            seen.check(line)
            seen.say("text", line.message.content)
            seen.say("reasoning", line.message.thinking)
            for call in line.message.tool_calls or ():
                seen.call(None, call.function.name, json.dumps(dict(call.function.arguments), separators=(",", ":")))
            take_ollama_end(line, seen)


def ollama_generate(asked: Asked, seen: Seen) -> None:
    with ollama_client(asked) as client:
        for line in client.generate(prompt=asked.prompt, **ollama_options(asked)):
            seen.check(line)
            seen.say("text", line.response)
            seen.say("reasoning", line.thinking)
            take_ollama_end(line, seen)


def take_ollama_end(line: Any, seen: Seen) -> None:
    if line.done:
        seen.finish(line.done_reason)
        seen.use(line.prompt_eval_count, line.eval_count)


# Bedrock.

_headers: dict[str, str] = {}  # of the next question


@cache
def boto3_client(url: str) -> Any:
    client = boto3.client(
        "bedrock-runtime", endpoint_url=url, region_name=AWS["region"], aws_access_key_id=AWS["access_key"],
        aws_secret_access_key=AWS["secret_key"],
        config=Config(retries={"total_max_attempts": 1}, read_timeout=20, proxies={}),
    )  # fmt: skip
    client.meta.events.register("before-sign.bedrock-runtime", add_headers)
    return client


def add_headers(request: Any, **_more: Any) -> None:
    for name, value in _headers.items():
        request.headers[name] = value


def bedrock_client(asked: Asked) -> Any:
    _headers.clear()
    _headers.update(asked.headers)
    return boto3_client(asked.url)


def bedrock_converse(asked: Asked, seen: Seen) -> None:
    answer = bedrock_client(asked).converse_stream(
        modelId=MODEL, messages=[{"role": "user", "content": [{"text": asked.prompt}]}],
        inferenceConfig=asked.capped("maxTokens"),
    )  # fmt: skip
    for event in answer["stream"]:
        ((name, member),) = event.items()
        match name:
            case "contentBlockStart":
                seen.call(member["start"]["toolUse"]["toolUseId"], member["start"]["toolUse"]["name"])
            case "contentBlockDelta":
                delta = member["delta"]
                seen.say("text", delta.get("text"))
                seen.say("reasoning", delta.get("reasoningContent", {}).get("text"))
                if "toolUse" in delta:
                    seen.argue(delta["toolUse"]["input"])
            case "messageStop":
                seen.finish(member["stopReason"])
            case "metadata":
                seen.use(member["usage"]["inputTokens"], member["usage"]["outputTokens"])


def bedrock_invoke(asked: Asked, seen: Seen) -> None:
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": asked.cap or 1000, "messages": asked.messages}
    answer = bedrock_client(asked).invoke_model_with_response_stream(modelId=MODEL, body=json.dumps(body))
    for event in answer["body"]:
        said = pydantic.TypeAdapter(anthropic.types.RawMessageStreamEvent).validate_json(event["chunk"]["bytes"])
        seen.check(said)
        match said.type:
            case "content_block_start" if said.content_block.type == "tool_use":
                seen.call(said.content_block.id, said.content_block.name)
            case "content_block_delta":
                take_delta(said.delta, seen)
            case "message_delta":
                seen.finish(said.delta.stop_reason)
                details = said.usage.output_tokens_details
                seen.use(said.usage.input_tokens, said.usage.output_tokens, details and details.thinking_tokens)


CLIENTS: dict[str, Callable[[Asked, Seen], None]] = {
    "openai-chat": openai_chat,
    "openai-chat by its helper": openai_chat_helper,
    "openai-completions": openai_completions,
    "openai-responses": openai_responses,
    "openai-responses by its helper": openai_responses_helper,
    "anthropic": anthropic_messages,
    "anthropic by its helper": anthropic_helper,
    "ollama-chat": ollama_chat,
    "ollama-generate": ollama_generate,
    "bedrock-converse": bedrock_converse,
    "bedrock-anthropic": bedrock_invoke,
    "bedrock-anthropic by anthropic": anthropic_bedrock,
}


def answer_to(url: str, question: dict[str, Any]) -> dict[str, Any]:
    seen = Seen()
    client = CLIENTS[question["client"]]
    asked = Asked(url, wish=question["wish"], cap=question["cap"], prompt=question["prompt"])
    try:
        client(asked, seen)
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        body = error.body.get("error", error.body) if isinstance(error.body, dict) else {}
        seen.fail(type(error).__name__, error.status_code, body.get("type"))
    except openai.APIError as error:
        seen.fail(type(error).__name__, word=error.type)
    except ollama.ResponseError as error:
        seen.fail(type(error).__name__, error.status_code, error.error)
    except botocore.exceptions.ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"] if "ResponseMetadata" in error.response else None
        seen.fail(type(error).__name__, status, error.response["Error"]["Code"])
    return seen.told


def main(url: str, questions: Iterable[str]) -> None:
    for question in questions:
        print(json.dumps(answer_to(url, json.loads(question))), flush=True)


main(sys.argv[1], sys.stdin)
