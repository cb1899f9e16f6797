"""Worlds as TRL's environments: classes, rows, rewards. TRL itself: tests/integrations/trl."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_type_hints

import pytest

from rehearsal_room.bridges.asked_episodes import OpenRun
from rehearsal_room.bridges.background import BackgroundRun
from rehearsal_room.bridges.trainers.trl import environments, judged_reward, meta_environment, rows
from rehearsal_room.bridges.trainers.trl_tools import method_of
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.reader import open_reader
from tests.bridges.trainers import stubs
from tests.bridges.trainers.stubs import TASK


@pytest.fixture
def run(tmp_path: Path) -> Iterator[BackgroundRun]:
    made = stubs.run_in(tmp_path)
    yield made
    made.close()


def solved(run: BackgroundRun, environment: Any, *, meta: bool = False) -> list[dict[str, Any]]:
    """Solve the task through the environment's tools; the completion as TRL has it."""
    environment.reset(task=TASK, prompt=[], environment="library")
    _, task = run.tasks[TASK]
    for call in task.oracle:
        if meta:
            text = environment.call_tool(call.name, dict(call.arguments))
        else:
            text = getattr(environment, call.name)(**call.arguments)
        assert text
    return [{"role": "assistant", "content": task.answer}]


def test_a_class_for_a_world(run: BackgroundRun) -> None:
    """Its public functions are the world's tools and reset, as TRL looks for them; each has typed
    parameters, those that are not required a default, and a docstring that names them."""
    kind = environments(run)["library"]
    found = {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"}
    tools = {tool.name: tool for tool in _tools(run)}
    assert found == {*tools, "reset"}
    for name, tool in tools.items():
        method = getattr(kind(), name)
        parameters = inspect.signature(method).parameters
        assert list(parameters) == list(tool.schema.get("properties", {}))
        required = {key for key, one in parameters.items() if one.default is one.empty}
        assert required == set(tool.schema.get("required", []))
        assert all(one.annotation is not one.empty for one in parameters.values())
        assert all(f"    {key}: " in (method.__doc__ or "") for key in parameters)


def _tools(run: BackgroundRun) -> tuple[ToolSpec, ...]:
    return run.call(OpenRun.briefing, TASK).tools


def test_rewards_of_what_was_done(run: BackgroundRun) -> None:
    """A solved task earns 1, one in which nothing was done less, one that was cut off 0."""
    kind = environments(run)["library"]
    one, two, three = kind(), kind(), kind()
    completions = [solved(run, one), [{"role": "assistant", "content": "No."}]]
    two.reset(task=TASK)
    three.reset(task=TASK)
    completions.append([{"role": "assistant", "tool_calls": [{"function": {}}]}])
    rewards = judged_reward(completions=completions, environments=[one, two, three], prompts=[])
    assert rewards[0] == 1.0 and rewards[2] == 0.0
    assert rewards[1] is not None and rewards[1] < 1.0


def test_an_environment_is_used_again(run: BackgroundRun) -> None:
    """Each reset is a new episode in a fresh world; one that was left is cancelled."""
    environment = environments(run)["library"]()
    environment.reset(task=TASK)
    for _ in range(2):
        completion = solved(run, environment)
        assert judged_reward([completion], [environment]) == [1.0]
    run.close()
    with open_reader(Path(str(run).split()[-1].rstrip(">"))) as reader:
        endings = [str(row.ending) for row in reader.episodes()]
    assert endings == ["cancelled", "answered", "answered"]


def test_an_environment_with_its_own_reward(run: BackgroundRun) -> None:
    """With own_reward the model answers by a tool, after which no call is made."""
    environment: Any = environments(run, own_reward=True)["library"]()
    (answer,) = solved(run, environment)
    environment.submit_answer(answer["content"])
    assert environment.list_overdue() == "The episode is over; no further call is made."
    assert environment.get_reward() == 1.0


def test_the_meta_tools(run: BackgroundRun) -> None:
    """One class serves all worlds: it lists the tools and calls them by name."""
    environment: Any = meta_environment(run)()
    completion = solved(run, environment, meta=True)
    lines = environment.list_tools().splitlines()
    assert [line.partition(":")[0] for line in lines] == [tool.name for tool in _tools(run)]
    assert judged_reward([completion], [environment]) == [1.0]


def test_rows(run: BackgroundRun) -> None:
    """A row has the agent's whole prompt and the task, and with many worlds its environment."""
    found = rows(run, many_worlds=True)
    assert [row["task"] for row in found] == list(run.tasks)
    (row,) = [row for row in found if row["task"] == TASK]
    assert row["environment"] == "library"
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    assert row["prompt"][1]["content"] == run.tasks[TASK][1].instruction
    assert set(rows(run)[0]) == {"prompt", "task"}


def test_windows_are_refused(tmp_path: Path) -> None:
    """TRL keeps the conversation itself, so that a windowed history is refused."""
    run = stubs.run_in(tmp_path, "last:3")
    for make in (environments, meta_environment):
        with pytest.raises(SettingsError, match="TRL takes one sequence an episode"):
            make(run)


def test_a_method_of_a_tool() -> None:
    """Types, choices, defaults and bounds are in the signature or the docstring."""
    schema = {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["a", "b"]},
            "limit": {"type": "integer", "minimum": 1, "default": 20, "description": "rows"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "ids": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["kind", "ids"],
    }
    made = method_of(ToolSpec("find", "Find\n  rows.", schema), lambda _self, *call: repr(call))
    assert get_type_hints(made) == {
        "kind": Literal["a", "b"],
        "limit": int,
        "note": str | None,
        "ids": list[int],
        "return": str,
    }
    assert made.__doc__ is not None and "limit: rows (minimum 1)" in made.__doc__
    assert made(None, kind="a", ids=[1]) == "('find', {'kind': 'a', 'ids': [1]})"


@pytest.mark.parametrize("name", ["reset", "get_reward", "_hidden", "no name"])
def test_names_that_trl_would_not_show(name: str) -> None:
    """A tool that TRL would take for its own method is refused, with what to do."""
    with pytest.raises(SettingsError, match="use the two meta-tools instead"):
        method_of(ToolSpec(name, "", {}), lambda *_: "")
