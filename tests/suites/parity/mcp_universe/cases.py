"""Ten tasks of our own on MCP-Universe's servers `calculator`, `date` and `filesystem`, and the
behaviours of a fake model that plays them.

A reply depends on the case and on how many rounds its talk had. A case is a task with a behaviour;
its question has its number.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

JsonObject = dict[str, Any]
MAX_STEPS = 6  # of upstream's agent here


class OwnTask(NamedTuple):
    """A task: its question, the form of its answer, and what a right agent does."""

    server: str
    question: str
    form: JsonObject
    calls: tuple[tuple[str, JsonObject], ...]  # of a right agent, without the server's name
    answer: JsonObject  # the right one
    evaluators: tuple[JsonObject, ...]


def own_tasks(folder: str) -> list[OwnTask]:
    """The ten tasks; `folder` is the one that the file system server serves."""
    today = datetime.now(UTC).astimezone().date().isoformat()
    return [
        _sum("12 * 7 + 5", 89),
        _sum("2 ** 20", 1048576),
        _sum("(101 - 3) / 4", 24.5),
        _sum("17 % 5 + 40", 42),
        _date("What is the date of today?", "get_today_date", {}, today),
        _date("Which zone is unknown?", "get_date_in_timezone", {"timezone_name": "No/Zone"}, "No"),
        _files("How many lines has list.txt?", "read_file", {"path": f"{folder}/list.txt"}, 3),
        _files("How many files are in box?", "list_directory", {"path": f"{folder}/box"}, 2),
        _files(
            "Write `done` into note.txt, and say how many letters it has.",
            "write_file",
            {"path": f"{folder}/note.txt", "content": "done"},
            4,
        ),
        _files("What is in missing.txt?", "read_file", {"path": f"{folder}/missing.txt"}, 0),
    ]


def _get(key: str, op: str, value: object) -> JsonObject:
    return {"func": f"json -> get({key})", "op": op, "value": value}


def _sum(text: str, value: float) -> OwnTask:
    return OwnTask(
        "calculator",
        f"What is {text}?",
        {"result": "a number", "unit": "none"},
        (("calculate", {"expression": text}),),
        {"result": value, "unit": "none"},
        (_get("result", "=", value), _get("unit", "=", "none")),
    )


def _date(question: str, tool: str, arguments: JsonObject, value: str) -> OwnTask:
    return OwnTask(
        "date",
        question,
        {"text": "what you found"},
        ((tool, arguments),),
        {"text": value},
        (_get("text", "=", value), {"func": "raw", "op": "", "value": ""}),
    )


def _files(question: str, tool: str, arguments: JsonObject, count: int) -> OwnTask:
    return OwnTask(
        "filesystem",
        question,
        {"count": "a number"},
        ((tool, arguments),),
        {"count": count},
        (_get("count", ">=", count), _get("count", "<=", count)),
    )


Said = JsonObject  # a message of the model: content, tool_calls and others
Behaviour = Callable[[OwnTask, int], Said]


def _says(content: str | None, **more: Any) -> Said:
    return {"role": "assistant", "content": content, **more}


def _calls(task: OwnTask, at: int, content: str | None = None, **more: Any) -> Said:
    return _raw(
        [(f"{task.server}__{name}", json.dumps(given)) for name, given in task.calls],
        at,
        content,
        **more,
    )


def _raw(calls: list[tuple[str, str]], at: int, content: str | None = None, **more: Any) -> Said:
    made = [
        {
            "id": f"call_{at}_{index}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for index, (name, arguments) in enumerate(calls)
    ]
    return _says(content, tool_calls=made, **more)


def _final(task: OwnTask, answer: object = None, thought: str = "As the tool says.") -> str:
    said = json.dumps(task.answer) if answer is None else answer
    return json.dumps({"thought": thought, "answer": said})


def _after_call(last: Callable[[OwnTask], str]) -> Behaviour:
    """One round of the right calls, then these words."""
    return lambda task, at: _says(last(task)) if at else _calls(task, at)


def _instead(first: Callable[[OwnTask, int], Said]) -> Behaviour:
    """This first, then as the right agent does it."""

    def reply(task: OwnTask, at: int) -> Said:
        if at == 0:
            return first(task, at)
        return _calls(task, at) if at == 1 else _says(_final(task))

    return reply


def _name(task: OwnTask) -> str:
    return f"{task.server}__{task.calls[0][0]}"


BEHAVIOURS: dict[str, Behaviour] = {
    "right": _after_call(_final),
    "right in a fence": _after_call(lambda task: f"```json\n{_final(task)}\n```"),
    "right amid words": _after_call(lambda task: f"So I found it.\n{_final(task)}\nThat is all."),
    "right as an object": _after_call(lambda task: _final(task, task.answer)),
    "right without a call": lambda task, at: _says(_final(task)),
    "wrong": _after_call(lambda task: _final(task, json.dumps(dict.fromkeys(task.answer, "x")))),
    "answers in words": _after_call(lambda task: f"The answer is {json.dumps(task.answer)}"),
    "answers with a number": _after_call(lambda task: _final(task, 5)),
    "answers with null": _after_call(lambda task: '{"thought": "t", "answer": null}'),
    "answers with nothing": _after_call(lambda task: _final(task, "")),
    "lists all answers": _after_call(lambda task: _final(task, f"{task.form} {task.answer}")),
    "recites the form": _after_call(lambda task: _final(task, json.dumps(task.form))),
    "asks first": _instead(lambda task, at: _says("Shall I begin?")),
    "is empty first": _instead(lambda task, at: _says("")),
    "sends blanks first": _instead(lambda task, at: _says("  \n ")),
    "thinks in JSON first": _instead(lambda task, at: _says('{"thought": "hm"}')),
    "leaves out its thought first": _instead(lambda task, at: _says('{"answer": "5"}')),
    "sends a list first": _instead(lambda task, at: _says('["answer"]')),
    "sends a text as JSON first": _instead(lambda task, at: _says('"the answer"')),
    "sends a number first": _instead(lambda task, at: _says("7")),
    "talks beside its calls": _instead(lambda task, at: _calls(task, at, " Let me look. ")),
    "thinks in a field of its own": _instead(
        lambda task, at: _calls(task, at, None, reasoning_content="I look it up.")
    ),
    "makes two calls in a reply": _instead(
        lambda task, at: _raw([(_name(task), json.dumps(task.calls[0][1]))] * 2, at)
    ),
    "calls another server": _instead(lambda task, at: _raw([("weather__now", "{}")], at)),
    "calls what there is not": _instead(
        lambda task, at: _raw([(f"{task.server}__fly", "{}"), (_name(task), "{}")], at)
    ),
    "calls by a wrong name": _instead(lambda task, at: _raw([("fly", "{}")], at)),
    "sends half of its arguments": _instead(lambda task, at: _raw([(_name(task), '{"a": ')], at)),
    "sends a list of arguments": _instead(lambda task, at: _raw([(_name(task), "[1]")], at)),
    "sends a wrong type": _instead(
        lambda task, at: _raw(
            [(_name(task), json.dumps({name: [] for name in task.calls[0][1]}))], at
        )
    ),
    "gives a surplus argument": _instead(
        lambda task, at: _raw([(_name(task), json.dumps({**task.calls[0][1], "zz": 1}))], at)
    ),
    "calls for ever": lambda task, at: _calls(task, at),
    "talks for ever": lambda task, at: _says("I am still thinking."),
    "is silent for ever": lambda task, at: _says(None),
    "answers in the last round": lambda task, at: (
        _says(_final(task)) if at == MAX_STEPS - 1 else _calls(task, at)
    ),
    "is cut off": _after_call(lambda task: _final(task)[:-9]),
}
# What is known to differ (docs/suites/mcp-universe.md).
KNOWN: dict[str, Behaviour] = {
    "calls by the bare name": _instead(
        lambda task, at: _raw([(task.calls[0][0], json.dumps(task.calls[0][1]))], at)
    ),
    "sends no text of arguments": _instead(lambda task, at: _raw([(_name(task), "")], at)),
    "repeats an id": _instead(
        lambda task, at: _says(
            None,
            tool_calls=[
                {"id": "one", "type": "function", "function": {"name": _name(task), "arguments": a}}
                for a in (json.dumps(task.calls[0][1]),) * 2
            ],
        )
    ),
    "the server fails": lambda task, at: {"status": 400},
}
