"""What the verbs share: flags, settings, where results go."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from harness.core.errors import SettingsError
from harness.log.schema import write_atomically
from harness.settings.run import Settings, choices_of, difference, resolve


def choice(field: str) -> click.Choice[str]:
    """The words that a setting may have."""
    return click.Choice(choices_of(field))


def _writable(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Refuse a file that cannot be there before the work, not after it."""
    if value is not None and value != "-" and not Path(value).absolute().parent.is_dir():
        raise SettingsError(f"--json: {value} cannot be written: its folder does not exist")
    return value


JSON = click.option(
    "--json",
    "json_file",
    metavar="FILE",
    callback=_writable,
    help="Write the result as JSON; - for standard output.",
)
POOL_FLAGS = (
    click.option("--awm", metavar="DIR", help="Find scenarios in a folder of AWM's jsonl files."),
    click.option("--seeding", type=choice("seeding"), help="How AWM records are seeded."),
    click.option("--isolate/--no-isolate", default=None, help="All packages in workers."),
    click.option("--workers", type=int, help="Processes for code not ours; default: one a core."),
    click.option("--worker-memory-mb", type=int, help="Of one worker, at most."),
    click.option("--sandbox", type=choice("sandbox"), help="required: refuse to run below it."),
)
RUN_FLAGS = (
    click.argument("scenarios", nargs=-1, metavar="[SCENARIO[:TASK]]..."),
    click.option("--allow", metavar="FILE", help="Run only what `scenarios check` found sound."),
    click.option("-p", "--policy", type=choice("policy"), help="Who plays."),
    click.option("-m", "--model", help="A model's name; of local and vllm its folder."),
    click.option("--base-url", help="The model server's URL, as in http://localhost:8000/v1."),
    click.option("--client", type=choice("client"), help="package: the openai package's own."),
    click.option("--script", help="The file of calls, for policy scripted."),
    click.option("--replay", metavar="RUN", help="The run of policy replay."),
    click.option("--tokens", metavar="DIR", help="Log replies in the tokens of this model."),
    click.option("-n", "--episodes", type=int, help="Episodes in all; default: one of each task."),
    click.option("-g", "--group-size", type=int, help="Episodes of one task in a row."),
    click.option("-c", "--concurrency", type=int, help="Episodes live at once."),
    click.option("--seed", type=int, help="What everything drawn at random follows from."),
    click.option("--history", help="full, last:W, last:W+S, tokens:N, retrieve:K, summary:N."),
    click.option("--dialect", type=choice("dialect"), help="How tools are shown and calls read."),
    click.option("--format-rules", type=choice("format_rules"), help="What is malformed."),
    click.option("--format-stop/--no-format-stop", default=None, help="End at a malformed step."),
    click.option("--format-reward", type=float, help="Of a malformed step; default -1."),
    click.option("--max-steps", type=int, help="Steps of an episode."),
    click.option("--token-limit", type=int, help="Tokens generated in an episode."),
    click.option("--time-limit", type=float, help="Seconds of an episode."),
    click.option("--reply-timeout", type=float, help="Seconds for a reply, retries included."),
    click.option("--call-timeout", type=float, help="Seconds for a tool call."),
    click.option(
        "--world-stop/--no-world-stop",
        default=None,
        help="End an episode when a tool breaks; default: unless -p scripted.",
    ),
    click.option("--request-timeout", type=float, help="Seconds for one request to the model."),
    click.option("--max-attempts", type=int, help="Requests for one reply."),
    click.option("--temperature", type=float, help="Of the model."),
    click.option("--top-p", type=float, help="Of the model."),
    click.option("--max-tokens", type=int, help="Of one reply."),
    click.option("--think", metavar="LOW:HIGH", help="Seeded think time before each reply, s."),
    click.option("--judge", type=choice("judge"), help="Who judges: code, models, or both."),
    click.option("--judge-model", "judge_models", multiple=True, metavar="MODEL[@URL]"),
    click.option("--judge-base-url", help="The judges' server."),
    click.option("--judge-vote", type=choice("judge_vote"), help="Of several models."),
    click.option("--judge-ask", type=choice("judge_ask"), help="About all, or the unproven."),
    click.option("--judge-rubric", help="A rubric of your own."),
    click.option("--judge-prices", help="What models cost, in TOML."),
    click.option("--judge-budget", type=float, help="USD that the judge may spend."),
    click.option("--judge-concurrency", type=int, help="Verdicts that are waited for at once."),
    click.option("--rewards", type=choice("rewards"), help="What a label is worth."),
    *POOL_FLAGS,
    click.option("--pool", metavar="URL", help="Lease worlds from `rehearse serve` there."),
    click.option("--mcp", metavar="TARGET", help="The world: an MCP server's URL or command."),
    click.option("--mcp-env", multiple=True, help="A variable that the command inherits."),
    click.option("--bus", metavar="URL", help="Publish on a broker: mqtt[s]://user@host:port."),
    click.option("--config", type=click.Path(path_type=Path), help="Settings in TOML."),
    click.option("-o", "--output", type=click.Path(path_type=Path), help="The run's folder."),
    click.option("--resume", is_flag=True, help="Go on with the run in the folder."),
    click.option("--dry-run", is_flag=True, help="Print the resolved settings and stop."),
    JSON,
)


def run_flags(command: Callable[..., None]) -> Callable[..., None]:
    """The flags of verbs that run episodes."""
    for flag in reversed(RUN_FLAGS):
        command = flag(command)
    return command


def pool_flags(command: Callable[..., None]) -> Callable[..., None]:
    """The flags of verbs that have worlds without running episodes."""
    for flag in reversed(POOL_FLAGS):
        command = flag(command)
    return command


def settings_of(config: Path | None, output: Path | None, resume: bool, flags: Any) -> Settings:
    """The resolved settings; a run that goes on has those with which it began."""
    began = output / "run.toml" if resume and output is not None else None
    if began is None or not began.is_file():
        return resolve(config, flags)
    settings = resolve(config or began, flags)
    if (changed := difference(began, settings)) is not None:
        raise SettingsError(f"{began}: {changed}")
    return settings


def write_json(result: Any, json_file: str | None) -> None:
    """Write the machine-readable result where it was asked for."""
    if json_file is None:
        return
    data = msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"
    if json_file == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        write_atomically(Path(json_file), data)
    except OSError as exc:
        raise SettingsError(f"--json: {json_file} cannot be written: {exc}") from exc


def console_of(json_file: str | None) -> Console:
    """Where a person reads: standard error when JSON takes standard output."""
    return Console(stderr=json_file == "-")
