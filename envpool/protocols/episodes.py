"""What a protocol needs of the side that knows prompts and judges; the composition root hands it
in.

A world's episode over a protocol is judged by the same judge as every other episode, from the same
facts: the calls that its lease recorded, the answer, and the state at the end.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import msgspec

from rehearsal_room.envpool.core.types import StoredState, ToolSpec
from rehearsal_room.envpool.server.lease import RecordedCall
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario, Task


class PlayedWorld(msgspec.Struct, frozen=True):
    """An episode that is over."""

    scenario: Scenario
    task: Task
    episode: str  # its name
    wire: str  # the protocol, such as `openenv`
    calls: tuple[RecordedCall, ...]
    answer: str  # empty: none was given
    start_digest: str
    state: StoredState | None  # at the end; None: the world broke
    checked: tuple[Finding, ...] = ()  # findings that only the live world could give
    error: str | None = None  # why the world broke; None: it did not
    seconds: float = 0.0


class WorldVerdict(msgspec.Struct, frozen=True):
    """A judge's verdict on an episode."""

    label: str | None  # completed, partially_completed, …; None: it could not be judged
    reward: float | None  # None where the label is None
    judge: str  # which judge, as in `code`
    findings: tuple[Finding, ...] = ()
    unjudged: str | None = None  # why there is no label


def shown_findings(verdict: WorldVerdict) -> list[dict[str, object]]:
    """The findings as a client may see them, who may show them to the agent: by their kinds and
    numbers. Their names say what was expected, as "answer says '256.35'" does.

    Example: two goals, the second failed -> [{"name": "goal 1", "passed": True, "kind": "goal"},
        {"name": "goal 2", "passed": False, "kind": "goal"}]
    """
    count: Counter[str] = Counter()
    shown: list[dict[str, object]] = []
    for one in verdict.findings:
        count[one.kind] += 1
        name = f"{one.kind} {count[one.kind]}"
        shown.append({"name": name, "passed": one.passed, "kind": one.kind})
    return shown


def shown_reason(verdict: WorldVerdict) -> str:
    """Why there is no verdict, as a client may see it: without what a verifier raised, which can
    have values of the solution.

    Example: "the verifier raised KeyError: 256.35" -> "the verifier raised KeyError"
    """
    return (verdict.unjudged or "").partition(":")[0]


def failed_findings(verdict: WorldVerdict) -> list[object]:
    """The names of those that failed."""
    return [one["name"] for one in shown_findings(verdict) if not one["passed"]]


class Opening(msgspec.Struct, frozen=True):
    """One message with which an episode begins."""

    role: str  # system, user
    text: str


class Episodes(Protocol):
    """Prompts and verdicts for the worlds of a server."""

    def opening(
        self, scenario: Scenario, task: Task, tools: Sequence[ToolSpec]
    ) -> tuple[Opening, ...]:
        """The messages with which a task begins: the system prompt and the task."""

    async def verdict(self, played: PlayedWorld) -> WorldVerdict:
        """The verdict on an episode."""
