"""What a benchmark's own score asks a model: questions that follow on answers, kept and paid."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.harness.chat.budget import Budget
from rehearsal_room.harness.chat.prices import Price, Prices
from rehearsal_room.harness.core.events import Ending, EpisodeEnded, Judged, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.policies.openai import OpenAISettings
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.core.rewards import AWM
from rehearsal_room.judge.llm.client import ChatJudgeModel
from rehearsal_room.judge.llm.kept_answers import KeptAnswers
from rehearsal_room.judge.llm.llm_judge import LLMJudge
from rehearsal_room.judge.llm.rubric import read_rubric
from rehearsal_room.judge.llm.verdict_cache import VerdictCache
from rehearsal_room.judge.suites.runner import SuiteRunner
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Task
from tests.support.cases import STATE
from tests.support.events import STARTED
from tests.support.model_server import Completes, ModelServer, Status
from tests.support.run_context import plans

(PLAN,) = plans()
WINDOWS = 3
TEXT = "\u4e00 \ud800"  # no text that UTF-8 can hold


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Windows:
    """A suite whose score asks about three windows, each with the answer to the last one
    (envpool.router.ScoringPool)."""

    def __init__(self) -> None:
        self.scored: list[Any] = []

    async def questions(
        self, scenario: Any, task: Task, talk: Any, answers: Sequence[str] = ()
    ) -> list[list[dict[str, str]]]:
        if len(answers) == WINDOWS:
            return []
        before = answers[-1] if answers else "none"
        content = f"window {len(answers)}, after {before}"
        return [[{"role": "user", "content": content}]]

    async def score(
        self,
        scenario: Any,
        task: Task,
        talk: Any,
        answers: Sequence[str] | None = None,
        *,
        broken_off: bool = False,
    ) -> tuple[Finding, ...]:
        self.scored.append((answers, broken_off))
        if answers is None and not broken_off:
            raise PoolError("a model decides on the rubrics")
        if answers and answers[-1] == "what?":
            raise PoolError("the answer cannot be read")
        met = bool(answers) and answers is not None and answers[-1].startswith("yes")
        return (Finding("rubric 1", met, "met", "", "goal", share=float(met)),)


def played(ending: Ending = Ending.ANSWERED) -> Trajectory:
    started = msgspec.structs.replace(STARTED, scenario=PLAN.scenario.name, task=PLAN.task.id)
    return Trajectory("e0", 1, started, (), EpisodeEnded(ending, "", 0, STATE))


@asynccontextmanager
async def judging(
    url: str, folder: Path, pool: Windows, budget: float | None = None
) -> AsyncIterator[LLMJudge]:
    """The hybrid judge of the suite's episodes."""
    settings = OpenAISettings("m", base_url=url, max_tokens=1, max_attempts=1, first_wait_s=0.001)
    prices = Prices({"m": Price(1e6, 1e6, 0.0)})  # 1 USD a token
    model = ChatJudgeModel(settings, prices=prices, budget=Budget(budget))
    async with model, VerdictCache(folder / "verdicts.sqlite") as cache:
        runner = SuiteRunner(PLAN.scenario, pool, KeptAnswers(model, cache))
        yield LLMJudge(
            _Cases(CodeJudge(PLAN.scenario, runner)),
            [model],
            JudgeSettings(mode="hybrid", models=("m",)),
            rubric=read_rubric(None),
            profile=AWM,
            cache=cache,
        )


class _Cases:
    def __init__(self, judge: CodeJudge) -> None:
        self._judge = judge

    async def case(self, trajectory: Trajectory) -> Any:
        return await self._judge.case(trajectory)


async def verdict(url: str, folder: Path, pool: Windows, budget: float | None = None) -> Judged:
    async with judging(url, folder, pool, budget) as judge:
        return await judge.verdict(played())


async def test_a_question_follows_on_an_answer(tmp_path: Path) -> None:
    """Each window is asked with the answer to the one before it, and the verdict has what all of
    them took. Judged again, nothing is asked and nothing paid."""
    async with ModelServer(Completes("yes")) as server:
        first, again = [await verdict(server.url, tmp_path, Windows()) for _ in range(2)]
        asked = [one.body["messages"][-1]["content"] for one in server.requests]
    assert asked == ["window 0, after none", "window 1, after yes", "window 2, after yes"]
    assert (first.label, first.share) == (again.label, again.share) == (Label.COMPLETED, 1.0)
    (spent,) = first.asked
    assert (spent.requests, first.cost_usd) == (3, spent.cost_usd)
    assert spent.cost_usd is not None and spent.cost_usd > 0
    (kept,) = again.asked
    assert (kept.requests, kept.cost_usd, kept.is_cached, again.cost_usd) == (0, 0.0, True, 0.0)


