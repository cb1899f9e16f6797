"""The code judge: labels as far as code can decide them.

A verdict is a function of the trajectory, the world's template and the scenario's verifiers, so
judging live and judging from the log give the same. What is not the agent's fault never counts
against the agent: a world that failed is `environment_error`; a model server that died, a run that
was cancelled and a verifier that failed leave the episode unjudged, with the reason.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from rehearsal_room.harness.core.events import Ending, Judged, Label, VerifierRun
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.code.answer_bounds import bounded, is_accepted
from rehearsal_room.judge.code.case import Bounds, Text, bounds_of, texts_in
from rehearsal_room.judge.code.runners import OraclePlay, VerifierRunner, run_at_once
from rehearsal_room.judge.code.untouchable import untouchable_guards
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.criteria import unasked, with_goal
from rehearsal_room.judge.core.errors import VerifierError
from rehearsal_room.judge.core.evidence import (
    Evidence,
    Verification,
    changes_of,
    ended_of,
    episode_digest,
    gather,
    scenario_info,
)
from rehearsal_room.judge.core.rewards import AWM, RewardProfile, rewards_of, share_of
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import (
    DECLINES,
    NOTHING_ELSE,
    REASON,
    Finding,
    failed,
    proved_wrong,
)
from rehearsal_room.scenarios.format import Scenario, Task

NAME = "code"


class CodeJudge:
    """Judges the episodes of one scenario that are over. `runner` runs its verifiers."""

    name = NAME

    def __init__(
        self, scenario: Scenario, runner: VerifierRunner, profile: RewardProfile = AWM
    ) -> None:
        self._runner = runner
        self._profile = profile
        self._info = scenario_info(scenario)
        self._tasks = {task.id: task for task in scenario.tasks}
        self._scenario = scenario
        # What each task's oracle read and wrote, and the texts in it, by task id; None: it has no
        # oracle here.
        self._oracles: dict[str, tuple[OraclePlay | None, frozenset[Text]]] = {}
        self._bounds: dict[str, Bounds] = {}  # by task id: inside which an answer is proved
        self._idle: dict[str, Counter[str]] = {}  # task id -> goals met by doing nothing

    def suspends(self, trajectory: Trajectory) -> bool:
        """Whether the verdict may have to wait for a worker."""
        return self._runner.suspends

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The verdict on an episode that is over; ValueError when it is not."""
        return (await self._judge(trajectory, observe=False))[0]

    def verdict_at_once(self, trajectory: Trajectory) -> Judged:
        """The same without an event loop, where the runner does not suspend."""
        return run_at_once(self.verdict(trajectory))

    async def case(self, trajectory: Trajectory) -> Case | Judged:
        """The episode for a judge that asks models; the verdict where there is nothing to judge."""
        judged, evidence = await self._judge(trajectory, observe=True)
        if evidence is None:
            return judged
        idle = Counter[str]()
        if met_goals(evidence.findings):
            try:
                idle = await self._idle_goals(self._tasks[trajectory.started.task])
            except VerifierError:  # it is not known what doing nothing meets: nothing, we assume
                idle = Counter()
        task = self._tasks[trajectory.started.task]
        met = idle_among(evidence, idle)
        return Case(trajectory, evidence, met, judged, self._runner.kind, task)

    async def _judge(
        self, trajectory: Trajectory, *, observe: bool
    ) -> tuple[Judged, Evidence | None]:
        ended_of(trajectory)  # raises for an episode that is not over
        task = self._tasks.get(trajectory.started.task)
        if task is None:
            why = f"scenario {self._scenario.name!r} has no task {trajectory.started.task!r}"
            return unjudged(trajectory, why, ()), None
        changes = changes_of(trajectory)
        verification = await self._runner.verify(task, trajectory, changes, observe=observe)
        judged, evidence = await self._verdict_on(task, trajectory, changes, verification)
        if verification.asked is not None:
            judged = msgspec.structs.replace(judged, asked=(verification.asked,))
        return judged, evidence

    async def _verdict_on(
        self,
        task: Task,
        trajectory: Trajectory,
        changes: tuple[RowChange, ...],
        verification: Verification,
    ) -> tuple[Judged, Evidence | None]:
        found, answer = verification.findings, ended_of(trajectory).answer
        texts = changes if verification.texts is None else verification.texts
        try:
            within = await self._bounded(found, task, answer, texts)
        except VerifierError as exc:
            return unjudged(trajectory, str(exc), found, verification.run), None
        if within != found:
            verification = msgspec.structs.replace(verification, findings=within)
        if verification.findings and (guards := untouchable_guards(self._scenario, trajectory)):
            findings = (*verification.findings, *guards)
            verification = msgspec.structs.replace(verification, findings=findings)
        if task.criterion:
            findings = with_goal(verification.findings, task)
            verification = msgspec.structs.replace(verification, findings=findings)
        evidence = gather(trajectory, verification, self._info, changes)
        try:
            idle = await self._idle_goals(task) if needs_idle(evidence) else Counter[str]()
        except VerifierError as exc:
            run = evidence.verifier_run
            return unjudged(trajectory, str(exc), evidence.findings, run), evidence
        return judge_evidence(trajectory, evidence, idle, self._profile), evidence

    async def _bounded(
        self,
        findings: tuple[Finding, ...],
        task: Task,
        answer: str,
        changes: Sequence[RowChange],
    ) -> tuple[Finding, ...]:
        """The findings, with those on words left open where a text is outside of the bounds. Raises
        VerifierError where the oracle failed, from which the bounds are read."""
        if not findings:
            return findings
        written = set(texts_in(changes))
        needs_texts_only = is_accepted(findings, task, answer)
        if needs_texts_only and not written:
            return findings
        if task.id not in self._oracles:
            played = await self._runner.play_oracle(task)
            texts = frozenset() if played is None else frozenset(texts_in(played[1]))
            self._oracles[task.id] = played, texts
        played, texts = self._oracles[task.id]
        if played is None or (needs_texts_only and written <= texts):
            return findings
        if task.id not in self._bounds:
            self._bounds[task.id] = bounds_of(task, *played, rules=self._scenario.rules)
        return bounded(findings, self._bounds[task.id], answer, changes)

    async def _idle_goals(self, task: Task) -> Counter[str]:
        """How often each goal of the task, by name, is met by doing and saying nothing.

        Raises VerifierError.
        """
        goals = self._idle.get(task.id)
        if goals is None:
            verification = await self._runner.verify_idle(task)
            if verification.unverified is not None:
                raise VerifierError(verification.unverified)
            goals = self._idle[task.id] = met_goals(with_goal(verification.findings, task))
        return goals


