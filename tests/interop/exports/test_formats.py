"""Formats of other programs, checked against what the log has. The official readers run in
tests/integrations."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.harness.core.errors import LogError, SettingsError
from rehearsal_room.harness.core.events import Ending, ForkedFrom, Label
from rehearsal_room.harness.core.token_bytes import encode_ids, encode_logprobs
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.interop.exports.formats import export
from rehearsal_room.interop.exports.row_patches import patch_of
from rehearsal_room.scenarios.api import RowChange
from tests.support.cli import Rehearse
from tests.support.episode_logs import WORLD, answer, ended, judged, started, step, story
from tests.support.library_log import write_shelf

Json = dict[str, Any]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A run folder of a real world; its last episode is cut off."""
    anyio.run(write_shelf, tmp_path / "run")
    return tmp_path / "run"


def _export(folder: Path, to: str, path: Path | None = None, **options: Any) -> Path:
    with open_reader(folder) as reader:
        return export(reader, path, to=to, **options)[1]


def _lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_inspect_log_needs_inspect(
    monkeypatch: pytest.MonkeyPatch, rehearse: Rehearse, shelf: Path
) -> None:
    """Without inspect_ai the export is refused by one sentence, and no file is left. What it writes
    is checked where inspect_ai is installed, in tests/integrations/inspect."""
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    monkeypatch.delitem(sys.modules, "rehearsal_room.interop.exports.inspect_log", raising=False)
    before = sorted(shelf.iterdir())
    sentence = "to: inspect needs the package inspect_ai: pip install 'rehearsal-room[inspect]'"
    with pytest.raises(SettingsError, match=f"^{re.escape(sentence)}$"):
        _export(shelf, "inspect")
    assert sorted(shelf.iterdir()) == before
    assert rehearse("export", shelf, "--to", "inspect")[0::2] == (2, f"error: {sentence}\n")


async def _long_run(folder: Path, turns: int) -> None:
    async with open_log(folder) as log:
        log.add_scenario(WORLD)
        events = [started(), *(step(n) for n in range(turns)), answer(), ended(turns + 1)]
        for record in story("e", [*events, judged()]):
            log.append(record)


@pytest.mark.parametrize("to", ["atif", "hf-trace", "sft"])
async def test_size_is_linear_in_turns(tmp_path: Path, to: str) -> None:
    """Twice as many turns make a file at most twice as large (uncompressed)."""
    sizes = []
    for turns in (100, 200):
        folder = tmp_path / str(turns)
        await _long_run(folder, turns)
        path = _export(folder, to)
        if path.is_dir():
            sizes.append(sum(one.stat().st_size for one in path.glob("*.jsonl")))
        else:
            sizes.append(path.stat().st_size)
    assert sizes[1] <= 2.05 * sizes[0]


def test_a_trajectory_follows_the_format(shelf: Path) -> None:
    """Steps are numbered from 1, results name a call of their step, only the agent's steps have
    calls, and a policy without a model has no metrics."""
    for document in _lines(_export(shelf, "atif")):
        assert document["schema_version"] == "ATIF-v1.8"
        steps = document["steps"]
        assert [one["step_id"] for one in steps] == list(range(1, len(steps) + 1))
        assert [one["source"] for one in steps[:2]] == ["system", "user"]
        for one in steps:
            calls = {call["tool_call_id"] for call in one.get("tool_calls", ())}
            results = one.get("observation", {}).get("results", ())
            assert [result["source_call_id"] for result in results] == sorted(calls)
            assert one["source"] == "agent" or not calls
            assert "metrics" not in one


async def test_a_trajectory_has_tokens_and_context(tmp_path: Path) -> None:
    """Token ids and log-probabilities are those of the log, the prompt is whole, and the turns that
    a fork keeps are copied context."""
    first = step(0)
    reply = msgspec.structs.replace(
        first.reply,
        prompt_ids=encode_ids([1, 2, 3]),
        token_ids=encode_ids([7, 8]),
        logprobs=encode_logprobs([-0.5, float("-inf")]),
    )
    later = msgspec.structs.replace(
        reply, prompt_shared=2, prompt_ids=encode_ids([9]), logprobs=encode_logprobs([-1.0, -1.5])
    )
    begin = msgspec.structs.replace(
        started(), policy="vllm:m", kept=1, forked_from=ForkedFrom("runs/x", "e", 1)
    )
    events = [
        begin,
        msgspec.structs.replace(first, reply=reply),
        msgspec.structs.replace(step(1), reply=later),
        ended(2, Ending.STEP_LIMIT),
    ]
    async with open_log(tmp_path) as log:
        log.add_scenario(WORLD)
        for record in story("e", events):
            log.append(record)
    (document,) = _lines(_export(tmp_path, "atif"))
    kept, own = document["steps"][2:]
    assert (kept["is_copied_context"], "is_copied_context" in own) == (True, False)
    assert kept["metrics"]["prompt_token_ids"] == [1, 2, 3]
    assert own["metrics"]["prompt_token_ids"] == [1, 2, 9]
    assert own["metrics"]["completion_token_ids"] == [7, 8]
    assert (kept["metrics"]["logprobs"], own["metrics"]["logprobs"]) == (
        [-0.5, -9999.0],
        [-1.0, -1.5],
    )
    assert document["agent"]["model_name"] == "m"


