"""The judge of a run: code judges over the worlds of its scenarios, and models where the mode
asks for them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from envpool.states import States
from harness.bus import Subscription
from harness.events import Judged
from harness.judge_settings import JudgeSettings
from harness.trajectory import Trajectory
from judge import judging
from judge.cache import VerdictCache
from judge.cases import Case
from judge.code import CodeJudge
from judge.errors import JudgeError
from judge.evidence import Scene
from judge.foreign import ForeignJudge
from judge.isolated import IsolatedJudge, Verifies
from judge.judging import Later
from judge.model import reasoners_of
from judge.prices import read_prices
from judge.purse import Purse
from judge.reasoned import Cases, LoggedCases, ReasoningJudge
from judge.rewards import AWM, RewardProfile
from judge.rubric import read_rubric
from scenarios.format import Scenario

CACHE_NAME = "verdicts.sqlite"

AnyJudge = CodeJudge | IsolatedJudge | ForeignJudge


class Hosts(Protocol):
    """A pool as the court sees it. One that isolates scenarios is a Verifies too."""

    def hosted(self, scenario: Scenario) -> States:
        """A scenario that is ready."""

    def isolates(self, scenario: Scenario) -> bool:
        """Whether the scenario's code, its verifiers included, runs in workers only."""


class CodeCourt:
    """Judges the episodes of some scenarios, live or from the log. The pool has hosted them.

    An episode belongs to the package with its digest. Where none has it, as when a changed package
    judges an old log, it belongs to the last one of its scenario's name. Making it raises
    PackageError for a broken verify.py, so that no run begins which could not be judged.
    """

    def __init__(
        self, pool: Hosts, scenarios: Iterable[Scenario], profile: RewardProfile = AWM
    ) -> None:
        # By package digest, and by name.
        self._judges: dict[str, AnyJudge] = {}
        for scenario in {scenario.digest: scenario for scenario in scenarios}.values():
            judge = _judge_of(pool, scenario, profile)
            self._judges[scenario.digest] = self._judges[scenario.name] = judge

    async def serve(
        self, subscription: Subscription, record: Callable[[str, int, Judged], Awaitable[None]]
    ) -> None:
        """Judge every episode that ends, until the bus is closed (see judge.judging.serve)."""
        await judging.serve(subscription, self, record)

    def judge(self, trajectory: Trajectory) -> Judged | Later:
        """The verdict on an episode that is over, or where it is waited for, as a worker is asked;
        ValueError when it is not over.

        Raises JudgeError for a scenario that is none of the court's.
        """
        judge = self._judge(trajectory)
        if isinstance(judge, IsolatedJudge):
            return partial(judge.judge, trajectory)
        return judge.judge(trajectory)

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The same, awaited."""
        given = self.judge(trajectory)
        return given if isinstance(given, Judged) else await given()

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """What the code knows of an episode that is over; its verdict where there is nothing to
        be judged. Raises as `judge` does."""
        judge = self._judge(trajectory)
        if isinstance(judge, IsolatedJudge):
            return await judge.case(trajectory)
        return judge.case(trajectory)

    def _judge(self, trajectory: Trajectory) -> AnyJudge:
        started = trajectory.started
        judge = self._judges.get(started.package) or self._judges.get(started.scenario)
        if judge is None:
            raise JudgeError(
                f"episode {trajectory.episode!r} belongs to scenario {started.scenario!r}, "
                "which this judge was not given"
            )
        return judge


class ReasoningCourt:
    """Judges episodes by asking models, live or from the log."""

    def __init__(self, judge: ReasoningJudge, settings: JudgeSettings) -> None:
        self._settings = settings
        self.reasoning = judge
        self.name = judge.name

    async def serve(
        self, subscription: Subscription, record: Callable[[str, int, Judged], Awaitable[None]]
    ) -> None:
        """Judge every episode that ends, until the bus is closed (see judge.judging.serve)."""
        await judging.serve(
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


Court = CodeCourt | ReasoningCourt


@asynccontextmanager
async def open_court(
    settings: JudgeSettings,
    *,
    pool: Hosts | None,
    scenarios: Iterable[Scenario],
    scenes: Mapping[str, Scene],
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
        code = CodeCourt(pool, scenarios, profile)
        if settings.mode == "code":
            yield code
            return
    cases: Cases = LoggedCases(scenes) if settings.mode == "llm" else code
    rubric = read_rubric(Path(settings.rubric) if settings.rubric else None)
    prices = read_prices(Path(settings.prices)) if settings.prices else None
    purse = Purse(settings.budget, spent=spent)
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


def _judge_of(pool: Hosts, scenario: Scenario, profile: RewardProfile) -> AnyJudge:
    if scenario.foreign is not None:
        return ForeignJudge(scenario, profile)
    world = pool.hosted(scenario)
    if pool.isolates(scenario):
        assert isinstance(pool, Verifies)
        return IsolatedJudge(scenario, world.start, pool, profile)
    judge = CodeJudge(lambda _: world, profile)
    judge.prepare(scenario.name)
    return judge
