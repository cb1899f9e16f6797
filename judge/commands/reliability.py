"""The verbs study and label: how far a judge can be trusted, and what people say."""

import getpass
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from harness.commands.options import JSON, console_of, write_json
from harness.core.errors import LogError
from harness.core.events import Judged, Label
from harness.log.reader import LogReader, open_reader
from harness.rollout.process import run
from harness.settings.judge import JudgeSettings
from judge.commands.options import RUN, counted, judge_flags, open_run_judge, settings_of
from judge.core.case import Case
from judge.core.evidence import episode_digest, scenario_info
from judge.reliability import report as study_report
from judge.reliability.annotate import Labelling, order_of
from judge.reliability.annotations import LabelBook, labels_of, read_labels
from judge.reliability.perturbations import INJECTIONS, REWORDINGS
from judge.reliability.sampling import sample_of
from judge.reliability.study import study
from judge.reliability.types import StudyReport
from judge.verdicts.code_judges import ScenarioJudges
from judge.verdicts.disagreements import queue


@click.command("study")
@RUN
@judge_flags
@click.option("--sample", type=click.IntRange(1), default=100, help="Episodes; default 100.")
@click.option("--repeats", type=click.IntRange(1), default=5, help="Judgings of each; default 5.")
@click.option("--labels", type=click.Path(path_type=Path), help="What people say (see label).")
@click.option("--rewordings/--no-rewordings", default=True, help="Show episodes reworded, too.")
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
    """Say how far a judge can be trusted: judge a sample again and again.

    Nothing is taken from the cache or written into the log.
    """
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    settings = settings_of(folder, given)
    wanted = _Study(sample, repeats, labels, rewordings)
    report: StudyReport = run(_study, folder, settings, wanted)
    study_report.render(report, console_of(json_file))
    write_json(report, json_file)


class _Study(msgspec.Struct, frozen=True):
    """What a study is asked for."""

    sample: int
    repeats: int
    labels: Path | None
    rewordings: bool


async def _study(folder: Path, settings: JudgeSettings, wanted: _Study) -> StudyReport:
    async with AsyncExitStack() as stack:
        reader = stack.enter_context(open_reader(folder))
        humans = None if wanted.labels is None else _human_labels(reader, wanted.labels)
        names = sample_of(reader.episodes(), wanted.sample, seed=settings.seed, first=humans or ())
        if not names:
            raise LogError(f"{folder}: no episode is over yet, so there is nothing to study")
        court = await stack.enter_async_context(open_run_judge(folder, reader, settings))
        cases = [await court.case(reader.trajectory(name)) for name in names]
        made = [case for case in cases if isinstance(case, Case)]
        left_out = [verdict for verdict in cases if not isinstance(verdict, Case)]

        async def judging(case: Case, repeat: int) -> Judged:
            if isinstance(court, ScenarioJudges):
                return await court.verdict(case.trajectory)
            return await court.reasoning.verdict(case, seed=settings.seed + repeat, fresh=True)

        show = stack.enter_context(counted("judgings"))
        return await study(
            made,
            judging,
            repeats=wanted.repeats,
            concurrency=settings.concurrency,
            rewordings=REWORDINGS if wanted.rewordings else {},
            injections=INJECTIONS if wanted.rewordings else {},
            humans=humans,
            left_out=left_out,
            seed=settings.seed,
            progress=show,
        )


def _human_labels(reader: LogReader, path: Path) -> dict[str, dict[str, Label]]:
    """What people say of the run's episodes. Raises JudgeError."""
    known = {row.episode for row in reader.episodes()}

    def digest_of(episode: str) -> str | None:
        return episode_digest(reader.trajectory(episode)) if episode in known else None

    return labels_of(read_labels(path), digest_of)


@click.command("label")
@RUN
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: RUN/labels.jsonl.")
@click.option("--labeller", help="Whose labels they are; default: the user's name here.")
@click.option("--sample", type=click.IntRange(1), help="So many episodes; default: all.")
@click.option("--only", type=click.Choice(["disagreements"]), help="What judges disagree on.")
@click.option("--seed", type=int, default=0, help="The order, and which are in the sample.")
def label_command(
    folder: Path,
    output: Path | None,
    labeller: str | None,
    sample: int | None,
    only: str | None,
    seed: int,
) -> None:
    """Label episodes yourself, for `study --labels`. What is labelled stays; go on at any time."""
    who = labeller or getpass.getuser()
    with open_reader(folder) as reader:
        scenes = {
            world.scenario_digest: scenario_info(world) for world in reader.scenarios().values()
        }
        rows = [row for row in reader.episodes() if row.ending is not None]
        if only is not None:
            contested = {entry.episode for entry in queue(reader.trajectories())}
            rows = [row for row in rows if row.episode in contested]
        names = sample_of(rows, sample or len(rows), seed=seed)
        book = LabelBook(output or folder / "labels.jsonl")
        sitting = Labelling(
            order_of(names, book.by(who), seed=seed),
            book,
            labeller=who,
            trajectory_of=reader.trajectory,
            scenario_info=lambda trajectory: scenes[trajectory.started.scenario_digest],
            read=input,
            console=Console(),
        ).run()
    click.echo(f"{sitting.labelled} labelled, {sitting.left} left; the file is {book.path}")
