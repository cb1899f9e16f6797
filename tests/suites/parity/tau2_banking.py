"""What τ²'s parity plays in `banking_knowledge` besides the behaviours of tau2_models.

Most tools there are unlocked first and called through another, with arguments as JSON text. Here
that goes wrong, or past it.
"""

import json
from collections.abc import Sequence
from typing import Any

from tests.suites.parity.tau2_models import (
    Case,
    JsonObject,
    Reply,
    agent_plan,
    customer_reply,
    with_behaviour,
)

BEHAVIOURS = {
    "right": "the reference actions, the customer's too",
    "action_missing": "the last action is left out",
    "write_missing": "the last action that changes the database is left out",
    "wrong_argument": "one argument of the last action is changed",
    "extra_reads": "needless searches, reads and calls of tools that read",
    "int_for_float": "whole numbers for floats and the other way round, in all arguments",
    "silent": "the agent talks and never acts",
    "refuses": "the agent refuses, and the customer asks for somebody else",
    "wrong_side": "the agent makes the customer's calls itself",
    "customer_calls_agents_tools": "the agent's tools, and its own that it was not shown",
    "unlocks_wrongly": "unknown tools, calls before unlocking, arguments that are cut off or wrong",
    "by_own_name": "hidden tools are called by their own names and never unlocked",
    "ten_errors": "the agent makes ten calls of tools that do not exist, then does all right",
    "nine_errors": "the same with nine calls",
    "overcalls": "every call is made twice, the second time in the same message",
    "all_at_once": "all actions of the agent in one message",
}
_CALL, _UNLOCK = "call_discoverable_agent_tool", "unlock_discoverable_agent_tool"
_USERS_CALL, _GIVE = "call_discoverable_user_tool", "give_discoverable_user_tool"
_READ = "get_bank_account_transactions_9173"


def banking_plan(case: Case) -> list[Reply]:
    """The agent's replies, one after the other."""
    kind = case.behaviour
    if kind == "write_missing":
        return _right(case, _without_last_write(case.actions))
    if kind == "int_for_float":
        return _right(case, [_other_numbers(one) for one in case.actions])
    if kind == "wrong_side":
        return _right(case, [{**one, "requestor": "assistant"} for one in case.actions])
    if kind == "by_own_name":
        return _right(case, [_by_own_name(one) for one in case.actions if one["name"] != _UNLOCK])
    if kind == "extra_reads":
        return [(None, [call]) for call in _extra_reads(case)] + _right(case, case.actions)
    if kind == "unlocks_wrongly":
        return [(None, [call]) for call in _wrong_unlocks(case)] + _right(case, case.actions)
    return agent_plan(case)


def banking_customer(case: Case, messages: Sequence[JsonObject]) -> Reply:
    """What the customer says or does next."""
    mine = sum(message["role"] == "assistant" for message in messages)
    if case.behaviour == "customer_calls_agents_tools" and mine == 1:
        calls = [
            ("get_current_time", "{}"),  # the agent's
            ("request_human_agent_transfer", "{}"),  # its own, whether it was offered or not
            ("get_referral_link", '{"user_id": "u", "card_name": "c"}'),  # hidden, and not given
            (_READ, '{"account_id": "a"}'),  # hidden, and the agent's
        ]
        if messages[-1]["role"] != "tool":
            return "Let me try. ", calls
    return customer_reply(case, messages)


def _right(case: Case, actions: Sequence[JsonObject]) -> list[Reply]:
    return agent_plan(with_behaviour(case, "right", actions))


def _call(name: str, /, **arguments: Any) -> tuple[str, str]:
    return name, json.dumps(arguments)


def _without_last_write(actions: Sequence[JsonObject]) -> list[JsonObject]:
    reads = ("get_", "unlock_", "list_", "transfer_")
    last = max(
        (at for at, one in enumerate(actions) if not one["name"].startswith(reads)), default=-1
    )
    return [one for at, one in enumerate(actions) if at != last]


def _extra_reads(case: Case) -> list[tuple[str, str]]:
    hidden = [one["arguments"]["agent_tool_name"] for one in case.actions if one["name"] == _CALL]
    return [
        _call("KB_search", query="credit card fee"),
        _call("KB_search", query="zzz qqq"),
        _call("grep", pattern="fee|charge"),
        _call("grep", pattern="("),
        _call("get_user_information_by_name", customer_name="Riley Parker"),
        _call(_UNLOCK, agent_tool_name=_READ),
        _call(_CALL, agent_tool_name=_READ, arguments='{"account_id": "a"}'),
        *[_call(_UNLOCK, agent_tool_name=name) for name in hidden[:1]],
        _call("list_discoverable_agent_tools"),
    ]


def _wrong_unlocks(case: Case) -> list[tuple[str, str]]:
    names = [one["arguments"]["agent_tool_name"] for one in case.actions if one["name"] == _CALL]
    name = names[0] if names else _READ
    return [
        _call(_UNLOCK, agent_tool_name="no_such_tool"),
        _call(_CALL, agent_tool_name="no_such_tool", arguments="{}"),
        _call(_CALL, agent_tool_name=name, arguments="{}"),
        _call(_UNLOCK, agent_tool_name=name),
        _call(_CALL, agent_tool_name=name, arguments='{"a": '),
        _call(_CALL, agent_tool_name=name, arguments='{"nonsense": 1}'),
        _call(_CALL, agent_tool_name=name, arguments="[1]"),
        _call(_CALL, agent_tool_name=name),
        _call(_CALL, name=name),  # an argument that the tool does not have: it raises
        _call(_GIVE, discoverable_tool_name="_check_tool_given", arguments="{}"),
        _call(_GIVE, discoverable_tool_name="deposit_check_3847", arguments="[1]"),
        _call(_GIVE, discoverable_tool_name="deposit_check_3847", arguments='{"b": 1}'),
    ]


def _by_own_name(action: JsonObject) -> JsonObject:
    name = {_CALL: "agent_tool_name", _USERS_CALL: "discoverable_tool_name"}.get(action["name"])
    if name is None:
        return action
    given = action["arguments"].get("arguments") or "{}"
    return {**action, "name": action["arguments"][name], "arguments": json.loads(given)}


def _other_numbers(action: JsonObject) -> JsonObject:
    arguments = _numbers(action["arguments"])
    if isinstance(given := arguments.get("arguments"), str):
        arguments["arguments"] = json.dumps(_numbers(json.loads(given)))
    return {**action, "arguments": arguments}


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_numbers(one) for one in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, int):
        return float(value)
    return int(value) if value.is_integer() else value
