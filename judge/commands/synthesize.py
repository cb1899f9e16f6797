"""The command `synthesise`: worlds written by a language model, each proved before it is kept."""

import sys
from pathlib import Path
from typing import Any

import click

from harness.commands.flags import flags_of, settings_from
from harness.commands.interruption import continued_by, same_command
from harness.commands.options import JSON, console_of, write_json
from harness.rollout.process import run
from harness.rollout.progress_display import ProgressDisplay
from judge.worlds.synthesize import SynthesisOptions, require_consistent, run_synthesis
from scenarios.synth.report import Report, render


@click.command("synthesise")
@click.argument("seeds", metavar="SEEDS.jsonl")
@flags_of(SynthesisOptions, words={"sandbox": ("best", "required")}, required=("model", "output"))
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["ours", "awm"]),
    default="ours",
    help="Write packages in our format (ours, the default), or AWM's files as well (awm).",
)
@JSON
def synthesise_command(json_file: str | None, format_name: str, **flags: Any) -> None:
    """Write worlds with a language model, from descriptions of scenarios.

    SEEDS.jsonl has one {"name", "description"} a line. A synthesis that was interrupted continues
    when the same command is given again. The exit status is 1 when a scenario did not become a
    world, or when the budget is exhausted.
    """
    options = require_consistent(
        settings_from(SynthesisOptions, flags | {"awm": format_name == "awm"})
    )
    console = console_of(json_file)
    with continued_by(same_command), ProgressDisplay("stages") as display:
        report: Report = run(
            run_synthesis, options, lambda _, done, total: display.show(done, total)
        )
    render(report, console)
    console.print(f"{Path(options.output) / 'worlds'}", highlight=False)
    write_json(report, json_file)
    if not report.ok:
        sys.exit(1)
