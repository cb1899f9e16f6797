"""The package into which a defect is injected, and the injected defect."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.envpool.inprocess.toolset import load
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.runners import InProcessRunner
from rehearsal_room.judge.core.verifier import Verifier
from rehearsal_room.judge.playback.attempts import mutants_on, writes_of
from rehearsal_room.judge.playback.playback import play
from rehearsal_room.scenarios.api import Row, RowChange
from rehearsal_room.scenarios.format import FILES, Call, Scenario, Task, read

_ATTEMPTS = 300  # that are tried on a verifier with a defect


class PlayedOracle(msgspec.Struct, frozen=True):
    """The results of a sound package's oracle."""

    task: Task
    results: tuple[ToolResult, ...]
    changes: tuple[RowChange, ...]  # net

    @property
    def steps(self) -> list[tuple[Call, ToolResult]]:
        """The calls with their results."""
        return list(zip(self.task.oracle, self.results, strict=True))


class TargetPackage:
    """A sound package: its texts, its rows at the start, its tools, and its oracles as played."""

    def __init__(self, folder: Path) -> None:
        self.scenario: Scenario = read(folder)
        self.texts = {name: (folder / name).read_text(encoding="utf-8") for name in FILES}
        with closing(HostedScenario(self.scenario)) as world:
            self.rows: dict[str, list[Row]] = world.dump(world.template.overlay())
            self.keys = {
                name: tuple(table.columns[index] for index in table.key)
                for name, table in world.template.tables.items()
            }
            self.tools: dict[str, ToolSpec] = {tool.name: tool for tool in world.tools}
            self.oracles = [_play(world, task) for task in self.scenario.tasks]

    def writers(self) -> list[str]:
        """The tools with which an oracle changes rows, in a fixed order."""
        names = {call.name for one in self.oracles for call, result in one.steps if result.changes}
        return sorted(names)

    def used(self) -> list[str]:
        """The tools that an oracle calls, in a fixed order."""
        return sorted({call.name for one in self.oracles for call in one.task.oracle})

    def properties(self, tool: str) -> dict[str, Any]:
        """The schemas of a tool's arguments, by name."""
        found: dict[str, Any] = self.tools[tool].schema.get("properties", {})
        return found

    def with_task(self, task: Task) -> "InjectedDefect":
        """The package with one task replaced by one of the same id."""
        tasks = [task if one.id == task.id else one for one in self.scenario.tasks]
        return InjectedDefect({"tasks.toml": toml_of(tasks)}, task.id)

    def answers(self, files: Mapping[str, str | None], calls: Sequence[Call]) -> list[ToolResult]:
        """The results of calls, in a row, in the package with other texts. Raises SeedError
        and ToolsetError when that cannot be hosted."""
        texts = {**self.texts, **{name: text or "" for name, text in files.items()}}
        scenario = msgspec.structs.replace(
            self.scenario, schema_sql=texts["schema.sql"], data_sql=texts["data.sql"]
        )
        with closing(HostedScenario(scenario, tools=load(scenario, texts["tools.py"]))) as world:
            lease = world.lease()
            return [lease.call(call.name, call.arguments) for call in calls]

    def is_fooled(self, injected: "InjectedDefect") -> bool:
        """Whether the changed verifier completes a wrong attempt: the oracle with one mistake, or
        followed by another task's write. A verifier that no attempt of an agent can fool is not
        worse than before."""
        task = self.scenario.task(injected.where)
        verifier = Verifier(self.scenario, injected.files["verify.py"] or "")
        with closing(HostedScenario(self.scenario)) as world:
            judge = CodeJudge(self.scenario, InProcessRunner(world, verifier))
            tasks = self.scenario.tasks
            oracles = {one.id: play(world, one, one.oracle, one.answer) for one in tasks}
            oracle, writes = oracles[task.id], writes_of(oracles)
            tried = mutants_on(world, task, oracle, writes, seed=1, most=_ATTEMPTS)[0]
            attempts = [(mutant.calls, mutant.utterances) for mutant in tried]
            attempts += [
                ((*task.oracle, call), task.utterances)
                for other, call in writes
                if other != task.id
            ]
            for calls, utterances in attempts:
                played = play(world, task, calls, task.answer, utterances)
                judged = judge.verdict_at_once(played.trajectory)
                if played.state.digest != oracle.state.digest and judged.label is Label.COMPLETED:
                    return True
        return False


class InjectedDefect(msgspec.Struct, frozen=True):
    """An injected defect: the changed files, and where it is."""

    files: dict[str, str | None]  # None: the file is removed
    where: str = ""  # a task, a tool, a table; empty: the package


Inject = Callable[[TargetPackage, Random], InjectedDefect | None]


class Defect(msgspec.Struct, frozen=True):
    """One kind of defect. `inject` returns None where it does not apply."""

    kind: str
    summary: str  # what is wrong, in one sentence
    inject: Inject
    beyond: str = ""  # why no check can see it from the package alone; empty: one can
    listed: bool = False  # the gate lists such tools as unreached; it does not fail the world


def defect(*, beyond: str = "", listed: bool = False) -> Callable[[Inject], Defect]:
    """Make a kind of defect from a function that injects it: the function's name is the kind, the
    first paragraph of its docstring the summary."""

    def made(inject: Inject) -> Defect:
        summary = " ".join((inject.__doc__ or "").split("\n\n")[0].split())
        return Defect(inject.__name__, summary, inject, beyond, listed)

    return made


def toml_of(tasks: Iterable[Task]) -> str:
    """The text of a tasks.toml."""
    found = [
        {name: value for name, value in msgspec.to_builtins(task).items() if value is not None}
        for task in tasks
    ]
    return msgspec.toml.encode({"task": found}).decode()


def _play(world: HostedScenario, task: Task) -> PlayedOracle:
    played = play(world, task, task.oracle, task.answer)
    return PlayedOracle(task, played.results, played.changes)
