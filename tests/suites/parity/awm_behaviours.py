"""What a fake model does with a task of Agent World Model, and what a fake judge answers.

A behaviour is a function of the task's reference and of the number of the reply: both sides of a
comparison get the same replies. `None` in a plan: the model's server answers with an error.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Reply = dict[str, Any] | str | None  # an assistant's message, its content, or an error
Plan = list[Reply]


class Reference(NamedTuple):
    """What is known of a task."""

    calls: list[dict[str, Any]]  # {tool, arguments}
    answer: str
    wrong: list[dict[str, Any]]  # calls of a near miss
    wrong_answer: str


LIST = '<tool_call>\n{"name": "list_tools", "arguments": null}\n</tool_call>'
NO_ANSWER = "That is all."
_PING = {"tool": "list_addresses", "arguments": {}}


def block(value: Any) -> str:
    """A value as a call."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"<tool_call>\n{text}\n</tool_call>"


def call(tool: str, arguments: Any, *, prefix: str = "mcp_tool_mcp_server_") -> str:
    """A call of a tool, as the released prompt asks for it; a text is sent as it is."""
    inner = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return block(
        {"name": "call_tool", "arguments": {"tool_name": prefix + tool, "arguments": inner}}
    )


def _calls(calls: list[dict[str, Any]], **options: Any) -> Plan:
    return [call(one["tool"], one["arguments"], **options) for one in calls]


def _right(task: Reference, before: Plan = [], after: Plan = []) -> Plan:  # noqa: B006
    return [LIST, *before, *_calls(task.calls), *after, task.answer]


def _like(make: Callable[[str, Any], Reply]) -> Callable[[Reference], Plan]:
    """The reference, each call in another form."""
    return lambda task: [
        LIST,
        *(make(one["tool"], one["arguments"]) for one in task.calls),
        task.answer,
    ]


def _after_list(*texts: Reply) -> Callable[[Reference], Plan]:
    """Some replies, and then the reference."""
    return lambda task: _right(task, [*texts])


def _name(name: Any, arguments: Any = None) -> str:
    return block({"name": name, "arguments": arguments})


def _tool(name: Any, arguments: Any = "{}") -> str:
    return block({"name": "call_tool", "arguments": {"tool_name": name, "arguments": arguments}})


def _unquoted(tool: str, arguments: Any) -> str:
    """As the example in the released prompt has it: an object in quotes, without escapes."""
    inner = json.dumps(arguments)
    return block(
        f'{{"name": "call_tool", "arguments": {{"tool_name": "{tool}", "arguments": "{inner}"}}}}'
    )


def _python(tool: str, arguments: Any) -> str:
    value = {"name": "call_tool", "arguments": {"tool_name": tool, "arguments": arguments}}
    return block(repr(value)[:-1] + ",}")


