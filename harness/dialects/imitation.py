"""Replies that imitate the environment: results that the model wrote itself, and calls as text.

A model that writes a result into its reply has not called the tool, and one that writes a call into
its answer has not made it. Where calls are read from the text (`hermes`, `awm`), both are
malformed. With tool calling of the chat API a call as text mostly means that the server has no tool
parser: the run counts and names it.
"""

import re

import msgspec

# What chat templates put around messages and results; models write it when they go on with the
# conversation by themselves.
_MARKERS = re.compile(
    r"</?tool_(?:response|result|output)s?>|<\|(?:im_start|im_end|start_header_id|end_header_id|eot_id"
    r"|user|assistant|system|observation|tool)\|>|<(?:start|end)_of_turn>|\[/?(?:TOOL_RESULTS|INST)\]"
    r"|<｜(?:tool▁outputs?▁begin|User|Assistant)｜>"
)
# How models write calls, each with the name of a function.
_CALLS = re.compile(
    r"<tool_call>|</tool_call>|<\|tool_call|<\|python_tag\|>|\[TOOL_CALLS\]|<function=[\w.-]+>"
    r"|<(?:｜DSML｜)?invoke name=|<｜tool[▁_]calls?[▁_]begin｜>|<｜DSML｜"
    r"|<(?:minimax|seed):tool_call>"
    r"|<\|START_ACTION\|>|<\|action_start\|>|<\|tools_prefix\|>|<TOOLCALL>|<function_calls?>"
    r"|\bto=functions\.[\w.-]+|```tool_code"
)
_NAMED = re.compile(r"""\{\s*["'](?:name|tool|function|tool_name)["']\s*:\s*["']([\w.:/-]+)["']""")
_ARGUMENTS = re.compile(r"""["'](?:arguments|parameters|args|input)["']\s*:""")
_BLOCKS = re.compile(r"<tool_call>.*?</tool_call>", re.DOTALL)


def imitated_result(text: str) -> str | None:
    """The marker of a message or result that a reply contains outside of its calls; None: none.

    Example: "Done. <tool_response>{}</tool_response>" -> "<tool_response>"
    """
    found = _MARKERS.search(_BLOCKS.sub("", text) if "<tool_call>" in text else text)
    return None if found is None else found[0]


def call_as_text(text: str) -> str | None:
    """The call that an answer contains as text, as far as its name; None: none.

    Example: '{"name": "list_notes", "arguments": {}}' -> "list_notes"
    Example: "<tool_call>…" -> "<tool_call>"
    """
    if found := _CALLS.search(text):
        return found[0]
    for named in _NAMED.finditer(text):
        if _ARGUMENTS.search(text, named.end(), named.end() + 40) or _is_call(text):
            return named[1]
    return None


def _is_call(text: str) -> bool:
    """Whether a text as a whole is the JSON of a call."""
    try:
        value = msgspec.json.decode(text.strip())
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "name" in value and len(value) <= 3


def imitation_fault(text: str, *, is_answer: bool) -> str | None:
    """Why a reply is malformed, as a sentence for the agent; None: it imitates nothing."""
    if (marker := imitated_result(text)) is not None:
        return f"The reply writes {marker} itself: results come from the tools only."
    if is_answer and (call := call_as_text(text)) is not None:
        return f"The answer contains a call as text ({call}), which was not made."
    return None
