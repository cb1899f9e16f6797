"""An episode that an agent did not complete, in some lines: the findings that failed, the rows that
changed, and the commands that show the episode."""

from collections.abc import Collection, Iterator
from io import StringIO
from pathlib import Path

from rich.console import Console, RenderableType

from rehearsal_room.harness.core.terminal_text import plural, shorten
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.harness.outcomes.scores import score_of
from rehearsal_room.harness.reports.episode_view import changes_table
from rehearsal_room.scenarios.checks import failed
from rehearsal_room.testing.plays import changed_rows

_WIDTH = 100  # columns
_LONGEST = 120  # characters of an error, of what was found


def failed_episode_lines(folder: Path, lost: Collection[str] = ()) -> Iterator[str]:
    """The first episode of a run that was not completed, if there is one; of the tasks in `lost`
    (`scenario:task`), if it is in them."""
    with open_reader(folder) as reader:
        rows = [row for row in reader.episodes() if score_of(row.ending, row.label) == 0]
        if not rows:
            return
        row = next((row for row in rows if f"{row.scenario}:{row.task}" in lost), rows[0])
        trajectory = reader.trajectory(row.episode)
    yield f"{row.episode}, one of {plural(len(rows), 'episode')} not completed: {_words(row)}"
    for finding in failed(trajectory.judged[-1].findings if trajectory.judged else ()):
        name, found = shorten(finding.name, _LONGEST), shorten(finding.found, _LONGEST)
        yield f"  {finding.kind} missed: {name}; found: {found}"
    if changes := changed_rows(trajectory):
        yield "rows that changed:"
        yield from _printed(changes_table(changes))
    else:
        yield "no row changed"
    yield f"rehearse view {folder}#{row.episode}"
    yield f"rehearse show {folder} {row.episode}"


def _words(row: EpisodeRow) -> str:
    """Example: shop_support:cancel-duplicate, agent_error (agent_failed: KeyError: 'id')"""
    error = f": {shorten(row.error, _LONGEST)}" if row.error else ""
    return f"{row.scenario}:{row.task}, {row.label or 'no label'} ({row.ending}{error})"


def _printed(what: RenderableType) -> Iterator[str]:
    console = Console(file=StringIO(), width=_WIDTH, color_system=None)
    with console.capture() as capture:
        console.print(what)
    yield from (f"  {line}".rstrip() for line in capture.get().splitlines())
