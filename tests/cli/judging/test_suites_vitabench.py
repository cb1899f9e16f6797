"""The suites of VitaBench. Its checkout belongs to others: tests that need it run where
REHEARSAL_VITABENCH names its folder, and REHEARSAL_VITABENCH_PYTHON an interpreter with its
packages."""

import json
import os
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.core.events import Ending, Judged, Label
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.scenarios.suites.vitabench import _block
from tests.suites.parity.vitabench.compare import Domain, Played
from tests.suites.parity.vitabench.models import FAILING
from tests.support.cli import Rehearse, json_of
from tests.support.judged_runs import served
from tests.support.model_server import Completes, ReceivedRequest

CHECKOUT = os.environ.get("REHEARSAL_VITABENCH", "")
PYTHON = os.environ.get("REHEARSAL_VITABENCH_PYTHON", "")
with_checkout = pytest.mark.skipif(
    not (CHECKOUT and PYTHON),
    reason="REHEARSAL_VITABENCH and REHEARSAL_VITABENCH_PYTHON name no checkout of VitaBench",
)
MODEL = ("-m", "m", "--base-url", "http://127.0.0.1:9/v1", "--no-preflight")
JUDGE = ("--judge", "hybrid", "--judge-model", "judge")


def checkout(folder: Path, version: str = "0.0.1") -> Path:
    """What looks like a checkout."""
    (folder / "src" / "vita").mkdir(parents=True)
    (folder / "src" / "vita" / "run.py").write_text("# other code\n")
    (folder / "pyproject.toml").write_text(f'[project]\nname = "vita"\nversion = "{version}"\n')
    return folder


@pytest.mark.parametrize(
    ("version", "more", "sentence"),
    [
        ("0.0.1", (), "this VitaBench has other code or data, and its scores would not compare"),
        ("0.0.2", (), "this VitaBench is 0.0.2, and its scores would not compare"),
        ("", (), "there is no checkout of VitaBench (no src/vita) here"),
        ("0.0.1", MODEL, "name it with --judge hybrid --judge-model NAME"),
    ],
)
def test_bad_input_is_one_sentence(
    rehearse: Rehearse, tmp_path: Path, version: str, more: tuple[object, ...], sentence: str
) -> None:
    """Another version, changed code (its predecessor has the same number), no checkout, and no
    judge: status 2."""
    folder = checkout(tmp_path / "vita", version) if version else tmp_path
    arguments = ("eval", "vitabench_en", "--suite-path", folder, "-o", tmp_path / "run")
    status, _, err = rehearse(*arguments, *(more or ("-p", "noop")))
    assert (status, sentence in err) == (2, True), err
    assert err.strip().count("\n") == 0


def test_no_folder_is_one_sentence(rehearse: Rehearse, tmp_path: Path) -> None:
    """It says what to clone."""
    status, _, err = rehearse("eval", "vitabench", "-p", "noop", "-o", tmp_path / "run")
    assert (status, "clone https://github.com/meituan-longcat/vitabench" in err) == (2, True), err


def test_a_prompt_is_a_block_of_its_file() -> None:
    """As YAML reads it: without the indentation and the last line's end."""
    text = "name: p\nchinese: |-\n  你好\nenglish: |-\n  One {time}\n\n    - two\n\nother: 1\n"
    assert _block(text, "english") == "One {time}\n\n  - two"
    assert _block(text, "chinese") == "你好"


@with_checkout
def test_a_missing_file_is_named(rehearse: Rehearse, tmp_path: Path) -> None:
    """A checkout without the large files plays what it has."""
    folder = tmp_path / "vita"
    shutil.copytree(CHECKOUT, folder, ignore=shutil.ignore_patterns("tasks*.json", ".git"))
    asked = ("eval", "vitabench_en", "--suite-path", folder, "-p", "noop")
    for category, name in (("ota", "ota"), ("cross", "cross_domain")):
        status, _, err = rehearse(*asked, "--category", category, "-o", tmp_path / category)
        assert (status, err.strip().count("\n")) == (2, 0), err
        assert f"{name}/tasks_en.json: it cannot be read" in err


