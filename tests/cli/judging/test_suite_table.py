"""The commands `suites` and `eval --all-that-runs`, and agents that do no work."""

import json
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.cli.play.suite_table import SuiteTable, TableRow, markdown
from rehearsal_room.scenarios.suites.catalogue import SUITES
from rehearsal_room.scenarios.suites.measured import MEASURED
from tests.support.cli import Rehearse, json_of
from tests.support.paths import SUITES as FIXTURES


def test_each_suite_says_what_its_score_is_worth(rehearse: Rehearse) -> None:
    """Licence, needs, what is exact and what asks a model stand in the text and in the JSON."""
    found = {one["name"]: one for one in json_of(rehearse, "suites")}
    assert found.keys() == SUITES.keys()
    for name, one in found.items():
        assert one["licence"], name
        assert one["needs"], name
        assert one["exact"], name
    assert (found["bfcl_v3"]["tasks"], found["bfcl_v3"]["is_free"]) == (4441, True)
    assert "--user-model" in found["tau2_retail"]["asks"]
    status, out, _ = rehearse("suites")
    assert status == 0
    assert "  asks a model: nothing but the agent" in out


def test_what_was_measured_is_of_a_suite_and_names_its_command() -> None:
    """A reader can play each figure again."""
    for name, found in MEASURED.items():
        assert len({one.agent for one in found}) == len(found)
        for one in found:
            assert name in SUITES
            assert one.command.startswith(f"rehearse eval {name}")
            assert 0.0 <= one.score <= 1.0


@pytest.mark.slow  # a benchmark's process is started six times
def test_lazy_agents_stand_beside_a_score(rehearse: Rehearse, tmp_path: Path) -> None:
    """Reciting, pasting and listing solve no task in which calls are asked for; where no call is
    right, words are as good as silence."""
    asked = ("eval", "bfcl_v3", "--suite-path", FIXTURES, "-p", "oracle", "--lazy")
    many = json_of(rehearse, *asked, "--category", "multi_turn_base", "-o", tmp_path / "many")
    assert many["lazy"] == {"recites": 0.0, "pastes": 0.0, "lists": 0.0}
    none = json_of(rehearse, *asked, "--category", "irrelevance", "-o", tmp_path / "none")
    assert none["lazy"] == {"recites": 1.0, "pastes": 1.0, "lists": 1.0}


@pytest.mark.slow  # a benchmark is played three times
def test_one_table_of_all_that_runs(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not installed, or needs a key, is not played, and the table says why; a run that goes
    on plays nothing again."""
    few = msgspec.structs.replace(SUITES["bfcl_v3"], usual=("multi_turn_base", "irrelevance"))
    monkeypatch.setitem(SUITES, "bfcl_v3", few)
    asked = ("eval", "--all-that-runs", "--at", f"bfcl_v3={FIXTURES}", "-p", "noop", "-o", tmp_path)
    table = json_of(rehearse, *asked)
    rows = {row["suite"]: row for row in table["suites"]}
    assert rows.keys() == SUITES.keys()
    assert rows["bfcl_v3"]["why_not"] == ""
    assert rows["bfcl_v3"]["score"] == rows["bfcl_v3"]["floor"]
    assert "pip install agentdojo" in rows["agentdojo"]["why_not"]
    assert "--user-model" in rows["tau2_retail"]["why_not"]
    assert "a key or a service" in rows["mcp_universe"]["why_not"]
    assert json.loads((tmp_path / "suites.json").read_text()) == table
    assert "| bfcl_v3 |" in (tmp_path / "suites.md").read_text()
    status, _, err = rehearse(*asked)
    assert status != 0
    assert "has suites.json already" in err
    (tmp_path / "suites.json").unlink()  # as where it was killed before the table
    status, _, err = rehearse(*asked)
    assert "has bfcl_v3 already: go on with --resume" in err
    status, _, err = rehearse(*asked, "--resume", "-p", "recites")
    assert "run.toml: policy: the run began with 'noop', not 'recites'" in err
    assert not (tmp_path / "suites.json").exists()
    assert json_of(rehearse, *asked, "--resume") == table


@pytest.mark.slow  # plays the small entries of two suites, and of one with two processes
def test_settings_that_do_not_fit_one_suite_stop_no_other(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chains of talks are played by one process, and most suites by several: the table says it."""
    for name, usual in (("bfcl_v3", ("irrelevance",)), ("bfcl_v4", ("memory_kv",))):
        few = msgspec.structs.replace(SUITES[name], usual=usual)
        monkeypatch.setitem(SUITES, name, few)
    places = [word for name in ("bfcl_v3", "bfcl_v4") for word in ("--at", f"{name}={FIXTURES}")]
    asked = ("eval", "--all-that-runs", *places, "-p", "noop", "--processes", "2", "-o", tmp_path)
    rows = {row["suite"]: row for row in json_of(rehearse, *asked)["suites"]}
    assert rows["bfcl_v3"]["why_not"] == ""
    assert "leave --processes and --engine out" in rows["bfcl_v4"]["why_not"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "name a suite (bfcl_v3"),
        (("bfcl_v3", "--all-that-runs"), "name no suite and no part of one"),
        (("--all-that-runs", "--task", "x"), "name no suite and no part of one"),
        (("--all-that-runs", "--at", "bfcl_v3"), "--at: expected SUITE=PATH, found 'bfcl_v3'"),
        (("--all-that-runs", "--at", "bfcl=x"), "suite 'bfcl' not found"),
        (("bfcl_v3", "--python-of", "bfcl_v3=x"), "belong to --all-that-runs"),
    ],
)
def test_words_that_do_not_fit(rehearse: Rehearse, words: tuple[str, ...], expected: str) -> None:
    """One sentence says what is wrong."""
    status, _, err = rehearse("eval", *words)
    assert status != 0
    assert expected in err
    assert "Traceback" not in err


def test_the_table_in_markdown() -> None:
    """Lazy agents are columns where one was played; what was not played stands below."""
    rows = (
        TableRow("a", "1", "noop", 5, 1, 0.5, 0.25, None, {"recites": 0.125}),
        TableRow("b", why_not="it needs a key"),
    )
    assert markdown(SuiteTable(rows)) == (
        "| suite | version | score | nothing | reference | reciting | tasks | unjudged |\n"
        "|---|---|---:|---:|---:|---:|---:|---:|\n"
        "| a | 1 | 50.00 % | 25.00 % | – | 12.50 % | 5 | 1 |\n"
        "\n"
        "- b: not played: it needs a key\n"
    )
