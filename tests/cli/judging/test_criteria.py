"""Tasks with criteria, end to end: played, judged by code and by models over real HTTP, gated,
compared and promoted. The judging models are scripted, behind a chat endpoint on loopback."""

import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.judge.statistics.youden import youden
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import read
from rehearsal_room.viewer.reading.lines import run_line
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.tasks.task_table import rows_by
from tests.support.cli import Rehearse, json_of
from tests.support.criteria_world import AGENTS, CRITERIA, TOLD, criteria_world, script
from tests.support.judge_server import Speaks, Spoken, text_of, verdict
from tests.support.judged_runs import judge, no_environment, served
from tests.support.model_server import ReceivedRequest

WORDS = "criteria that a model must judge, as with --mode hybrid: 1"


@pytest.fixture
def run(rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    no_environment(monkeypatch)
    world = criteria_world(tmp_path)
    played = ("-p", "scripted", "--script", script(tmp_path / "script.jsonl"), "-g", len(AGENTS))
    json_of(rehearse, "run", world, *played, "-o", tmp_path / "run")
    return tmp_path / "run"


def verdicts(run: Path) -> dict[str, tuple[Any, ...]]:
    with open_reader(run) as reader:
        rows = sorted(reader.episodes(), key=lambda row: row.member)
    return {
        agent: (row.label, row.share, row.reward) for agent, row in zip(AGENTS, rows, strict=True)
    }


def reads(request: ReceivedRequest) -> Spoken:
    """A judge that looks: the visit is among the rows, and the answer has its time."""
    text = text_of(request, "user")
    said = re.search(r"^A final answer\|.*", text, re.MULTILINE)
    is_met = "D2" in text and said is not None and TOLD in said[0]
    return Spoken(verdict("completed" if is_met else "agent_error", cited=("A", "D2")))


def agrees(request: ReceivedRequest) -> Spoken:
    return Spoken(verdict("completed", cited=("A",)))


def test_code_alone_gives_no_verdict_on_what_a_model_must_judge(run: Path) -> None:
    """A criterion that asks a model is open: no label, no reward and no share without one. A guard
    that failed needs no model."""
    found = verdicts(run)
    assert found.pop("harm") == ("agent_error", None, 0.0)
    assert set(found.values()) == {(None, None, None)}
    with open_reader(run) as reader:
        assert {row.unjudged for row in reader.episodes()} == {WORDS, None}


def test_the_share_is_what_was_done(rehearse: Rehearse, run: Path) -> None:
    """Each agent gets the share of what it did by a judge that looks; a lie gets nothing."""
    with served(Speaks(reads)) as server:
        found = judge(rehearse, run, server.url, "--mode", "hybrid")
    assert (found["unjudged"], found["model_calls"]) == (0, len(AGENTS) - 1)  # not about silence
    assert found["disagreements"] == 0  # code alone has no label
    assert verdicts(run) == {
        "all": ("completed", 1.0, 1.0),
        "half": ("partially_completed", 0.5, 0.1),
        "none": ("agent_error", 0.0, 0.0),
        "lie": ("agent_error", 0.0, 0.0),
        "silent": ("agent_error", 0.0, 0.0),
        "harm": ("agent_error", 1.0, 0.0),
    }
    assert len(server.requests) == len(AGENTS) - 1
    report = json_of(rehearse, "replay", run)
    assert report["divergences"] == []


def test_a_model_that_always_agrees_completes_nothing(rehearse: Rehearse, run: Path) -> None:
    """It pays no reward that was not earned, and its J is 0; that of one that looks is 1."""
    right, wrong = {"all", "harm"}, {"half", "none", "lie"}  # of silence no model is asked

    def j_of(speaker: Callable[[ReceivedRequest], Spoken]) -> tuple[float, dict[str, Any]]:
        with served(Speaks(speaker)) as server:
            judge(rehearse, run, server.url, "--mode", "hybrid", "--cache", run / speaker.__name__)
        with open_reader(run) as reader:
            played = sorted(reader.trajectories(), key=lambda one: one.started.member)
            shares = {
                agent: next(f.share for f in one.judged[-1].findings if f.name == "says when")
                for agent, one in zip(AGENTS, played, strict=True)
            }
        tries = [{one: [shares[one] or 0.0] for one in group} for group in (right, wrong)]
        found = youden(*tries, unit="task")
        assert found is not None
        return found.j.value, verdicts(run)

    j, found = j_of(agrees)
    assert j == 0.0
    assert found["lie"] == ("agent_error", 0.25, 0.0)
    assert found["silent"] == ("agent_error", 0.0, 0.0)
    assert found["half"] == ("partially_completed", 0.75, 0.1)
    assert [one for one, (label, *_) in found.items() if label == "completed"] == ["all"]
    assert j_of(reads)[0] == 1.0


@pytest.mark.parametrize(
    ("speaker", "why"),
    [
        (lambda _: Spoken(verdict("completed", cited=("T", "C"))), "names no exhibit"),
        (lambda _: Spoken(verdict("environment_error")), "cannot show whether it is met"),
        (lambda _: Spoken("It is met."), "criterion 'says when': "),
    ],
)
def test_a_yes_without_evidence_is_no_verdict(
    rehearse: Rehearse, run: Path, speaker: Callable[[ReceivedRequest], Spoken], why: str
) -> None:
    """A model must show what it saw, and what it cannot tell leaves the episode unjudged."""
    with served(Speaks(speaker)) as server:
        judge(rehearse, run, server.url, "--mode", "hybrid", "--attempts", 1)
    with open_reader(run) as reader:
        rows = {row.member: row for row in reader.episodes()}
    assert why in (rows[0].unjudged or "")
    assert (rows[0].label, rows[0].share, rows[0].reward) == (None, None, None)


def test_the_gate_passes_the_world(rehearse: Rehearse, tmp_path: Path) -> None:
    """Its oracle meets all, mutants less, and no adversary gets a share."""
    found = json_of(rehearse, "worlds", "check", criteria_world(tmp_path))
    assert found["failures"] == []
    assert found["mutants"] == found["mutants_caught"] > 10


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("= 0.8", "= 0.25"), "a model that always agrees completes it"),
        (('"old_visit_cancelled"', '"always"'), "doing nothing meets 'the old visit is cancelled'"),
        (('"old_visit_cancelled"', '"never"'), "its oracle does not meet"),
        (('"old_visit_cancelled"', '"reads"'), "paid for no work: "),
        (('"old_visit_cancelled"', '"two"'), "expected a share from 0 to 1"),
        (('"old_visit_cancelled"', '"guards"'), "returned guards alone, expected a goal"),
        (('"old_visit_cancelled"', '"text"'), "expected true or false, 0 to 1, or findings"),
    ],
)
def test_the_gate_finds_criteria_that_pay_for_nothing(
    rehearse: Rehearse, tmp_path: Path, change: tuple[str, str], why: str
) -> None:
    """What silence meets, what no oracle meets, what a word in the answer meets."""
    folder = criteria_world(tmp_path, CRITERIA.replace(*change).replace("= 0.8", "= 0.7"))
    with (folder / "verify.py").open("a") as file:
        for name, value in (
            ("always", "True"),
            ("never", "0.5"),
            ("reads", '"2026-03-19" in answer or "unable" in answer or bool(after.changes)'),
            ("two", "2"),
            ("text", "'yes'"),
            ("guards", "[Finding('a', True, '', '', 'guard')]"),
        ):
            file.write(f"\n\ndef {name}(before: State, after: State, answer: str) -> object:\n")
            file.write(f"    return {value}\n")
    status, out, err = rehearse("worlds", "check", folder)
    assert status == 1, err
    assert why in " ".join(out.split())


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("weight = 2.0", "weight = 0.0", "criterion[1]: weight: must be above 0, found 0"),
        ("weight = 2.0", "weight = inf", "criterion[1]: weight: must be above 0, found inf"),
        ("= 0.8", "= 1.5", "criteria_threshold: must be above 0 and at most 1, found 1.5"),
        (
            '"new_visit_booked"',
            '"new_visit_boked"',
            "criterion[1]: check: verify.py has no function 'new_visit_boked'; did you mean "
            "'new_visit_booked'?",
        ),
        ('name = "says when"', 'name = ""', "criterion[2]: name: must not be empty"),
        (
            'check = "old_visit_cancelled"',
            "",
            "criterion[0]: expected either `check`, a function, or `ask`, a text; found neither",
        ),
        (
            "says when",
            "the new visit is booked",
            "criterion[2]: name: 'the new visit is booked' occurs twice",
        ),
    ],
)
def test_a_criterion_that_cannot_be_is_named(tmp_path: Path, old: str, new: str, why: str) -> None:
    """One sentence with the file, the line, the task and the criterion."""
    folder = criteria_world(tmp_path, CRITERIA.replace(old, new))
    lines = (folder / "tasks.toml").read_text().splitlines()
    header = "[[task.criterion]]" if why.startswith("criterion[") else "[[task]]"
    starts = [number for number, text in enumerate(lines, 1) if text == header]
    line = starts[int(re.findall(r"\d", why)[0]) if why.startswith("criterion[") else 0]

    with pytest.raises(PackageError) as caught:
        read(folder)
    assert str(caught.value) == (
        f"{folder / 'tasks.toml'}: line {line}: task 'move-check-up': {why}"
    )


