"""The judge test kit, for authors of worlds and verifiers: episodes of each task, with the labels
that a judge may give them.

    @pytest.mark.parametrize("case", cases_of("my_world"), ids=str)
    def test_verdicts(case: VerifierCase) -> None:
        case.check()

In a terminal, `python -m rehearsal_room.judge.testkit.cases my_world` writes a report as JSON and
exits with 1 when a case gets a label that it may not get. judge.testkit.endings lists the kinds of
episodes.

The cases are for packages in our format, whose code is trusted. An AWM record has no oracles, so
for its tasks there are only the cases without a call (see `idle_cases`), judged by ScenarioJudges.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.runners import ForgivingRunner, InProcessRunner
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.testkit.endings import (
    KINDS,
    CaseKind,
    LabelSet,
    StagedEpisode,
    idle_episodes,
)
from rehearsal_room.judge.testkit.staged_episodes import stage_episodes
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.checks import failed
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.format import Scenario, Task


class VerifierCase:
    """An episode that is over, and the labels that a judge may give it.

    `str(case)` is its name, as in `library/pay-fine/mutant/3-changed`.
    """

    __slots__ = ("_judge", "expected", "kind", "name", "scenario", "task", "trajectory", "why")

    def __init__(
        self, scenario: str, task: str, episode: StagedEpisode, judge: CodeJudge | None = None
    ) -> None:
        self.scenario = scenario
        self.task = task
        self.kind: CaseKind = episode.kind
        self.name = f"{scenario}/{task}/{episode.kind}/{episode.what}".replace(" ", "-")
        self.trajectory: Trajectory = msgspec.structs.replace(episode.trajectory, episode=self.name)
        self.expected: LabelSet = episode.expected
        self.why = episode.why  # a sentence
        self._judge = judge  # None: its verifier runs in a worker

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<VerifierCase {self.name!r} [{_labels(self.expected)}]>"

    def verdict(self) -> Judged:
        """The code judge's verdict. Raises JudgeError for a case whose verifier runs in a
        worker."""
        if self._judge is None:
            raise JudgeError(
                f"{self.name}: its verifier runs in a worker; ask ScenarioJudges for the verdict"
            )
        return self._judge.verdict_at_once(self.trajectory)

    def fault(self, judged: Judged) -> str | None:
        """What is wrong with a verdict, in a sentence; None: nothing."""
        if judged.label in self.expected:
            return None
        found = f"unjudged ({judged.unjudged})" if judged.label is None else str(judged.label)
        missed = "; ".join(
            f"{finding.name}: expected {finding.expected}, found {finding.found}"
            for finding in failed(judged.findings)
        )
        return (
            f"{self.name}: expected {_labels(self.expected)}, found {found}: {self.why}"
            f"{f' [{missed}]' if missed else ''}"
        )

    def check(self, judged: Judged | None = None) -> None:
        """Raise AssertionError, with a sentence, for a wrong verdict; None: the code judge's is
        checked."""
        fault = self.fault(self.verdict() if judged is None else judged)
        if fault is not None:
            raise AssertionError(fault)


def cases_of(source: str | Path | Scenario, *, seed: int = 0) -> list[VerifierCase]:
    """The cases of every task of a package, given by name, by folder or as a Scenario.

    The package's world stays open as long as the cases exist. Raises ScenarioError and PoolError
    for a package that cannot be loaded, JudgeError for an AWM record.
    """
    scenario = source if isinstance(source, Scenario) else find(str(source))
    if scenario.awm is not None or scenario.foreign is not None:
        raise JudgeError(
            f"scenario {scenario.name!r} has no oracles: the test kit has idle cases only"
        )
    world = HostedScenario(scenario)
    try:
        judge = CodeJudge(scenario, ForgivingRunner(InProcessRunner(world), world))
        return [
            VerifierCase(scenario.name, task.id, one, judge)
            for task, one in stage_episodes(scenario, world, seed=seed)
        ]
    except BaseException:
        world.close()
        raise


def idle_cases(world: States) -> list[VerifierCase]:
    """The cases that need no oracle, for a scenario that is hosted in any pool, also an AWM record.

    ScenarioJudges judges them: `case.check(await judge.verdict(case.trajectory))`. A task without a
    verifier that gives labels may be left unjudged.
    """
    scenario = world.scenario
    return [
        VerifierCase(scenario.name, task.id, _or_unjudged(one, scenario, task))
        for task in scenario.tasks
        for one in idle_episodes(world, task)
    ]


def _or_unjudged(one: StagedEpisode, scenario: Scenario, task: Task) -> StagedEpisode:
    if scenario.awm is None:
        return one
    verifier = scenario.awm.verifiers.get(task.id)
    if verifier is not None and verifier.code is not None:
        return one
    return msgspec.structs.replace(one, expected=one.expected | {None})


class CaseKindCount(msgspec.Struct, frozen=True):
    """The results of the cases of one kind."""

    cases: int
    as_expected: int
    labels: dict[str, int]  # label -> cases; unjudged ones under `unjudged`


class UnexpectedVerdict(msgspec.Struct, frozen=True):
    """A case that got a label which it may not get."""

    case: str
    found: Label | None  # None: it was left unjudged
    fault: str  # a sentence


class CasesReport(msgspec.Struct, frozen=True):
    """The results of the test kit's cases."""

    scenarios: tuple[str, ...]
    tasks: int
    cases: int
    kinds: dict[CaseKind, CaseKindCount]
    unexpected: tuple[UnexpectedVerdict, ...]

    @property
    def ok(self) -> bool:
        """Whether every case got a label which it may get."""
        return not self.unexpected


def check_cases(cases: Iterable[VerifierCase]) -> CasesReport:
    """Judge the cases by code, and count the results."""
    return report_of((case, case.verdict()) for case in cases)


def report_of(verdicts: Iterable[tuple[VerifierCase, Judged]]) -> CasesReport:
    """Count the results of cases with any judge's verdicts."""
    scenarios: dict[str, None] = {}
    tasks: set[tuple[str, str]] = set()
    labels: dict[CaseKind, dict[str, int]] = {}
    wrong: dict[CaseKind, int] = {}
    unexpected: list[UnexpectedVerdict] = []
    for case, judged in verdicts:
        scenarios[case.scenario] = None
        tasks.add((case.scenario, case.task))
        counts = labels.setdefault(case.kind, {})
        word = "unjudged" if judged.label is None else str(judged.label)
        counts[word] = counts.get(word, 0) + 1
        if (fault := case.fault(judged)) is not None:
            wrong[case.kind] = wrong.get(case.kind, 0) + 1
            unexpected.append(UnexpectedVerdict(case.name, judged.label, fault))
    kinds: dict[CaseKind, CaseKindCount] = {}
    for kind in (kind for kind in KINDS if kind in labels):
        total = sum(labels[kind].values())
        kinds[kind] = CaseKindCount(total, total - wrong.get(kind, 0), labels[kind])
    return CasesReport(
        scenarios=tuple(scenarios),
        tasks=len(tasks),
        cases=sum(count.cases for count in kinds.values()),
        kinds=kinds,
        unexpected=tuple(unexpected),
    )


def _labels(expected: LabelSet) -> str:
    words = ["unjudged" if label is None else str(label) for label in expected]
    return " or ".join(sorted(words))


def main(names: Sequence[str]) -> int:
    """Judge the cases of the named packages, write the report as JSON, and return the exit
    status."""
    try:
        report = check_cases(case for name in names for case in cases_of(name))
    except (ScenarioError, PoolError, JudgeError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
