"""The code judge of a run: one judge for each of its scenarios, as its world asks for."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Protocol

from envpool.store.states import States
from harness.bus.local import Subscription
from harness.core.events import Judged
from harness.core.trajectory import Trajectory
from judge.code.code_judge import NAME, CodeJudge
from judge.code.isolated_judge import IsolatedJudge, Verifies
from judge.code.mcp_judge import ForeignJudge
from judge.core.case import Case
from judge.core.errors import JudgeError
from judge.core.rewards import AWM, RewardProfile
from judge.verdicts import live
from judge.verdicts.live import Later
from scenarios.format import Scenario

AnyJudge = CodeJudge | IsolatedJudge | ForeignJudge


class Hosts(Protocol):
    """A pool as the court sees it. One that isolates scenarios is a Verifies too."""

    def hosted(self, scenario: Scenario) -> States:
        """A scenario that is ready."""

    def isolates(self, scenario: Scenario) -> bool:
        """Whether the scenario's code, its verifiers included, runs in workers only."""


class ScenarioJudges:
    """Judges the episodes of some scenarios, live or from the log. The pool has hosted them.

    An episode belongs to the package with its digest. Where none has it, as when a changed package
    judges an old log, it belongs to the last one of its scenario's name. Making it raises
    PackageError for a broken verify.py, so that no run begins which could not be judged.
    """

    name = NAME

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
        """Judge every episode that ends, until the bus is closed (judge.verdicts.live.serve)."""
        await live.serve(subscription, self, record)

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
        judge = self._judges.get(started.scenario_digest) or self._judges.get(started.scenario)
        if judge is None:
            raise JudgeError(
                f"episode {trajectory.episode!r} belongs to scenario {started.scenario!r}, "
                "which this judge was not given"
            )
        return judge


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