def judge_evidence(
    trajectory: Trajectory, evidence: Evidence, idle: Counter[str], profile: RewardProfile
) -> Judged:
    """The code judge's verdict. `idle` are the goals met by doing nothing (see `needs_idle`)."""
    label, why = _label(evidence, idle)
    if label is None:
        return unjudged(trajectory, why, evidence.findings, evidence.verifier_run)
    met_by_idling = idle_among(evidence, idle)
    reward, step_rewards = rewards_of(label, trajectory, profile, evidence.findings, met_by_idling)
    return Judged(
        judge=NAME,
        label=label,
        reward=reward,
        step_rewards=step_rewards,
        findings=evidence.findings,
        episode_digest=episode_digest(trajectory),
        rewards=profile.name,
        idle=met_by_idling,
        verifier_run=evidence.verifier_run,
        share=share_of(evidence.findings),
    )


def needs_idle(evidence: Evidence) -> bool:
    """Whether the verdict depends on which goals doing nothing meets."""
    return not _decided(evidence) and bool(met_goals(evidence.findings))


def unjudged(
    trajectory: Trajectory,
    why: str,
    findings: tuple[Finding, ...],
    verifier_run: VerifierRun | None = None,
) -> Judged:
    """A verdict without a label, and the reason."""
    return Judged(
        judge=NAME,
        label=None,
        reward=None,
        findings=findings,
        unjudged=why,
        episode_digest=episode_digest(trajectory),
        verifier_run=verifier_run,
    )


