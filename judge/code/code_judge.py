"""The code judge: labels as far as code can tell them apart.

A verdict is a function of the trajectory, the world's template and verify.py, so judging live and
judging the log give the same. What is not the agent's fault is never held against him: a world
that failed is `environment_error`; a model server that died, a run that was cancelled and a
verifier that broke leave the episode unjudged, with the reason.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from envpool.store.states import States
from harness.core.events import Ending, Judged, Label
from harness.core.trajectory import Trajectory
from judge.core.case import Case
from judge.core.errors import VerifierError
from judge.core.evidence import (
    Evidence,
    changes_of,
    ended_of,
    episode_digest,
    gather,
    scenario_info,
    verify_here,
)
from judge.core.rewards import AWM, RewardProfile, rewards_of
from judge.core.verifier import Verifier
from scenarios.checks import Finding
from scenarios.format import Scenario, Task

NAME = "code"


class _Court:
    """What the judge holds of one scenario: its world, its verifiers, what doing nothing gives."""

    __slots__ = ("_idle", "scene", "tasks", "verifier", "world")

    def __init__(self, world: States, verifier: Verifier) -> None:
        self.world = world
        self.scene = scenario_info(world.scenario)
        self.verifier = verifier
        self.tasks = {task.id: task for task in world.scenario.tasks}
        self._idle: dict[str, Counter[str]] = {}  # task id -> goals met by doing nothing

    def idle_goals(self, task: Task) -> Counter[str]:
        """How often each goal of the task, by name, is met by doing and saying nothing.

        Raises VerifierError.
        """
        goals = self._idle.get(task.id)
        if goals is None:
            before, after = self.world.states(self.world.start, ())
            goals = met_goals(self.verifier.run(task, before, after, ""))
            self._idle[task.id] = goals
        return goals


class CodeJudge:
    """Judges episodes that are over. `world_of` gives the hosted world of a scenario's name, and
    `verifier_of` its verifiers."""

    name = NAME

    def __init__(
        self,
        world_of: Callable[[str], States],
        profile: RewardProfile = AWM,
        *,
        verifier_of: Callable[[Scenario], Verifier] = Verifier,
    ) -> None:
        self._world_of = world_of
        self._profile = profile
        self._verifier_of = verifier_of
        self._courts: dict[str, _Court] = {}

    def prepare(self, scenario: str) -> None:
        """Load a scenario's verifiers now. Raises PackageError when verify.py is broken."""
        self._court(scenario)

    def judge(self, trajectory: Trajectory) -> Judged:
        """The verdict on an episode that is over; ValueError when it is not.

        Raises PackageError when the scenario's verify.py is broken, and whatever `world_of` does.
        """
        return self.judge_with_evidence(trajectory)[0]

    def judge_with_evidence(self, trajectory: Trajectory) -> tuple[Judged, Evidence | None]:
        """The verdict and what it is based on (None: the scenario has no such task)."""
        court = self._court(trajectory.started.scenario)
        task = court.tasks.get(trajectory.started.task)
        if task is None:
            return no_such_task(trajectory), None
        verification = verify_here(
            ended_of(trajectory),
            changes_of(trajectory),
            task=task,
            world=court.world,
            verifier=court.verifier,
        )
        evidence = gather(trajectory, verification, court.scene)
        try:
            idle = court.idle_goals(task) if needs_idle(evidence) else Counter[str]()
        except VerifierError as exc:
            return unjudged(trajectory, str(exc), evidence.findings), evidence
        return verdict(trajectory, evidence, idle, self._profile), evidence

    def case(self, trajectory: Trajectory) -> Case | Judged:
        """The episode for a judge that reasons; the verdict where there is nothing to judge."""
        judged, evidence = self.judge_with_evidence(trajectory)
        if evidence is None:
            return judged
        court = self._court(trajectory.started.scenario)
        try:
            idle = court.idle_goals(court.tasks[trajectory.started.task])
        except VerifierError:  # then nothing was met for nothing, as far as anybody knows
            idle = Counter()
        return Case(trajectory, evidence, idle_among(evidence, idle), judged, "ours")

    def _court(self, scenario: str) -> _Court:
        court = self._courts.get(scenario)
        if court is None:
            world = self._world_of(scenario)
            court = self._courts[scenario] = _Court(world, self._verifier_of(world.scenario))
        return court


