"""What a fake model does with an entry: a plan of replies for each turn of the user.

A behaviour is a pure function of the entry and of a generator of random numbers, so both sides of a
comparison get the same replies. A turn whose plan is over is answered with words.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from random import Random
from typing import Any, NamedTuple

from rehearsal_room.scenarios.format import Call

Message = dict[str, Any]  # of an assistant, as chat completions have it
CRASH: Message = {}  # in a plan: the server answers with an error
_PATIENCE = 30  # replies of a model that repeats itself


class Entry(NamedTuple):
    """An entry of a benchmark, as far as a model may know it."""

    id: str
    turns: list[list[Call]]  # reference calls by turn; one turn where nothing is executed
    others: list[list[Call]]  # those of another entry
    functions: Mapping[str, Mapping[str, Any]]  # all that there are, by name as a tool
    withheld: tuple[str, ...] = ()
    # Without a world: the first reply is all that counts.
    is_single: bool = False
    answer: str = "Done."  # what is said when all calls are made


Plan = list[Iterator[Message] | list[Message]]


def message(calls: Sequence[Call | tuple[str, str]], text: str | None = None) -> Message:
    """A message with these calls; a pair is a name with the text of its arguments."""
    if not calls:
        return {"content": text}
    sent = []
    for number, call in enumerate(calls):
        name, arguments = (
            (call.name, json.dumps(call.arguments, ensure_ascii=False))
            if isinstance(call, Call)
            else call
        )
        function = {"name": name, "arguments": arguments}
        sent.append({"id": f"call_{number}", "type": "function", "function": function})
    return {"content": text, "tool_calls": sent}


def each(make: Callable[[list[Call]], list[Message]]) -> Callable[[Entry, Random], Plan]:
    """A behaviour that does the same in each turn with reference calls."""
    return lambda entry, rng: [make(calls) if calls else [] for calls in entry.turns]


def first(entry: Entry, before: Sequence[Call | tuple[str, str]]) -> Plan:
    """These calls before the reference calls of each turn; in one reply where that is all."""
    if entry.is_single:
        return [[message([*before, *entry.turns[0]])]]
    return [[message(list(before)), *([message(calls)] if calls else [])] for calls in entry.turns]


def _changed(change: Callable[[Any], Any]) -> Callable[[Entry, Random], Plan]:
    """One constant of one call is another one."""

    def plan(entry: Entry, rng: Random) -> Plan:
        turns = [list(calls) for calls in entry.turns]
        places = [
            (turn, number, name)
            for turn, calls in enumerate(turns)
            for number, call in enumerate(calls)
            for name in call.arguments
        ]
        if places:
            turn, number, name = rng.choice(places)
            call = turns[turn][number]
            arguments = {**call.arguments, name: change(call.arguments[name])}
            turns[turn][number] = Call(call.name, arguments)
        return [[message(calls)] if calls else [] for calls in turns]

    return plan


def _other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}x"
        case list():
            return [*value, *value[:1]] if value else [1]
        case dict():
            return {**value, "surplus": 1}
    return "x"


def _other_type(value: Any) -> Any:
    return [value] if isinstance(value, str) else json.dumps(value)


def _dropped(entry: Entry, rng: Random) -> Plan:
    """The last call is left out."""
    last = max((turn for turn, calls in enumerate(entry.turns) if calls), default=0)
    return [
        [message(kept)] if (kept := calls[:-1] if turn == last else calls) else []
        for turn, calls in enumerate(entry.turns)
    ]


def look(entry: Entry) -> Call:
    """A call that needs no argument, of a function that the model has."""
    for name, one in entry.functions.items():
        if not one["parameters"].get("required") and name not in entry.withheld:
            return Call(name, {})
    return Call(next(iter(entry.functions), "look"), {})


def _early(entry: Entry, rng: Random) -> Plan:
    """Calls of functions that are withheld, or of the next turn, before the first turn's own."""
    later = [call for calls in entry.turns[1:] for call in calls]
    chosen = [call for call in later if call.name in entry.withheld] or later[:1]
    return [
        [message([*chosen, *calls] if turn == 0 else calls)] if calls or chosen else []
        for turn, calls in enumerate(entry.turns)
    ]


def _merged(entry: Entry, rng: Random) -> Plan:
    """All turns' calls come in the first turn."""
    return [[message([call for calls in entry.turns for call in calls])]] + [
        [] for _ in entry.turns[1:]
    ]


def malformed(arguments: str) -> Callable[[Entry, Random], Plan]:
    """In one turn one of the calls cannot be read; those beside it are right."""

    def plan(entry: Entry, rng: Random) -> Plan:
        chosen = rng.randrange(len(entry.turns))
        name = next(iter(entry.functions), "look")
        return [
            [message([*calls, (name, arguments)])]
            if turn == chosen
            else ([message(calls)] if calls else [])
            for turn, calls in enumerate(entry.turns)
        ]

    return plan


def _repeats(*, in_last_turn: bool) -> Callable[[Entry, Random], Plan]:
    """The model makes one call for ever; in the last turn, after the right ones."""

    def plan(entry: Entry, rng: Random) -> Plan:
        again = message([look(entry)])
        chosen = len(entry.turns) - 1 if in_last_turn else 0
        return [
            chain([message(calls)] if calls else [], repeat(again, _PATIENCE * (turn == chosen)))
            for turn, calls in enumerate(entry.turns)
        ]

    return plan


