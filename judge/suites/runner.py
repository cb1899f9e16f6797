"""A suite's own scoring as the verifier of its scenarios.

The suite's program plays the logged calls again and scores them (envpool.objects), so an episode is
judged from its log like any other. Its findings reproduce the official verdict: an episode is
completed where the suite counts it as solved.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.router import ScoringPool
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import Ending, VerifierRun
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.code.runners import OraclePlay
from rehearsal_room.judge.core.case import VerifierSource
from rehearsal_room.judge.core.evidence import Verification, ended_of
from rehearsal_room.judge.suites.talk import talk_of
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import Scenario, Task

# The text with which a model answers messages, each with role and content. Raises PolicyError.
AskModel = Callable[[list[dict[str, str]]], Awaitable[str]]
_RUN = VerifierRun("worker")


class SuiteRunner:
    """Scores the episodes of one scenario of a suite (judge.code.runners.VerifierRunner)."""

    kind: VerifierSource = "suite"
    suspends = True

    def __init__(self, scenario: Scenario, pool: ScoringPool, asks: AskModel | None = None) -> None:
        """`asks` is the model on which a part of the score may depend; None: nobody is asked."""
        self._scenario = scenario
        self._pool = pool
        self._asks = asks

    async def verify(
        self, task: Task, trajectory: Trajectory, changes: Sequence[RowChange], *, observe: bool
    ) -> Verification:
        """See VerifierRunner."""
        talk, ending = talk_of(trajectory), ended_of(trajectory).ending
        return await self._score(task, talk, asks=ending is Ending.ANSWERED)

    async def verify_idle(self, task: Task) -> Verification:
        """See VerifierRunner."""
        return await self._score(task, [])

    async def play_oracle(self, task: Task) -> OraclePlay | None:
        """See VerifierRunner: a benchmark's own checks are its score."""
        return None

    async def _score(
        self, task: Task, talk: list[dict[str, Any]], *, asks: bool = False
    ) -> Verification:
        scenario, answers = self._scenario, None
        if scenario.suite is not None and scenario.suite.unscored:
            return Verification((), "it has no score: others begin where it ends")
        try:
            if asks and self._asks is not None:
                questions = await self._pool.questions(scenario, task, talk)
                answers = [await self._asks(question) for question in questions]
            findings = await self._pool.score(scenario, task, talk, answers or None)
        except (PolicyError, PoolError) as exc:
            return Verification((), f"the episode could not be scored: {exc}")
        return Verification(findings, run=_RUN)
