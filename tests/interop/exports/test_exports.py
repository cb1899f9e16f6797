"""Exports contain of each episode what the log and its world contain."""

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # ships no type hints
import pytest

from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.envpool.store.digest import hex_digest, rows_sum
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import Ending, Event, Label
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.interop.exports.chats import chat_of
from rehearsal_room.interop.exports.final_states import image_with, tables_of
from rehearsal_room.interop.exports.formats import export
from rehearsal_room.scenarios.format import read
from tests.support.episode_logs import WORLD, answer, ended, judged, started, step, story
from tests.support.ledger_world import write_package
from tests.support.library_log import write_shelf
from tests.support.paths import LIBRARY

Tables = dict[str, list[dict[str, Any]]]
Shelf = tuple[Path, dict[str, Tables]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """A run folder, and the final tables of its episodes."""
    return tmp_path / "run", anyio.run(write_shelf, tmp_path / "run")


def _exported(folder: Path, **options: Any) -> list[dict[str, Any]]:
    path = folder / "out.jsonl"
    with open_reader(folder) as reader:
        count, written = export(reader, path, **options)
    assert written == path
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert count == len(lines)
    return lines


def _difference(before: Tables, after: Tables) -> list[dict[str, Any]]:
    """The changes by a plain comparison of all rows; every key of the library is `id`."""
    found = []
    for table in sorted(before):
        old, new = ({row["id"]: row for row in tables[table]} for tables in (before, after))
        found += [
            {"table": table, "key": [key], "before": old.get(key), "after": new.get(key)}
            for key in sorted(old | new)
            if old.get(key) != new.get(key)
        ]
    return found


def test_lines_agree_with_the_world(shelf: Shelf) -> None:
    """Final tables and net changes of an exported episode are those of its world."""
    folder, dumps = shelf
    scenario = read(LIBRARY)
    world = HostedScenario(scenario)
    start = world.dump(world.lease().overlay)
    *lines, cut_off = _exported(folder, dumps=True)

    assert [line["episode"] for line in lines] == [task.id for task in scenario.tasks]
    for line, task in zip(lines, scenario.tasks, strict=True):
        assert line["final"] == dumps[task.id]
        assert line["state_diff"] == _difference(start, dumps[task.id])
        assert [call for step in line["steps"] for call in step["calls"]] == [
            {"name": call.name, "arguments": call.arguments} for call in task.oracle
        ]
        assert (line["ending"], line["answer"]) == ("answered", task.answer)
        assert line["start_digest"] == world.start_digest
    assert (cut_off["episode"], cut_off["ending"], cut_off["final"]) == ("cut-off", None, None)
    world.close()


def test_every_line_has_the_promised_fields(shelf: Shelf) -> None:
    """Every line has the fields of the contract, and the cause of a failed call."""
    folder, _ = shelf
    promised = {
        *("episode", "scenario", "task", "ending", "label", "reward", "answer", "steps"),
        *("state_diff", "start_digest", "end_digest"),
    }
    for line in _exported(folder):
        assert promised <= line.keys()
        assert "final" not in line
        for part in line["steps"]:
            assert {"calls", "results"} <= part.keys()
            for result in part["results"]:
                assert {"text", "is_error"} <= result.keys()


async def test_changes_there_and_back_are_no_difference(tmp_path: Path) -> None:
    """A change that a later step undoes is not in `state_diff`."""
    events: list[Event] = [
        started(),
        step(0, "open", "void"),
        step(1, "void", "held"),
        step(2, "held", "open"),
        ended(3),
    ]
    async with open_log(tmp_path) as log:
        for record in story("back", events) + story("there", [*events[:3], ended(2)]):
            log.append(record)
    back, there = _exported(tmp_path)
    assert back["state_diff"] == []
    assert there["state_diff"] == [
        {
            "table": "orders",
            "key": [7],
            "before": {"id": 7, "status": "open"},
            "after": {"id": 7, "status": "held"},
        }
    ]


async def test_the_latest_verdict_is_exported(tmp_path: Path) -> None:
    """When a judge judges again after another one, its second verdict is exported."""
    verdicts = [
        judged(Label.AGENT_ERROR),
        judged(Label.PARTIALLY_COMPLETED, judge="hybrid"),
        judged(Label.COMPLETED),
    ]
    async with open_log(tmp_path) as log:
        for record in story("e", [started(), step(0), answer(), ended(2), *verdicts]):
            log.append(record)
    (line,) = _exported(tmp_path)
    assert (line["judge"], line["label"], line["reward"]) == ("code", "completed", 1.0)
    assert line["step_rewards"] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("options", "selects"),
    [
        ({"labels": [Label.AGENT_ERROR]}, lambda line: line["label"] == "agent_error"),
        ({"endings": [Ending.ANSWERED]}, lambda line: line["ending"] == "answered"),
        ({"labels": [], "endings": None}, lambda line: False),
    ],
)
def test_filters_choose_lines(shelf: Shelf, options: dict[str, Any], selects: Any) -> None:
    """A filter selects exactly the matching episodes."""
    folder, _ = shelf
    everything = _exported(folder)
    assert _exported(folder, **options) == [line for line in everything if selects(line)]


