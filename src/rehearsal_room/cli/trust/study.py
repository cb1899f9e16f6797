"""The command `judge study`: how far a judge can be trusted."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.judge_options import judge_flags, open_run_judge, settings_of
from rehearsal_room.cli.core.options import JSON, RUN, console_of, write_json
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.rollout.progress_display import ProgressDisplay
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.evidence import episode_digest
from rehearsal_room.judge.failures.reading import find_diagnoses
from rehearsal_room.judge.llm.released import ReleasedJudge
from rehearsal_room.judge.reliability import report as study_report
from rehearsal_room.judge.reliability.annotations import labels_of, own_labels, read_labels
from rehearsal_room.judge.reliability.perturbations import INJECTIONS, REWORDINGS
from rehearsal_room.judge.reliability.sampling import sample_of
from rehearsal_room.judge.reliability.study import study
from rehearsal_room.judge.reliability.types import StudyReport
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.judge.verdicts.planted_errors import PlantedErrors


@click.command("study", cls=SectionedCommand)
@RUN
@judge_flags
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Number of episodes to judge.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Number of times that each episode is judged.",
)
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File of labels by people, as `rehearse judge label` and the viewer write it, to compare "
    "with (default: labels.jsonl in the run's folder, if it is there).",
)
@click.option(
    "--rewordings/--no-rewordings",
    default=True,
    help="Whether episodes are also judged reworded, and with text that tries to persuade the "
    "judge (default: yes).",
)
@JSON
def study_command(
    folder: Path,
    sample: int,
    repeats: int,
    labels: Path | None,
    rewordings: bool,
    json_file: str | None,
    **flags: Any,
) -> None:
    """Measure how far a judge can be trusted: judge a sample several times and compare.

    Judge flags that you omit keep the values of the run's latest judging. This command does not
    read the cache and does not write to the log.
    """
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    settings = settings_of(folder, given | {"profile": "none"})  # our own judge is studied
    request = _Request(sample, repeats, labels, rewordings)
    report: StudyReport = run(_study, folder, settings, request)
    study_report.render(report, console_of(json_file))
    write_json(report, json_file)


class _Request(msgspec.Struct, frozen=True):
    """The options of a study."""

    sample: int
    repeats: int
    labels: Path | None
    rewordings: bool


async def _study(folder: Path, settings: JudgeSettings, request: _Request) -> StudyReport:
    seed = settings.seed or 0
    async with AsyncExitStack() as stack:
        reader = stack.enter_context(open_reader(folder))
        humans = _human_labels(reader, request.labels)
        names = sample_of(reader.episodes(), request.sample, seed=seed, first=humans or ())
        if not names:
            raise LogError(f"{folder}: no episode is over yet, so there is nothing to study")
        judge = await stack.enter_async_context(open_run_judge(folder, reader, settings))
        assert not isinstance(judge, ReleasedJudge)
        cases = [await judge.case(reader.trajectory(name)) for name in names]
        made = [case for case in cases if isinstance(case, Case)]
        left_out = [verdict for verdict in cases if not isinstance(verdict, Case)]

        async def judging(case: Case, repeat: int) -> Judged:
            if isinstance(judge, ScenarioJudges | PlantedErrors):
                return await judge.verdict(case.trajectory)
            return await judge.judge_case(case, seed=seed + repeat, fresh=True)

        display = stack.enter_context(ProgressDisplay("judgements"))
        return await study(
            made,
            judging,
            repeats=request.repeats,
            concurrency=settings.concurrency,
            rewordings=REWORDINGS if request.rewordings else {},
            injections=INJECTIONS if request.rewordings else {},
            humans=humans,
            diagnoses=await find_diagnoses(folder, reader, reader.episodes(), only=names),
            left_out=left_out,
            seed=seed,
            progress=display.show,
        )


def _human_labels(reader: LogReader, path: Path | None) -> dict[str, dict[str, Label]] | None:
    """The labels that people gave the run's episodes; None: there are none. Raises JudgeError."""
    found = own_labels(reader.path.parent) if path is None else read_labels(path)
    if path is None and not found.labels:
        return None
    known = {row.episode for row in reader.episodes()}

    def digest_of(episode: str) -> str | None:
        return episode_digest(reader.trajectory(episode)) if episode in known else None

    return labels_of(found, digest_of)