async def test_the_spend_cap_holds_between_windows(tmp_path: Path) -> None:
    """Where the next window does not fit, the episode has no label, and what was spent is in its
    verdict; with a larger cap only the windows that are left are asked."""
    async with ModelServer(Completes("yes")) as server:
        stopped = await verdict(server.url, tmp_path, Windows(), budget=100.0)
        num_asked = len(server.requests)
        assert 0 < num_asked < WINDOWS
        assert stopped.label is None
        assert "budget exhausted" in (stopped.unjudged or "")
        assert stopped.cost_usd > 0
        done = await verdict(server.url, tmp_path, Windows())
        assert (done.label, len(server.requests)) == (Label.COMPLETED, WINDOWS)


async def test_what_the_model_says_decides(tmp_path: Path) -> None:
    """A no fails the task, whatever text it is; a server that is dead leaves it without a label."""
    async with ModelServer(Completes(TEXT)) as server:
        assert (await verdict(server.url, tmp_path, Windows())).label is Label.AGENT_ERROR
        again = await verdict(server.url, tmp_path, Windows())
        assert (again.label, len(server.requests)) == (Label.AGENT_ERROR, WINDOWS)
    (tmp_path / "other").mkdir()
    async with ModelServer(Status(503)) as server:
        dead = await verdict(server.url, tmp_path / "other", Windows())
    assert (dead.label, "could not be scored" in (dead.unjudged or "")) == (None, True)


async def test_an_answer_that_cannot_be_read_is_asked_for_again(tmp_path: Path) -> None:
    """The episode has no label, and judging it again asks about the last window alone."""
    async with ModelServer(Completes("what?")) as server:
        for num_asked in (WINDOWS, WINDOWS + 1):
            judged = await verdict(server.url, tmp_path, Windows())
            assert (judged.label, len(server.requests)) == (None, num_asked)
            assert judged.asked[0].fault.endswith("the answer cannot be read")


class AtOnce(Windows):
    """A suite that asks about two windows at once, and then about one. Where it
    is `bad`, one answer of the two cannot be read."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        self._bad = bad

    async def questions(
        self, scenario: Any, task: Task, talk: Any, answers: Sequence[str] = ()
    ) -> list[list[dict[str, str]]]:
        if len(answers) == 2 and self._bad:
            raise PoolError("an answer cannot be read")
        numbers = {0: (0, 1), 2: (2,), 3: ()}[len(answers)]
        return [[{"role": "user", "content": f"window {number}"}] for number in numbers]


async def test_of_answers_that_were_given_at_once_each_is_asked_for_again(tmp_path: Path) -> None:
    """Which of them cannot be read is not known: judged again, both are asked for, so that the
    episode is not without a label for ever. Answers that were read are kept."""
    async with ModelServer(Completes("yes")) as server:
        assert (await verdict(server.url, tmp_path, AtOnce(bad=True))).label is None
        assert (await verdict(server.url, tmp_path, AtOnce(bad=False))).label is Label.COMPLETED
        assert (await verdict(server.url, tmp_path, AtOnce(bad=False))).label is Label.COMPLETED
        asked = [one.body["messages"][-1]["content"] for one in server.requests]
    assert asked == ["window 0", "window 1", "window 0", "window 1", "window 2"]


async def test_nobody_is_asked_about_a_talk_without_an_end(tmp_path: Path) -> None:
    """An episode at its limit is scored without a question; so is one that nobody may be asked
    about, and there the suite decides what that means."""
    pool = Windows()
    async with (
        ModelServer(Completes("yes")) as server,
        judging(server.url, tmp_path, pool) as judge,
    ):
        judged = await judge.verdict(played(Ending.STEP_LIMIT))
        assert server.requests == []
    assert (judged.label, judged.share, judged.asked) == (Label.AGENT_ERROR, 0.0, ())
    assert pool.scored[0] == (None, True)
    alone = await CodeJudge(PLAN.scenario, SuiteRunner(PLAN.scenario, Windows())).verdict(played())
    assert (alone.label, "a model decides" in (alone.unjudged or "")) == (None, True)
