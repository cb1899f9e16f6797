"""Runs with adaptive admission, on a real server with a hidden capacity."""

import asyncio
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Rehearse, json_of
from tests.support.judged_runs import no_environment, served
from tests.support.model_server import Completes, ModelServer, ReceivedRequest, Status, response
from tests.support.paths import LIBRARY

CAPACITY = 5
EPISODES, CALLS = 40, 3
METRICS = "vllm:num_requests_running {}\nvllm:num_requests_waiting {}\n"


class HiddenCapacity:
    """Refuses what comes while CAPACITY requests are answered; an episode makes CALLS calls."""

    def __init__(self, *, refuses: bool = True, metrics: bool = False) -> None:
        self._refuses, self._metrics = refuses, metrics
        self._there = self._most = 0  # requests now, and the most since the metrics were read
        self.num_refused = self.num_read = 0

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        if request.path == "/metrics":
            return self._show_metrics(writer)
        if self._refuses and self._there >= CAPACITY:
            self.num_refused += 1
            return await Status(429, headers={"retry-after-ms": "40"}).perform(request, writer)
        self._there += 1
        self._most = max(self._most, self._there)
        try:
            await asyncio.sleep(0.02)
        finally:
            self._there -= 1
        turn = sum(message["role"] == "tool" for message in request.body["messages"])
        calls = ((f"c{turn}", "list_overdue", "{}"),) if turn < CALLS else ()
        return (
            await Completes("", calls).perform(request, writer)
            if calls
            else await Completes("Done.").perform(request, writer)
        )

    def _show_metrics(self, writer: asyncio.StreamWriter) -> bool:
        self.num_read += 1
        if not self._metrics:
            writer.write(response(404, b"{}"))
            return True
        waiting = max(0, self._most - CAPACITY)
        writer.write(response(200, METRICS.format(self._most - waiting, waiting).encode()))
        self._most = self._there
        return True


def run_of(server: ModelServer, folder: Path) -> tuple[object, ...]:
    """The arguments of a run on the server."""
    return (
        *(LIBRARY, "-p", "openai", "-m", "m", "--base-url", server.url, "-n", EPISODES),
        *("-o", folder, "--time-limit", 60),
    )


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_every_episode_ends(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """On a server that refuses what is above its capacity, every episode is answered, none is
    cancelled or fails because it waited; those above the limit were paused, which the profile
    counts as waiting for admission, and the report names limit and reason."""
    no_environment(monkeypatch)
    behaviour = HiddenCapacity()
    with served(behaviour) as server:
        run = run_of(server, tmp_path / "run")
        report = json_of(rehearse, "bench", *run, "--processes", processes)
    assert report["endings"] == {"answered": EPISODES}
    assert (report["steps"], report["model"]["failed"]) == (EPISODES * (CALLS + 1), 0)
    assert behaviour.num_refused > 0
    admission = report["admission"]
    assert admission["adaptive"]
    assert 1 <= admission["settled"] < 16
    assert "refused" in admission["reason"]
    assert report["max_live"] >= 16 > admission["settled"]
    profile = json_of(rehearse, "show", "profile", tmp_path / "run")
    assert profile["stages"]["admission"]["seconds"] > 0


def test_a_number_stays_a_number(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a number, so many episodes run at once, and no metrics are asked for."""
    no_environment(monkeypatch)
    behaviour = HiddenCapacity(refuses=False)
    with served(behaviour) as server:
        report = json_of(rehearse, "bench", *run_of(server, tmp_path / "run"), "-c", 7)
        assert server.most_in_flight == 7
    assert report["admission"]["settled"] == report["concurrency"] == 7
    assert (report["admission"]["adaptive"], behaviour.num_read) == (False, 0)


@pytest.mark.slow
def test_a_run_is_resumed_with_auto(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """run.toml has `auto`, which a resumed run keeps; the resumed run may have a number instead."""
    no_environment(monkeypatch)
    folder = tmp_path / "run"
    capacity = HiddenCapacity()
    with served(capacity) as server:
        # The first request is answered, three episodes fail, and are played again.
        server.plan(capacity, *[Status(400)] * 3)
        status, _, err = rehearse("run", *run_of(server, folder))
        assert status == 0, err
        saved = tomllib.loads((folder / "run.toml").read_text())
        assert saved["concurrency"] == "auto"
        resumed = json_of(rehearse, "run", "-o", folder, "--resume")
        assert resumed["endings"] == {"answered": EPISODES}
        assert rehearse("run", "-o", folder, "--resume", "-c", 3)[0] == 0


def test_metrics_are_read(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's metrics are asked for beside its API, once a second."""
    no_environment(monkeypatch)
    monkeypatch.setattr("rehearsal_room.harness.admission.poller.EVERY_S", 0.05)
    behaviour = HiddenCapacity(refuses=False, metrics=True)
    with served(behaviour) as server:
        report: Any = json_of(rehearse, "bench", *run_of(server, tmp_path / "run"))
    assert behaviour.num_read >= 3
    assert report["endings"] == {"answered": EPISODES}
    assert "wait at the server" in report["admission"]["reason"]
    json.dumps(report)


@pytest.mark.slow
def test_the_display_shows_the_limit(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of progress have the number of episodes at once."""
    no_environment(monkeypatch)
    monkeypatch.setattr("rehearsal_room.harness.rollout.monitor._LINE_INTERVAL", 0.1)
    with served(HiddenCapacity()) as server:
        _, _, err = rehearse("run", *run_of(server, tmp_path / "run"))
    assert " at once" in err
