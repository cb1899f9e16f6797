"""What criteria need of each episode of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.events import WITH_ERRORS, Ending, EpisodeStarted, Judged, Label
from rehearsal_room.harness.core.mistakes import Diagnosis
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.harness.outcomes.scores import score_of, share_of
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.failures.reading import diagnoses_of
from rehearsal_room.judge.statistics.outcomes import Outcome, TaskKey


class EpisodeFacts(msgspec.Struct, frozen=True):
    """One episode that is over."""

    scenario: str
    task: str
    seed: int
    score: float | None  # see harness.outcomes.scores; None: there is no verdict
    label: str  # empty: there is none
    reward: float | None
    tags: tuple[str, ...]
    kinds: tuple[str, ...]  # of failure
    findings: dict[str, bool]  # name -> whether it passed
    steps: int
    seconds: float
    calls: int  # tool calls; 0 where they were not counted
    share: float | None = None  # of the task (harness.outcomes.scores); None: there is no verdict
    began: float = 0.0  # Unix seconds
    is_judged: bool = True  # also where there is a score: an own program that failed needs no judge

    @property
    def key(self) -> TaskKey:
        """The task, which is the cluster."""
        return self.scenario, self.task


def read_facts(folder: Path, *, count_calls: bool = False) -> list[EpisodeFacts]:
    """The facts of a run's episodes that are over. Raises LogError, and JudgeError for groups that
    branch and for verdicts with planted errors."""
    diagnoses = diagnoses_of(folder)
    with open_reader(folder) as reader:
        calls = _calls_of(reader) if count_calls else {}
        return _facts_of(reader, calls, diagnoses)


def _facts_of(
    reader: LogReader, calls: dict[str, int], diagnoses: Mapping[str, Diagnosis]
) -> list[EpisodeFacts]:
    seeds: dict[str, int] = {}
    verdicts: dict[str, Judged] = {}
    for record in reader.milestones():
        if isinstance(record.event, EpisodeStarted):
            if record.event.is_branch:  # from a state that another episode led to
                raise JudgeError(
                    f"{reader.path}: its groups branch, as episode {record.episode} does, so its "
                    "rate is not that of its tasks; play them without --branch-roots"
                )
            seeds[record.episode] = record.event.seed
            verdicts.pop(record.episode, None)  # an earlier attempt's
        elif isinstance(record.event, Judged):
            verdicts[record.episode] = record.event
    found = []
    for row in reader.episodes():
        if row.ending is None or row.episode not in diagnoses:  # it ended a moment ago
            continue
        if not row.has_score:
            continue
        verdict = verdicts.get(row.episode)
        if verdict is not None and WITH_ERRORS in verdict.judge:
            raise JudgeError(
                f"{reader.path}: judged by {verdict.judge!r}: planted errors are for experiments; "
                "judge the run again, with --mode code --errors 0/0"
            )
        findings = () if verdict is None else verdict.findings
        found.append(
            EpisodeFacts(
                scenario=row.scenario,
                task=row.task,
                seed=seeds[row.episode],
                score=score_of(row.ending, row.label),
                label=_label_of(row),
                reward=row.reward,
                tags=row.tags,
                kinds=tuple(map(str, diagnoses[row.episode].kinds)),
                findings={one.name: one.passed for one in findings},
                steps=row.num_steps,
                seconds=row.seconds,
                calls=calls.get(row.episode, 0),
                share=share_of(row.ending, row.label, row.share),
                began=row.started_at,
                is_judged=row.label is not None,
            )
        )
    return found


def _label_of(row: EpisodeRow) -> str:
    """The label; an own program that failed needs no judge for it."""
    unlabelled = Label.AGENT_ERROR if row.ending is Ending.AGENT_FAILED else ""
    return str(row.label or unlabelled)


def _calls_of(reader: LogReader) -> dict[str, int]:
    """The number of the agent's tool calls in each episode."""
    return {
        one.episode: sum(len(step.results) for step in one.steps) for one in reader.trajectories()
    }


def outcomes_in(facts: Sequence[EpisodeFacts]) -> list[Outcome]:
    """The same as outcomes, for comparisons."""
    return [Outcome(one.scenario, one.task, one.seed, one.score) for one in facts]
