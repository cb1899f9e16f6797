"""The catalogue of many worlds: its figures, its page, its picture, and the command."""

import re
import sys
from base64 import b64decode
from pathlib import Path

import matplotlib
import msgspec
import pytest

from rehearsal_room.authoring.catalogue import (
    CatalogueFigures,
    Similarity,
    Spread,
    TaskShare,
    Unread,
    catalogue_figures,
    spread_of,
    title_of,
)
from rehearsal_room.authoring.charts import charts_of, png_of
from rehearsal_room.authoring.html import page_of
from rehearsal_room.authoring.metrics import TaskFigures, WorldFigures, verb_of, world_figures
from rehearsal_room.authoring.task_texts import text_figures
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.judge.gate.core.near_duplicates import features_of, nearest
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import read
from tests.support.awm_files import APP, ENVS, mail_scenario, rows_of
from tests.support.cli import Rehearse, json_of
from tests.support.generated_worlds import folder_of, made_with
from tests.support.mini_world import variant
from tests.support.paths import LIBRARY

LOANS = "INSERT INTO loans (id,"
ROUTES = '''
@app.get("/notes", operation_id="listNotes")
def notes(limit: int, *, after: int = 0):
    """Lists notes."""

@app.post("/notes")
async def add_note(body: str):
    """Adds one."""

def helper(db: "Db"):
    """No route."""
'''

CHANGE = TaskFigures(
    kind="change",
    difficulty="hard",
    calls=6,
    tools=5,
    tables=2,
    lookups=3,
    distance=5,
    window=3,
    lookalikes=1,
    parts=2,
)
DECLINE = TaskFigures(
    kind="decline",
    difficulty="simple",
    calls=2,
    tools=2,
    tables=0,
    lookups=2,
    distance=0,
    window=3,
    lookalikes=0,
    parts=1,
    forbidden=True,
    id="decline",
    instruction="Cancel it. Then close it. Then tell <b>Ana Lopez</b> about it.",
    answer="I did not cancel it.",
    situation="orders.too_late",
    voice="chat",
)
QUESTION = TaskFigures(kind="question", difficulty="simple", calls=1, tools=1)
OPEN = TaskFigures(kind="open", difficulty="unrated", calls=None, tools=None, forbidden=None)
HOTEL = WorldFigures(
    name="hotel_1",
    source="procedural",
    tables=18,
    rows=120,
    tools=("get_room", "list_rooms", "get_guest"),
    tasks=(CHANGE, DECLINE),
    features=(1, 2, 3, 4),
    trade="hotel",
    modules=("staff", "orders", "refunds"),
)
MUSEUM = msgspec.structs.replace(
    HOTEL,
    name="museum_1",
    tables=20,
    tools=("get_room",),
    tasks=(CHANGE,),
    features=(1, 2, 3, 5),
    trade="museum",
    modules=("staff", "orders", "tickets"),
)
WRITTEN = WorldFigures(
    name="desk",
    source="written",
    tables=30,
    rows=900,
    tools=("set_note",),
    tasks=(QUESTION,),
    features=(7,),
)


def figures() -> CatalogueFigures:
    return catalogue_figures([MUSEUM, HOTEL, WRITTEN])


# One world --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["shop_support", "claims_desk", "flight_desk"])
def test_a_world_is_measured_as_the_gate_sees_it(name: str) -> None:
    """Tables, rows, tools and features, read without running code, are the hosted world's."""
    scenario = find(name)
    world = HostedScenario(scenario)
    columns = {table: about.columns for table, about in world.template.tables.items()}
    rows = world.dump(world.template.overlay())

    found = world_figures(scenario)

    assert (found.tables, found.rows) == (len(rows), sum(map(len, rows.values())))
    assert found.tools == tuple(tool.name for tool in world.tools)
    assert found.features == features_of(scenario, columns, world.tools)
    assert (found.source, found.trade, found.modules) == ("written", None, ())
    assert [task.calls for task in found.tasks] == [len(task.oracle) for task in scenario.tasks]