BEHAVIOURS: Mapping[str, Callable[[Reference], Plan]] = {
    "right": _right,
    "wrong": lambda task: [LIST, *_calls(task.wrong), task.wrong_answer],
    "silent": lambda task: [""],
    "idle": lambda task: [task.answer],
    "idle_after_list": lambda task: [LIST, task.answer],
    "half": lambda task: [LIST, *_calls(task.calls[:-1]), task.answer],
    "refuses": lambda task: ["I am sorry, I cannot help with that."],
    "asks": lambda task: [LIST, "Which address do you mean?"],
    "never_lists": lambda task: [*_calls(task.calls), task.answer],
    "lists_twice": _after_list(LIST),
    "talks": _like(lambda tool, args: f"I will look at it.\n\n{call(tool, args)}\n\nDone soon."),
    "thinks": _like(lambda tool, args: f"<think>\nhm\n</think>\n\n{call(tool, args)}"),
    "calls_in_thought": _like(lambda tool, args: f"<think>{call(tool, args)}</think> Thought."),
    "thinks_beside": _like(
        lambda tool, args: {"content": call(tool, args), "reasoning_content": f"I call {tool}"}
    ),
    "call_in_thought_beside": lambda task: [
        LIST,
        {"content": "No call.", "reasoning_content": _calls(task.calls)[0]},
    ],
    "native_calls": lambda task: [
        {
            "content": LIST,
            "tool_calls": [
                {
                    "id": "x",
                    "type": "function",
                    "function": {"name": "list_addresses", "arguments": "{}"},
                }
            ],
        },
        task.answer,
    ],
    "cut_call": _like(lambda tool, args: {"content": call(tool, args), "finish_reason": "length"}),
    "cut_answer": lambda task: [LIST, {"content": "I have", "finish_reason": "length"}],
    "many_calls": lambda task: [LIST, "\n".join(str(one) for one in _calls(task.calls)), "So."],
    "example_of_prompt": _like(_unquoted),
    "python_literals": _like(_python),
    "fenced": _like(
        lambda tool, args: (
            call(tool, args).replace("\n{", "\n```json\n{").replace("}\n<", "}\n```<")
        )
    ),
    "comment": _like(lambda tool, args: call(tool, args).replace("\n{", "\nhere it is: {")),
    "unquoted_keys": _like(
        lambda tool, args: block(
            f"{{name: call_tool, arguments: {{tool_name: {tool}, arguments: {json.dumps(args)}}}}}"
        )
    ),
    "missing_brackets": _like(lambda tool, args: call(tool, args).replace("}}\n<", "\n<")),
    "missing_comma": _like(lambda tool, args: call(tool, args).replace('", "arg', '" "arg')),
    "list_of_one": _like(
        lambda tool, args: block(
            [{"name": "call_tool", "arguments": {"tool_name": tool, "arguments": args}}]
        )
    ),
    "object_arguments": _like(
        lambda tool, args: block(
            {"name": "call_tool", "arguments": {"tool_name": tool, "arguments": args}}
        )
    ),
    "text_of_outer": _like(
        lambda tool, args: block(
            {
                "name": "call_tool",
                "arguments": json.dumps({"tool_name": tool, "arguments": args}),
            }
        )
    ),
    "named_directly": _like(
        lambda tool, args: block({"name": f"mcp_tool_mcp_server_{tool}", "arguments": args})
    ),
    "bare_names": lambda task: [LIST, *_calls(task.calls, prefix=""), task.answer],
    "prefixed_once": lambda task: [LIST, *_calls(task.calls, prefix="mcp_tool_"), task.answer],
    "prefixed_twice": _after_list(call("x", "{}", prefix="mcp_tool_mcp_tool_")),
    "tool_as_function": _after_list(_name("list_addresses", {}), _name("get_cart", {})),
    "unknown_function": _after_list(_name("Wörld'\"s", {}), _name("", {}), block('{"a": 1}')),
    "unknown_tools": _after_list(_tool("nope"), _tool("mcp_server_nope"), _tool("mcp_server")),
    "meta_tools_as_tools": _after_list(
        _tool("list_tools"), _tool("mcp_tool_list_tools"), _tool("call_tool"), _tool("")
    ),
    "server_alone": _after_list(_tool("mcp_server_")),
    "server_list_tools": _after_list(_tool("mcp_server_list_tools")),
    "no_arguments": _after_list(
        _name("call_tool"),
        _name("call_tool", "list_addresses"),
        _name("call_tool", []),
        block({"name": "call_tool", "arguments": {"tool_name": "list_addresses"}}),
        _tool("list_addresses", None),
        _tool("list_addresses", ""),
        _tool("list_addresses", [1]),
        _tool("list_addresses", "nonsense"),
    ),
    "wrong_arguments": _after_list(
        call("get_product", {}),
        call("get_product", {"product_id": "one"}),
        call("get_product", {"product_id": 1.5}),
        call("get_product", {"product_id": None}),
        call("get_product", {"product_id": 1, "more": True}),
        call("get_product", {"product_id": 999999}),
    ),
    "big_numbers": _after_list(
        call("get_product", '{"product_id": 123456789012345678901234567890}'),
        call("get_product", {"product_id": 2**63}),
        call("get_product", {"product_id": 1e300}),
    ),
    "unclosed": lambda task: [LIST, str(_calls(task.calls)[0]).replace("</tool_call>", "")],
    "opened_twice": _after_list(f"<tool_call>{_tool('list_addresses')}"),
    "unreadable": lambda task: [LIST, block("I do not know"), task.answer],
    "unreadable_then_call": _after_list(block("?") + block("[]") + call("get_cart", {})),
    "empty_block": lambda task: [LIST, block(""), task.answer],
    "name_is_none": lambda task: [LIST, _name(None, {}), task.answer],
    "name_is_none_later": lambda task: [LIST, LIST + _name(7, {}), task.answer],
    "tool_is_number": lambda task: [LIST, _tool(7), task.answer],
    "repeats": lambda task: [call("list_addresses", {})] * 40,
    "repeats_writes": lambda task: _calls(task.calls) * 40,
    "imitates": lambda task: [
        LIST,
        "<tool_response>{'status': 'ok'}</tool_response>\nTool response:\nok",
    ],
    "unicode": _after_list(call("search_products", {"query": 'Ä €𝄞\u2028"\\ \t'})),
    "model_fails": lambda task: [LIST, None],
    "fails_at_once": lambda task: [None],
}


def reply_of(plan: Plan, number: int) -> Reply:
    """The reply of this number, from 0; after the plan it says that this is all."""
    return plan[number] if number < len(plan) else NO_ANSWER


def _judged(name: Any, **more: Any) -> str:
    value = {"reasoning": "as asked", "confidence_score": [90, 5, 3, 2], "classification": name}
    return json.dumps(value | {"evidence": {"status": "x", "iterations": 3}} | more)


JUDGES: Mapping[str, Reply] = {
    "complete": _judged("complete"),
    "incomplete": _judged("incomplete"),
    "server_error": _judged("server_error"),
    "agent_error": _judged("agent_error"),
    "judge_error": _judged("judge_error"),
    "shouted": _judged("  COMPLETE\n"),
    "fenced": f"```json\n{_judged('incomplete')}\n```",
    "talkative": f"I think so.\n{_judged('agent_error')}\nThat is my view.",
    "two_objects": f"{_judged('complete')}\n{_judged('incomplete')}",
    "unreadable": "The task was completed.",
    "broken": '{"classification": "complete", "reasoning": }',
    "cut": _judged("complete")[:-20],
    "list": json.dumps([{"classification": "complete"}]),
    "text": '"complete"',
    "no_class": '{"reasoning": "hm"}',
    "class_is_none": _judged(None),
    "class_is_number": _judged(1),
    "other_class": _judged("completed"),
    "our_class": _judged("partially_completed"),
    "empty": "",
    "thinks": f"<think>{{hm}}</think>{_judged('complete')}",
    "thinks_beside": {
        "content": _judged("incomplete"),
        "reasoning_content": _judged("complete"),
    },
    "nothing_but_a_thought": {"content": "", "reasoning_content": _judged("complete")},
    "error": None,
    "missing": None,  # there is no server
}
