"""In which world a conversation happened: the one that the user or the file names, if its task is
known there."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.interop.imports.conversations import ImportedConversation
from rehearsal_room.scenarios.errors import ScenarioError, UnknownScenario
from rehearsal_room.scenarios.format import Scenario, Task

Find = Callable[[str], Scenario]


class Candidate(NamedTuple):
    """The world in which a conversation may have happened; or why none is known."""

    scenario: Scenario | None
    task: Task | None
    why: str = ""  # empty: there is a world


class WorldFinder:
    """Finds the worlds of conversations. `named` is what the user says of all of them, as in
    `shop_support:cancel-pending`; empty: what each file says.

    Raises SettingsError for a scenario or task that the user names and that does not exist.
    """

    def __init__(self, find: Find, named: str = "") -> None:
        self._find = find
        self._known: dict[str, Scenario] = {}
        self._name, _, self._task = named.partition(":")
        if self._name:
            try:
                scenario = self._scenario(self._name)
                if self._task:
                    scenario.task(self._task)
            except ScenarioError as exc:
                raise SettingsError(f"--scenario: {exc}") from exc

    def candidate(self, conversation: ImportedConversation) -> Candidate:
        """The world and task of a conversation."""
        name = self._name or conversation.scenario
        if not name:
            return Candidate(None, None, "neither --scenario nor the file names a world")
        try:
            scenario = self._scenario(name)
        except ScenarioError as exc:
            return Candidate(None, None, f"its world was not found: {exc}")
        task = self._task_of(scenario, conversation)
        if task is None:
            return Candidate(
                None,
                None,
                f"no task of {scenario.name} has its instruction; name it (--scenario {name}:TASK)",
            )
        return Candidate(scenario, task)

    def _scenario(self, name: str) -> Scenario:
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def _task_of(self, scenario: Scenario, conversation: ImportedConversation) -> Task | None:
        """The task that is named, or the one with the conversation's first words."""
        for task_id in (self._task, conversation.task):
            if task_id:
                try:
                    return scenario.task(task_id)
                except UnknownScenario:
                    continue
        return _with_instruction(scenario.tasks, conversation.instruction)


def _with_instruction(tasks: Sequence[Task], instruction: str) -> Task | None:
    wanted = " ".join(instruction.split())
    return next((task for task in tasks if " ".join(task.instruction.split()) == wanted), None)
