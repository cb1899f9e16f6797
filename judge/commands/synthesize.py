"""The verb synthesise: worlds written by a language model, each proved before it is kept."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from harness.commands.options import JSON, console_of, write_json
from harness.rollout.process import run
from judge.commands.options import counted
from judge.worlds.synthesize import Asked, checked, run_synthesis
from scenarios.synth.report import Report, render

_FLAGS = (
    click.option("-o", "--output", required=True, help="The folder of worlds and of all stages."),
    click.option("-m", "--model", required=True, help="The model's name."),
    click.option("--base-url", help="The model server's URL, as in http://localhost:8000/v1."),
    click.option("-n", "--count", type=int, help="Scenarios in all; default: the seeds alone."),
    click.option("--tasks", type=int, help="Of a world; default 10."),
    click.option("--tables", type=int, help="Of a world, about; default 18."),
    click.option("--rows", type=int, help="Of a world, about; default 120."),
    click.option("--tools", type=int, help="Of a world, about; default 35."),
    click.option("--tries", type=int, help="Answers of one stage, at most; default 5."),
    click.option("--least-tasks", type=int, help="Proved tasks that a world must have; default 1."),
    click.option("--seed", type=int, help="What everything drawn at random follows from."),
    click.option("--same", type=float, help="Cosine above which two scenarios are one."),
    click.option("--cap", type=int, help="Scenarios of one category."),
    click.option("--prompts", type=click.Path(), help="A folder of prompts of your own."),
    click.option("--format", "formats", type=click.Choice(["ours", "awm"]), help="awm: it, too."),
    click.option("--again", is_flag=True, default=None, help="Make anew what failed before."),
    click.option("--embeddings", metavar="MODEL", help="Vectors from the server, of this model."),
    click.option("--prices", type=click.Path(), help="What models cost, in TOML."),
    click.option("--budget", type=float, help="USD that may be spent on this folder in all."),
    click.option("-c", "--concurrency", type=int, help="Scenarios worked on side by side."),
    click.option("--temperature", type=float, help="Of the model; default 1."),
    click.option("--max-tokens", type=int, help="Of one answer."),
    click.option("--timeout", type=float, help="Seconds for one request."),
    click.option("--attempts", type=int, help="Requests for one answer."),
    click.option("--max-steps", type=int, help="Steps of the solver; default 20."),
    click.option("--call-timeout", type=float, help="Seconds for one call of a tool; default 10."),
    click.option("--workers", type=int, help="Processes for worlds' code; default: one a core."),
    click.option("--sandbox", help="required: refuse to run below it."),
)


def _flags(command: Any) -> Any:
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


@click.command("synthesise")
@click.argument("seeds", metavar="SEEDS.jsonl")
@_flags
@JSON
def synthesise_command(json_file: str | None, formats: str | None, **flags: Any) -> None:
    """Write worlds with a model, from scenarios in words; a rerun goes on where it was cut off.

    SEEDS.jsonl has one {"name", "description"} a line. Exit status 1: a scenario became no world,
    or there was no money left.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    asked = checked(msgspec.convert({**given, "awm": formats == "awm"}, Asked))
    console = console_of(json_file)
    with counted("stages") as tell:
        report: Report = run(run_synthesis, asked, lambda _, done, total: tell(done, total))
    render(report, console)
    console.print(f"{Path(asked.output) / 'worlds'}", highlight=False)
    write_json(report, json_file)
    if not report.ok:
        sys.exit(1)
