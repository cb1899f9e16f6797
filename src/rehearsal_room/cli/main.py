"""The command line: the group `rehearse`, and what its errors become.

The exit status of every command is 0, 1 when the thing asked about failed, or 2 for bad input, of
which one sentence on standard error reports the fault. Results go to standard output, progress to
standard error. Commands are imported when they run: see `rehearsal_room.cli.verbs`.
"""

import sys
from errno import ENAMETOOLONG

import click

from rehearsal_room.cli.core.lazy import CannotStartError, LazyGroup
from rehearsal_room.cli.verbs import HIDDEN, MOVED, SECTIONS
from rehearsal_room.harness.core.terminal import escaped_output, show_traceback
from rehearsal_room.harness.core.terminal_text import printable


def _show_version(ctx: click.Context, _option: click.Parameter, is_given: bool) -> None:
    if is_given and not ctx.resilient_parsing:
        from rehearsal_room.scenarios import distribution  # to look the version up takes long

        click.echo(f"rehearse, version {distribution.version()}")
        ctx.exit()


@click.group(
    "rehearse",
    cls=LazyGroup,
    sections=SECTIONS,
    hidden=HIDDEN,
    moved=MOVED,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.option(
    "-v",
    "--verbose",
    count=True,
    help="Log the run's steps, retries and rate limits to standard error; -vv: everything.",
)
@click.pass_context
def cli(context: click.Context, verbose: int) -> None:
    """A rehearsal room for tool-using agents."""
    try:
        from rehearsal_room.harness.rollout.process import configure_logging
        from rehearsal_room.harness.setup.trust_notice import forget_named
        from rehearsal_room.harness.setup.trusted_folders import forget_trust
    except (ImportError, AttributeError) as exc:
        raise CannotStartError(context.invoked_subcommand, exc) from exc
    configure_logging(verbose)
    forget_named()
    forget_trust()


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
    except CannotStartError as exc:
        exc.show()
        sys.exit(exc.status)
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
    from rehearsal_room.envpool.core.errors import PoolError
    from rehearsal_room.harness.core.errors import HarnessError
    from rehearsal_room.judge.core.errors import JudgeError
    from rehearsal_room.learner.core.errors import LearnerError
    from rehearsal_room.scenarios.errors import ScenarioError

    too_long = isinstance(failure, OSError) and failure.errno == ENAMETOOLONG
    expected = (HarnessError, ScenarioError, PoolError, JudgeError, LearnerError)
    return too_long or isinstance(failure, expected)


def _failures(exc: BaseException) -> list[BaseException]:
    """The errors inside of groups: a full disk stops the log and a checkpoint at the same time."""
    if not isinstance(exc, BaseExceptionGroup):
        return [exc]
    return [failure for one in exc.exceptions for failure in _failures(one)]


if __name__ == "__main__":
    main()
