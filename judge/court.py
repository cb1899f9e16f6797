"""The judge of a run: the code judge over the worlds of the run's scenarios."""

from collections.abc import Awaitable, Callable, Iterable

from envpool.local import LocalPool
from envpool.world import World
from harness.bus import Subscription
from harness.events import Judged
from harness.trajectory import Trajectory
from judge import judging
from judge.code import CodeJudge
from judge.errors import JudgeError
from judge.rewards import AWM, RewardProfile
from scenarios.format import Scenario


class CodeCourt:
    """Judges the episodes of some scenarios, live or from the log, in the pool's own worlds.

    An episode belongs to the package with its digest. Where none has it, as when a changed package
    judges an old log, it belongs to the last one of its scenario's name. Making it raises
    PackageError for a broken verify.py, so that no run begins which could not be judged.
    """

    def __init__(
        self, pool: LocalPool, scenarios: Iterable[Scenario], profile: RewardProfile = AWM
    ) -> None:
        self._judges: dict[str, CodeJudge] = {}  # by package digest, and by scenario name
        for scenario in {scenario.digest: scenario for scenario in scenarios}.values():
            judge = CodeJudge(_always(pool.host(scenario)), profile)
            judge.prepare(scenario.name)
            self._judges[scenario.digest] = self._judges[scenario.name] = judge

    async def serve(
        self, subscription: Subscription, record: Callable[[str, int, Judged], Awaitable[None]]
    ) -> None:
        """Judge every episode that ends, until the bus is closed (see judge.judging.serve)."""
        await judging.serve(subscription, self, record)

    def judge(self, trajectory: Trajectory) -> Judged:
        """The verdict on an episode that is over; ValueError when it is not.

        Raises JudgeError for a scenario that is none of the court's.
        """
        started = trajectory.started
        judge = self._judges.get(started.package) or self._judges.get(started.scenario)
        if judge is None:
            raise JudgeError(
                f"episode {trajectory.episode!r} belongs to scenario {started.scenario!r}, "
                "which this judge was not given"
            )
        return judge.judge(trajectory)


def _always(world: World) -> Callable[[str], World]:
    return lambda _: world