def test_traces_are_sessions(shelf: Path) -> None:
    """Each episode is a file: the session's line, then messages whose results name their calls."""
    folder = _export(shelf, "hf-trace")
    assert (folder / "README.md").exists()
    lines = _lines(folder / "overdue.jsonl")
    session, *messages = lines
    assert (session["type"], session["harness"], session["label"]) == (
        "session",
        "rehearsal",
        "completed",
    )
    assert {one["type"] for one in messages} == {"message"}
    bodies = [one["message"] for one in messages]
    called = [call["id"] for body in bodies for call in body.get("toolCalls", ())]
    assert [body["toolCallId"] for body in bodies if body["role"] == "tool"] == called
    for body in bodies:
        for call in body.get("toolCalls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


def test_a_dataset_has_a_card(shelf: Path) -> None:
    """The card has licence, policy and the digests of the worlds; a named licence is taken."""
    folder = _export(shelf, "sft", shelf / "data", license="mit")
    card = (folder / "README.md").read_text()
    head, body = card.removeprefix("---\n").split("---\n", 1)
    assert "license: mit" in head and 'data_files: "chats.jsonl"' in head
    with open_reader(shelf) as reader:
        (world,) = reader.scenarios().values()
    assert world.scenario_digest in body and world.template in body
    assert "| policy | oracle |" in body
    chats = _lines(folder / "chats.jsonl")
    assert f"| episodes | {len(chats)} ({len(chats)} completed) |" in body


def test_a_file_has_one_trajectory(shelf: Path) -> None:
    """A .json file takes one trajectory; a folder has a document for each episode."""
    with pytest.raises(SettingsError, match=r"one\.json: a \.json file has one trajectory, and"):
        _export(shelf, "atif", shelf / "one.json")
    folder = _export(shelf, "atif", shelf / "many")
    assert json.loads((folder / "overdue.json").read_bytes())["steps"]


@pytest.mark.parametrize("to", ["atif", "hf-trace", "sft"])
async def test_a_log_without_its_world_is_refused(tmp_path: Path, to: str) -> None:
    """Formats that show messages need the world; without it the export is one sentence."""
    async with open_log(tmp_path) as log:
        for record in story("e", [started(), answer(), ended(1), judged(Label.COMPLETED)]):
            log.append(record)
    with pytest.raises(LogError, match="does not hold the world of episode 'e'"):
        _export(tmp_path, to, tmp_path / "out.jsonl")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (RowChange("orders", (7,), None, {"id": 7}), "/orders/7"),
        (RowChange("a/b", ("x~y",), {"id": 1}, None), "/a~1b/x~0y"),
        (RowChange("seats", (1, "A"), {"n": 1}, {"n": 2}), '/seats/[1,"A"]'),
    ],
)
def test_a_changed_row_is_a_patch(change: RowChange, path: str) -> None:
    """The operation is the one that makes the change, at the row's path, with what it replaces."""
    patch = patch_of(change)
    op = "add" if change.before is None else "remove" if change.after is None else "replace"
    assert patch == {"op": op, "path": path, "value": change.after, "replaced": change.before}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--to", "inspect", "--dumps"), "--dumps: is for jsonl and parquet"),
        (("--to", "atif", "--license", "mit"), "--license: is for dataset cards"),
    ],
)
def test_flags_of_other_formats_are_refused(
    rehearse: Rehearse, shelf: Path, flags: tuple[str, ...], sentence: str
) -> None:
    """A flag that a format does not use is an error."""
    status, _, err = rehearse("export", shelf, *flags)
    assert (status, err.startswith(f"error: {sentence}")) == (2, True)