def test_parquet_has_the_values_of_jsonl(shelf: Shelf) -> None:
    """The table has the same episodes and values; values without a fixed shape are JSON texts."""
    folder, _ = shelf
    lines = _exported(folder, dumps=True)
    with open_reader(folder) as reader:
        path = folder / "out.parquet"
        assert export(reader, path, to="parquet", dumps=True) == (len(lines), path)
    for row, line in zip(pq.read_table(folder / "out.parquet").to_pylist(), lines, strict=True):
        for part in row["steps"]:
            assert part.pop("fields") is None  # no server sent any
            for result in part["results"]:
                assert result.pop("asked") is None  # nor asked anything
            for call in part["calls"]:
                call["arguments"] = json.loads(call["arguments"])
        for change in row["state_diff"]:
            for name in ("key", "before", "after"):
                change[name] = None if change[name] is None else json.loads(change[name])
        row["final"] = None if row["final"] is None else json.loads(row["final"])
        assert row == line


def test_sft_has_the_completed_chats(shelf: Shelf) -> None:
    """Only completed episodes become chats: system, task, calls with results, and the answer."""
    folder, _ = shelf
    scenario = read(LIBRARY)
    completed = [line for line in _exported(folder) if line["label"] == "completed"]
    chats = _exported(folder, to="sft")
    assert [chat["episode"] for chat in chats] == [line["episode"] for line in completed]
    for chat, line in zip(chats, completed, strict=True):
        task = scenario.task(line["task"])
        system, first, *turns = chat["messages"]
        assert (system["role"], first["role"]) == ("system", "user")
        assert task.instruction in first["content"]
        assert [turn["role"] for turn in turns] == [
            *["assistant", "tool"] * len(task.oracle),
            "assistant",
        ]
        assert turns[-1]["content"] == task.answer
        asked = [turn["tool_calls"][0]["function"] for turn in turns[:-1:2]]
        assert [(call["name"], json.loads(call["arguments"])) for call in asked] == [
            (call.name, call.arguments) for call in task.oracle
        ]
        assert [turn["content"] for turn in turns[1::2]] == [
            result["text"] for part in line["steps"] for result in part["results"]
        ]
        tools = json.loads(chat["tools"])  # a text: TRL's form
        assert {tool["function"]["name"] for tool in tools} >= {c["name"] for c in asked}


def test_chats_of_text_dialects_need_no_tools_field(shelf: Shelf) -> None:
    """A dialect with its tools in the prompt makes a chat of plain texts."""
    folder, _ = shelf
    with open_reader(folder) as reader:
        trajectory = reader.trajectory("overdue")
        (world,) = reader.scenarios().values()
    hermes = msgspec.structs.replace(
        trajectory, started=msgspec.structs.replace(trajectory.started, dialect="hermes")
    )
    chat = chat_of(hermes, world)
    assert chat.keys() == {"messages"}
    assert all(tool.name in chat["messages"][0]["content"] for tool in world.tools)


def test_final_states_are_rebuilt_exactly(tmp_path: Path) -> None:
    """Template and changed pages rebuild the world's tables and its digest: blobs, reals, tables
    without rowid, deletions, and a database that grew."""
    world = HostedScenario(read(write_package(tmp_path / "ledger")))
    lease = world.lease()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("open_account", {"name": "petty", "kind": "card"}),
        ("retag", {"account_id": 1, "tag": "cash", "weight": 2.5}),
        ("set_value", {"name": "blob", "value": 1.0}),
        ("close_account", {"account_id": 3}),
        *[("book", {"account_id": 2, "amount": 5, "note": "x" * 500}) for _ in range(40)],
        ("broken", {}),
    ]
    for name, arguments in calls:
        lease.call(name, arguments)
        state = lease.state()
        tables = tables_of(image_with(world.template.image, state))
        assert tables == world.dump(lease.overlay)
        total = sum(rows_sum(t, [tuple(r.values()) for r in rows]) for t, rows in tables.items())
        assert hex_digest(total % 2**128) == state.digest
    assert state.num_pages > len(world.template.pages)
    world.close()


def test_an_export_that_fails_leaves_nothing(shelf: Shelf) -> None:
    """An error during the export is one sentence, and the old file stays unchanged."""
    folder, _ = shelf
    path = folder / "out.jsonl"
    path.write_text("old\n")
    before = sorted(folder.iterdir())

    async def spoil() -> None:
        async with open_log(folder, resume=True) as log:
            for record in story("bad", [started(), step(0), ended(1)]):
                log.append(record)

    anyio.run(spoil)
    with (
        open_reader(folder) as reader,
        pytest.raises(LogError, match="does not hold the world of episode 'bad'"),
    ):
        export(reader, path, dumps=True)
    assert path.read_text() == "old\n"
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("t" * 32, "the final state of episode 'e' is damaged"),
        ("u" * 32, "episode 'e' ended in a state of template t+, but its world has u+"),
    ],
)
async def test_a_state_that_cannot_be_rebuilt_is_named(
    tmp_path: Path, template: str, sentence: str
) -> None:
    """Pages that are not a database, or belong to another template, are one sentence."""
    async with open_log(tmp_path) as log:
        log.add_scenario(msgspec.structs.replace(WORLD, template=template))
        for record in story("e", [started(), ended(0)]):
            log.append(record)
    with open_reader(tmp_path) as reader, pytest.raises(LogError, match=sentence):
        export(reader, tmp_path / "out", dumps=True)


def test_a_folder_that_does_not_exist_is_named(shelf: Shelf) -> None:
    """An export into a folder that does not exist is one sentence."""
    folder, _ = shelf
    with (
        open_reader(folder) as reader,
        pytest.raises(LogError, match=r"nowhere/out.jsonl: the export cannot be written"),
    ):
        export(reader, folder / "nowhere" / "out.jsonl")
