"""What the judge does for the viewer (`rehearse view`), which may not import it."""

import getpass
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.core.evidence import Verification, episode_digest, gather, scenario_info
from rehearsal_room.judge.failures.reading import diagnose_one, read_failures
from rehearsal_room.judge.gate.job_pool import JobSettings, check_worlds
from rehearsal_room.judge.llm.prompt_items import groups_of
from rehearsal_room.judge.reliability.annotations import HumanLabel, LabelBook, read_labels
from rehearsal_room.judge.statistics.comparison import compare
from rehearsal_room.judge.statistics.intervals import share_interval
from rehearsal_room.judge.statistics.outcomes import read_outcomes
from rehearsal_room.judge.statistics.run_statistics import statistics_of
from rehearsal_room.judge.verdicts.disagreements import Disagreement, queue, ranked
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.viewer.reading.parts import JudgingParts, Tries

_LABELS = "labels.jsonl"  # as `rehearse label` names it


def judging_parts(find: Callable[[str], Scenario]) -> JudgingParts:
    """The parts. `find` finds a world by its name or path."""

    def gate(name: str) -> list[Any]:
        outcomes = check_worlds([name], find, JobSettings(jobs=1), _no_record)
        return [failure for outcome in outcomes for failure in outcome.report.failures]

    labeller = getpass.getuser()
    return JudgingParts(
        interval=_interval,
        statistics=statistics_of,
        compare=_compare,
        disagreements=_disagreements,
        evidence=_evidence,
        failures=diagnose_one,
        run_failures=_run_failures,
        labels=_LabelFile(labeller),
        labeller=labeller,
        gate=gate,
    )


def _interval(tries: Tries) -> Interval[float] | None:
    return share_interval(
        {key: [1.0] * hits + [0.0] * (total - hits) for key, (hits, total) in tries.items()}
    )


def _compare(first: Path, second: Path) -> Any:
    return compare(read_outcomes(first), read_outcomes(second))


def _disagreements(trajectories: Sequence[Trajectory]) -> list[Disagreement]:
    return ranked(queue(trajectories))


async def _run_failures(folder: Path) -> dict[str, Any]:
    reading = await read_failures(folder)
    return {one.episode: one.mistakes for one in reading.episodes}


def _evidence(trajectory: Trajectory, world: ScenarioSnapshot) -> list[Mapping[str, str]]:
    """The evidence items of an episode with a verdict, as a model is shown them."""
    verdict: Judged | None = trajectory.judged[-1] if trajectory.judged else None
    if trajectory.ended is None or verdict is None:
        return []
    verification = Verification(verdict.findings, None if verdict.findings else verdict.unjudged)
    evidence = gather(trajectory, verification, scenario_info(world))
    code = msgspec.structs.replace(verdict, label=verdict.code, judge="code", judgements=())
    case = Case(trajectory, evidence, verdict.idle, code, "package")
    return [
        {"id": item.evidence_id, "title": group.title, "about": about, "text": text}
        for group in groups_of(case, "hybrid")
        for item in group.items
        for about, text in item.texts
    ]


def _no_record(scenario: Scenario) -> NoReturn:
    raise JudgeError(f"{scenario.name}: an AWM record is checked by `rehearse scenarios check`")


class _LabelFile:
    """The labels of the present user in a run's folder."""

    def __init__(self, labeller: str) -> None:
        self._labeller = labeller

    def mine(self, folder: Path) -> dict[str, str]:
        """See Labels.mine."""
        path = folder / _LABELS
        with _as_log_error():
            found = read_labels(path).by(self._labeller) if path.exists() else {}
        return {episode: str(one.label) for episode, one in found.items()}

    def add(self, folder: Path, trajectory: Trajectory, label: str | None, note: str) -> None:
        """See Labels.add."""
        with _as_log_error():
            LabelBook(folder / _LABELS).add(
                HumanLabel(
                    trajectory.episode,
                    None if label is None else Label(label),
                    episode_digest(trajectory),
                    self._labeller,
                    note,
                    True,  # the page shows findings and verdicts
                    time.time(),
                )
            )


@contextmanager
def _as_log_error() -> Iterator[None]:
    try:
        yield
    except JudgeError as exc:
        raise LogError(str(exc)) from exc