class Three:
    """A server that plays the agent by a list of texts, a customer who agrees, and the judge."""

    def __init__(self, agent: str, judge: Any) -> None:
        self._agent, self._judge = agent, judge
        self.asked: list[str] = []

    async def perform(self, request: ReceivedRequest, writer: Any) -> bool:
        """Answer as the one who is asked."""
        who = request.body["model"]
        self.asked.append(who)
        texts = {"m": self._agent, "customer": "Please help me."}
        text = texts.get(who) or self._judge(request.body["messages"][-1]["content"])
        return await Completes(text).perform(request, writer)


def yes(prompt: str) -> str:
    """A judge to whom everything is right."""
    listed = prompt.partition("<current_rubrics>\n")[2].partition("\n</current_rubrics>")[0]
    return json.dumps([{**one, "meetExpectation": True} for one in json.loads(listed)])


def no(prompt: str) -> str:
    """A judge that says nothing of any rubric."""
    return "[]"


def played(rehearse: Rehearse, run: Path, agent: str, judge: Any) -> tuple[Any, Three]:
    """Three delivery tasks of an agent that says one text."""
    three = Three(agent, judge)
    with served(three) as server:
        asked = ("eval", "vitabench_en", "--suite-path", CHECKOUT, "--suite-python", PYTHON)
        models = ("-m", "m", "--base-url", server.url, "--user-model", "customer")
        models += ("--user-base-url", server.url, *JUDGE, "--judge-base-url", server.url)
        ids = ("--task", "delivery_10711001", "--task", "delivery_10716001")
        report = json_of(rehearse, *asked, *ids, *models, "--no-preflight", "-o", run)
    return report, three


@with_checkout
@pytest.mark.slow  # it starts the package twice
def test_a_lazy_agent_is_as_good_as_its_judge(rehearse: Rehearse, tmp_path: Path) -> None:
    """An agent that ends the talk at once has nothing with a judge that is silent, and everything
    with one that says yes; our figure of the orders shows what it did."""
    for judge, score in ((no, 0.0), (yes, 1.0)):
        run = tmp_path / judge.__name__
        report, three = played(rehearse, run, "I cannot. ###STOP###", judge)
        assert report["scores"] == {"delivery": score}
        assert (report["floor"], report["unjudged"]) == (0.0, 0)
        assert report["groups"]["share of rubrics"] == score
        assert report["groups"]["orders as required, ours"] < 0.5
        assert three.asked.count("judge") == 2
        with open_reader(run) as reader:
            verdicts = [r.event for r in reader.milestones() if isinstance(r.event, Judged)]
        assert {one.asked[0].requests for one in verdicts} == {1}


@with_checkout
@pytest.mark.slow  # it starts the package twice
def test_silence_is_worth_nothing(rehearse: Rehearse, tmp_path: Path) -> None:
    """Three empty replies end the episode, and no judge is asked, not even one that says yes."""
    report, three = played(rehearse, tmp_path / "run", " ", yes)
    assert (report["scores"], "judge" in three.asked) == ({"delivery": 0.0}, False)
    with open_reader(tmp_path / "run") as reader:
        rows = list(reader.episodes())
    assert {(row.ending, row.label, row.share) for row in rows} == {
        (Ending.FORMAT_ERROR, Label.AGENT_ERROR, 0.0)
    }
    replayed = json_of(rehearse, "replay", tmp_path / "run")
    assert (replayed["episodes"], replayed["divergences"]) == (2, [])


@with_checkout
@pytest.mark.slow  # it starts the package twice
def test_a_judge_in_words_fails_the_task_and_says_so(rehearse: Rehearse, tmp_path: Path) -> None:
    """Upstream plays such a task four times and leaves it out; here it counts as failed."""
    run = tmp_path / "run"
    report, _ = played(rehearse, run, "Done. ###STOP###", lambda prompt: "All of it is fine.")
    assert (report["scores"], report["unjudged"]) == ({"delivery": 0.0}, 2)
    assert "failed left out, as upstream" not in report["groups"]
    with open_reader(run) as reader:
        assert all("could not be scored" in (row.unjudged or "") for row in reader.episodes())


