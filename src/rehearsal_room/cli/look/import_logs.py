"""The commands that make runs of other programs' episodes: `import atif`, `import chat`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import click
from rich.console import Console

from rehearsal_room.cli.core.options import JSON, OUTPUT, TRUST_RUN, console_of, write_json
from rehearsal_room.harness.core.errors import ConversationError
from rehearsal_room.harness.core.terminal_text import plural, printable
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.reports.summary import read_report, write_report
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.run_folder import removed_if_nothing_happened, require_new
from rehearsal_room.harness.setup.run_trust import isolated_unless_own
from rehearsal_room.harness.setup.worlds import pool_of, world_source
from rehearsal_room.interop.imports.atif import read_atif
from rehearsal_room.interop.imports.chat import read_chats
from rehearsal_room.interop.imports.conversations import ImportedConversation
from rehearsal_room.interop.imports.session import ImportedRun, import_conversations
from rehearsal_room.interop.imports.worlds import WorldFinder
from rehearsal_room.judge.statistics.run_statistics import statistics_of
from rehearsal_room.judge.verdicts.opener import judge_opener

Read = Callable[[Path], Iterator[ImportedConversation]]
_MAX_SHOWN = 10  # episodes of unknown worlds
_PATH = click.argument("path", type=click.Path(path_type=Path))
_SCENARIO = click.option(
    "--scenario",
    default="",
    metavar="NAME[:TASK]",
    help="World, and task, of the conversations (default: what each of them names).",
)


@click.command("atif")
@_PATH
@_SCENARIO
@OUTPUT
@TRUST_RUN
@JSON
def import_atif_command(
    path: Path,
    scenario: str,
    output: Path | None,
    json_file: str | None,
) -> None:
    """Make a run of trajectories in Harbor's format (ATIF).

    PATH is a document (.json), a file with one a line (.jsonl), or a folder of such files.
    """
    _import(read_atif, path, scenario, output, json_file)


@click.command("chat")
@_PATH
@_SCENARIO
@OUTPUT
@TRUST_RUN
@JSON
def import_chat_command(
    path: Path,
    scenario: str,
    output: Path | None,
    json_file: str | None,
) -> None:
    """Make a run of conversations in the chat format of OpenAI: JSON lines with `messages`."""
    _import(read_chats, path, scenario, output, json_file)


def _import(
    read: Read,
    path: Path,
    scenario: str,
    output: Path | None,
    json_file: str | None,
) -> None:
    folder = output or _fresh(path)
    require_new(folder, resume=False)
    conversations = list(read(path))
    if not conversations:
        raise ConversationError(f"{path}: the file has no conversation")
    with removed_if_nothing_happened(folder):
        folder.mkdir(parents=True, exist_ok=True)
        imported: ImportedRun = run(_play, folder, conversations, scenario)
    with open_reader(folder) as reader:
        write_report(folder, read_report(reader, statistics_of))
    _render(imported, console_of(json_file))
    write_json(imported, json_file)


async def _play(
    folder: Path, conversations: list[ImportedConversation], scenario: str
) -> ImportedRun:
    named = [] if scenario else [one.scenario for one in conversations if one.scenario]
    settings = isolated_unless_own(Settings(), named)
    worlds = WorldFinder(world_source(settings.worlds).find, scenario)
    async with pool_of(settings) as pool:
        return await import_conversations(
            folder, conversations, worlds, pool, judge_opener(settings)
        )


def _fresh(path: Path) -> Path:
    """runs/<file>-imported-<number>, the first that does not exist yet."""
    number = 1
    while (folder := Path("runs") / f"{path.stem}-imported-{number}").exists():
        number += 1
    return folder


def _render(imported: ImportedRun, console: Console) -> None:
    def line(text: str) -> None:
        console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    line(f"{plural(imported.episodes, 'episode')} in {imported.folder}")
    labels = ", ".join(f"{count} {label}" for label, count in imported.labels.items())
    line(f"{imported.replayed} played again in their world; {labels or 'no label'}")
    for one in imported.unknown[:_MAX_SHOWN]:
        line(f"unknown world: {one.episode} ({one.source}): {one.why}")
    if (left := len(imported.unknown) - _MAX_SHOWN) > 0:
        line(f"and {left} more of unknown worlds; --json has them all")