def _crashes(entry: Entry, rng: Random) -> Plan:
    """The server fails in the middle of a turn."""
    chosen = rng.randrange(len(entry.turns))
    return [
        [CRASH]
        if entry.is_single
        else [message([look(entry)]), CRASH]
        if turn == chosen
        else ([message(calls)] if calls else [])
        for turn, calls in enumerate(entry.turns)
    ]


def _pasted(calls: list[Call]) -> str:
    shown = (
        f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"
        for call in calls
    )
    return f"[{', '.join(shown)}]"


def says(text: str | None, **fields: Any) -> Callable[[Entry, Random], Plan]:
    """The model says this, and makes no call."""
    return lambda entry, rng: [[{"content": text, **fields}] for _ in entry.turns]


Behaviours = Mapping[str, Callable[[Entry, Random], Plan]]
BEHAVIOURS: Behaviours = {
    "right": each(lambda calls: [message(calls)]),
    "one call a reply": each(lambda calls: [message([call]) for call in calls]),
    "talks beside its calls": each(lambda calls: [message(calls, "I will do that now.")]),
    "thinks before its calls": each(lambda calls: [message(calls, "<think>hm</think> So.")]),
    "refuses": says("I cannot help with that."),
    "asks": says("Which one do you mean?"),
    "is silent": says(None),
    "says an empty text": says(""),
    "sends an empty list of calls": says("", tool_calls=[]),
    "stops inside of a thought": says("<think>I should"),
    "pastes its calls as text": lambda entry, rng: [
        [{"content": _pasted(calls)}] for calls in entry.turns
    ],
    "one value is wrong": _changed(_other),
    "one type is wrong": _changed(_other_type),
    "leaves out the last call": _dropped,
    "makes each call twice": each(lambda calls: [message([one for c in calls for one in (c, c)])]),
    "turns the order round": each(lambda calls: [message(calls[::-1])]),
    "looks first": lambda entry, rng: first(entry, [look(entry)]),
    "calls what there is not": lambda entry, rng: first(entry, [Call("look_up_all", {"q": "x"})]),
    "calls what is forbidden": lambda entry, rng: first(entry, [Call("kill", {})]),
    "gives a surplus argument": lambda entry, rng: first(
        entry, [Call(look(entry).name, {"surplus": 1})]
    ),
    "gives an argument a strange name": lambda entry, rng: first(
        entry, [Call(look(entry).name, {"a-b": 1})]
    ),
    "makes twelve errors": lambda entry, rng: first(
        entry, [Call("cd", {"no": n}) for n in range(12)]
    ),
    "calls what is withheld": _early,
    "does all in the first turn": _merged,
    "sends half of its arguments": malformed('{"a": '),
    "sends a list of arguments": malformed("[1, 2]"),
    "repeats itself": _repeats(in_last_turn=False),
    "repeats itself in the last turn": _repeats(in_last_turn=True),
    "stops early": lambda entry, rng: [
        [message(calls)] if calls and not turn else [] for turn, calls in enumerate(entry.turns)
    ],
    "is cut off at its limit": lambda entry, rng: [
        [{**message(calls), "finish_reason": "length"}] if calls else [] for calls in entry.turns
    ],
    "recites another entry": lambda entry, rng: [
        [message(calls)] if calls else [] for calls in entry.others
    ],
}
# Behaviours with which the two sides differ: the rows of the table in docs/suites/bfcl.md. Nothing
# but these is known to differ.
KNOWN: Behaviours = {
    "crashes": _crashes,
    "repeats its ids": each(lambda calls: [message([call]) for call in calls]),
    "sends no text of arguments": lambda entry, rng: first(entry, [(look(entry).name, "")]),
    "sends what JSON does not have": malformed('{"a": NaN}'),
    "sends a number of thirty digits": malformed('{"a": 123456789012345678901234567890}'),
    "calls a function of Python": lambda entry, rng: first(entry, [Call("sum", {"start": 1})]),
    "writes a call into an argument": lambda entry, rng: first(
        entry, [Call(look(entry).name, {"text": f"{look(entry).name}()"})]
    ),
    "makes up a name with a space": lambda entry, rng: first(entry, [Call("look up", {})]),
}


_ALL: Behaviours = {**BEHAVIOURS, **KNOWN}


def behaviour_of(entry: str, seed: int) -> str:
    """The behaviour of a model with an entry under a seed; as many seeds as there are behaviours
    draw each of them once."""
    return drawn(list(BEHAVIOURS), entry, seed)


def known_of(entry: str, seed: int) -> str:
    """The same of the behaviours with which the two sides differ."""
    return drawn(list(KNOWN), entry, seed)


def drawn(names: list[str], entry: str, seed: int) -> str:
    """One of the names; as many seeds as there are names draw each of them once."""
    Random(entry).shuffle(names)
    return names[seed % len(names)]


def reply_of(
    entry: Entry,
    turn: int,
    step: int,
    name: str,
    seed: int,
    behaviours: Behaviours = _ALL,
) -> Message:
    """The reply to a request, `CRASH` for an error."""
    plan = behaviours[name](entry, Random(f"{seed} {entry.id}"))
    replies = list(plan[turn]) if turn < len(plan) else []
    said = replies[step] if step < len(replies) else {"content": entry.answer}
    if not (calls := said.get("tool_calls")) or name == "repeats its ids":
        return said
    sent = [{**call, "id": f"call_{turn}_{step}_{n}"} for n, call in enumerate(calls)]
    return {**said, "tool_calls": sent}
