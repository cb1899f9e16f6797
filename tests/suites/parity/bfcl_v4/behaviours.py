"""What a fake model does with the talks and questions of the BFCL's memory categories: a pure
function of the entry, the turn, the step and a seed."""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from random import Random
from typing import Any

from tests.suites.parity.behaviours import Message, message

_KEYS = ("name", "home_town", "job_2", "pet", "plan", "Bad Key", "last_order", "allergy", "x")
_ERRORS = 0.12  # share of calls that are wrong on purpose
_SAYS = ("Noted.", "I will remember.", "Thank you!", "{'answer': 'yes', 'context': 'so'}")

PASTES = "keeps all, pastes all"  # the laziest agent that has a memory; it talks so, too

QUESTIONS = (
    *("right", "lists all answers", "cannot", "is silent", "says an empty text", "wrong"),
    *(
        "looks first, then right",
        "looks first, then wrong",
        "looks for ever",
        "right beside a call",
    ),
    *("right in half of an argument", "right in a list of arguments", "an empty list of calls"),
    *("right and an empty list of calls", "right in a thought", "thinks, then right", "shouts"),
    *("changes the memory, then right", "calls what there is not"),
)


def talk_reply(
    id: str, turn: int, step: int, text: str, functions: Mapping[str, Any], seed: int
) -> Message:
    """The reply in a talk, after so many replies to the user's text."""
    rng = Random(f"{seed} {id} {turn}")
    kind, num_steps = rng.random(), rng.choice((0, 1, 1, 1, 2, 3))
    if kind < 0.01:
        num_steps = 40  # more than upstream allows
    drawn = Random(f"{seed} {id} {turn} {step}")
    if step >= num_steps:
        return _own_ids(_last_words(drawn), turn, step)
    calls = [_call(drawn, text, functions) for _ in range(drawn.choice((1, 1, 1, 2, 3)))]
    return _own_ids(message(calls, drawn.choice((None, None, "I keep that."))), turn, step)


def _own_ids(said: Message, turn: int, step: int) -> Message:
    """The message with ids of its own: those that come twice are known to be sent back changed."""
    calls = [{**one, "id": f"{one['id']}_{turn}_{step}"} for one in said.get("tool_calls", ())]
    return {**said, "tool_calls": calls} if calls else said


def pasted(id: str, said: Sequence[Mapping[str, Any]], system: str, step: int) -> Message:
    """The reply of an agent that keeps each text of the user as it is, and answers with all of
    them."""
    text = next(one["content"] for one in reversed(said) if one["role"] == "user")
    if "prereq" in id and step == 0:
        key = f"note_{blake2b(text.encode(), digest_size=6).hexdigest()}"
        kept = ("archival_memory_add", json.dumps({"key": key, "value": text[:2_000]}))
        if "rec_sum" in id:
            kept = ("memory_append", json.dumps({"text": f"{text}\n"}))
        return _own_ids(message([kept]), len(said), 0)
    if "prereq" in id:
        return {"content": "Noted."}
    if "rec_sum" in id:
        return {"content": system}
    if step == 0:
        return _own_ids(message([("archival_memory_list_keys", "{}")]), 0, 0)
    if step == 1:
        keys = json.loads(said[-1]["content"])["keys"]
        asked = [("archival_memory_retrieve", json.dumps({"key": key})) for key in keys]
        return _own_ids(message(asked, "Nothing."), 0, 1)
    return {"content": "\n".join(one["content"] for one in said if one["role"] == "tool")}


def _last_words(rng: Random) -> Message:
    drawn = rng.random()
    if drawn < 0.03:
        return {"content": None}
    if drawn < 0.06:
        return {"content": ""}
    if drawn < 0.09:
        return message([("memory_clear", "[1]")])
    return {"content": rng.choice(_SAYS)}


def _call(rng: Random, text: str, functions: Mapping[str, Any]) -> tuple[str, str]:
    """A call of a function, with a part of the user's text as what is to be remembered."""
    # What destroys is called less often.
    names = [name for name in functions for _ in range(1 if "clear" in name else 6)]
    name = rng.choice(names + [one for one in functions if "add" in one or "append" in one] * 8)
    properties = functions[name]["schema"]["properties"]
    words = text.split()
    arguments: dict[str, Any] = {}
    for one, described in properties.items():
        begin = rng.randrange(len(words))
        arguments[one] = " ".join(words[begin : begin + rng.randint(1, 40)])
        if one in ("key", "query"):
            arguments[one] = rng.choice(_KEYS)
        if described["type"] == "integer":
            arguments[one] = rng.randint(1, 7)
        if one == "old_text":
            arguments[one] = rng.choice(words)
    if rng.random() < _ERRORS:
        kind = rng.choice(("long", "type", "missing", "surplus", "unknown", "quote", "private"))
        if kind == "unknown":
            return "remember", json.dumps(arguments)
        if kind == "private":
            return "_dump_core_memory_to_context", "{}"
        if kind == "surplus":
            arguments["note"] = 1
        elif arguments:
            last = [*arguments][-1]
            changed = {"long": "é" * 12_000, "type": [1, None, "a"], "quote": 'it\'s "so"\n{x}'}
            if kind == "missing":
                del arguments[last]
            else:
                arguments[last] = changed[kind]
    return name, json.dumps(arguments)


def question_reply(
    kind: str, step: int, truth: Sequence[str], functions: Mapping[str, Any], rng: Random
) -> Message:
    """The reply to a question, after so many replies."""
    return _own_ids(_question_reply(kind, step, truth, functions, rng), 0, step)


def _question_reply(
    kind: str, step: int, truth: Sequence[str], functions: Mapping[str, Any], rng: Random
) -> Message:
    right = json.dumps({"answer": truth[0], "context": "you said so"})
    look = next(name for name in functions if "retrieve_all" in name or name == "memory_retrieve")
    looks: Message = message([(look, "{}")])
    match kind:
        case "lists all answers":
            return {"content": "; ".join(truth)}
        case "cannot":
            return {"content": "{'answer': 'I do not know', 'context': 'I do not know'}"}
        case "is silent":
            return {"content": None}
        case "says an empty text":
            return {"content": ""}
        case "wrong":
            return {"content": "Blue elephants, 7777"}
        case "looks for ever":
            return looks
        case "right beside a call":
            return message([(look, "{}")], right) if step == 0 else {"content": "That was it."}
        case "right in half of an argument":
            return message([(look, '{"text": ' + json.dumps(truth[0]))])
        case "right in a list of arguments":
            return message([(look, json.dumps([truth[0]]))])
        case "an empty list of calls":
            return {"content": None, "tool_calls": []}
        case "right and an empty list of calls":
            return {"content": right, "tool_calls": []}
        case "right in a thought":
            return {"content": f"<think>{right}</think>I do not know"}
        case "thinks, then right":
            return {"content": f"<think>hm</think>{right}"}
        case "shouts":
            return {"content": truth[0].upper().replace(" ", "  " if rng.random() < 0.3 else " ")}
    if step == 0 and kind != "right":
        if kind == "changes the memory, then right":
            clear = next(name for name in functions if "clear" in name)
            return message([(clear, "{}")])
        if kind == "calls what there is not":
            return message([("recall_all", "{}"), (look, "{}")])
        return looks
    return {"content": "Blue elephants, 7777" if kind == "looks first, then wrong" else right}
