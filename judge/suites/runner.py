"""A suite's own scoring as the verifier of its scenarios.

The suite's program plays the logged calls again and scores them (envpool.objects), so an episode is
judged from its log like any other. Its findings reproduce the official verdict: an episode is
completed where the suite counts it as solved.
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.router import ScoringPool
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import Ending, ModelJudgement, VerifierRun
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import NO_SCORE
from rehearsal_room.judge.code.runners import OraclePlay
from rehearsal_room.judge.core.case import VerifierSource
from rehearsal_room.judge.core.evidence import Verification, ended_of
from rehearsal_room.judge.suites.talk import talk_of
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import Scenario, Task

_RUN = VerifierRun("worker")


class AskModel(Protocol):
    """A model that answers the questions of a suite's own score."""

    async def __call__(self, messages: list[dict[str, str]]) -> tuple[str, ModelJudgement]:
        """Its answer to messages, each with role and content, and a judgement without a label that
        has what it took. Raises PolicyError."""

    async def forget(self, messages: list[dict[str, str]]) -> None:
        """Do not use its answer again: it cannot be read."""


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
        ended = ended_of(trajectory)
        is_open = any(one.is_open for one in ended.checked)
        if ended.checked and not (is_open and self._asks is not None):
            return Verification(ended.checked, run=_RUN)  # they were made in the world itself
        is_over = ended.ending is Ending.ANSWERED
        return await self._score(task, talk_of(trajectory), is_over=is_over)

    async def verify_idle(self, task: Task) -> Verification:
        """See VerifierRunner."""
        return await self._score(task, [])

    async def play_oracle(self, task: Task) -> OraclePlay | None:
        """See VerifierRunner: a benchmark's own checks are its score."""
        return None

    async def _score(
        self, task: Task, talk: list[dict[str, Any]], *, is_over: bool = False
    ) -> Verification:
        scenario, answers = self._scenario, list[str]()
        latest: list[list[dict[str, str]]] = []  # asked at once; the answers before were read
        spent: list[ModelJudgement] = []
        if scenario.suite is not None and scenario.suite.unscored:
            return Verification((), NO_SCORE)
        try:
            if is_over and self._asks is not None:
                # A question may follow on the answers to those before it.
                while questions := await self._pool.questions(scenario, task, talk, answers):
                    latest = questions
                    for question in questions:
                        answer, one = await self._asks(question)
                        answers.append(answer)
                        spent.append(one)
            findings = await self._pool.score(
                scenario, task, talk, answers or None, broken_off=not is_over
            )
        except (PolicyError, PoolError) as exc:
            if self._asks is not None and isinstance(exc, PoolError):
                for question in latest:  # any of the answers may be the one that cannot be read
                    await self._asks.forget(question)
            why = f"the episode could not be scored: {exc}"
            return Verification((), why, asked=_in_all(spent, why))
        return Verification(findings, run=_RUN, asked=_in_all(spent))


def _in_all(spent: Sequence[ModelJudgement], fault: str = "") -> ModelJudgement | None:
    """What all answers took; None: nobody was asked."""
    if not spent:
        return None
    prices = [one.cost_usd for one in spent]
    known = [price for price in prices if price is not None]
    return msgspec.structs.replace(
        spent[0],
        fault=fault,
        reasoning=f"{plural(len(spent), 'answer')} to the benchmark's own questions",
        requests=sum(one.requests for one in spent),
        prompt_tokens=sum(one.prompt_tokens for one in spent),
        cached_tokens=sum(one.cached_tokens for one in spent),
        completion_tokens=sum(one.completion_tokens for one in spent),
        cost_usd=math.fsum(known) if len(known) == len(prices) else None,
        is_cached=all(one.is_cached for one in spent),
        seconds=math.fsum(one.seconds for one in spent),
    )
