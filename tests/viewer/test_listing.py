"""What stands beside the table of episodes: counts, hits, neighbours, labels, parts."""

import base64
import json
import re
import zlib
from collections import Counter
from multiprocessing import get_context
from pathlib import Path
from shutil import copytree
from typing import Any

import anyio.to_thread
import pytest

from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.reliability.annotations import HumanLabel, LabelBook, read_labels
from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.cli import Rehearse
from tests.support.viewer_client import viewing

QUERIES = (
    "",
    "label=agent_error",
    "failure=-wrong_value",
    "failure=missing_write&failure=-wrong_answer&label=-completed",
    "tool=-get_order&text=order",
    "harm=broken_guard",
)
OF_ROW = {
    "label": lambda row: [row["label"] or ("unjudged" if row["judge"] else "none")],
    "ending": lambda row: [row["ending"] or "live"],
    "failure": lambda row: row["kinds"],
    "error": lambda row: row["causes"],
    "tool": lambda row: row["tools"],
    "table": lambda row: row["changed"],
    "task": lambda row: [row["task"]],
}


@pytest.mark.parametrize("query", QUERIES)
async def test_counts_are_those_under_all_other_filters(mutants: Path, query: str) -> None:
    """Each facet has, for every value, the number of rows that the table has without the filters of
    that facet itself."""
    base = f"/api/runs/{run_id(mutants)}"
    async with viewing(mutants) as client:
        facets = (await client.get(f"{base}/facets?{query}"))["facets"]
        for name, of_row in OF_ROW.items():
            others = "&".join(one for one in query.split("&") if not one.startswith(f"{name}="))
            rows = (await client.get(f"{base}/episodes?{others}&limit=1000"))["rows"]
            counts = Counter(value for row in rows for value in of_row(row))
            assert dict(facets[name]["values"]) == counts, name


async def test_a_hit_has_the_turn_and_the_words(mutants: Path) -> None:
    """A hit in a result of a tool names a turn whose result has the word; a search in an id alone
    has none, and a bad search is an error."""
    base = f"/api/runs/{run_id(mutants)}"
    async with viewing(mutants) as client:
        rows = (await client.get(f"{base}/episodes?text=tool:order"))["rows"]
        asked = "".join(f"&episode={row['episode']}" for row in rows)
        hits = (await client.get(f"{base}/hits?text=tool:order{asked}"))["hits"]
        assert set(hits) == {row["episode"] for row in rows} != set()
        for episode, hit in hits.items():
            data = await client.get(f"{base}/episodes/{episode}")
            results = data["turns"][hit["turn"]]["results"]
            assert any(hit["snippet"][1] in result["text"] for result in results)
            assert hit["snippet"][1].lower().startswith("order")
        assert (await client.get(f"{base}/hits?text=e000001&episode=e000001"))["hits"] == {}
        assert "not closed" in await client.error(f"{base}/hits?text=%22a&episode=e000001")


async def test_neighbours_are_those_of_the_list(mutants: Path) -> None:
    """In the order of the table, and none beyond its ends."""
    base = f"/api/runs/{run_id(mutants)}/episodes"
    async with viewing(mutants) as client:
        listed = [one["episode"] for one in (await client.get(f"{base}?sort=-turns"))["rows"]]
        for place, episode in enumerate(listed):
            found = await client.get(f"{base}/{episode}/neighbours?sort=-turns")
            around = [one and one["episode"] for one in (found["previous"], found["next"])]
            assert around == [
                listed[place - 1] if place else None,
                listed[place + 1] if place + 1 < len(listed) else None,
            ]
            assert (found["position"], found["total"]) == (place, len(listed))
        gone = await client.get(f"{base}/{listed[0]}/neighbours?label=environment_error")

    assert gone == {"position": None, "total": 0, "previous": None, "next": None}


