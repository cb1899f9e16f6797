"""The command line: the composition root, which chooses the real parts, wires them, and prints.

The exit status of every command is 0, 1 when the thing asked about failed, or 2 for bad input, of
which one sentence on standard error reports the fault. Results go to standard output, progress to
standard error.
"""

import sys
from collections.abc import Callable, Sequence
from errno import ENAMETOOLONG
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from rehearsal_room.cli.core.context import CommandContext
from rehearsal_room.cli.look import inspect_runs, profile
from rehearsal_room.cli.look import view as viewer
from rehearsal_room.cli.play import play, run, suites
from rehearsal_room.cli.tools import completion, doctor, simulate
from rehearsal_room.cli.train import serve_policy, train
from rehearsal_room.cli.trust import compare, experiment, failures, promote, reliability
from rehearsal_room.cli.trust import judge as judge_commands
from rehearsal_room.cli.worlds import gate, generate, import_logs, new, report, synthesize, worlds
from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.harness.chat.prices import PriceFile
from rehearsal_room.harness.core.errors import HarnessError, SettingsError
from rehearsal_room.harness.core.terminal import escaped_output, show_traceback
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.harness.outcomes.run_statistics import RunStatistics
from rehearsal_room.harness.policies.base import OpenPolicy
from rehearsal_room.harness.rollout.process import configure_logging
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.settings.schema import Schema, run_schema, schema_of
from rehearsal_room.harness.setup.trust_notice import forget_named
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.experiments.file import ExperimentFile
from rehearsal_room.judge.llm.rubric import Rubric
from rehearsal_room.judge.verdicts.factory import open_judge
from rehearsal_room.learner.config.schema import train_schema
from rehearsal_room.learner.core.errors import LearnerError
from rehearsal_room.scenarios import distribution
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.distribution import missing_package
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.format import PackageHead, PackageTasks

_EXPECTED = (HarnessError, ScenarioError, PoolError, JudgeError, LearnerError)


def _local_policy(settings: Settings) -> OpenPolicy:
    try:
        made: OpenPolicy = import_module(
            "rehearsal_room.learner.inference.local_policy"
        ).local_policy(settings)
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("policy: 'local'", exc, "train")) from exc
    return made


def _trained() -> Callable[[Path], Any] | None:
    try:
        made: Callable[[Path], Any] = import_module(
            "rehearsal_room.learner.data.trained_content"
        ).trained_content
    except ModuleNotFoundError:
        return None
    return made


def _statistics(rows: Sequence[EpisodeRow]) -> RunStatistics:
    computed: RunStatistics = import_module(
        "rehearsal_room.judge.statistics.run_statistics"
    ).statistics_of(rows)
    return computed


def _viewer() -> Any:
    return import_module("rehearsal_room.viewer.judging").judging_parts(find)


def _train(config: Path, folder: Path, resume: bool) -> Path:
    return train.train_from(COMMAND_CONTEXT, config, folder, resume=resume)


def _gate_schema() -> Schema:
    file = import_module("rehearsal_room.judge.promotion.gate_file").GateFile
    return schema_of(file, title="A gate file (rehearse promote)")


def _recipe_schema() -> Schema:
    try:
        made: Schema = import_module("rehearsal_room.learner.demo.schema").recipe_schema()
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("schema: recipe", exc, "train")) from exc
    return made


COMMAND_CONTEXT = CommandContext(
    open_judge=open_judge,
    local_policy=_local_policy,
    trained=_trained,
    statistics=_statistics,
    train=_train,
    viewer=_viewer,
    schemas={
        "run": run_schema,
        "train": train_schema,
        "judge": lambda: schema_of(JudgeSettings, title="Settings of a judge (judge.toml)"),
        "recipe": _recipe_schema,
        "gate": _gate_schema,
        "experiment": lambda: schema_of(
            ExperimentFile, title="An experiment (rehearse experiment)"
        ),
        "rubric": lambda: schema_of(Rubric, title="A rubric (rehearse judge --rubric)"),
        "scenario": lambda: schema_of(PackageHead, title="A package's scenario.toml"),
        "tasks": lambda: schema_of(PackageTasks, title="A package's tasks.toml"),
        "prices": lambda: schema_of(PriceFile, title="Prices of models (--prices)"),
    },
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(distribution.version(), prog_name="rehearse")
@click.option(
    "-v",
    "--verbose",
    count=True,
    help="Log the run's steps, retries and rate limits to standard error; -vv: everything.",
)
@click.pass_context
def cli(context: click.Context, verbose: int) -> None:
    """A rehearsal room for tool-using agents."""
    context.obj = COMMAND_CONTEXT
    configure_logging(verbose)
    forget_named()


def main() -> None:
    """The command `rehearse`."""
    run_command(cli, "rehearse")


def run_command(command: click.Command, name: str) -> None:
    """Run a command with the arguments of this process, and end the process with its status.

    What others wrote is escaped on its way out.
    """
    sys.excepthook = show_traceback
    with escaped_output():
        _run(command, name)


def _run(command: click.Command, name: str) -> None:
    try:
        command(prog_name=name, standalone_mode=False)
    except click.exceptions.Abort as exc:
        click.echo(str(exc) or "interrupted", err=True)
        sys.exit(130)
    except click.ClickException as exc:
        exc.show()
        sys.exit(2)
    except click.exceptions.Exit as exc:
        sys.exit(exc.exit_code)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as exc:
        failures = _failures(exc)
        if not all(map(_is_expected, failures)):
            raise
        for sentence in dict.fromkeys(map(str, failures)):
            click.echo(f"error: {printable(sentence)}", err=True)  # else click drops escapes
        sys.exit(2)


def _is_expected(failure: BaseException) -> bool:
    """Whether the sentence is enough: also where a given path is longer than paths can be."""
    too_long = isinstance(failure, OSError) and failure.errno == ENAMETOOLONG
    return too_long or isinstance(failure, _EXPECTED)


def _failures(exc: BaseException) -> list[BaseException]:
    """The errors inside of groups: a full disk stops the log and a checkpoint at the same time."""
    if not isinstance(exc, BaseExceptionGroup):
        return [exc]
    return [failure for one in exc.exceptions for failure in _failures(one)]


for _command in (
    run.run_command,
    run.bench_command,
    play.play_command,
    inspect_runs.show_command,
    profile.profile_command,
    inspect_runs.replay_command,
    judge_commands.judge_command,
    reliability.study_command,
    reliability.label_command,
    inspect_runs.export_command,
    inspect_runs.watch_command,
    viewer.view_command,
    generate.generate_command,
    synthesize.synthesise_command,
    simulate.simulate_command,
    compare.compare_command,
    compare.size_command,
    failures.failures_command,
    promote.promote_command,
    experiment.experiment_command,
    suites.suites_group,
    suites.eval_command,
    worlds.scenarios_group,
    worlds.import_group,
    worlds.serve_command,
    new.new_group,
    doctor.doctor_command,
    completion.schema_command,
    completion.completion_command,
    train.train_command,
    serve_policy.serve_policy_command,
):
    cli.add_command(_command)
worlds.import_group.add_command(import_logs.import_atif_command)
worlds.import_group.add_command(import_logs.import_chat_command)
worlds.scenarios_group.add_command(gate.check_command)
worlds.scenarios_group.add_command(report.report_command)

if __name__ == "__main__":
    main()
