"""The command `promote`: whether an agent may go on to the next stage."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from rehearsal_room.cli.core.options import JSON, TRUST_RUN, UNIT, console_of, write_json
from rehearsal_room.cli.play.run import play_run
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.log.outputs import write_output
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.logged_runs.logged_run import (
    log_folder,
    playing_settings,
    run_settings,
)
from rehearsal_room.harness.outcomes.scores import MOST_WITHOUT_VERDICT
from rehearsal_room.harness.outcomes.units import Unit, choose_unit
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.judge.promotion.criteria_file import PromotionCriteria, read_criteria
from rehearsal_room.judge.promotion.decision import StageResult, decide
from rehearsal_room.judge.promotion.facts import EpisodeFacts, read_facts
from rehearsal_room.judge.promotion.looks import Looked, look_until
from rehearsal_room.judge.promotion.output import PromotionReport, junit_of, markdown_of, render
from rehearsal_room.judge.promotion.record import record_of
from rehearsal_room.judge.statistics.compared_runs import unit_asked
from rehearsal_room.judge.statistics.youden import Youden, read_youden

_STATUS = {"pass": 0, "fail": 1, "inconclusive": 3}


@click.command("promote")
@click.argument("gate_file", metavar="GATE.toml", type=click.Path(path_type=Path))
@click.argument(
    "folders", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path)
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="BASE",
    help="Run to compare with, for criteria such as regression.vs(base).",
)
@click.option(
    "--soundness",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File of `judge study --json` or `worlds check --json`, for criteria on J.",
)
@click.option(
    "--stage",
    metavar="NAME",
    help="Judge the stages up to this one (default: up to the first that is not passed).",
)
@click.option(
    "--continue",
    "most",
    type=click.IntRange(min=1),
    metavar="N",
    help="Play the runs on by their own settings, look after each batch, and stop at a verdict or "
    "when they have N episodes together. A base that is compared with is played on, too.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Markdown file of the verdict (default: none).",
)
@click.option(
    "--junit",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JUnit XML file of the verdict, for CI (default: none).",
)
@UNIT
@TRUST_RUN
@JSON
def promote_command(
    gate_file: Path,
    folders: Sequence[Path],
    against: Path | None,
    soundness: Path | None,
    stage: str | None,
    most: int | None,
    output: Path | None,
    junit: Path | None,
    unit: Unit | None,
    json_file: str | None,
) -> None:
    """Judge runs by a gate file: may the agent go on to the next stage?

    \b
        rehearse promote gate.toml runs/new --against runs/old
        rehearse promote gate.toml runs/new --against runs/old --continue 2000

    The exit status is 0 when the stage is passed, 1 when it is failed, and 3 when the episodes are
    too few to tell.
    """
    for flag, path in (("--output", output), ("--junit", junit)):
        if path is not None and not path.absolute().parent.is_dir():
            raise SettingsError(f"{flag}: {path}: its folder does not exist")
    criteria = read_criteria(gate_file)
    names = [one.name for one in criteria.stages]
    if stage is not None and stage not in names:
        raise SettingsError(f"--stage: the gate has no stage {stage!r}; stages: {', '.join(names)}")
    if criteria.compares and against is None:
        raise SettingsError("--against: a criterion compares with a base run; name it")
    if criteria.needs_judge and soundness is None:
        raise SettingsError(
            "--soundness: a criterion is about J of the judge; name the file that `rehearse judge "
            "study --json` or `rehearse worlds check --json` wrote"
        )
    runs = [log_folder(folder) for folder in folders]
    for number, folder in enumerate(runs):
        if folder.resolve() in [other.resolve() for other in runs[:number]]:
            raise SettingsError(f"{folder}: this run is named twice, and its episodes count once")
    base = None if against is None else log_folder(against)
    _require_episodes([*runs, *([base] if base else [])])
    judge = None if soundness is None else _soundness_of(soundness, runs)
    asked = unit or unit_asked([run_settings(folder) for folder in runs])
    promotion = _Promotion(criteria, runs, base, judge, asked)
    promotion.require_distinct()
    promotion.require_shared_tasks()
    looked = promotion.look(most, stage or "")
    report = promotion.report(gate_file, looked, most)
    if output is not None:
        _write_output(output, markdown_of(report).encode())
    if junit is not None:
        _write_output(junit, junit_of(report))
    render(report, console_of(json_file))
    write_json(report, json_file)
    sys.exit(_STATUS[report.verdict])


def _require_episodes(folders: Sequence[Path]) -> None:
    for folder in folders:
        with open_reader(folder) as reader:
            if not any(row.judge is not None for row in reader.episodes()):
                raise SettingsError(
                    f"{folder}: no episode has a verdict; `rehearse judge {folder}` judges them"
                )


def _soundness_of(file: Path, runs: Sequence[Path]) -> Youden:
    """J of the judge that judged the runs. Raises SettingsError where the file is about another."""
    found = read_youden(file)
    for folder in runs:
        with open_reader(folder) as reader:
            judges = {row.judge for row in reader.episodes() if row.judge is not None}
        if others := sorted(judges - {found.judge}):
            raise SettingsError(
                f"--soundness: {file} has J of judge {found.judge!r}, and {folder} was judged by "
                f"{', '.join(map(repr, others))}"
            )
    return found.youden


class _Promotion:
    """One promotion: reads the runs, plays them on, and makes the report."""

    def __init__(
        self,
        criteria: PromotionCriteria,
        runs: Sequence[Path],
        base: Path | None,
        judge: Youden | None,
        unit: Unit | None,
    ) -> None:
        self._criteria = criteria
        self._runs = runs
        self._base = base
        self._judge = judge
        self._unit = unit

    def read(self) -> tuple[list[EpisodeFacts], list[EpisodeFacts]]:
        """The episodes of the runs and of the base."""
        count = self._criteria.counts_calls
        runs = [one for folder in self._runs for one in read_facts(folder, count_calls=count)]
        base = [] if self._base is None else read_facts(self._base)
        return runs, base

    def require_distinct(self) -> None:
        """Raise SettingsError where two runs have an episode in common: one is a copy, and its
        episodes would count twice."""
        seen: dict[tuple[object, ...], Path] = {}
        for folder in self._runs:
            known = {(one.began, one.seed, *one.key) for one in read_facts(folder) if one.began}
            for episode in known & seen.keys():
                raise SettingsError(
                    f"{folder}: it has episodes of {seen[episode]}, which count once; name one of "
                    "the two runs"
                )
            seen |= dict.fromkeys(known, folder)

    def require_shared_tasks(self) -> None:
        """Raise SettingsError where the base shares no task with the runs."""
        runs, base = self.read()
        if base and {one.key for one in runs}.isdisjoint(one.key for one in base):
            names = ", ".join(map(str, self._runs))
            raise SettingsError(f"--against: {self._base} shares no task with {names}")

    def look(self, most: int | None, until: str) -> Looked:
        """Judge once, or again and again while the runs are played on."""
        if most is None:
            found = decide(
                self._criteria, *self.read(), until=until, unit=self._unit, judge=self._judge
            )
            return Looked(found, ())
        return look_until(
            *(self._criteria, most, self.read, self._play_on),
            until=until,
            unit=self._unit,
            judge=self._judge,
        )

    def _play_on(self, episodes: int) -> None:
        """Play until the runs have so many episodes together, and the base as many of its own
        where a criterion compares with it."""
        now = [_episodes_of(folder) for folder in self._runs]
        missing = max(0, episodes - sum(now))
        for index, (folder, count) in enumerate(zip(self._runs, now, strict=True)):
            share = missing // len(now) + (index < missing % len(now))
            self._play(folder, count + share)
        if self._base is not None and self._criteria.compares:
            self._play(self._base, max(_episodes_of(self._base), episodes))

    def _play(self, folder: Path, episodes: int) -> None:
        """Play a run on until it has so many episodes, or a few more: groups are whole."""
        settings = playing_settings(folder)
        groups = -(-episodes // settings.group_size)
        target = max(groups * settings.group_size, len(planned(settings)[1]))
        settings = msgspec.structs.replace(settings, episodes=target)
        play_run(settings, folder, resume=True)

    def report(self, gate_file: Path, looked: Looked, most: int | None) -> PromotionReport:
        """The report on how it ended."""
        results = looked.results
        last = results[-1]
        runs, _ = self.read()
        choice = choose_unit((one.key for one in runs), self._unit)
        return PromotionReport(
            gate=self._criteria.name,
            stage=last.stage,
            verdict=last.verdict,
            criteria=last.criteria,
            episodes=len(runs),
            passed=tuple(one.stage for one in results if one.verdict == "pass"),
            stages=tuple(results),
            advice=_advice(last, runs, most),
            looks=looked.looks,
            record=record_of(gate_file, self._runs, self._base),
            unit=choice.unit,
            about=choice.about,
        )


def _episodes_of(folder: Path) -> int:
    with open_reader(folder) as reader:
        return sum(row.ending is not None for row in reader.episodes())


def _advice(last: StageResult, episodes: Sequence[EpisodeFacts], most: int | None) -> str:
    """What to do where the verdict is inconclusive."""
    if last.verdict != "inconclusive":
        return ""
    open_ones = [one for one in last.criteria if one.verdict == "inconclusive"]
    if gaps := [one for one in open_ones if one.missing > MOST_WITHOUT_VERDICT * one.episodes]:
        worst = max(gaps, key=lambda one: one.missing / one.episodes)
        return (
            f"{worst.missing:,} of {plural(worst.episodes, 'episode')} have no verdict (more than "
            f"{MOST_WITHOUT_VERDICT:.0%}): {', '.join(one.name for one in gaps)} is not decided; "
            "`rehearse run -o RUN --resume` plays those again whose model could not answer, "
            "`rehearse judge RUN` judges those without a label"
        )
    unknown = [one.name for one in open_ones if one.value is None]
    if unknown:
        return (
            f"{', '.join(unknown)} cannot be computed from these runs: play more tries of each "
            "task (-g), or other tasks"
        )
    names = ", ".join(one.name for one in open_ones)
    more = f"--continue {2 * max(len(episodes), most or 0)}"
    return f"the episodes are too few to decide {names}; {more} plays on"


def _write_output(path: Path, data: bytes) -> None:
    try:
        write_output(path, data)
    except OSError as exc:
        raise SettingsError(f"{path} cannot be written: {exc}") from exc
