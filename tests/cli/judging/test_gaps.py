"""Runs in which episodes have no verdict, or in which one's own agent raised: what `promote` says.

Requests go to a server of Python's own library."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rehearsal_room.harness.agents.agent_env import AgentEnv, TaskView
from rehearsal_room.harness.library import Rehearsal
from rehearsal_room.harness.library import rehearse as play
from rehearsal_room.judge.verdicts.code_judges import ScenarioJudges
from rehearsal_room.scenarios.catalogue import find
from tests.support.cli import Rehearse, json_of
from tests.support.judged_runs import no_environment

GATE = """
[[stage]]
name = "s"
criteria = ["%s"]
"""
ANSWER = (
    b'{"id": "x", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "message":'
    b' {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}]}'
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def gate_of(folder: Path, criterion: str) -> Path:
    path = folder / "gate.toml"
    path.write_text(GATE % criterion)
    return path


@contextmanager
def failing_server(num_failures: int) -> Iterator[str]:
    """A server that answers the first requests with status 500 and all others with "Done."."""
    left = [num_failures]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            left[0] -= 1
            body = b"out of memory" if left[0] >= 0 else ANSWER
            self.send_response(500 if left[0] >= 0 else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


async def rehearsed(folder: Path, *, raising: int) -> Rehearsal:
    """A run of an agent that knows all 45 tasks of a world and raises on so many of them."""
    world = find("shop_support")
    alone = [task for task in world.tasks if not task.is_dialogue]  # a dialogue begins like one
    tasks = {task.instruction: (number, task) for number, task in enumerate(alone)}

    async def agent(task: TaskView, env: AgentEnv) -> str:
        number, solution = tasks[task.instruction]
        if number < raising:
            raise KeyError("order")
        for call in solution.oracle:
            await env.call(call.name, call.arguments)
        return solution.answer

    return await play(agent, ["shop_support"], folder, judge=ScenarioJudges)


async def test_an_agent_that_raises_is_not_promoted(tmp_path: Path, rehearse: Rehearse) -> None:
    """17 of 45 tasks on which it raises are failures: the rate is at most 28 of 45, and a gate of
    80 % fails."""
    report = await rehearsed(tmp_path / "run", raising=17)
    assert report.episodes == 45
    assert report.pass_rate == pytest.approx(28 / 45)
    assert report.pass_bounds == pytest.approx((28 / 45, 28 / 45))
    status, out, _ = rehearse("promote", gate_of(tmp_path, "completed.lower >= 0.8"), report.folder)
    assert (status, "fail: stage" in out) == (1, True)
    unjudged = await play(_raises, ["shop_support"], tmp_path / "unjudged", judge=None)
    assert (unjudged.pass_rate, unjudged.pass_bounds) == (0.0, (0.0, 0.0))


async def _raises(task: TaskView, env: AgentEnv) -> str:
    raise KeyError("order")


@pytest.mark.parametrize(
    "criterion",
    [
        "completed.lower >= 0.0",
        "completed.upper <= 1.0",
        "completed >= 0.0",
        "agent_error.lower >= 0.0",
        "mean_reward.lower >= -1",
        "pass^1.lower >= 0.0",
        "p95_calls <= 20",
        "regression.vs(base) >= -1",
    ],
)
def test_nothing_is_decided_on_an_outage(
    tmp_path: Path, rehearse: Rehearse, run_with_outage: Path, criterion: str
) -> None:
    """12 of 45 episodes whose server answered with 500: inconclusive, whatever is asked."""
    gate = gate_of(tmp_path, criterion)
    against = ("--against", run_with_outage) if "base" in criterion else ()
    status, out, _ = rehearse("promote", gate, run_with_outage, *against)
    assert status == 3, out
    assert "12 of 45 episodes have no verdict (more than 2%)" in out


def test_a_model_that_is_named_plays(
    tmp_path: Path, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`-m` and `--base-url` need no `-p`: today's default, the oracle, does not play for them; and
    every summary says who played."""
    no_environment(monkeypatch)
    with failing_server(0) as url:
        asked = ("shop_support", "-m", "m", "--base-url", url, "--no-preflight", "-n", 4)
        report = json_of(rehearse, "run", *asked, "-o", tmp_path / "run")
        assert (report["policy"], report["pass_rate"] < 1) == ("openai:m", True)
        assert "played by openai:m" in rehearse("show", tmp_path / "run")[1]
        assert json_of(rehearse, "bench", *asked)["played_by"] == "openai:m"
        status, _, err = rehearse("run", "shop_support", "--base-url", url)
        assert (status, err.count("name one: --model NAME")) == (2, 1)
    report_of_oracle = rehearse("run", "shop_support", "-n", 2, "-o", tmp_path / "oracle")[1]
    assert "played by oracle (no model)" in report_of_oracle


def test_a_judge_that_gives_no_verdict_fails(
    tmp_path: Path, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models that were asked about all episodes and judged none: status 1, as for `run`."""
    no_environment(monkeypatch)
    run = tmp_path / "run"
    assert rehearse("run", "shop_support", "-p", "mutant", "-n", 3, "-o", run)[0] == 0
    with failing_server(0) as url:
        asked = ("judge", run, "--mode", "llm", "--judge-model", "m", "--base-url", url)
        status, out, err = rehearse(*asked, "--attempts", 1)
    assert status == 1, (out, err)
    assert "3 unjudged" in out or "unjudged" in out


def test_the_kinds_of_an_outage_are_known(
    tmp_path: Path, rehearse: Rehearse, run_with_outage: Path
) -> None:
    """That the model failed in 12 of 45 is known without a verdict, so it can be decided on."""
    gate = gate_of(tmp_path, "model_failure.upper <= 0.1")
    status, out, _ = rehearse("promote", gate, run_with_outage)
    assert (status, "without a verdict" in out) == (1, False)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run that the first test plays."""
    return tmp_path_factory.mktemp("outage") / "run"


@pytest.fixture
def run_with_outage(rehearse: Rehearse, played: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of 45 episodes whose model server answered the first 12 with status 500."""
    no_environment(monkeypatch)
    if not played.exists():
        with failing_server(12) as url:
            model = ("-p", "openai", "-m", "m", "--base-url", url, "--max-attempts", 1)
            asked = ("run", "shop_support", *model, "--no-preflight", "-c", 1, "-o", played)
            status, out, err = rehearse(*asked)
        assert status == 1, err  # above a tenth of model failures
        assert "33 judged of 45; 12 model failures: status 500" in out
    return played
