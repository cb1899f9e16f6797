"""What the fake models of ToolSandbox's comparison say: functions of the scenario and of the number
of the turn, so that both sides get the same replies."""

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

Message = dict[str, Any]


class Case(NamedTuple):
    """A scenario, what its milestones name, and the tools that its agent is offered."""

    name: str
    targets: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]]  # name and schema

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls among the targets."""
        return [one for one in self.targets if "name" in one]

    @property
    def text(self) -> str:
        """The last text among the targets."""
        return next((one["text"] for one in reversed(self.targets) if "text" in one), "Done.")


class Plan(NamedTuple):
    """The replies of both models by turn; after them the agent says that this is all, and the user
    ends the talk."""

    agent: Sequence[Message]
    user: Sequence[Message] = ()
    again: Sequence[Message] = ()  # of the user without its tool, after a call that failed


def says(text: str | None, **more: Any) -> Message:
    """A message without calls."""
    return {"content": text, **more}


def calls(made: Sequence[dict[str, Any]], turn: int, text: str | None = None) -> Message:
    """A message with calls; their ids say the turn."""
    return {
        "content": text,
        "tool_calls": [
            {
                "id": one.get("id", f"call_{turn * 10 + at}"),
                "type": "function",
                "function": {
                    "name": one["name"],
                    "arguments": one["raw"] if "raw" in one else json.dumps(one["arguments"]),
                },
            }
            for at, one in enumerate(made)
        ],
    }


END: Message = {
    "content": None,
    "tool_calls": [
        {
            "id": "call_end",
            "type": "function",
            "function": {"name": "end_conversation", "arguments": "{}"},
        }
    ],
}


def _each(made: Sequence[dict[str, Any]], text: str) -> Plan:
    return Plan([*(calls([one], at) for at, one in enumerate(made)), says(text)])


def _drawn(case: Case, rng: Random) -> dict[str, Any]:
    """A call of some tool with arguments that may fit."""
    tool = rng.choice(case.tools)
    values = {
        "boolean": lambda: rng.random() < 0.5,
        "integer": lambda: rng.randint(1, 12),
        "number": lambda: rng.choice([1762430400.0, 37.3, -122.0, 3]),
        "string": lambda: rng.choice(["Homer S", "+10000000000", "friend", "F", "C", "Ada", "2"]),
    }
    schema = tool["schema"]
    chosen = {
        name: values.get(one.get("type", "string"), values["string"])()
        for name, one in schema.get("properties", {}).items()
        if name in schema.get("required", ()) or rng.random() < 0.4
    }
    return {"name": tool["name"], "arguments": chosen}


def _random(case: Case, rng: Random) -> Plan:
    made = [
        calls([_drawn(case, rng) for _ in range(rng.choice([1, 1, 1, 2, 3]))], at)
        if rng.random() < 0.8
        else says(f"I am at step {at}.")
        for at in range(rng.randint(2, 9))
    ]
    return Plan(made, [says(f"Go on, {at}.") for at in range(4)])


def _to_the_limit(case: Case, rng: Random) -> Plan:
    sizes = [rng.randint(1, 3) for _ in range(30)]
    drawn = [
        calls([{**rng.choice(case.calls or [_drawn(case, rng)])} for _ in range(size)], at)
        for at, size in enumerate(sizes)
    ]
    return Plan(
        [one if rng.random() < 0.9 else says("Wait.") for one in drawn], [says("Yes.")] * 30
    )


def _bad(case: Case, rng: Random, last: dict[str, Any]) -> Plan:
    """Some of the targets, and then a reply that ends it."""
    kept = case.calls[: rng.randint(0, len(case.calls))]
    return Plan([*(calls([one], at) for at, one in enumerate(kept)), calls([last], 9)])


def _wrong(case: Case, rng: Random) -> Plan:
    one = _drawn(case, rng)
    changed: list[Any] = [
        {**one["arguments"], "more": 1},
        {name: [] for name in one["arguments"]},
        dict.fromkeys(one["arguments"]),
        {},
    ]
    return _each([{**one, "arguments": arguments} for arguments in changed], case.text)


def _short(make: Callable[[Case, Random], Plan]) -> Callable[[Case, Random], Plan]:
    """A plan, of which only four turns are played where the scenario has many milestones: upstream
    tries all ways to match them with all messages, for hours."""

    def made(case: Case, rng: Random) -> Plan:
        plan = make(case, rng)
        return (
            plan if len(case.targets) < 3 else Plan(plan.agent[:3], plan.user[:1], plan.again[:1])
        )

    return made


Behaviours = Mapping[str, Callable[[Case, Random], Plan]]

BEHAVIOURS: Behaviours = {
    "cannot": lambda case, rng: Plan([says("I cannot do that.")]),
    "silent": lambda case, rng: Plan([says("")] * 4, [says("Hello?"), says(""), says("?")]),
    "refuses in a field": lambda case, rng: Plan([says(None, refusal="I will not.")]),
    "says nothing after its calls": lambda case, rng: Plan(
        [*(calls([one], at) for at, one in enumerate(case.calls)), says(None)]
    ),
    "literal targets": lambda case, rng: _each(case.calls, case.text),
    "literal targets, said beside": lambda case, rng: Plan(
        [*(calls([one], at, "I look.") for at, one in enumerate(case.calls)), says(case.text)]
    ),
    "literal targets in one reply": lambda case, rng: Plan(
        [calls(case.calls[:4], 0) if case.calls else says("Hm."), says(case.text)], [says("So?")]
    ),
    "literal targets backwards in one reply": lambda case, rng: Plan(
        [calls(case.calls[3::-1], 0) if case.calls else says("Hm."), says(case.text)]
    ),
    "literal targets, the same id": lambda case, rng: _each(
        [{**one, "id": "call_1"} for one in case.calls], case.text
    ),
    "ids with -": lambda case, rng: _each(
        [{**one, "id": f"chatcmpl-tool-{at}"} for at, one in enumerate(case.calls)], case.text
    ),
    "ids that begin with a digit": lambda case, rng: _each(
        [{**one, "id": f"{at}abc"} for at, one in enumerate(case.calls)], case.text
    ),
    "unknown tool": lambda case, rng: _bad(case, rng, {"name": "send_fax", "arguments": {}}),
    "the user's tool": lambda case, rng: _bad(
        case, rng, {"name": "end_conversation", "arguments": {}}
    ),
    "unreadable arguments": lambda case, rng: _bad(
        case, rng, {"name": case.tools[0]["name"], "raw": '{"on": tru'}
    ),
    "wrong arguments": _wrong,
    "the last text alone": lambda case, rng: Plan([says(case.text)]),
    "all texts at once": lambda case, rng: Plan(
        [says(" ".join(one["text"] for one in case.targets if "text" in one) or "Done.")]
    ),
    "every tool, then the text": lambda case, rng: _each(
        [{"name": one["name"], "arguments": {}} for one in case.tools[:6]], case.text
    ),
    "talks to the limit": _short(
        lambda case, rng: Plan(
            [says(f"What do you mean, {at}?") for at in range(20)], [says("You know it.")] * 20
        )
    ),
    "calls to the limit": _short(_to_the_limit),
    "random calls": _short(_random),
    "a user who fails to end": lambda case, rng: Plan(
        [*(calls([one], at) for at, one in enumerate(case.calls)), says(case.text)],
        [{**END, "tool_calls": [{**END["tool_calls"][0], "function": _MORE}]}],
        [says("Is it done?")] * 9,
    ),
    "a user who ends twice": lambda case, rng: Plan(
        [says(case.text)],
        [{**END, "tool_calls": [{**END["tool_calls"][0], "id": i} for i in "ab"]}],
    ),
}
_MORE = {"name": "end_conversation", "arguments": '{"why": "done"}'}


def _seven(case: Case) -> Message:
    """Seven calls. The first fails, so upstream tries one order of them, and not 5,040."""
    one = case.calls[0]
    return calls([{**one, "arguments": {"no": 1}}, *[one] * 6], 0)


# What is known to differ: the rows of the table in docs/suites/toolsandbox.md.
KNOWN: Behaviours = {
    "blank arguments": lambda case, rng: Plan(
        [calls([{**case.calls[0], "raw": " "}], 0), *_each(case.calls, case.text).agent]
    ),
    "seven calls in a reply": lambda case, rng: Plan(
        [_seven(case), *(calls([one], 9) for one in case.calls), says(case.text)]
    ),
    "a user whose ids have -": lambda case, rng: Plan(
        _each(case.calls, case.text).agent,
        [{**END, "tool_calls": [{**END["tool_calls"][0], "id": "chatcmpl-end"}]}] * 30,
    ),
    "an empty list of calls": lambda case, rng: Plan(
        [{**says("Hm."), "tool_calls": []}, *_each(case.calls, case.text).agent]
    ),
}


def agent_reply(plan: Plan, body: Message) -> Message:
    """The agent's reply, whose number is that of its messages so far."""
    number = sum(one["role"] == "assistant" for one in body["messages"])
    return plan.agent[number] if number < len(plan.agent) else says("That is all.")


def user_reply(plan: Plan, body: Message, num_earlier: int) -> Message:
    """The user's reply; `num_earlier` of the agent's messages came before the talk."""
    number = sum(one["role"] == "user" for one in body["messages"]) - num_earlier - 1
    if "tools" not in body:
        return plan.again[number] if number < len(plan.again) else says("Well.")
    return plan.user[number] if number < len(plan.user) else END
