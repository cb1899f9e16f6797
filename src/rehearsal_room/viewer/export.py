"""Runs as one HTML file that needs no server and no network: `rehearse view RUN --export FILE`.

Where the file has a part of a run's episodes, it says so, and all that it counts is of that part.

    the page's script and style      inline, allowed by their hashes alone
    the answers of the API           a map of path -> JSON, deflated, as base64 in a script element
                                     of a type that no browser executes

What agents and tools wrote is only in the deflated part, so nothing of it is ever HTML.
"""

import base64
import zlib
from collections.abc import Iterable, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio.to_thread
import msgspec

from rehearsal_room.harness.core.errors import HarnessError, SettingsError
from rehearsal_room.harness.log.outputs import writing
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.judge.failures.reading import find_diagnoses
from rehearsal_room.scenarios import distribution
from rehearsal_room.viewer.index.hand_labels import HandLabels
from rehearsal_room.viewer.index.reasons import find_reasons
from rehearsal_room.viewer.listing.labels import labels_in
from rehearsal_room.viewer.listing.part import PartOfRun
from rehearsal_room.viewer.reading.episode_rows import episode_table, episodes_of
from rehearsal_room.viewer.reading.filters import Query
from rehearsal_room.viewer.reading.lines import EpisodeTableLine, Part, RunLine, run_line
from rehearsal_room.viewer.reading.logged_episodes import read_episode
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.reading.page_files import page_file
from rehearsal_room.viewer.reading.plain import plain
from rehearsal_room.viewer.reading.run_page import run_page
from rehearsal_room.viewer.reading.training import training
from rehearsal_room.viewer.tasks.reasons import reasons
from rehearsal_room.viewer.tasks.task_table import BY, rows_by
from rehearsal_room.viewer.tasks.tries import grid
from rehearsal_room.viewer.worlds.group_graph import group_graph
from rehearsal_room.viewer.worlds.logged_world import opened, shapes_of
from rehearsal_room.viewer.worlds.world_tables import columns_of

_STYLE = '<link rel="stylesheet" href="/app.css">'
_SCRIPT = '<script src="/app.js"></script>'
_CSP = "<!-- csp -->"
_MAGIC = b"SQLite format 3\0"
Answers = dict[str, Any]  # of the API, by path


async def answers_of(
    runs: Iterable[ShownRun], *, episodes: int, query: Query | None = None
) -> Answers:
    """The answers that the file contains, with at most so many episodes of each run: the first of
    those that `query` asks for. Raises HarnessError."""
    can = {"label": False, "play": False, "scratch": False, "sql": False}
    found: Answers = {
        "/api/about": {
            "version": distribution.version(),
            "exported": True,
            "live_poll_s": 0,
            "can": can,
        },
        "/api/runs": {"runs": []},
    }
    for run in runs:
        await _add_run(found, run, episodes, query or {})
    return found


def parts_in(answers: Answers) -> list[tuple[str, Part]]:
    """The runs of which the file has a part, by name."""
    lines: list[RunLine] = answers["/api/runs"]["runs"]
    return [(line.name, line.part) for line in lines if line.part is not None]


def html_of(answers: Answers) -> bytes:
    """The file. Raises SettingsError where the page was not built."""
    page = page_file("index.html").decode()
    script = page_file("app.js").decode().replace("</script", "<\\/script")
    style = page_file("app.css").decode().replace("</style", "<\\/style")
    data = base64.b64encode(zlib.compress(msgspec.json.encode(answers), 9)).decode()
    csp = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"script-src 'sha256-{_hash(script)}'; style-src 'sha256-{_hash(style)}'"
    )
    parts = {
        _CSP: f'<meta http-equiv="Content-Security-Policy" content="{csp}">',
        _STYLE: f"<style>{style}</style>",
        _SCRIPT: f'<script type="application/octet-stream" id="embedded">{data}</script>\n'
        f"<script>{script}</script>",
    }
    for mark, text in parts.items():
        before, mark_found, after = page.partition(mark)
        if not mark_found:
            raise SettingsError(f"the viewer's page has no {mark}; `just viewer` builds it again")
        page = before + text + after
    return page.encode()


def write_export(path: Path, answers: Answers) -> int:
    """Write the file; returns its size in bytes. Raises SettingsError."""
    data = html_of(answers)
    try:
        with writing(path) as file:
            file.write(data)
    except OSError as exc:
        raise SettingsError(f"--export: {path} cannot be written: {exc.strerror or exc}") from exc
    return len(data)


