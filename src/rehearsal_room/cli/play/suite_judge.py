"""What a suite's score owes to a model that judged, and how far that model can be trusted."""

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Judged
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.settings.judge import asks_models
from rehearsal_room.harness.settings.run import Settings, judge_settings
from rehearsal_room.judge.llm.client import model_settings
from rehearsal_room.judge.llm.llm_judge import judge_name
from rehearsal_room.judge.statistics.youden import JudgeSoundness, Youden, read_youden


class ModelJudged(msgspec.Struct, frozen=True):
    """The judge of a score that asked a model."""

    judge: str  # as in `hybrid:gpt-5`
    episodes: int  # in whose latest verdict a model had a part
    youden: Youden | None = None  # J of this judge, where a file with it was named


def soundness_for(file: Path | None, settings: Settings) -> JudgeSoundness | None:
    """J of the judge that these settings name, from a file; None: no file is named. Raises
    SettingsError where it is about another judge, or where no model judges."""
    if file is None:
        return None
    found, judge = read_youden(file), judge_settings(settings)
    if not asks_models(judge.mode):
        raise SettingsError(
            "--soundness: no model judges; name one with --judge hybrid --judge-model NAME, or "
            "leave --soundness out"
        )
    name = judge_name(judge.mode, [model.model for model in model_settings(judge)])
    if found.judge != name:
        raise SettingsError(
            f"--soundness: {file} has J of judge {found.judge!r}, and {name!r} judges here"
        )
    return found


def model_judged(
    reader: LogReader, scenarios: Collection[str], soundness: JudgeSoundness | None
) -> ModelJudged | None:
    """What a model judged of the episodes of these scenarios; None: nothing."""
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
    is_measured = soundness is not None and judges == [soundness.judge]
    youden = soundness.youden if soundness is not None and is_measured else None
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
