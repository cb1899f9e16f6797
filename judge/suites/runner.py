"""A suite's own scoring as the verifier of its scenarios.

The suite's program plays the logged calls again and scores them (envpool.objects), so an episode is
judged from its log like any other. Its findings reproduce the official verdict: an episode is
completed where the suite counts it as solved.
"""

from collections.abc import Sequence
from typing import Any

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.router import ScoringPool
from rehearsal_room.harness.core.events import VerifierRun
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.core.case import VerifierSource
from rehearsal_room.judge.core.evidence import Verification
from rehearsal_room.judge.suites.talk import talk_of
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import Scenario, Task

_RUN = VerifierRun("worker")


class SuiteRunner:
    """Scores the episodes of one scenario of a suite (judge.code.runners.VerifierRunner)."""

    kind: VerifierSource = "suite"
    suspends = True

    def __init__(self, scenario: Scenario, pool: ScoringPool) -> None:
        self._scenario = scenario
        self._pool = pool

    async def verify(
        self, task: Task, trajectory: Trajectory, changes: Sequence[RowChange], *, observe: bool
    ) -> Verification:
        """See VerifierRunner."""
        return await self._score(task, talk_of(trajectory))

    async def verify_idle(self, task: Task) -> Verification:
        """See VerifierRunner."""
        return await self._score(task, [])

    async def _score(self, task: Task, talk: list[dict[str, Any]]) -> Verification:
        try:
            findings = await self._pool.score(self._scenario, task, talk)
        except PoolError as exc:
            return Verification((), f"the episode could not be scored: {exc}")
        return Verification(findings, run=_RUN)
