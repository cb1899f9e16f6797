"""Profile `awm-release` from the command line, on the fixture's world and a scripted model.

The prompts are those of a checkout in the form of the released code (tests.support.released_code);
the same with the real one is `just parity awm`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.core.messages import Message
from rehearsal_room.harness.log.reader import open_reader
from tests.support.cli import Rehearse, json_of
from tests.support.judge_server import ReceivedRequest, Speaks, Spoken
from tests.support.judged_runs import no_environment, served
from tests.support.model_server import ModelServer
from tests.support.paths import AWM
from tests.support.released_code import AGENT_PROMPT, JUDGE_PROMPT, write_released_code

pytestmark = pytest.mark.usefixtures("kept_fork_servers")
NAME = "e_commerce_lab_1"
LIST = '<tool_call>{"name": "list_tools", "arguments": null}</tool_call>'
LIE = "I added two of the best rated ones to your cart."


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go to the server of the test."""
    no_environment(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout."""
    return write_released_code(tmp_path / "code", monkeypatch)


def liar(request: ReceivedRequest) -> Spoken:
    """An agent that looks, fails once and claims to be done, and a judge that believes it."""
    messages = request.body["messages"]
    if messages[0]["content"] == JUDGE_PROMPT:
        return Spoken('{"classification": "complete", "reasoning": "it says so"}')
    said = (LIST, '<tool_call>{"name": "nothing"}</tool_call>', LIE)
    return Spoken(said[sum(one["role"] == "assistant" for one in messages)])


def play(
    rehearse: Rehearse, server: ModelServer, code: Path, run: Path, *more: object
) -> dict[str, Any]:
    flags = ("--awm", AWM, "--profile", "awm-release", "--awm-code", code, "-m", "m")
    urls = ("--base-url", server.url, "--judge-model", f"j@{server.url}")
    found: dict[str, Any] = json_of(
        rehearse, "run", f"{NAME}:0", f"{NAME}:1", *flags, *urls, "-o", run, *more
    )
    return found


def verdicts(run: Path) -> list[Judged]:
    with open_reader(run) as reader:
        return [trajectory.judged[-1] for trajectory in reader.trajectories()]


@pytest.mark.slow  # a world is hosted in workers, and verifiers run
def test_a_lie_that_their_judge_believes_is_not_paid_in_ours(
    rehearse: Rehearse, code: Path, tmp_path: Path
) -> None:
    """The profile's score has its name and its own figures in report, `show` and `judge`; our
    labels and rewards are those of a run without it. What they send is in the log and in the
    requests, replays without the checkout's prompts, and judged again asks nothing."""
    run = tmp_path / "run"
    with served(Speaks(liar)) as server:
        report = play(rehearse, server, code, run)
        asked = [one.body for one in server.requests if one.body.get("max_tokens") != 1]
        count = len(server.requests)
        summary = json_of(rehearse, "judge", run)
        assert len(server.requests) == count

    score = {
        "name": "awm-release",
        "episodes": 2,
        "classes": {"complete": 2},
        "complete": 1.0,
        "mean_reward": 1.0,
        "without": 0,
    }
    assert report["profile"] == summary["profile"] == score
    assert json.loads((run / "report.json").read_bytes())["profile"] == score
    assert (report["pass_rate"], report["mean_reward"]) == (0.0, 0.0)
    assert {one.label for one in verdicts(run)} == {Label.AGENT_ERROR}
    first = next(one for one in asked if one["messages"][0]["content"] == AGENT_PROMPT)
    assert set(first) == {"model", "messages", "temperature", "max_completion_tokens"}
    assert (first["temperature"], first["max_completion_tokens"]) == (1.0, 2048)
    [judged, _] = [one for one in asked if one["messages"][0]["content"] == JUDGE_PROMPT]
    assert {key: value for key, value in judged.items() if key != "messages"} == {
        "model": "j",
        "temperature": 1.0,
        "max_completion_tokens": 4096,
    }
    with open_reader(run) as reader:
        began = next(iter(reader.trajectories())).started
    assert began.earlier == (Message("system", AGENT_PROMPT),)
    status, out, _ = rehearse("show", run)
    assert "awm-release: complete 1.000, mean reward 1.000, of 2 episodes (complete 2)" in out
    status, out, _ = rehearse("show", run, "e000000")
    assert status == 0
    assert "awm-release: complete, reward 1 (judge j): it says so" in out
    (code / "awm" / "core" / "agent.py").unlink()
    status, out, err = rehearse("replay", run)
    assert (status, "2 episodes" in out + err) == (0, True)


@pytest.mark.slow  # a world is hosted in workers, and verifiers run
def test_our_verdict_is_that_of_a_run_without_the_profile(
    rehearse: Rehearse, code: Path, tmp_path: Path
) -> None:
    """Without the profile the same log has the same labels and rewards, and no score of theirs."""
    run = tmp_path / "run"
    with served(Speaks(liar)) as server:
        play(rehearse, server, code, run)
    before = [(one.label, one.reward, one.step_rewards, one.findings) for one in verdicts(run)]
    json_of(rehearse, "judge", run, "--rewards", "sparse")
    assert [one.profile and one.profile.classification for one in verdicts(run)] == ["complete"] * 2
    json_of(rehearse, "judge", run, "--profile", "none", "--mode", "code", "--rewards", "awm")

    after = verdicts(run)
    assert [(one.label, one.reward, one.step_rewards, one.findings) for one in after] == before
    assert [one.profile for one in after] == [None, None]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("shop_support",), "profile: 'awm-release' plays worlds of Agent World Model, and"),
        ((NAME, "--awm", AWM, "--judge-model", "k"), "asks one judge's model, and 2 are named"),
        ((NAME, "--awm", AWM, "--dialect", "awm"), "has one of its own, not 'awm'"),
        ((NAME, "--awm", AWM, "--awm-code", "nowhere"), "agent.py: cannot be read"),
    ],
)
def test_what_cannot_be_played_is_one_sentence(
    rehearse: Rehearse, code: Path, arguments: tuple[object, ...], sentence: str
) -> None:
    """Before any request is sent, and without a run folder."""
    flags = ("--profile", "awm-release", "--judge-model", "j", "-m", "m")
    url = ("--base-url", "http://127.0.0.1:9/v1", "--awm-code", code)
    status, out, err = rehearse("run", *flags, *url, *arguments, "-o", "run")

    assert (status, out) == (2, "") or (status, out) == (1, "")
    assert sentence in err and len(err.strip().splitlines()) == 1
    assert not Path("run").exists()


@pytest.mark.slow  # a world is hosted in workers
def test_a_run_without_it_cannot_be_judged_with_it(
    rehearse: Rehearse, code: Path, tmp_path: Path
) -> None:
    """Its prompts and limits were others."""
    json_of(rehearse, "run", f"{NAME}:0", "--awm", AWM, "-p", "noop", "-o", tmp_path / "run")
    flags = ("--profile", "awm-release", "--awm-code", code, "-m", "j")
    status, _, err = rehearse("judge", tmp_path / "run", *flags)
    assert status != 0
    assert "was not played with profile 'awm-release'" in err
