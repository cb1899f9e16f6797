"""What a suite's score owes to a model that judged, and how far that model can be trusted."""

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Judged
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.judge.statistics.youden import JudgeSoundness, Youden


class ModelJudged(msgspec.Struct, frozen=True):
    """The judge of a score that asked a model."""

    judge: str  # as in `hybrid:gpt-5`
    episodes: int  # in whose latest verdict a model had a part
    youden: Youden | None = None  # J of this judge, where a file with it was named


def model_judged(
    reader: LogReader, scenarios: Collection[str], soundness: JudgeSoundness | None
) -> ModelJudged | None:
    """What a model judged of the episodes of these scenarios; None: nothing. Raises SettingsError
    where `soundness` is about another judge."""
    of = {row.episode for row in reader.episodes() if row.scenario in scenarios}
    latest = {
        record.episode: record.event
        for record in reader.milestones()
        if isinstance(record.event, Judged) and record.episode in of
    }
    asked = [one for one in latest.values() if one.asked or one.judgements]
    if not asked:
        return None
    judges = sorted({one.judge for one in asked})
    if soundness is not None and judges != [soundness.judge]:
        raise SettingsError(
            f"--soundness: the file has J of judge {soundness.judge!r}, and the suite was judged "
            f"by {', '.join(map(repr, judges))}"
        )
    youden = None if soundness is None else soundness.youden
    return ModelJudged(", ".join(judges), len(asked), youden)


def trust_lines(found: ModelJudged, episodes: int, run: Path) -> Iterator[str]:
    """How far a score of so many episodes can be trusted, in sentences. `run` is its folder."""
    text = f"{found.judge} decided on {found.episodes:,} of {episodes:,} episodes"
    if found.youden is None:
        yield (
            f"WARNING {text}, and how far it can be trusted is not known: label some by hand, "
            f"measure its J (`rehearse judge study {run} --json FILE`), and name the file with "
            "--soundness"
        )
        return
    j = found.youden.j
    yield f"{text}; its J is {j.value:.3f} ({j.lower:.3f} to {j.upper:.3f})"
    if found.youden.may_be_blind:
        yield (
            "WARNING the interval of J reaches 0: the judge may accept as much wrong work as right "
            "work, and then this score says nothing"
        )