async def _add_run(found: Answers, run: ShownRun, episodes: int, query: Query) -> None:
    base = f"/api/runs/{run.id}"
    if run.kind == "training":
        found[f"{base}/training"] = training(run, lambda folder: None)
    try:
        index = run.index()
    except HarnessError:
        found["/api/runs"]["runs"].append(run_line(run))
        return
    while index.fold():
        pass
    await anyio.to_thread.run_sync(find_reasons, run.log_folder, index)
    labels = labels_in(run.log_folder)
    total, chosen = episodes_of(index, query, labels, limit=episodes)
    of = index.num_episodes("1", ())
    if not chosen and of:
        raise SettingsError(f"{run.folder}: no episode matches the filter {_words_of(query)!r}")
    if len(chosen) == of:
        await _add_episodes(found, run, run_line(run), labels)
        return
    part = Part(len(chosen), of, _words_of(query), total - len(chosen))
    with closing(PartOfRun(run, chosen, part)) as one:
        await _add_episodes(found, one, one.line(), labels)


async def _add_episodes(found: Answers, run: ShownRun, line: RunLine, labels: HandLabels) -> None:
    """Add a run with all of its episodes."""
    base, index = f"/api/runs/{run.id}", run.index()
    found["/api/runs"]["runs"].append(line)
    found[base] = msgspec.structs.replace(run_page(run), line=line)
    table = episode_table(index, {"limit": [str(index.num_episodes("1", ()))]}, labels)
    found[f"{base}/episodes"] = table
    found[f"{base}/grid"] = grid(index)
    found[f"{base}/tasks"] = {by: rows_by(run, by) for by in BY}
    found[f"{base}/reasons"] = reasons(run)
    with open_reader(run.log_folder) as reader:
        wrong = await find_diagnoses(run.log_folder, reader, reader.episodes())
    for one in table.rows:
        _add_episode(found, run, one, labels)
        mistakes = wrong[one.episode].mistakes if one.episode in wrong else ()
        found[f"{base}/episodes/{one.episode}/failures"] = {"failures": mistakes}
    _add_tries(found, run, [msgspec.structs.replace(one, by_hand=()) for one in table.rows])


def _add_tries(found: Answers, run: ShownRun, lines: Sequence[EpisodeTableLine]) -> None:
    """The tries of each task, under the group of the first of them in the run."""
    groups = {(one.scenario, one.name): one.group for one in rows_by(run, "task")}
    by_task: dict[tuple[str, str], list[EpisodeTableLine]] = {}
    for line in lines:
        by_task.setdefault((line.scenario, line.task), []).append(line)
    for key, tries in by_task.items():
        with run.reading() as reader:
            trajectories = [reader.trajectory(line.episode) for line in tries]
        graph = group_graph(tries, trajectories, len(tries))
        for group in {groups.get(key, ""), *(line.group for line in tries)}:
            found[f"/api/runs/{run.id}/groups/{group}"] = graph


def _words_of(query: Query) -> str:
    """The filters of a query as in an address, without the order."""
    pairs = [(name, value) for name, values in query.items() for value in values]
    return urlencode([pair for pair in pairs if pair[0] not in ("sort", "offset", "limit")])


def _add_episode(found: Answers, run: ShownRun, line: EpisodeTableLine, labels: HandLabels) -> None:
    found[f"/api/runs/{run.id}/episodes/{line.episode}"] = read_episode(run, line.episode, labels)
    start = f"/embedded/start/{line.start_digest}"
    if not line.start_digest or start in found:
        return
    with run.reading() as reader:
        digest = reader.trajectory(line.episode).started.scenario_digest
    world = run.snapshots().get(digest)
    if world is not None and world.image.startswith(_MAGIC):
        found[start] = {"tables": _start_tables(world)}


def _start_tables(world: ScenarioSnapshot) -> list[dict[str, Any]]:
    """All rows of a world at its start."""
    tables = []
    with closing(opened(world.image)) as database:
        for shape in shapes_of(database).values():
            rows = database.execute(shape.select).fetchall()
            tables.append(
                {
                    "name": shape.name,
                    "columns": columns_of(shape),
                    "rows": [plain(row[1:]) for row in rows],
                    "keys": [plain(shape.key_of(row[0], row[1:])) for row in rows],
                }
            )
    return tables


def _hash(text: str) -> str:
    return base64.b64encode(sha256(text.encode()).digest()).decode()