def verdict(
    trajectory: Trajectory, evidence: Evidence, idle: Counter[str], profile: RewardProfile
) -> Judged:
    """The code judge's verdict. `idle` are the goals met by doing nothing (see `needs_idle`)."""
    label, why = _label(evidence, idle)
    if label is None:
        return unjudged(trajectory, why, evidence.findings)
    by_nothing = idle_among(evidence, idle)
    reward, step_rewards = rewards_of(label, trajectory, profile, evidence.findings, by_nothing)
    return Judged(
        judge=NAME,
        label=label,
        reward=reward,
        step_rewards=step_rewards,
        findings=evidence.findings,
        episode_digest=episode_digest(trajectory),
        rewards=profile.name,
        idle=by_nothing,
    )


def needs_idle(evidence: Evidence) -> bool:
    """Whether the verdict depends on which goals doing nothing meets."""
    return not _decided(evidence) and bool(met_goals(evidence.findings))


def no_such_task(trajectory: Trajectory) -> Judged:
    """The verdict on an episode whose task the scenario does not have (any more)."""
    started = trajectory.started
    return unjudged(trajectory, f"scenario {started.scenario!r} has no task {started.task!r}", ())


def unjudged(trajectory: Trajectory, why: str, findings: tuple[Finding, ...]) -> Judged:
    """No verdict, and why."""
    return Judged(
        judge=NAME,
        label=None,
        reward=None,
        findings=findings,
        unjudged=why,
        episode_digest=episode_digest(trajectory),
    )


def _decided(evidence: Evidence) -> tuple[Label | None, str] | None:
    """The label, or None and why there is none, as far as goals met in part do not matter."""
    findings = evidence.findings
    ending = evidence.ending
    if ending is Ending.ANSWERED and findings and all(finding.passed for finding in findings):
        return Label.COMPLETED, ""
    if evidence.world_failed:
        return Label.ENVIRONMENT_ERROR, ""
    if ending is Ending.POLICY_ERROR or ending is Ending.CANCELLED:
        return None, not_the_agents_fault(evidence)
    if evidence.unverified is not None:
        return None, evidence.unverified
    if ending is Ending.FORMAT_ERROR:
        return Label.AGENT_ERROR, ""
    if not all(finding.passed for finding in findings if finding.kind == "guard"):
        return Label.AGENT_ERROR, ""
    return None


def _label(evidence: Evidence, idle: Counter[str]) -> tuple[Label | None, str]:
    decided = _decided(evidence)
    if decided is not None:
        return decided
    if met_goals(evidence.findings) - idle:
        return Label.PARTIALLY_COMPLETED, ""
    return Label.AGENT_ERROR, ""


def met_goals(findings: Iterable[Finding]) -> Counter[str]:
    """How often each goal, by name, was met."""
    return Counter(f.name for f in findings if f.passed and f.kind == "goal")


def idle_among(evidence: Evidence, idle: Counter[str]) -> tuple[str, ...]:
    """The goals met in the end that doing nothing meets, too; sorted, a name for each time."""
    return tuple(sorted((met_goals(evidence.findings) & idle).elements()))


def not_the_agents_fault(evidence: Evidence) -> str:
    """Why an episode that was cancelled, or whose model could not answer, is not judged."""
    if evidence.ending is Ending.CANCELLED:
        return "the episode was cancelled"
    return f"the model could not answer: {evidence.error or 'no reason was logged'}"
