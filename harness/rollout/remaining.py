"""What is left to do of a plan when its run starts or resumes."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.schema import LOG_NAME, EpisodeRow
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.scenarios.format import Scenario

EndedEpisode = tuple[EpisodeRow, int]  # its row, and the sequence number of its next record
INTERRUPTED = frozenset({Ending.CANCELLED})
# Endings of episodes that a resumed run plays again: nothing is known about the agent.
REPEATED = INTERRUPTED | {Ending.POLICY_ERROR}


class Remaining(NamedTuple):
    """The plan's episodes by what is left to do for them."""

    plans: Sequence[EpisodePlan]  # all of them
    done: Sequence[EpisodeRow]
    missing: Sequence[EpisodePlan]  # to run
    unjudged: Sequence[EndedEpisode]  # only to judge
    num_weights: int  # versions of weights in the log


def read_remaining(
    folder: Path,
    plans: Sequence[EpisodePlan],
    *,
    resume: bool,
    judged: bool,
    repeated: Collection[Ending] = REPEATED,
) -> Remaining:
    """What is left of the plan. An episode that was cut off gets another attempt, and so does one
    with an ending that is `repeated`. Raises LogError."""
    if not resume or not (folder / LOG_NAME).exists():
        return Remaining(plans, [], list(plans), [], 0)
    with open_reader(folder) as reader:
        return _remaining_of(reader, plans, judged, repeated)


def _remaining_of(
    reader: LogReader, plans: Sequence[EpisodePlan], judged: bool, repeated: Collection[Ending]
) -> Remaining:
    progress_by_episode = reader.progress()
    rows = {row.episode: row for row in reader.episodes()}
    done: list[EpisodeRow] = []
    missing: list[EpisodePlan] = []
    unjudged: list[EndedEpisode] = []
    for plan in plans:
        progress = progress_by_episode.get(plan.episode)
        if progress is None:
            missing.append(plan)
        elif not progress.ended or rows[plan.episode].ending in repeated:
            missing.append(msgspec.structs.replace(plan, attempt=progress.next_attempt))
        elif judged and not progress.judged:
            unjudged.append((rows[plan.episode], progress.next_seq))
        else:
            done.append(rows[plan.episode])
    return Remaining(plans, done, missing, unjudged, reader.counts().get("weights", 0))


def scenarios_of(plans: Iterable[EpisodePlan]) -> list[Scenario]:
    """The scenarios of the plans, each once."""
    return list({plan.scenario.digest: plan.scenario for plan in plans}.values())