def test_the_share_is_shown_wherever_a_reward_is(rehearse: Rehearse, run: Path) -> None:
    """In `show`, of the run and of an episode, in exports, in statistics, comparison and promotion,
    and by the viewer."""
    with served(Speaks(reads)) as server:
        judge(rehearse, run, server.url, "--mode", "hybrid")

    out = rehearse("show", run)[1]
    assert re.search(r"^\S+ +partly +0\.50 ", out, re.MULTILINE), out
    assert "mean share of a task 41.7% (" in out  # of 1, 1/2, 0, 0, 0 and 1
    out = rehearse("show", run, "e000001")[1]
    assert "partially_completed, reward 0.1, share of the task 0.5" in out
    assert re.search(r"✗ +0 +criterion: the old", out), out
    assert re.search(r"✓ +1 × 2 +criterion: the new", out), out

    assert rehearse("export", run, "-o", run / "lines.jsonl")[0] == 0
    lines = [json.loads(line) for line in (run / "lines.jsonl").read_text().splitlines()]
    assert [line["share"] for line in lines] == [1.0, 0.5, 0.0, 0.0, 0.0, 1.0]

    found = json_of(rehearse, "compare", run, run)
    assert found["runs"][0]["share"]["value"] == pytest.approx(2.5 / 6)
    assert found["differences"][0]["share"]["delta"] == 0.0
    text = rehearse("compare", run, run, "-o", run / "compare.md")[1]
    assert "by the shares of the tasks: " in text
    assert {one["kind"]: one["share"]["completed"] for one in found["groups"]} == {
        kind: [pytest.approx(2.5 / 6)] * 2 for kind in ("world", "tag")
    }
    assert re.search(r"tag \S+ \(1 task\): 16.7%, 16.7%; .*; shares 41.7%, 41.7%; \+0.0 p", text)
    assert "share | 1 | 41.7% | 41.7% |" in (run / "compare.md").read_text()

    with closing(ShownRun(run)) as shown:
        shown.index().fold()
        assert run_line(shown).mean_share == pytest.approx(2.5 / 6)
        assert [row.share for row in rows_by(shown, "task")] == [pytest.approx(2.5 / 6)]


def test_promotion_by_share_counts_the_unjudged_where_they_hurt(
    rehearse: Rehearse, run: Path
) -> None:
    """The bounds of episodes without a verdict are 0 and 1; too many of them decide nothing."""
    gate = run.with_name("gate.toml")
    gate.write_text('[[stage]]\nname = "one"\ncriteria = ["share.lower >= 0.8", "share <= 0.5"]\n')

    def decided() -> list[tuple[Any, ...]]:
        status, out, err = rehearse("promote", gate, run, "--json", "-")
        assert status in (1, 3), err
        return [(one["value"], one["verdict"]) for one in json.loads(out)["criteria"]]

    assert [verdict for _, verdict in decided()] == ["inconclusive", "inconclusive"]
    with served(Speaks(reads)) as server:
        judge(rehearse, run, server.url, "--mode", "hybrid")
    assert decided()[1] == (pytest.approx(2.5 / 6), "pass")
