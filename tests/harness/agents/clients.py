"""Agents as functions that ask their model by the official packages of OpenAI and Anthropic, in
each API, streamed and not. All do what the model says."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from anthropic import Anthropic
from fastmcp import Client
from fastmcp.exceptions import ToolError
from openai import OpenAI

Calls = Iterable[tuple[str, str, Any]]  # the id, name and arguments of each


def _results(env: Any, calls: Calls) -> list[tuple[str, str]]:
    """The id of each call with the text of its result."""
    return [(id, env.call(name, arguments).text) for id, name, arguments in calls]


def _chat(task: Any, env: Any, *, streams: bool) -> str:
    tools: Any = [
        {"type": "function", "function": {"name": tool.name, "parameters": tool.schema}}
        for tool in env.tools
    ]
    messages: Any = [{"role": "user", "content": task.instruction}]
    asked: Any = {"model": task.model, "tools": tools, "messages": messages}
    with OpenAI(base_url=task.model_url, api_key=task.key) as client:
        while True:
            if streams:
                with client.chat.completions.stream(
                    **asked, stream_options={"include_usage": True}
                ) as stream:
                    completion: Any = stream.get_final_completion()
            else:
                completion = client.chat.completions.create(**asked)
            assert completion.usage.total_tokens >= 0
            message = completion.choices[0].message
            if not message.tool_calls:
                return str(message.content)
            messages.append(message.model_dump(exclude_none=True))
            calls = [
                (call.id, call.function.name, json.loads(call.function.arguments))
                for call in message.tool_calls
            ]
            for id, text in _results(env, calls):
                messages.append({"role": "tool", "tool_call_id": id, "content": text})


def _responses(task: Any, env: Any, *, streams: bool) -> str:
    """Without streams the server keeps the conversation."""
    tools: Any = [
        {"type": "function", "name": tool.name, "parameters": tool.schema, "strict": False}
        for tool in env.tools
    ]
    items: Any = [{"role": "user", "content": task.instruction}]
    asked: Any = {"model": task.model, "tools": tools}
    with OpenAI(base_url=task.model_url, api_key=task.key) as client:
        while True:
            if streams:
                with client.responses.stream(**asked, input=items) as stream:
                    response: Any = stream.get_final_response()
                items += response.output
            else:
                response = client.responses.create(**asked, input=items)
                asked["previous_response_id"], items = response.id, []
            assert response.status == "completed"
            called = [item for item in response.output if item.type == "function_call"]
            if not called:
                return str(response.output_text)
            calls = [(one.call_id, one.name, json.loads(one.arguments)) for one in called]
            for id, text in _results(env, calls):
                items.append({"type": "function_call_output", "call_id": id, "output": text})


def _messages(task: Any, env: Any, *, streams: bool) -> str:
    tools: Any = [{"name": tool.name, "input_schema": tool.schema} for tool in env.tools]
    messages: Any = [{"role": "user", "content": task.instruction}]
    asked: Any = {"model": task.model, "max_tokens": 1000, "tools": tools, "messages": messages}
    with Anthropic(base_url=task.anthropic_url, api_key=task.key) as client:
        assert client.messages.count_tokens(**_without(asked, "max_tokens")).input_tokens > 0
        while True:
            if streams:
                with client.messages.stream(**asked) as stream:
                    message: Any = stream.get_final_message()
            else:
                message = client.messages.create(**asked)
            if message.stop_reason != "tool_use":
                return str(message.content[0].text)
            calls = [
                (one.id, one.name, one.input) for one in message.content if one.type == "tool_use"
            ]
            results = [
                {"type": "tool_result", "tool_use_id": id, "content": text}
                for id, text in _results(env, calls)
            ]
            shown = [block.model_dump(exclude_none=True) for block in message.content]
            messages += [
                {"role": "assistant", "content": shown},
                {"role": "user", "content": results},
            ]


def _without(asked: dict[str, Any], name: str) -> Any:
    return {key: value for key, value in asked.items() if key != name}


def chat(task: Any, env: Any) -> str:
    return _chat(task, env, streams=False)


def chat_streamed(task: Any, env: Any) -> str:
    return _chat(task, env, streams=True)


def responses(task: Any, env: Any) -> str:
    return _responses(task, env, streams=False)


def responses_streamed(task: Any, env: Any) -> str:
    return _responses(task, env, streams=True)


def messages(task: Any, env: Any) -> str:
    return _messages(task, env, streams=False)


def messages_streamed(task: Any, env: Any) -> str:
    return _messages(task, env, streams=True)


async def over_mcp(task: Any) -> str:
    """Makes a call that fails and one that is right, says something, by the client of fastmcp."""
    async with Client(task.mcp_url) as client:
        typed = [schema for tool in await client.list_tools() for schema in _schemas(tool)]
        assert all("type" in schema for schema in typed if "enum" in schema)
        with pytest.raises(ToolError):
            await client.call_tool("get_gift_card", {"code": "LL-0000-0000"})
        heard = await client.call_tool("talk_to_user", {"text": "What's the code on the card?"})
        code = heard.content[0].text
        card = await client.call_tool("get_gift_card", {"code": "LL-8H2P-51TC"})
    return f"{code} {card.content[0].text}"


def _schemas(tool: Any) -> list[dict[str, Any]]:
    """The schemas of a tool's parameters, with their alternatives."""
    found = tool.input_schema["properties"].values()
    return [part for schema in found for part in (schema, *schema.get("anyOf", ()))]