def by_behaviour(
    folder: Path, *behaviours: str, tasks: tuple[str, ...] = ("40721004",)
) -> tuple[Played, dict[str, str]]:
    """Delivery tasks as both sides played them, and the names of the first one's cases by
    behaviour."""
    given = Namespace(
        vita=Path(CHECKOUT),
        python=PYTHON,
        language="english",
        tasks=0,
        task=tasks,
        seed=0,
        behaviour=behaviours,
    )
    domain = Domain(given, "delivery", folder)
    names = {case.behaviour: case.task["id"] for case in reversed(domain.cases)}
    return domain.played(), names


@with_checkout
@pytest.mark.slow  # both sides start the package
def test_what_is_known_to_differ_differs_as_the_table_says(tmp_path: Path) -> None:
    """Failed tasks, which upstream leaves out, count 0, and upstream's mean stands beside; a
    customer's thought is cut off; the calls at the limit are made; bodies differ in the fields that
    the table names, among them the bearer key, and in nothing else."""
    played, names = by_behaviour(
        tmp_path, "right_and_liked", *FAILING, "customer_thinks", "endless_calls"
    )
    theirs, ours = ({n: side[names[n]] for n in names} for side in (played.theirs, played.ours))
    rewards = {name: (theirs[name]["reward"], ours[name]["reward"]) for name in names}
    assert rewards == {
        "right_and_liked": (1.0, 1.0),
        **dict.fromkeys(FAILING, (None, None)),
        "customer_thinks": (1.0, 0.0),  # this judge's word depends on the whole text
        "endless_calls": (0.0, 0.0),
    }
    assert played.report["scores"] == {"delivery": pytest.approx(1 / 8)}
    assert played.report["groups"]["failed left out, as upstream"] == pytest.approx(1 / 3)
    differing = {name for name in names if played.differences[names[name]]}
    assert differing == {"customer_thinks"}
    sent = [json.dumps(one) for one in played.models.bodies["ours", 6, "agent"]]
    assert "<think>" not in sent[-1]
    num_calls = len(theirs["endless_calls"]["tools"])
    assert len(ours["endless_calls"]["tools"]) == num_calls + 1
    named = {"headers", "base_url", "name", "max_input_tokens", "stream"}
    for who in ("agent", "customer", "judge"):
        more: set[str] = set() if who == "agent" else {"tools", "tool_choice"}  # null
        (one, *_), (two, *_) = (played.models.bodies[s, 0, who] for s in ("upstream", "ours"))
        assert one.keys() - two.keys() == named | more
        assert not two.keys() - one.keys()
        assert one["headers"]["Authorization"] == "Bearer secret"
        assert {name: one[name] for name in more} == dict.fromkeys(more)


@with_checkout
@pytest.mark.slow  # both sides start the package
def test_ids_of_orders_contain_the_time_upstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the count that stands in for it, ids differ, and apart from ids the orders do not."""
    monkeypatch.setenv("VITA_IDS", "timed")
    played, names = by_behaviour(tmp_path, "right_and_liked")
    (name,) = names.values()
    theirs, ours = (side[name]["ends"] for side in (played.theirs, played.ours))
    assert theirs.keys().isdisjoint(ours)
    assert len(ours) == 2
    plain, ours_plain = (
        sorted(json.dumps({**row, "order_id": ""}, sort_keys=True) for row in side.values())
        for side in (theirs, ours)
    )
    assert plain == ours_plain


@with_checkout
@pytest.mark.slow  # both sides start the package
def test_upstream_knows_the_addresses_of_earlier_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order goes to another place upstream where a task with that place was played before; the
    first task, and a task alone, do not differ."""
    alone, names = by_behaviour(tmp_path / "alone", "right", tasks=("C0715001",))
    assert alone.differences == {names["right"]: []}
    monkeypatch.setenv("VITA_ADDRESSES", "kept")
    played, names = by_behaviour(tmp_path / "after", "right", tasks=("C0715003", "C0715001"))
    first, second = played.differences.values()
    assert first == []
    assert "location.longitude" in dict(second)["state"]
