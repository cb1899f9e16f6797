"""The suites of VitaBench. Its checkout belongs to others: tests that need it run where
REHEARSAL_VITABENCH names its folder, and REHEARSAL_VITABENCH_PYTHON an interpreter with its
packages."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.core.events import Ending, Judged, Label
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.scenarios.suites.vitabench import _block
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
        ("0.0.1", (), "this VitaBench has changed or other code, and its scores would not compare"),
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
