"""`rehearse experiment` with a table [credit]: estimators of advantages against near-exact ones."""

from pathlib import Path

import msgspec
from rich.markdown import Markdown

from rehearsal_room.cli.core.local_policy import local_policy
from rehearsal_room.cli.core.options import console_of, write_json
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.launch import launch
from rehearsal_room.harness.log.schema import LOG_NAME, write_atomically
from rehearsal_room.harness.settings.run import Settings, resolve_table
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.judge.verdicts.opener import judge_opener
from rehearsal_room.learner.credit.erring_oracle import ErringOracle, Errors
from rehearsal_room.learner.credit.facts import MeasuredTask, StateFacts
from rehearsal_room.learner.credit.microscope import CreditFile, CreditSettings, measure
from rehearsal_room.learner.credit.ranking import Row, markdown_of, ranking
from rehearsal_room.scenarios.files import parse_toml, read_text
from rehearsal_room.scenarios.validation import explain


class CreditReport(msgspec.Struct, frozen=True):
    """What `rehearse experiment --json` writes."""

    name: str
    question: str
    policy: str  # whose actions were measured
    settings: CreditSettings  # of the table [credit]
    states: int  # that were measured
    actions: int  # in all of them
    continuations: int  # of all actions
    widest: float  # half of the widest 95 % interval of an action's value
    estimators: list[Row]


def is_credit(file: Path) -> bool:
    """Whether an experiment's file measures credit. Raises what reading it raises."""
    return file.is_file() and "credit" in parse_toml(file, read_text(file))


def measure_credit(file: Path, folder: Path, *, dry_run: bool, json_file: str | None) -> None:
    """Measure, rank, and write report.json and report.md. Raises SettingsError."""
    experiment = _read(file)
    credit = experiment.credit
    settings = resolve_table(experiment.run, {}, source=f"{file}: [run] ")
    if credit.errors is not None and settings.dialect != "native":
        raise SettingsError(
            f"{file}: [run] dialect: the erring oracle writes 'native' calls, found "
            f"{settings.dialect!r}"
        )
    console = console_of(json_file)
    tasks, _ = planned(settings)
    if dry_run:
        forks = credit.states * (credit.samples + credit.actions * credit.continuations)
        console.print(
            f"{plural(len(tasks), 'task')} of {credit.episodes} episodes, {credit.states} states,"
            f" at most {forks} forks",
            highlight=False,
        )
        return

    def play(settings: Settings, run: Path) -> None:
        _play(settings, run, credit.errors)

    measured = measure(
        settings, credit, folder, play, say=lambda line: console.print(line, highlight=False)
    )
    rows = ranking(
        measured.states,
        {one.task: one for one in measured.tasks},
        size=credit.group_size,
        widths=credit.widths,
        discount=credit.discount,
        draws=credit.draws,
        seed=credit.seed,
    )
    report = _report(experiment, settings, measured.tasks, measured.states, rows)
    write_atomically(folder / "report.md", _markdown(report).encode())
    console.print(Markdown(_markdown(report)))
    if (picture := _picture_of(rows)) is not None:
        write_atomically(folder / "credit.png", picture)
    write_json(report, str(folder / "report.json"))
    write_json(report, json_file)


def _read(file: Path) -> CreditFile:
    table = parse_toml(file, read_text(file))
    try:
        return msgspec.convert(table, CreditFile)
    except msgspec.ValidationError as exc:
        raise SettingsError(f"{file}: {explain(exc, table, CreditFile)}") from exc


def _play(settings: Settings, run: Path, errors: Errors | None) -> None:
    policy = None if errors is None else ErringOracle(dialect_of(settings.dialect), errors)
    launch(
        settings,
        run,
        resume=(run / LOG_NAME).exists(),
        open_judge=judge_opener(settings),
        local_policy=local_policy,
        policy=policy,
        progress=False,
    )


def _picture_of(rows: list[Row]) -> bytes | None:
    """The picture; None: matplotlib, which draws it, is not installed."""
    try:
        from rehearsal_room.learner.credit.figure import picture_of
    except ModuleNotFoundError:
        return None
    return picture_of(rows)


def _report(
    experiment: CreditFile,
    settings: Settings,
    tasks: tuple[MeasuredTask, ...],
    states: tuple[StateFacts, ...],
    rows: list[Row],
) -> CreditReport:
    actions = [one for state in states for one in state.actions]
    name = settings.policy.name if experiment.credit.errors is None else ErringOracle.name
    return CreditReport(
        experiment.name,
        experiment.question,
        name,
        experiment.credit,
        len(states),
        len(actions),
        sum(len(one.courses) for one in actions),
        max(one.half_width for one in actions),
        rows,
    )


def _markdown(report: CreditReport) -> str:
    head = f"# {report.name}\n\n{report.question}\n" if report.question else f"# {report.name}\n"
    return (
        f"{head}\n{report.states} states, {report.actions} actions with {report.continuations:,} "
        f"continuations by policy {report.policy}; the widest 95 % interval of an action's value "
        f"is ± {report.widest:.3f}.\n\n{markdown_of(report.estimators)}"
    )
