"""A model server's bad day, as the user of `run` and `bench` sees it."""

import asyncio
import json
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.log.reader import open_reader
from tests.support.cli import Rehearse
from tests.support.judged_runs import no_environment, served
from tests.support.model_server import Completes, ReceivedRequest, Status


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_environment(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


class Answers:
    """Answers the first requests, and refuses or cuts all later ones."""

    def __init__(self, number: int, later: Any) -> None:
        self.left = number
        self._later = later

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        self.left -= 1
        behaviour = Completes("I cannot help.") if self.left >= 0 else self._later
        return bool(await behaviour.perform(request, writer))


def run_of(url: str, *more: object) -> tuple[object, ...]:
    model = ("-p", "openai", "-m", "m", "--base-url", url, "--max-attempts", 1)
    return ("run", "shop_support", *model, "-n", 20, "-c", 1, "-o", "r", *more)


def attempts_of(folder: Path) -> Counter[tuple[int, Ending | None]]:
    with open_reader(folder) as reader:
        return Counter((row.attempt, row.ending) for row in reader.episodes())


def free_url() -> str:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{bound.getsockname()[1]}/v1"


@pytest.mark.slow
def test_a_run_without_its_model_claims_nothing(rehearse: Rehearse) -> None:
    """Where the model failed in most episodes, the headline says so in place of a pass rate, the
    exit status is 1, and --resume plays exactly those episodes again."""
    with served(Answers(4, Status(500, "out of memory"))) as server:
        status, out, err = rehearse(*run_of(server.url, "--json", "r.json"))
        assert (status, "error" in err) == (1, False)
        headline = "4 judged of 20; 16 model failures: status 500: out of memory"
        assert headline in out.splitlines()
        assert "pass rate" not in out
        report = json.loads(Path("r.json").read_bytes())
        assert report["model_failures"] == 16
        assert report["model_failure_causes"] == {"status 500: out of memory": 16}
        assert attempts_of(Path("r")) == {(1, Ending.ANSWERED): 4, (1, Ending.POLICY_ERROR): 16}

        server.default = Completes("I cannot help.")
        status, out, err = rehearse("run", "-o", "r", "--resume")
        assert (status, err.count("Error")) == (0, 0)
        assert "pass rate" in out and "model failure" not in out
    assert attempts_of(Path("r")) == {(1, Ending.ANSWERED): 4, (2, Ending.ANSWERED): 16}


def test_a_few_failures_are_named_beside_the_pass_rate(rehearse: Rehearse) -> None:
    """Up to a tenth of the episodes may lack their model: the rate is then one of the judged."""
    with served(Answers(18, Status(500, "busy"))) as server:
        status, out, _ = rehearse(*run_of(server.url))
    assert status == 0
    [line] = [line for line in out.splitlines() if " judged of " in line]
    assert line.startswith("18 judged of 20; 2 model failures: status 500: busy; pass rate 0.")
    assert line.endswith(" of the judged")


@pytest.mark.slow
def test_an_outage_stops_the_run_which_can_be_resumed(rehearse: Rehearse) -> None:
    """When the server goes away in the middle, the run stops with one sentence that has the cause
    and the command that continues; that command finishes the run."""

    class Leaves(Answers):
        """Closes its server after some answers."""

        async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
            stays = await super().perform(request, writer)
            if self.left == 0:
                server.stop()
            return stays

    leaves = Leaves(6, Status(500))
    with served(leaves) as server:
        status, out, err = rehearse(
            *run_of(server.url, "--max-connection-failures", 2, "--max-attempts", 9)
        )
        url = server.url
    assert status == 1
    *_, sentence = err.splitlines()
    assert sentence == (
        f"error: model 'm' at {url}: 2 connection failures in a row (connection refused): the run"
        " was stopped; to continue: rehearse run -o r --resume"
    )
    assert "Traceback" not in err
    assert "pass rate" in out
    with served(Completes("I cannot help.")) as server:
        status, out, err = rehearse("run", "-o", "r", "--resume", "--base-url", server.url)
    assert status == 0, err
    assert sum(attempts_of(Path("r")).values()) == 20
    assert {ending for _, ending in attempts_of(Path("r"))} == {Ending.ANSWERED}


def test_a_run_begins_with_one_question_to_its_server(rehearse: Rehearse) -> None:
    """A wrong URL costs one sentence and no folder; a run with nothing left asks no server;
    --no-preflight asks only what the episodes ask."""
    status, _, err = rehearse(*run_of(url := free_url()))
    assert (status, Path("r").exists()) == (2, False)
    assert err == (
        f"error: model 'm' at {url}: no server answers (connection refused); start it, or correct"
        " the URL\n"
    )
    with served(Completes("I cannot help.")) as server:
        assert rehearse(*run_of(server.url))[0] == 0
        assert server.num_listings == 1
        assert rehearse(*run_of(server.url, "-o", "s", "--no-preflight"))[0] == 0
        assert server.num_listings == 1
    status, _, err = rehearse("run", "-o", "r", "--resume", "--base-url", free_url())
    assert status == 0, err


def test_a_judging_model_is_asked_before_the_episodes(rehearse: Rehearse) -> None:
    """A judge's model that cannot be reached stops the run before its first episode."""
    judge = ("--judge", "llm", "--judge-model", "j", "--judge-base-url", url := free_url())
    status, _, err = rehearse("run", "shop_support", "-n", 2, *judge, "-o", "r")
    assert (status, Path("r").exists()) == (2, False)
    assert f"model 'j' at {url}: no server answers (connection refused)" in err


def test_a_benchmark_without_its_model_fails(rehearse: Rehearse) -> None:
    """`bench` ends with exit status 1, too, and shows failures in place of a pass rate."""
    with served(Status(500, "out of memory")) as server:
        model = ("-p", "openai", "-m", "m", "--base-url", server.url, "--max-attempts", 1)
        status, out, _ = rehearse("bench", "shop_support", *model, "-n", 4, "--json", "b.json")
    assert status == 1
    assert "pass rate" not in out
    assert "model failures  4: status 500: out of memory" in " ".join(out.split(" "))
    report = json.loads(Path("b.json").read_bytes())
    assert (report["model_failures"], report["endings"]) == (4, {"policy_error": 4})


def test_a_withheld_reply_is_no_model_failure(rehearse: Rehearse) -> None:
    """Episodes that a content filter ended are counted apart, and the run does not fail."""
    with served(Completes(None, finish="content_filter")) as server:
        status, out, _ = rehearse(*run_of(server.url))
    report = json.loads(Path("r/report.json").read_bytes())
    assert (status, report["model_failures"]) == (0, 0)
    assert report["endings"] == {"model_refused": report["model_refusals"]}
    assert "refused by the provider" in out
