"""The command `synthesise`: worlds written by a language model, each proved before it is kept."""

import sys
from pathlib import Path
from typing import Any

import click

from rehearsal_room.authoring.synthesize import (
    SynthesisOptions,
    dry_prompts,
    require_consistent,
    run_synthesis,
)
from rehearsal_room.cli.core.flags import flags_of, settings_from
from rehearsal_room.cli.core.interruption import continued_by, same_command
from rehearsal_room.cli.core.options import JSON, console_of, write_json
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.rollout.progress_display import ProgressDisplay
from rehearsal_room.scenarios.synth.report import SynthesisReport, render


@click.command("synthesise")
@click.argument("seeds", metavar="SEEDS.jsonl")
@flags_of(SynthesisOptions, words={"sandbox": ("best", "required")})
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["ours", "awm"]),
    default="ours",
    help="Write packages in our format (ours, the default), or AWM's files as well (awm).",
)
@click.option(
    "--dry-prompts",
    "only_prompts",
    is_flag=True,
    help="Print every stage's prompt for the first scenario of the file and stop; no model is "
    "asked. Results in the folder of --output stand in later prompts.",
)
@JSON
@click.pass_context
def synthesise_command(
    context: click.Context,
    /,
    json_file: str | None,
    format_name: str,
    only_prompts: bool,
    **flags: Any,
) -> None:
    """Write worlds with a language model, from descriptions of scenarios.

    SEEDS.jsonl has one {"name", "description"} a line. A synthesis that was interrupted continues
    when the same command is given again. The exit status is 1 when a scenario did not become a
    world, or when the budget is exhausted.
    """
    if only_prompts:
        _print_prompts(flags)
        return
    _require(context, flags, "model", "output")
    options = require_consistent(
        settings_from(SynthesisOptions, flags | {"awm": format_name == "awm"})
    )
    console = console_of(json_file)
    with continued_by(same_command), ProgressDisplay("stages") as display:
        report: SynthesisReport = run(
            run_synthesis, options, lambda _, done, total: display.show(done, total)
        )
    render(report, console)
    console.print(f"{Path(options.output) / 'worlds'}", highlight=False)
    write_json(report, json_file)
    if not report.ok:
        sys.exit(1)


def _print_prompts(flags: dict[str, Any]) -> None:
    unneeded = {name: flags[name] or "" for name in ("model", "output")}
    options = settings_from(SynthesisOptions, flags | unneeded)
    for prompt in dry_prompts(options):
        click.echo(prompt.render())


def _require(context: click.Context, flags: dict[str, Any], *names: str) -> None:
    """Raise click's own error for a flag that is missing."""
    for parameter in context.command.params:
        if parameter.name in names and flags[parameter.name] is None:
            raise click.MissingParameter(ctx=context, param=parameter)
