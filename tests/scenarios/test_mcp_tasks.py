"""Task files for MCP servers: what they contain, and a sentence for every fault."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.call_checks import CallCheck, Expectation, McpRecord, parse_path
from rehearsal_room.scenarios.errors import PackageError, UnknownScenario
from rehearsal_room.scenarios.format import Call, Scenario, Task
from rehearsal_room.scenarios.mcp_tasks import answer_findings, read_mcp_tasks, read_openenv_tasks

HEAD = 'name = "notes"\ndescription = "Notes"\n'
TASK = '[[task]]\nid = "milk"\ninstruction = "Note milk."\n'
CHECK = '[[task.check]]\nname = "list"\n'


def task_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tasks.toml"
    path.write_text(text)
    return path


def test_a_file_is_a_scenario(tmp_path: Path) -> None:
    """Everything in a task file is in the scenario; the digest covers the file and the server."""
    text = f"""{HEAD}
title = "Notebook"
version = "2"
policy = " Keep them. "
clock = "2026-03-14T09:30:00Z"
[user]
id = "u1"
name = "Ada"
role = "owner"
{TASK}
answer = "2"
difficulty = "simple"
oracle = [{{ name = "add", arguments = {{ text = "milk" }} }}]
{CHECK}
arguments = {{ n = 1 }}
expect = {{ path = "notes[0]", value = "milk" }}
kind = "guard"
"""
    path = task_file(tmp_path, text)
    scenario = read_mcp_tasks(path, "http://127.0.0.1:1/mcp")
    check = CallCheck("list", Expectation(path="notes[0]", value="milk"), {"n": 1}, "guard")
    oracle = (Call("add", {"text": "milk"}),)
    assert scenario == Scenario(
        name="notes",
        title="Notebook",
        version="2",
        description="Notes",
        clock="2026-03-14T09:30:00Z",
        user=User("u1", "Ada", "owner"),
        schema_sql="",
        data_sql="",
        rules="Keep them.",
        tasks=(Task("milk", "Note milk.", "simple", "open", "2", oracle),),
        path=path,
        digest=scenario.digest,
        foreign=McpRecord("http://127.0.0.1:1/mcp", {"milk": (check,)}),
    )
    assert len({scenario.digest, read_mcp_tasks(path, "http://127.0.0.1:2/mcp").digest}) == 2
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(check), type=CallCheck) == check


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name = ", "not valid TOML"),
        (HEAD, "object missing required field `task`"),
        (HEAD + "task = []", "task: the file has no task"),
        (HEAD.replace("notes", "No tes"), "object missing required field `task`"),
        (HEAD.replace('"notes"', '"No tes"') + TASK, "name: 'No tes' is not a lower-case"),
        (HEAD.replace('"Notes"', '" "') + TASK, "description: must not be empty"),
        (f'{HEAD}clock = "noon"\n{TASK}', "clock: 'noon' is not a moment in UTC"),
        (f"{HEAD}titel = 1\n{TASK}", "unknown field `titel`; did you mean 'title'?"),
        (HEAD + TASK, "line 3: task 'milk': it has neither answer nor check"),
        (
            HEAD + TASK.replace('"milk"', '"Mi lk"'),
            "line 3: task 'Mi lk': id: 'Mi lk' is not a lower-case word",
        ),
        (f'{HEAD}{TASK}answer = "1"\n{TASK}', "line 7: task 'milk': id: 'milk' occurs twice"),
        (f'{HEAD}{TASK.replace("Note milk.", "")}answer = "1"', "instruction: must not be empty"),
        (
            f'{HEAD}{TASK}answer = "1"\noracle = [{{ name = "a", arguments = {{ d = nan }} }}]',
            "line 3: task 'milk': oracle[0].arguments.d: nan has no form in JSON",
        ),
        (HEAD + TASK + CHECK, "task 'milk': check[0]: object missing required field `expect`"),
        (f"{HEAD}{TASK}{CHECK}expect = {{}}", "check[0].expect: expected one of contains, lacks"),
        (
            f'{HEAD}{TASK}{CHECK}expect = {{ contains = "a", equals = "b" }}',
            "expected one of contains, lacks, equals, matches, value, fails, found contains and eq",
        ),
        (
            f'{HEAD}{TASK}{CHECK}expect = {{ contains = "a", path = "b" }}',
            "check[0].expect: path: only allowed together with value",
        ),
        (
            f'{HEAD}{TASK}{CHECK}expect = {{ path = "a..b", value = 1 }}',
            "check[0].expect: path: 'a..b' is not a path such as notes[0].text",
        ),
        (
            f'{HEAD}{TASK}{CHECK}expect = {{ matches = "(" }}',
            "check[0].expect: matches: '(' is not a regular expression",
        ),
        (
            f"{HEAD}{TASK}{CHECK}expect = {{ value = 2026-03-14 }}",
            "check[0].expect.value: 2026-03-14 has no form in JSON",
        ),
        (f"{HEAD}{TASK}{CHECK}expect = {{ fails = false }}", "'milk': check[0].expect.fails: "),
        (
            f'{HEAD}{TASK}{CHECK}expect = {{ fails = true }}\nkind = "gaol"',
            "line 3: task 'milk': check[0].kind: 'gaol' is not one of 'goal', 'guard'",
        ),
    ],
)
def test_the_fault_of_a_broken_file_is_named(tmp_path: Path, text: str, why: str) -> None:
    """Every fault of a task file is a sentence that names the file and the field."""
    path = task_file(tmp_path, text)
    with pytest.raises(PackageError) as raised:
        read_mcp_tasks(path, "a server")
    assert str(raised.value).startswith(f"{path}: ")
    assert why in str(raised.value)


def test_a_file_for_an_openenv_environment(tmp_path: Path) -> None:
    """Its tasks have options for reset and a sum of rewards, and need neither answer nor check."""
    text = f"{HEAD}{TASK}reset = {{ seed = 3 }}\n[[task]]\nid = 'b'\ninstruction = 'B'\nreward = 2"
    scenario = read_openenv_tasks(task_file(tmp_path, text), "http://127.0.0.1:1")
    assert scenario.foreign == McpRecord(
        "http://127.0.0.1:1",
        {"milk": (), "b": ()},
        {"milk": {"seed": 3}, "b": {}},
        {"milk": 1.0, "b": 2.0},
    )
    with pytest.raises(PackageError, match="reset"):
        read_mcp_tasks(task_file(tmp_path, text), "a server")
    wrong = task_file(tmp_path, f"{HEAD}{TASK}reset = {{ at = 2026-03-14 }}")
    with pytest.raises(PackageError, match="2026-03-14 has no form in JSON"):
        read_openenv_tasks(wrong, "http://127.0.0.1:1")


def test_an_unknown_task_of_a_task_file(tmp_path: Path) -> None:
    """The error names the file that lists the tasks."""
    path = task_file(tmp_path, f'{HEAD}{TASK}answer = "1"')
    with pytest.raises(UnknownScenario) as raised:
        read_mcp_tasks(path, "a server").task("mlik")
    assert str(raised.value) == (
        f"scenario 'notes' has no task 'mlik'; did you mean 'milk'? It has 1 task, listed in {path}"
    )


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("", ()),
        ("notes", ("notes",)),
        ("notes[0].text", ("notes", 0, "text")),
        ("[-1][2].a b", (-1, 2, "a b")),
        ("a.", None),
        (".a", None),
        ("a.[0]", None),
        ("a[x]", None),
        ("a[0]b", None),
    ],
)
def test_paths(path: str, steps: tuple[str | int, ...] | None) -> None:
    """A path consists of names after dots and positions in brackets."""
    assert parse_path(path) == steps


NOTES = '{"notes":[{"id":1,"done":true},{"id":2.0,"done":false}]}'


@pytest.mark.parametrize(
    ("expect", "text", "met", "found"),
    [
        ({"contains": "milk"}, "oat  milk", True, "oat milk"),
        ({"contains": "milk"}, "tea", False, "tea"),
        ({"lacks": "milk"}, "tea", True, "tea"),
        ({"lacks": "milk"}, "oat milk", False, "oat milk"),
        ({"equals": "tea"}, " tea\n", True, "tea"),
        ({"equals": "tea"}, "teas", False, "teas"),
        ({"matches": r"^\d+ notes$"}, "12 notes", True, "12 notes"),
        ({"matches": r"^\d+ notes$"}, "no notes", False, "no notes"),
        ({"path": "notes[0].id", "value": 1}, NOTES, True, "1"),
        ({"path": "notes[1]", "value": {"done": False, "id": 2}}, NOTES, True, None),
        ({"path": "notes[0].done", "value": 1}, NOTES, False, "true"),
        ({"path": "notes[0].id", "value": True}, NOTES, False, "1"),
        ({"path": "notes[0]", "value": {"id": 1}}, NOTES, False, None),
        ({"path": "notes", "value": []}, NOTES, False, None),
        ({"path": "notes[2].id", "value": 1}, "[]", False, "nothing at this path: []"),
        ({"value": [1, 2]}, "[1,2]", True, "[1,2]"),
        ({"value": 1}, "one", False, "not JSON: one"),
        ({"contains": "x"}, "x" * 300, True, "x" * 200 + "…"),
    ],
)
def test_expectations(expect: dict[str, Any], text: str, met: bool, found: str | None) -> None:
    """Each rule accepts what it names and shows what was found, shortened; a failed call satisfies
    only `fails`, and nothing else satisfies `fails`."""
    rule = msgspec.convert(expect, Expectation)
    assert rule.fault() == ""
    passed, shown = rule.check(text, failed=False)
    assert (passed, shown if found is not None else None) == (met, found)
    assert rule.check("no", failed=True) == (False, "error: no")
    fails = Expectation(fails=True)
    assert fails.check(text, failed=True)[0]
    assert not fails.check(text, failed=False)[0]


def test_an_answer_that_holds_everything_is_left_open(tmp_path: Path) -> None:
    """Numbers without end hold the expected one, too; that shows nothing."""
    text = 'name = "notes"\ndescription = "Notes"\n[[task]]\nid = "n"\ninstruction = "How many?"\n'
    (task,) = read_mcp_tasks(task_file(tmp_path, text + 'answer = "3"\n'), "a server").tasks
    (said,) = answer_findings(task, f"It is {task.answer}.")
    (heap,) = answer_findings(task, f"{task.answer} " + " ".join(map(str, range(200))))
    (wrong,) = answer_findings(task, "I could not do it.")
    assert (said.passed, heap.passed, heap.is_open, wrong.passed) == (True, False, True, False)
