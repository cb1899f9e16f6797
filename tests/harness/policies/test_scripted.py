"""Policies whose calls are written down: oracle, noop and scripts."""

import json
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.noop import NoopPolicy
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.policies.scripted import ScriptedPolicy
from rehearsal_room.scenarios.format import Call
from tests.support.assignments import NATIVE, VOID, assignment, played
from tests.support.prompts import DIALECTS


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
async def test_the_oracle(dialect: Dialect) -> None:
    """The oracle makes the task's calls, one per turn, and gives its answer, in every dialect."""
    policy = OraclePolicy(dialect)
    for _ in range(2):
        agent = policy.agent(assignment())
        assert await played(agent, dialect) == (list(VOID.oracle), VOID.answer)


async def test_noop() -> None:
    """The no-op makes no call and gives an empty answer."""
    assert await played(NoopPolicy(NATIVE).agent(assignment())) == ([], "")


def script(path: Path, *lines: Any) -> Path:
    file = path / "script.jsonl"
    file.write_text("".join(json.dumps(line) + "\n\n" for line in lines), encoding="utf-8")
    return file


def line(answer: Any = "Done.", **changed: Any) -> dict[str, Any]:
    called = [{"name": "ping"}, {"name": "void_order", "arguments": {"order_id": 7}}]
    return {"scenario": "shop", "task": "void-7", "calls": called, "answer": answer, **changed}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
async def test_a_script(tmp_path: Path, dialect: Dialect) -> None:
    """A script's calls are made in order, and its answer is given."""
    policy = ScriptedPolicy(script(tmp_path, line()), dialect)
    expected = [Call("ping"), Call("void_order", {"order_id": 7})]
    assert await played(policy.agent(assignment()), dialect) == (expected, "Done.")


async def test_lines_go_by_member(tmp_path: Path) -> None:
    """Several lines for a task are for the members of a group in order; a larger group starts again
    with the first."""
    policy = ScriptedPolicy(script(tmp_path, line("one"), line("two")), NATIVE)
    agents = [policy.agent(assignment(member=member)) for member in (0, 1, 2)]
    assert [(await played(agent))[1] for agent in agents] == ["one", "two", "one"]


def test_a_task_without_a_line(tmp_path: Path) -> None:
    """A task without a line in the script is named before the run starts."""
    policy = ScriptedPolicy(script(tmp_path, line()), NATIVE)
    policy.require([("shop", "void-7")])
    with pytest.raises(SettingsError, match="no line for task 'void-8' of scenario 'shop'"):
        policy.require([("shop", "void-7"), ("shop", "void-8")])


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (line(answer=7), "line 3: answer: expected `str`, got `int`"),
        (line(calls=[{"arguments": {}}]), r"line 3: calls\[0\]: object missing required field"),
        (line(extra=1), "line 3: object contains unknown field `extra`"),
        (["no object"], "line 3: expected `object`, got `array`"),
    ],
)
def test_a_bad_line(tmp_path: Path, bad: Any, sentence: str) -> None:
    """The error for an invalid script names the file, the line and the field."""
    file = script(tmp_path, line(), bad)
    with pytest.raises(SettingsError, match=f"^{file}: {sentence}"):
        ScriptedPolicy(file, NATIVE)


def test_a_file_that_is_not_a_script(tmp_path: Path) -> None:
    """Broken JSON, a missing file and bytes that are not text are one sentence each."""
    file = tmp_path / "script.jsonl"
    with pytest.raises(SettingsError, match=r"script\.jsonl: the script cannot be read"):
        ScriptedPolicy(file, NATIVE)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="cannot be read as UTF-8"):
        ScriptedPolicy(file, NATIVE)
    file.write_text('{"scenario": ')
    with pytest.raises(SettingsError, match="line 1: not valid JSON"):
        ScriptedPolicy(file, NATIVE)
    file.write_text(json.dumps(line("<think>")))
    with pytest.raises(SettingsError, match="line 1: answer: an answer cannot hold <think>"):
        ScriptedPolicy(file, NATIVE)
