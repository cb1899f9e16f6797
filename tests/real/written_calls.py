"""Calls as a model wrote them, read by nothing but `re` and `json`: neither by our dialect nor by a
server's tool parser."""

import json
import re
from typing import Any, NamedTuple

_BLOCK = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


class Written(NamedTuple):
    """The calls in a reply."""

    calls: list[tuple[str, Any]]  # name and arguments of each block that is a call
    is_clean: bool  # whether there is no other tag, and no block that cannot be read


def written_calls(text: str) -> Written:
    """The calls in a text in the format of Hermes and Qwen.

    Example: '<tool_call>{"name": "ping", "arguments": {}}</tool_call>' -> [("ping", {})], clean
    """
    calls, is_clean = [], "tool_call>" not in _BLOCK.sub("", text)
    for block in _BLOCK.findall(text):
        try:
            value = json.loads(block)
            calls.append((value["name"], value["arguments"]))
        except (ValueError, KeyError, TypeError):
            is_clean = False
    return Written(calls, is_clean and all(isinstance(given, dict) for _, given in calls))
