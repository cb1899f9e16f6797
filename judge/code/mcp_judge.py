"""The code judge for worlds whose state is unknown: what tool calls found at the episode's end.

The findings were made in the world itself, before it was left (envpool.mcp.checks); without a state
nothing can be looked at again. What doing nothing would meet is not known either, so every goal
that was met counts as done.
"""

from collections import Counter

from harness.core.events import Judged
from harness.core.trajectory import Trajectory
from judge.code.code_judge import no_such_task, verdict
from judge.core.case import Case
from judge.core.evidence import Evidence, Verification, ended_of, gather, scenario_info
from judge.core.rewards import AWM, RewardProfile
from scenarios.format import Scenario


class ForeignJudge:
    """Judges the episodes of one foreign scenario that are over."""

    def __init__(self, scenario: Scenario, profile: RewardProfile = AWM) -> None:
        self._tasks = {task.id for task in scenario.tasks}
        self._scene = scenario_info(scenario)
        self._profile = profile

    def judge(self, trajectory: Trajectory) -> Judged:
        """The verdict on an episode that is over; ValueError when it is not."""
        return self.judge_with_evidence(trajectory)[0]

    def case(self, trajectory: Trajectory) -> Case | Judged:
        """The episode for a judge that reasons; the verdict where there is nothing to judge."""
        judged, evidence = self.judge_with_evidence(trajectory)
        if evidence is None:
            return judged
        return Case(trajectory, evidence, (), judged, "foreign")

    def judge_with_evidence(self, trajectory: Trajectory) -> tuple[Judged, Evidence | None]:
        """The verdict and what it is based on (None: the scenario has no such task)."""
        checked = ended_of(trajectory).checked
        if trajectory.started.task not in self._tasks:
            return no_such_task(trajectory), None
        unverified = None if checked else "nothing was checked in the world at the episode's end"
        evidence = gather(trajectory, Verification(checked, unverified), self._scene)
        return verdict(trajectory, evidence, Counter(), self._profile), evidence
