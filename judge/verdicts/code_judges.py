"""The code judge of a run: one CodeJudge for each of its scenarios."""

from collections.abc import Iterable
from typing import Protocol

from rehearsal_room.envpool.router import ScoringPool
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.core.events import Judged
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.code.code_judge import NAME, CodeJudge
from rehearsal_room.judge.code.runners import (
    ForgivingRunner,
    LeasingPool,
    LoggedRunner,
    VerifierPool,
    VerifierRunner,
    WorkerRunner,
)
from rehearsal_room.judge.code.timed_runner import TimedRunner
from rehearsal_room.judge.core import live_judging
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.core.rewards import AWM, RewardProfile
from rehearsal_room.judge.failures.diagnoser import Diagnoser
from rehearsal_room.judge.suites.runner import AskModel, SuiteRunner
from rehearsal_room.scenarios.format import Scenario


class HostingPool(Protocol):
    """A pool as the judge sees it. One that isolates scenarios is a VerifierPool too."""

    def hosted(self, scenario: Scenario) -> States:
        """A scenario that is hosted already."""

    def isolates(self, scenario: Scenario) -> bool:
        """Whether the scenario's code, its verifiers included, runs in workers only."""


class ScenarioJudges:
    """Judges the episodes of some scenarios, live or from the log. The pool hosts them already.

    An episode belongs to the package with its digest. Where no package has it, as when a changed
    package judges an old log, it belongs to the last one with its scenario's name. Making the
    judges raises PackageError for a broken verify.py, so that no run begins that cannot be judged.
    """

    name = NAME

    def __init__(
        self,
        pool: HostingPool,
        scenarios: Iterable[Scenario],
        profile: RewardProfile = AWM,
        asks: AskModel | None = None,
    ) -> None:
        """`asks` is the model on which the score of a suite may depend; None: nobody is asked."""
        scenarios = list(scenarios)
        # By package digest, and by name.
        self._judges: dict[str, CodeJudge] = {}
        for scenario in {scenario.digest: scenario for scenario in scenarios}.values():
            judge = CodeJudge(scenario, runner_of(pool, scenario, asks), profile)
            self._judges[scenario.digest] = self._judges[scenario.name] = judge
        self.diagnoser = Diagnoser(pool, scenarios)

    async def serve(self, subscription: Subscription, record: live_judging.RecordJudged) -> None:
        """Judge every episode that ends, until the bus is closed (see judge.core.live_judging)."""
        await live_judging.serve(subscription, self, record)

    def suspends(self, trajectory: Trajectory) -> bool:
        """Whether the verdict may have to wait for a worker. Raises JudgeError for a scenario that
        this judge does not have."""
        return self._judge(trajectory).suspends(trajectory) or self.diagnoser.suspends(trajectory)

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The verdict on an episode that is over; ValueError when it is not. Raises JudgeError for
        a scenario that this judge does not have."""
        judged = await self._judge(trajectory).verdict(trajectory)
        return await self.diagnoser.add_to(trajectory, judged)

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """What code knows about an episode that is over; its verdict where there is nothing to
        judge. Raises as `verdict` does."""
        return await self._judge(trajectory).case(trajectory)

    def _judge(self, trajectory: Trajectory) -> CodeJudge:
        started = trajectory.started
        judge = self._judges.get(started.scenario_digest) or self._judges.get(started.scenario)
        if judge is None:
            raise JudgeError(
                f"episode {trajectory.episode!r} belongs to scenario {started.scenario!r}, "
                "which is not among the scenarios of this judge"
            )
        return judge


def runner_of(
    pool: HostingPool, scenario: Scenario, asks: AskModel | None = None
) -> VerifierRunner:
    """What runs a scenario's verifiers: its worlds' pool decides where. Raises PackageError for a
    broken verify.py."""
    if scenario.foreign is not None:
        return LoggedRunner()
    if scenario.suite is not None:
        assert isinstance(pool, ScoringPool)
        return SuiteRunner(scenario, pool, asks)
    world = pool.hosted(scenario)
    if pool.isolates(scenario):
        assert isinstance(pool, VerifierPool)
        runner: VerifierRunner = WorkerRunner(scenario, world.start, pool)
        if scenario.awm is not None:  # its verifiers see all that their authors meant them to see
            return runner
    elif scenario.server is not None:
        assert isinstance(pool, LeasingPool)
        runner = TimedRunner(world, pool=pool)
    else:
        runner = TimedRunner(world)
    return ForgivingRunner(runner, world)