def _decided(evidence: Evidence) -> tuple[Label | None, str] | None:
    """The label, or None with the reason, as far as goals met in part do not matter; None where
    they do."""
    findings = evidence.findings
    ending = evidence.ending
    is_done = ending is Ending.ANSWERED and findings and not failed(findings)
    if is_done and not unasked(findings):
        return Label.COMPLETED, ""
    if evidence.world_failed:
        # What the agent harmed before the world broke is its own fault: breaking it hides nothing.
        return (Label.AGENT_ERROR if harm_in(findings) else Label.ENVIRONMENT_ERROR), ""
    if ending.lacks_reply or ending is Ending.CANCELLED:
        return None, not_the_agents_fault(evidence)
    if ending is Ending.AGENT_FAILED:
        return Label.AGENT_ERROR, ""
    if evidence.unverified is not None:
        return None, evidence.unverified
    if ending is Ending.FORMAT_ERROR:
        return Label.AGENT_ERROR, ""
    if not all(finding.passed for finding in findings if finding.kind == "guard"):
        return Label.AGENT_ERROR, ""
    if asked := unasked(findings):
        # Their names are for the author: a client of a served world sees this sentence.
        return None, f"criteria that a model must judge, as with --mode hybrid: {len(asked)}"
    return None


def _label(evidence: Evidence, idle: Counter[str]) -> tuple[Label | None, str]:
    decided = _decided(evidence)
    if decided is not None:
        return decided
    if paid_goals(evidence.findings) - idle:
        return Label.PARTIALLY_COMPLETED, ""
    return Label.AGENT_ERROR, ""


def met_goals(findings: Iterable[Finding]) -> Counter[str]:
    """How often each goal or criterion, by name, was met in full."""
    return Counter(f.name for f in findings if f.passed and f.kind != "guard")


def paid_goals(findings: Collection[Finding]) -> Counter[str]:
    """Those that partial completion is paid for: a refusal alone is a word, and no deed, and the
    reason of a refusal is worth nothing without it."""
    left_out = {DECLINES}
    if any(one.name == DECLINES and not one.passed for one in findings):
        left_out.add(REASON)
    return Counter({name: n for name, n in met_goals(findings).items() if name not in left_out})


def harm_in(findings: Iterable[Finding]) -> list[Finding]:
    """The guards that are proved to have failed. The one that covers all rows is left out: where
    the world broke, work that was begun looks like an unrequested change."""
    return [
        one
        for one in proved_wrong(findings)
        if one.kind == "guard" and one.name != NOTHING_ELSE and not call_failed(one)
    ]


def call_failed(finding: Finding) -> bool:
    """Whether a foreign check saw nothing because its own call failed (see scenarios.call_checks).
    A record that begins with these words is taken for such a call: then too much is left open,
    never too little. A check of the agent's answer always saw it, whatever the answer begins
    with."""
    return finding.found.startswith("error: ") and not finding.name.startswith("answer says ")


def idle_among(evidence: Evidence, idle: Counter[str]) -> tuple[str, ...]:
    """The goals met at the end that doing nothing meets too; sorted, one name for each time."""
    return tuple(sorted((met_goals(evidence.findings) & idle).elements()))


def not_the_agents_fault(evidence: Evidence) -> str:
    """Why an episode that was cancelled, or whose model gave no reply, is not judged."""
    if evidence.ending is Ending.CANCELLED:
        return "the episode was cancelled"
    reason = evidence.error or "no reason was logged"
    if evidence.ending is Ending.MODEL_REFUSED:
        return f"the model's provider withheld a reply: {reason}"
    return f"the model could not answer: {reason}"