def test_an_awm_record_is_measured_by_its_routes(tmp_path: Path) -> None:
    """Of a record, routes are the tools, statements that work make the rows, tasks are open."""
    rows = rows_of("Mail Desk 1", "mail_desk_1")
    rows[ENVS][0]["full_code"] = APP.format(name="Mail Desk 1") + ROUTES
    sample = rows["gen_sample.jsonl"][0]["sample_data"]["tables"][0]
    sample["insert_statements"] += ["INSERT INTO notes VALUES (1, 'twice')", "INSERT INTO gone"]

    found = world_figures(mail_scenario(tmp_path, rows))

    tasks = tuple(
        msgspec.structs.replace(task, id="", instruction="", answer="") for task in found.tasks
    )
    plain = msgspec.structs.replace(found, features=(), folder="", title="", tasks=tasks)
    assert plain == WorldFigures(
        name="mail_desk_1",
        source="AWM",
        tables=1,
        rows=1,
        tools=("listNotes", "add_note"),
        tasks=(OPEN, OPEN),
        features=(),
    )
    assert len(found.features) == len(
        ["table", "id", "body", "tool", "limit", "after", "lists notes", "tool", "body", "adds one"]
    )


def test_what_was_measured_at_making_is_believed_of_an_unaltered_world_only(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """A procedural world has trade, modules and measures of its record; an altered one has none."""
    flags = ("--trade", "hotel", "--module", "tickets", "--knob", "tables=10", "--knob", "tasks=2")
    assert rehearse("worlds", "generate", "--count", 1, "-o", tmp_path / "worlds", *flags)[0] == 0
    package = tmp_path / "worlds" / "hotel_0001"

    made = world_figures(read(package))
    (package / "policy.md").write_text("Anything goes.")
    altered = world_figures(read(package))

    assert (made.source, made.trade, altered.source, altered.trade) == (
        *("procedural", "hotel"),
        *("written", None),
    )
    assert made.modules[:3] == ("staff", "parties", "catalogue")
    assert [task.lookups is None for task in (*made.tasks, *altered.tasks)] == [False] * 2 + [
        True
    ] * 2


@pytest.mark.slow
def test_sql_of_a_world_can_neither_write_files_nor_go_on_for_ever(tmp_path: Path) -> None:
    """Seed rows that attach a file, or that never end, make a world that cannot be read."""
    outside = tmp_path / "outside.db"
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    for name, sql in (("attach", f"ATTACH '{outside}' AS x"), ("endless", endless)):
        package = variant(tmp_path / name, data=(LOANS, f"{sql};\n{LOANS}"))
        with pytest.raises(PackageError, match="its seed cannot be executed"):
            world_figures(read(package))
    assert not outside.exists()


@pytest.mark.parametrize(
    ("tool", "verb"),
    [("get_order", "get"), ("listOrders", "list"), ("ListOrders", "list"), ("GET2", "get")],
)
def test_a_tool_s_verb_is_the_first_word_of_its_name(tool: str, verb: str) -> None:
    """Names in snake case and in camel case are understood."""
    assert verb_of(tool) == verb


# Many worlds ------------------------------------------------------------------------------------


def test_worlds_are_counted() -> None:
    """Figures of three small worlds are those worked out by hand."""
    found = figures()

    assert (found.worlds, found.tasks, found.tools, found.rows) == (3, 4, 5, 1140)
    assert found.sources == {"procedural": 2, "written": 1}
    assert found.spreads["tables"] == Spread(20.0, 18, 30, {18: 1, 20: 1, 30: 1})
    assert found.spreads_by_source["procedural"]["steps"] == Spread(6.0, 2, 6, {2: 1, 6: 2})
    assert found.kinds == {
        "change": {"hard": 2},
        "decline": {"simple": 1},
        "question": {"simple": 1},
    }
    assert found.trades == {"hotel": 1, "museum": 1}
    assert found.modules == {"refunds": 1, "tickets": 1}
    assert found.module_pairs == (("refunds", "tickets", 0),)
    assert found.module_combinations == 2
    assert found.verbs == {"get": 3, "list": 1, "set": 1}
    assert found.shares == {
        "to be declined, whole or in part": TaskShare(1, 4),
        "with rows that look right and are not": TaskShare(2, 3),
        "with a value needed long after it was seen": TaskShare(2, 3),
        "of two or more independent requests": TaskShare(2, 3),
        "of more than two independent requests": TaskShare(0, 3),
        "that look something up before they write": TaskShare(2, 2),
        "that change several tables": TaskShare(2, 3),
    }
    assert (found.lookups.counts, found.distances.counts) == ({3: 2}, {5: 2})
    assert found.similarity == Similarity(0.9, 0, 0.0, (), (0.0, 0.6, 0.6))


def test_the_order_of_worlds_does_not_matter() -> None:
    """The same worlds in another order have the same figures."""
    assert catalogue_figures([HOTEL, WRITTEN, MUSEUM]) == figures()


def test_nothing_known_has_no_spread() -> None:
    """Numbers that are not known do not count."""
    assert spread_of([None, 4, None]) == Spread(4.0, 4, 4, {4: 1})
    assert spread_of([None]) == Spread(None, None, None, {})


def test_the_nearest_world_is_found() -> None:
    """Each world's likeness to the one that is most like it is exact; alone, it is 0."""
    assert nearest([(1, 2, 3), (1, 2), (1, 2, 3, 4), (9,)]) == [0.75, 2 / 3, 0.75, 0.0]
    assert nearest([(1, 2)]) == [0.0]


# Page and picture -------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_same_worlds_give_the_same_bytes() -> None:
    """Page and picture do not depend on when, where and in what style they are made."""
    found = figures()
    charts = charts_of(found)
    before = page_of(found, charts[:3], title=title_of(found)), png_of(charts[:2], "Worlds")
    with matplotlib.rc_context({"axes.grid": True, "lines.linewidth": 9, "font.size": 20}):
        after = page_of(found, charts[:3], title=title_of(found)), png_of(charts[:2], "Worlds")

    assert before == after
    assert before[1].startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_page_needs_nothing_else() -> None:
    """Each chart is in the page itself, with its words; nothing is fetched, and no script runs."""
    found = figures()
    charts = charts_of(found)
    page = page_of(found, charts, title=title_of(found))
    embedded = {
        kind: [
            b64decode(data).decode()
            for data in re.findall(rf'{kind}="data:image/svg\+xml;base64,([^"]+)"', page)
        ]
        for kind in ("src", "srcset")
    }

    assert re.findall(r'(?:src|srcset|href)="(?!data:)', page) == []
    assert "<script" not in page
    assert [chart.name for chart in charts] == [
        *("tables", "rows", "tools", "steps", "difficulty", "shares", "turns", "nearest"),
        *("trades", "modules", "verbs"),
    ]
    for pictures, background in ((embedded["src"], "#ffffff"), (embedded["srcset"], "#1b232b")):
        for chart, picture in zip(charts, pictures, strict=True):
            assert chart.title in picture
            assert background in picture
    assert "<tr><td>tables of a world</td><td>20</td><td>18</td><td>+11%</td>" in page


def test_the_page_adapts_to_phones_and_dark_displays() -> None:
    """It has a viewport, colours for dark displays, tables whose texts wrap on a phone, and every
    table is in a box that scrolls."""
    found = catalogue_figures([HOTEL, WRITTEN], [Unread("odd", "it has no tasks.toml")])
    page = page_of(found, [], title=title_of(found))

    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "@media (prefers-color-scheme: dark)" in page
    _, _, narrow = page.partition("@media (max-width: 600px) {")
    assert ".numbers th, .numbers td { padding: 6px 5px; white-space: normal; }" in narrow
    assert page.count("<table") == len(re.findall(r'<div class="scroll"[^>]*>\n<table', page)) == 2


def test_charts_without_figures_are_left_out() -> None:
    """A single AWM record has sizes, kinds and verbs, and no chain lengths, shares or trades."""
    record = msgspec.structs.replace(WRITTEN, source="AWM", tasks=(OPEN,))
    charts = charts_of(catalogue_figures([record]))

    names = ["tables", "rows", "tools", "difficulty", "verbs"]
    assert [chart.name for chart in charts] == names
    assert png_of(charts, "One").startswith(b"\x89PNG")


def test_what_worlds_say_is_no_markup() -> None:
    """Names and faults of worlds are shown on the page as they are written."""
    found = catalogue_figures([HOTEL], [Unread("<b>odd</b>", 'a "fault" & more')])
    page = page_of(found, [], title=title_of(found))

    assert "<td>&lt;b&gt;odd&lt;/b&gt;</td><td>a &#34;fault&#34; &amp; more</td>" in page
    assert "<b>odd" not in page


# The command ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_writes_page_picture_and_figures(rehearse: Rehearse, tmp_path: Path) -> None:
    """A folder of worlds and a bundled one become a page, a picture and figures."""
    for made in made_with(["tickets"], count=1, trades=["hotel"]):
        folder_of(made, tmp_path / "worlds")
    files = ("-o", tmp_path / "page.html", "--png", tmp_path / "charts.png")

    found = json_of(rehearse, "worlds", "report", tmp_path / "worlds", "shop_support", *files)

    assert (found["worlds"], found["sources"], found["unread"]) == (2, {"written": 2}, [])
    assert f"<h1>2 worlds, {found['tasks']} tasks," in (tmp_path / "page.html").read_text()
    assert (tmp_path / "charts.png").read_bytes().startswith(b"\x89PNG")


def test_a_broken_world_is_reported_and_the_others_are_described(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """A half-written package among others ends with 1 and its fault; alone, with 2."""
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "policy.md").write_text("Be kind.")

    status, out, _ = rehearse("worlds", "report", tmp_path / "half", LIBRARY)
    assert (status, out.split(", ")[0]) == (1, "1 world")
    assert out.replace("\n", "").count("not read: half: ") == 1

    status, out, err = rehearse("worlds", "report", tmp_path)
    assert (status, out) == (2, "")
    assert err.startswith("error: no world could be read: ")


def test_bad_input_is_reported_in_one_sentence(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder without worlds, a page that can be nowhere, and a missing library end with 2."""
    nowhere = tmp_path / "no" / "page.html"
    for arguments, fault in (
        ([tmp_path], "there is no package in this folder"),
        (["shop_suport"], "scenario 'shop_suport' not found; did you mean 'shop_support'?"),
        (["shop_support", "-o", nowhere], f"--output: {nowhere}: its folder does not exist"),
    ):
        status, out, err = rehearse("worlds", "report", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("error: ")
        assert fault in err

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in (
        "rehearsal_room.harness.reports.chart_style",
        "rehearsal_room.authoring.charts",
        "rehearsal_room.authoring.html",
    ):
        monkeypatch.delitem(sys.modules, name, raising=False)
    _, _, err = rehearse("worlds", "report", "shop_support", "-o", tmp_path / "page.html")
    assert err.startswith("error: report needs the package matplotlib")
    assert err.endswith("pip install 'rehearsal-room[report]'\n")
    assert rehearse("worlds", "report", "shop_support")[0] == 0


# Texts ------------------------------------------------------------------------------------------


def test_situations_and_sentences_are_counted() -> None:
    """Situations, voices and joined requests are counted; sentences are compared with names and
    values masked."""
    found = figures()
    assert (found.situations, found.most_frequent_situation) == (1, ("orders.too_late", 1.0))
    assert found.voices == {"chat": 1}
    texts = text_figures(
        [
            "Renew the loan of Ana Lopez until 4 May. Then close it.",
            "Renew the loan of Ben Roth until 6 June. Also, thank them.",
            "Also send it to Graz. Finally, close the ticket.",
        ]
    )
    assert texts.tasks == 3
    assert texts.common_sentences[0] == ("renew the loan of <name> until <value> <name>.", 0.6667)
    assert texts.joined == 0.3333


def test_the_page_lists_worlds_and_tasks() -> None:
    """Each world is listed with its tasks' texts, escaped, and an address beside the page."""
    found = figures()
    hotel = msgspec.structs.replace(HOTEL, title="A <small> hotel", folder="worlds/hotel 1")
    page = page_of(found, [], [hotel], title="t")
    assert 'href="worlds/hotel%201"' in page
    assert "A &lt;small&gt; hotel: 18 tables" in page
    assert "tell &lt;b&gt;Ana Lopez&lt;/b&gt;" in page
    assert "<b>Ana" not in page
    assert "I did not cancel it." in page
