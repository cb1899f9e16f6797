"""Opening the judge that the settings ask for: the code judge, or one that asks models."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from harness.bus.local import Subscription
from harness.chat.budget import Budget
from harness.chat.prices import read_prices
from harness.core.events import Judged
from harness.core.trajectory import Trajectory
from harness.settings.judge import JudgeSettings
from judge.core.case import Case
from judge.core.errors import JudgeError
from judge.core.evidence import ScenarioInfo
from judge.core.rewards import RewardProfile
from judge.llm.client import reasoners_of
from judge.llm.llm_judge import Cases, LoggedCases, ReasoningJudge
from judge.llm.prompt import least_tokens
from judge.llm.rubric import read_rubric
from judge.llm.verdict_cache import VerdictCache
from judge.verdicts import live
from judge.verdicts.code_judges import Hosts, ScenarioJudges
from judge.verdicts.live import Later
from scenarios.format import Scenario

CACHE_NAME = "verdicts.sqlite"


class ReasoningCourt:
    """Judges episodes by asking models, live or from the log."""

    def __init__(self, judge: ReasoningJudge, settings: JudgeSettings) -> None:
        self._settings = settings
        self.reasoning = judge
        self.name = judge.name

    async def serve(
        self, subscription: Subscription, record: Callable[[str, int, Judged], Awaitable[None]]
    ) -> None:
        """Judge every episode that ends, until the bus is closed (judge.verdicts.live.serve)."""
        await live.serve(
            subscription,
            self,
            record,
            at_once=self._settings.concurrency,
            backlog=self._settings.backlog,
        )

    def judge(self, trajectory: Trajectory) -> Later:
        """The verdict on an episode that is over, to be waited for."""
        return partial(self.reasoning.judge, trajectory)

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The same, awaited."""
        return await self.reasoning.judge(trajectory)

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """What is known of the episode before anybody is asked; a verdict where nobody is."""
        return await self.reasoning.case(trajectory)


Court = ScenarioJudges | ReasoningCourt


@asynccontextmanager
async def open_judge(
    settings: JudgeSettings,
    *,
    pool: Hosts | None,
    scenarios: Iterable[Scenario],
    scenes: Mapping[str, ScenarioInfo],
    profile: RewardProfile,
    folder: Path,
    spent: float = 0.0,
) -> AsyncIterator[Court]:
    """The judge of the settings; it is closed when the block is left.

    `pool` has hosted the scenarios; mode `llm` needs none, only the scenes (by the digests of
    their packages). `folder` is the run's; `spent` is what the budget has paid already, in USD.

    Raises JudgeError and SettingsError for a rubric, prices or models that cannot be used, before
    anything is asked, and PackageError for a broken verify.py.
    """
    if settings.mode != "llm":
        assert pool is not None
        code = ScenarioJudges(pool, scenarios, profile)
        if settings.mode == "code":
            yield code
            return
    assert settings.mode != "none", "there is no judge to open"
    cases: Cases = LoggedCases(scenes) if settings.mode == "llm" else code
    rubric = read_rubric(Path(settings.rubric) if settings.rubric else None)
    if settings.evidence_tokens < (least := least_tokens(rubric, settings.mode)):
        raise JudgeError(
            f"evidence_tokens: {settings.evidence_tokens:,} are too few: with rubric "
            f"{rubric.name!r} a question needs at least {least:,}"
        )
    prices = read_prices(Path(settings.prices)) if settings.prices else None
    purse = Budget(settings.budget, spent=spent)
    reasoners = reasoners_of(settings, prices, purse)
    async with AsyncExitStack() as stack:
        for reasoner in reasoners:
            await stack.enter_async_context(reasoner)
        path = Path(settings.cache) if settings.cache else folder / CACHE_NAME
        cache = await stack.enter_async_context(VerdictCache(path))
        judge = ReasoningJudge(
            cases, reasoners, settings, rubric=rubric, profile=profile, cache=cache
        )
        yield ReasoningCourt(judge, settings)
