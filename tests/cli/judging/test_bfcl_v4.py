"""`eval bfcl_v4`: chains of talks, questions that begin where they end, and what is not played."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.viewer.reading.lines import run_line
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.reading.run_page import run_page
from rehearsal_room.viewer.worlds.logged_world import logged_world
from tests.suites.parity.behaviours import Message, message
from tests.suites.parity.fake_model import FakeModel
from tests.support.cli import Rehearse, json_of
from tests.support.paths import ROOT, SUITES

HERE = ("--suite-path", SUITES)
ASKED = ("eval", "bfcl_v4", "--category", "memory_kv", *HERE)
Answers = Callable[[str, dict[str, Any]], tuple[str, Message] | None]


def keeps(category: str, body: dict[str, Any]) -> tuple[str, Message]:
    """A model that remembers each text of a talk, and answers with all that it remembers."""
    system, *said = body["messages"]
    if "For your final answer" in system["content"]:
        return "", {"content": system["content"]}
    if said[-1]["role"] == "tool":
        return "", {"content": "Noted."}
    number = sum(one["role"] == "user" for one in said)
    arguments = f'{{"key": "k{len(system["content"])}_{number}", "value": "{said[-1]["content"]}"}}'
    return "", message([("core_memory_add", arguments)])


def read(run: Path) -> dict[str, Trajectory]:
    """The last attempt at each episode, by its task."""
    with open_reader(run) as reader:
        return {one.started.task: one for one in reader.trajectories()}


@pytest.mark.slow  # six runs of commands
def test_a_question_begins_where_the_last_talk_ended(rehearse: Rehearse, tmp_path: Path) -> None:
    """It sees in its system prompt what was remembered in all talks of its subject; the talks have
    no score. What was not played counts 0 and is said."""
    run = tmp_path / "run"
    with FakeModel(keeps).served() as model:
        url = f"{model.url}/ours/kv/v1"
        model_flags = ("-m", "m", "--base-url", url, "--no-preflight")
        report = json_of(rehearse, *ASKED, *model_flags, "-o", run)
    assert report["scores"] == {"memory_kv": 1.0}
    assert (report["tasks"], report["episodes"], report["unjudged"]) == (3, 3, 0)
    assert report["overall"] == pytest.approx(0.4 / 2 / 3)
    assert (report["floor"], report["ceiling"]) == (0.0, report["overall"])
    assert report["failures"] == {}
    assert "memory_vector" in report["not_played"] and "memory_kv" not in report["not_played"]
    found = read(run)
    first, second = found["memory_kv_prereq_0_student_0"], found["memory_kv_prereq_1_student_1"]
    question = found["memory_kv_0_student_0"]
    assert first.started.rules is not None and "Nothing." in first.started.rules
    assert second.started.origin is not None
    assert second.started.origin.episode == first.episode
    assert question.started.origin is not None and question.started.rules is not None
    assert question.started.origin.episode == second.episode
    for text in ("I am Ada.", "I study law.", "I have a cat.", "It is grey."):
        assert text in question.started.rules
    assert question.started.start_digest == found["memory_kv_1_student_1"].started.start_digest
    with open_reader(run) as reader:
        snapshot = reader.scenarios()[second.started.scenario_digest]
    for turn in range(len(second.steps) + 1):  # as the viewer shows it
        with logged_world(second, snapshot, turn) as (database, is_exact):
            assert is_exact
            assert database.execute("SELECT count(*) FROM records").fetchone()[0] >= 2
    status, out, _ = rehearse("replay", run)
    assert status == 0 and "equal results and states at every step" in out
    nothing_lacks(rehearse, run)
    forked = tmp_path / "forked"
    asked = ("run", "--from", f"{run}/{second.episode}@1", "-p", "random", "-o", forked)
    status, _, err = rehearse(*asked)
    assert status == 0, err
    (fork,) = read(forked).values()
    assert (fork.started.origin, fork.started.rules) == (
        second.started.origin,
        second.started.rules,
    )
    assert rehearse("replay", forked)[0] == 0


def nothing_lacks(rehearse: Rehearse, run: Path) -> None:
    """Talks without a score lack no verdict: not in `show`, the viewer, or against another run."""
    status, shown, _ = rehearse("show", run)
    assert status == 0 and "3 completed (100%), 3 no score" in shown and "unjudged" not in shown
    with closing(ShownRun(run)) as opened:
        while opened.index().fold():
            pass
        line = run_line(opened)
        labels = run_page(opened).labels
    assert (line.ended, line.unjudged, line.without_verdict) == (6, 0, 0)
    assert line.bounds == (1.0, 1.0) and labels == {"none": 3, "completed": 3}
    compared = json_of(rehearse, "compare", run, run)
    assert [one["without_verdict"] for one in compared["runs"]] == [0, 0]


PLAYED = (
    "import sys; import tests.conftest; from rehearsal_room.cli.main import main; sys.exit(main())"
)


def eval_in_child(url: str, run: Path) -> "subprocess.Popen[bytes]":
    """`rehearse eval` as a process of its own, one episode after the other."""
    words = map(str, (*ASKED, "-m", "m", "--base-url", url, "--no-preflight", "-c", 1, "-o", run))
    command = [sys.executable, "-c", PLAYED, *words, "--resume"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.mark.slow  # four processes that play the whole suite
@pytest.mark.timeout(240)
def test_a_run_that_is_killed_goes_on_in_mid_chain(tmp_path: Path) -> None:
    """Killed in the middle of a chain's second talk, and again after that: resumed, it ends like
    one that nothing disturbed, in every rule, text and state."""
    child: subprocess.Popen[bytes] | None = None
    fatal: list[int] = []  # numbers of the requests at which the child is killed

    def answers(category: str, body: dict[str, Any]) -> tuple[str, Message]:
        if fatal and child is not None:
            fatal[0] -= 1
            if not fatal[0]:
                fatal.pop(0)
                os.kill(child.pid, signal.SIGKILL)
        return keeps(category, body)

    with FakeModel(answers).served() as model:
        url = f"{model.url}/ours/kv/v1"
        for name, points in (("killed", [7, 3]), ("undisturbed", [])):
            fatal[:] = points
            for died in [*map(bool, points), False]:
                child = eval_in_child(url, tmp_path / name)
                out, _ = child.communicate(timeout=120)
                assert child.returncode == (-signal.SIGKILL if died else 0), out.decode()
    killed, undisturbed = read(tmp_path / "killed"), read(tmp_path / "undisturbed")
    assert {task: facts_of(one) for task, one in killed.items()} == {
        task: facts_of(one) for task, one in undisturbed.items()
    }


def facts_of(one: Trajectory) -> tuple[object, ...]:
    """What must not depend on an interruption."""
    assert one.ended is not None and one.ended.state is not None
    texts = [(step.reply.text, [r.text for r in step.executed_results]) for step in one.steps]
    origin = one.started.origin
    calls = None if origin is None else [(call.name, call.arguments) for call in origin.calls]
    return texts, one.started.rules, one.started.start_digest, calls, one.ended.state.digest


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (("--category", "memory_vector"), "memory_vector is not played: its embedding model"),
        (("--category", "web_search_base"), "set SERPAPI_API_KEY and name it with --mcp-env SERP"),
        (("--task", "web_search_no_snippet_0"), "searches the web with a key of SerpAPI"),
        (("--task", "memory_kv_0-student-0", "--processes", 2), "which one process plays; leave"),
        (("--task", "memory_kv_0-student-0", "--agent", "true"), "may keep a memory beside it"),
    ],
)
def test_what_cannot_be_played_is_one_sentence(
    rehearse: Rehearse, tmp_path: Path, asked: tuple[Any, ...], sentence: str
) -> None:
    """It says what is missing and what to do."""
    status, _, err = rehearse("eval", "bfcl_v4", *asked, *HERE, "-p", "noop", "-o", tmp_path / "a")
    assert status == 2
    assert sentence in " ".join(err.split())
    assert "Traceback" not in err


def test_a_key_is_for_those_who_name_it(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key in the environment alone is not used; with its name the web is searched, here by a
    program that lacks the packages for it."""
    monkeypatch.setenv("SERPAPI_API_KEY", "k")
    asked = ("eval", "bfcl_v4", "--category", "web_search_base", *HERE, "-p", "noop")
    status, _, err = rehearse(*asked, "-o", tmp_path / "a")
    assert status == 2 and "name it with --mcp-env" in err
    status, _, err = rehearse(*asked, "--mcp-env", "SERPAPI_API_KEY", "-o", tmp_path / "a")
    assert status != 0 and "KeyError: 'WebSearchAPI'" in err
