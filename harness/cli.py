"""The command line: the roof, which chooses the real parts, wires them, and prints.

Every verb ends with 0, with 1 when the thing asked about failed, or with 2 for bad input, which is
told in one sentence on standard error. Results go to standard output, progress to standard error.
"""

import sys
from importlib import import_module

import click

from envpool.core.errors import PoolError
from harness.commands import inspect_runs, run, worlds
from harness.commands.context import CommandContext
from harness.core.errors import HarnessError, SettingsError
from harness.policies.base import OpenPolicy
from harness.reports.episode_view import plain
from harness.rollout.process import quiet_logs
from harness.settings.run import Settings
from judge.commands import gate, generate, reliability, report, synthesize
from judge.commands import judge as judge_commands
from judge.core.errors import JudgeError
from judge.verdicts.factory import open_judge
from learner.commands import serve_policy, train
from learner.core.errors import LearnerError
from scenarios.errors import ScenarioError

_EXPECTED = (HarnessError, ScenarioError, PoolError, JudgeError, LearnerError)


_INTERRUPTED = (
    "interrupted; a run goes on with --resume, a judging with --only unjudged, a synthesis when it "
    "is asked for again"
)


def _local_policy(settings: Settings) -> OpenPolicy:
    try:
        made: OpenPolicy = import_module("learner.inference.local_policy").local_policy(settings)
    except ModuleNotFoundError as exc:
        raise SettingsError(
            f"policy: 'local' needs the package {exc.name}: pip install 'rehearsal[train]'"
        ) from exc
    return made


COMMAND_CONTEXT = CommandContext(open_judge=open_judge, local_policy=_local_policy)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rehearsal")
@click.option("-v", "--verbose", count=True, help="Log what happens (-vv: everything).")
@click.pass_context
def cli(context: click.Context, verbose: int) -> None:
    """A rehearsal room for tool-using agents."""
    context.obj = COMMAND_CONTEXT
    quiet_logs(verbose)


def main() -> None:
    """The command `rehearse`."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo(_INTERRUPTED, err=True)
        sys.exit(130)
    except click.ClickException as exc:
        exc.show()
        sys.exit(2)
    except click.exceptions.Exit as exc:
        sys.exit(exc.exit_code)
    except KeyboardInterrupt:
        click.echo(_INTERRUPTED, err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as exc:
        failures = _failures(exc)
        if not all(isinstance(failure, _EXPECTED) for failure in failures):
            raise
        for sentence in dict.fromkeys(map(str, failures)):
            click.echo(f"error: {plain(sentence)}", err=True)
        sys.exit(2)


def _failures(exc: BaseException) -> list[BaseException]:
    """What is inside of groups: a full disk stops the log and a checkpoint at the same time."""
    if not isinstance(exc, BaseExceptionGroup):
        return [exc]
    return [failure for one in exc.exceptions for failure in _failures(one)]


for _verb in (
    run.run_command,
    run.bench_command,
    inspect_runs.show_command,
    inspect_runs.replay_command,
    judge_commands.judge_command,
    reliability.study_command,
    reliability.label_command,
    inspect_runs.export_command,
    inspect_runs.watch_command,
    generate.generate_command,
    synthesize.synthesise_command,
    worlds.scenarios_group,
    worlds.import_group,
    worlds.serve_command,
    train.train_command,
    serve_policy.serve_policy_command,
):
    cli.add_command(_verb)
worlds.scenarios_group.add_command(gate.check_command)
worlds.scenarios_group.add_command(report.report_command)

if __name__ == "__main__":
    main()