async def test_notes_and_labels_are_one_store(
    mutants: Path, tmp_path: Path, rehearse: Rehearse
) -> None:
    """What the page stores is in the table, in filters, in the queue of a filter and in an export;
    a note needs no label; and a label that another window has replaced is not overwritten."""
    folder = copytree(mutants, tmp_path / "run")
    (folder / "labels.jsonl").unlink(missing_ok=True)
    base = f"/api/runs/{run_id(folder)}"
    async with viewing(folder) as client:
        labels = f"{base}/judge/labels"
        note = {"episode": "e000000", "label": None, "note": "a \u2713 note"}
        first = (await client.post(labels, note))["line"]["by_hand"]
        assert [(one["label"], one["note"], one["is_mine"]) for one in first] == [
            (None, "a \u2713 note", True)
        ]
        label = {**note, "label": "environment_error"}
        refused = await client.post(labels, label, status=400)
        assert "in another window" in refused["error"]
        await client.post(labels, {**label, "seen": first[0]["at"]})
        assert (
            "10,000"
            in (await client.post(labels, {**label, "note": "x" * 10_001}, status=400))["error"]
        )
        for query in (
            "by_hand=mine",
            "by_hand=note",
            "by_hand=disagrees",
            "my_label=environment_error",
        ):
            rows = (await client.get(f"{base}/episodes?{query}"))["rows"]
            assert [row["episode"] for row in rows] == ["e000000"], query
        assert (await client.get(f"{base}/episodes?by_hand=agrees&by_hand=others"))["total"] == 0
        queue = await client.get(f"{base}/judge/queue?my_label=environment_error")
    status, _, err = await call(rehearse, "export", folder, "-o", tmp_path / "out.jsonl")
    assert status == 0, err
    exported = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]

    assert [item["mine"]["label"] for item in queue["items"]] == ["environment_error"]
    assert queue["agreement"] == {"agrees": 0, "disagrees": 1}
    assert {
        one["episode"]: [said["label"] for said in one["by_hand"]]
        for one in exported
        if one["by_hand"]
    } == {"e000000": ["environment_error"]}


def _label_many(path: Path, labeller: str) -> None:
    for number in range(40):
        LabelBook(path).add(HumanLabel(f"e{number}", Label.COMPLETED, labeller=labeller))


def test_programs_that_label_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    """Each opens, repairs and appends to one file: all labels of all of them are in it."""
    path = tmp_path / "labels.jsonl"
    context = get_context("fork")
    programs = [context.Process(target=_label_many, args=(path, name)) for name in "abc"]
    for one in programs:
        one.start()
    for one in programs:
        one.join()

    assert [one.exitcode for one in programs] == [0, 0, 0]
    assert Counter(one.labeller for one in read_labels(path).labels.values()) == dict.fromkeys(
        "abc", 40
    )


def answers_in(file: Path) -> dict[str, Any]:
    """The answers of the interface that an exported file has."""
    found = re.search(r'id="embedded">([^<]*)<', file.read_text(encoding="utf-8"))
    assert found is not None
    answers: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(found[1])))
    return answers


async def test_a_part_says_what_it_leaves_out(
    mutants: Path, tmp_path: Path, rehearse: Rehearse
) -> None:
    """A file of a filter has the episodes of the filter, names the part, and all that it counts is
    of the part; a filter that finds nothing, or that is not known, is an error."""
    file, base = tmp_path / "part.html", f"/api/runs/{run_id(mutants)}"
    filters = ("--filter", "label=agent_error", "--episodes", "2")
    status, out, err = await call(rehearse, "view", mutants, "--export", file, *filters)
    assert (status, err) == (0, "")
    answers = answers_in(file)
    line, page = answers["/api/runs"]["runs"][0], answers[base]
    rows = answers[f"{base}/episodes"]["rows"]
    async with viewing(mutants) as client:
        total = (await client.get(f"{base}/episodes?label=agent_error"))["total"]

    part = {"episodes": 2, "of": 8, "filter": "label=agent_error", "left_out": total - 2}
    assert "part: 2 of 8 episodes" in out
    assert line["part"] == page["line"]["part"] == part
    assert [row["label"] for row in rows] == ["agent_error"] * 2
    assert (line["episodes"], line["ended"], line["status"]) == (2, 2, "finished")
    assert page["labels"] == {"agent_error": 2}
    assert page["endings"] == {"answered": 2}
    assert sum(one["n"] for one in page["tasks"]) == 2
    cells = [cell for row in answers[f"{base}/grid"]["rows"] for cell in row["cells"] if cell]
    assert {cell["episode"] for cell in cells} == {row["episode"] for row in rows}
    for odd, why in {
        "label=nothing": "no episode matches",
        "colour=red": "no filter",
        "x": "NAME=VALUE",
    }.items():
        asked = ("view", mutants, "--export", file, "--filter", odd)
        status, _, err = await call(rehearse, *asked)
        assert status != 0 and why in err, odd
    assert (await call(rehearse, "view", mutants, "--filter", "label=completed"))[0] != 0


async def call(rehearse: Rehearse, *arguments: object) -> tuple[int, str, str]:
    """Run the command line, which has a loop of its own, in a thread."""
    return await anyio.to_thread.run_sync(lambda: rehearse(*arguments))
