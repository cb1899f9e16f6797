"""Models judge during the run: what waits for what, and what the agent can see."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.bus.local import LocalBus
from rehearsal_room.harness.core.events import EpisodeEnded, Judged, Label, Record
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log import writer
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.monitor import Monitor
from rehearsal_room.harness.rollout.plan import EpisodePlan, plan_of
from rehearsal_room.harness.rollout.running import Link
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.judge.verdicts.factory import open_judge
from tests.support.cli import Rehearse, json_of
from tests.support.judge_server import Slow, Speaks, Spoken, billed, good, text_of, verdict
from tests.support.judged_runs import (
    COMPLETED,
    Chosen,
    asked_about,
    judge,
    labels_of,
    no_environment,
    prices_of,
    records_of,
    served,
    verdicts_of,
)
from tests.support.mini_world import library as library_world
from tests.support.model_server import Behaviour, Completes, ModelServer, ReceivedRequest, Status
from tests.support.paths import LIBRARY
from tests.support.run_context import library

RIGHT = good(lambda _: COMPLETED)
NUM = 24
DEAD = Status(401, "no such key")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge is the test's server, whatever the environment names."""
    no_environment(monkeypatch)


class Watched:
    """The records in the order in which the log commits them. A link that is always ready."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.all_ended = asyncio.Event()
        self.most_behind = 0  # episodes that were over and had no verdict, at any time
        self.judged_before_the_last_end: int | None = None

    def put(self, batch: Sequence[tuple[int, Record]]) -> None:
        self.records += [record for _, record in batch]
        self.most_behind = max(self.most_behind, self.num(EpisodeEnded) - self.num(Judged))
        if self.num(EpisodeEnded) == NUM and not self.all_ended.is_set():
            self.judged_before_the_last_end = self.num(Judged)
            self.all_ended.set()

    async def wait_for_room(self) -> None:
        pass

    def num(self, kind: type) -> int:
        return sum(isinstance(record.event, kind) for record in self.records)

    def ended(self) -> set[str]:
        return {r.episode for r in self.records if isinstance(r.event, EpisodeEnded)}

    def link(self) -> Link:
        @asynccontextmanager
        async def link(position: int) -> AsyncIterator[Watched]:
            yield self

        return link


async def run_judged(
    folder: Path, server: ModelServer, watched: Watched, *, num_episodes: int = NUM, **flags: Any
) -> Monitor:
    """Run the oracle's episodes of the mini world with a judge that asks the server."""
    pool, dialect, scenario = LocalPool(), Native(), library()
    settings = JudgeSettings("hybrid", ("m",), base_url=server.url, **flags)
    async with open_judge(settings, pool=pool, scenarios=[scenario], folder=folder) as judge:
        parts = RunParts(
            pool=pool,
            policy=OraclePolicy(dialect),
            dialect=dialect,
            history=parse_history("full"),
            format=FormatSettings(),
            limits=Limits(),
            judge=judge,
            link=watched.link(),
        )
        return await run_session(
            folder, oracle_plans(num_episodes), parts, concurrency=8, meters=Meters()
        )


def oracle_plans(num_episodes: int) -> list[EpisodePlan]:
    tasks = [(library(), task) for task in library().tasks]
    return list(plan_of(tasks, episodes=num_episodes, group_size=1, seed=7))


@pytest.mark.parametrize("at_once", [4, NUM])
async def test_episodes_do_not_wait_for_a_slow_judge(tmp_path: Path, at_once: int) -> None:
    """A judge that gives no verdict before the last episode is over stops no episode; then every
    episode gets its verdict, and never more are waited for at once than the settings allow."""
    watched, answers = Watched(), asyncio.Event()

    async def answer() -> None:
        await watched.all_ended.wait()
        await server.in_flight_reaches(at_once)
        answers.set()

    async with (
        ModelServer(Slow(Speaks(RIGHT), after=answers)) as server,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(answer)
        monitor = await run_judged(tmp_path, server, watched, concurrency=at_once)

    assert monitor.labels == {"completed": NUM}
    assert watched.judged_before_the_last_end == 0
    assert watched.most_behind == NUM
    assert server.most_in_flight == at_once


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log and the bus can buffer almost nothing for the judge."""
    monkeypatch.setattr(writer, "CAPACITY", 4)
    monkeypatch.setattr(writer, "_MAX_ROWS", 3)
    defaults = LocalBus.subscribe.__wrapped__.__kwdefaults__  # type: ignore[attr-defined]
    monkeypatch.setitem(defaults, "depth", 1)


async def test_episodes_wait_when_the_backlog_is_full(tmp_path: Path, tiny: None) -> None:
    """With a backlog of one, and no room in the log or on the bus, episodes wait for the judge: at
    any time few are over and not judged, and at the end nothing is missing."""
    watched = Watched()
    async with ModelServer(Slow(Speaks(RIGHT), 0.03)) as server:
        monitor = await run_judged(tmp_path, server, watched, concurrency=1, backlog=1)

    assert watched.most_behind <= 8  # 4 here: one each at the judge, its queue, the bus, the log
    assert monitor.labels == {"completed": NUM}
    assert watched.records == records_of(tmp_path)


async def test_an_episode_is_judged_after_its_end(tmp_path: Path, tiny: None) -> None:
    """Each request is sent when the end of its episode is in the log, while other episodes run."""
    watched = Watched()
    over: list[tuple[str, set[str]]] = []

    def note(request: ReceivedRequest) -> Behaviour:
        over.append((text_of(request), watched.ended()))
        return Speaks(RIGHT)

    async with ModelServer(Chosen(note)) as server:
        await run_judged(tmp_path, server, watched, num_episodes=6, concurrency=1)
    questions = await asked_about(tmp_path, "hybrid")

    assert [text for text, _ in over] == list(dict.fromkeys(text for text, _ in over))
    assert {text for text, _ in over} == set(questions)
    assert all(ended.issuperset(questions[text].episodes) for text, ended in over)
    assert len(over[0][1]) < 6


SECRET = "The quality of mercy is not strained."


def plays_and_answers(request: ReceivedRequest) -> Behaviour:
    """An agent that looks a member up and answers."""
    if any(message["role"] == "tool" for message in request.body["messages"]):
        return Completes("Anna Soll owes nothing now.")
    return Completes(None, calls=(("c1", "find_member", json.dumps({"name": "Anna Soll"})),))


def test_nothing_of_judge_or_verifier_reaches_the_agent(rehearse: Rehearse, tmp_path: Path) -> None:
    """The requests of an agent, in episodes that run while earlier ones are judged, contain no
    finding, expectation, verdict, reward, rubric or text of the judge, and only the world's
    tools."""
    run = tmp_path / "run"
    secret_verdict = verdict("agent_error", reasoning=SECRET)
    judges, agents = Speaks(lambda _: Spoken(secret_verdict)), Chosen(plays_and_answers)
    with served(judges) as judge_server, served(agents) as agent_server:
        report = json_of(
            rehearse,
            *("run", f"{LIBRARY}:pay-fine", "-g", 6, "-c", 1, "-o", run, "--rewards", "graded"),
            *("-p", "openai", "-m", "agent", "--base-url", agent_server.url, "--judge", "hybrid"),
            *("--judge-model", "m", "--judge-base-url", judge_server.url),
        )
    sent = json.dumps([request.body for request in agent_server.requests], ensure_ascii=False)
    given = [judged for verdicts in verdicts_of(run, "hybrid:m").values() for judged in verdicts]

    assert (report["labels"], len(agent_server.requests)) == ({"agent_error": 6}, 12)
    words = {SECRET, *Label, "pay_fine:", "findings", "verdict", "rubric", "reward"}
    for judged in given:
        words |= {finding.name for finding in judged.findings}
        words |= {finding.expected for finding in judged.findings}
        words |= {judged.proof, judged.episode_digest}
    assert len(given) == 6
    assert [word for word in words if not word or word in sent] == []
    bodies = [request.body for request in agent_server.requests]
    tools = {tool["function"]["name"] for body in bodies for tool in body["tools"]}
    assert tools == {tool.name for tool in library_world().tools}


LIVE = ("--judge", "hybrid", "--judge-model", "m")


@pytest.mark.parametrize("mode", ["llm", "hybrid"])
def test_a_live_run_reports_the_cost_of_judging(
    rehearse: Rehearse, tmp_path: Path, mode: str
) -> None:
    """A run's report has the requests, tokens and cost of its verdicts; judging the run later sends
    no request and gives the same verdicts."""
    run, prices = tmp_path / "run", prices_of(tmp_path / "prices.toml", "m")
    with served(Speaks(billed(RIGHT, 1_000, 100))) as server:
        flags = (
            "--judge",
            mode,
            "--judge-model",
            "m",
            "--judge-base-url",
            server.url,
            "--judge-prices",
            prices,
        )
        report = json_of(rehearse, "run", LIBRARY, "-o", run, *flags)
        later = json_of(rehearse, "judge", run)

    assert len(server.requests) == 6
    assert report["judging"] == {
        "requests": 6,
        "prompt_tokens": 6_000,
        "cached_tokens": 0,
        "completion_tokens": 600,
        "cost_usd": pytest.approx(0.012),
    }
    assert report["usd_per_1024_episodes"] == pytest.approx(0.002 * 1024)
    assert (later["model_calls"], later["cached_judgements"]) == (0, 6)
    assert later["mean_reward"] == report["mean_reward"] == 1.0
    for live, logged in verdicts_of(run, f"{mode}:m").values():
        assert msgspec.structs.replace(
            live, judgements=(), cost_usd=0.0
        ) == msgspec.structs.replace(logged, judgements=())


def test_a_run_with_a_dead_judge_ends_well(rehearse: Rehearse, tmp_path: Path) -> None:
    """No judge answers: the episodes are run and logged, all are unjudged with the reason, exports
    for training contain no reward of them, and `--only unjudged` finishes the work."""
    run = tmp_path / "run"
    with served(DEAD) as server:
        flags = (*LIVE, "--judge-base-url", server.url)
        report = json_of(rehearse, "run", LIBRARY, "-o", run, *flags)
        episodes = exported(rehearse, run, tmp_path / "episodes.jsonl", "jsonl")
        chats = exported(rehearse, run, tmp_path / "chats.jsonl", "sft")
        server.default = Speaks(RIGHT)
        summary = judge(rehearse, run, server.url, "--only", "unjudged")

    assert (report["episodes"], report["unjudged"], report["labels"]) == (6, 6, {})
    assert report["mean_reward"] is None
    rewards = {(one["label"], one["reward"], len(one["step_rewards"])) for one in episodes}
    assert rewards == {(None, None, 0)}
    assert (len(episodes), chats) == (6, [])
    whys = {judged.unjudged for judged, _ in verdicts_of(run, "hybrid:m").values()}
    assert whys == {
        f"no judgement of model 'm' at {server.url}: status 401: no such key (after 1 attempt)"
    }
    assert (summary["unjudged"], summary["model_calls"]) == (0, 6)
    assert set(labels_of(run, "hybrid:m").values()) == {COMPLETED}


def exported(rehearse: Rehearse, folder: Path, path: Path, to: str) -> list[Any]:
    """The output of `rehearse export`."""
    status, _, err = rehearse("export", folder, "--to", to, "-o", path)
    assert status == 0, err
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_exhausted_budget_stops_no_episode(rehearse: Rehearse, tmp_path: Path) -> None:
    """When the judge's budget is exhausted, the rest is unjudged for that reason and the run
    continues."""
    run, prices = tmp_path / "run", prices_of(tmp_path / "prices.toml", "m")
    with served(Speaks(billed(RIGHT, 1_000, 100))) as server:
        flags = (*LIVE, "--judge-base-url", server.url, "--judge-prices", prices)
        budget = ("--judge-budget", 0.034, "--judge-concurrency", 1)
        report = json_of(rehearse, "run", LIBRARY, "-o", run, *flags, *budget)

    num_judged = report["labels"]["completed"]
    assert (report["episodes"], report["unjudged"]) == (6, 6 - num_judged)
    assert 0 < num_judged < 6
    assert report["judging"]["cost_usd"] == pytest.approx(0.002 * num_judged)
    whys = [judged.unjudged or "" for [judged] in verdicts_of(run, "hybrid:m").values()]
    exhausted = [why for why in whys if why.startswith("budget exhausted: ")]
    assert len(exhausted) == 6 - num_judged
    assert all("of 0.0340 USD spent or reserved" in why for why in exhausted)


def test_spending_before_a_crash_counts(rehearse: Rehearse, tmp_path: Path) -> None:
    """The budget of a resumed run is what the verdicts in its log have left of it."""
    run, prices = tmp_path / "run", prices_of(tmp_path / "prices.toml", "m")
    with served(Speaks(billed(RIGHT, 1_000, 100))) as server:
        flags = (*LIVE, "--judge-base-url", server.url, "--judge-prices", prices)
        json_of(rehearse, "run", LIBRARY, "-o", run, *flags)
        with closing(sqlite3.connect(run / LOG_NAME)) as log:  # as if 3 were not judged yet
            log.execute("DELETE FROM events WHERE kind = 'judged' AND episode > 'e000002'")
            log.commit()
        (run / "verdicts.sqlite").unlink()
        budget = ("--judge-budget", 0.032)  # 0.026 is left; a question may cost 0.028 to 0.03
        report = json_of(rehearse, "run", "-o", run, "--resume", *budget)

    assert len(server.requests) == 6
    assert (report["labels"], report["unjudged"]) == ({"completed": 3}, 3)
    assert report["judging"]["cost_usd"] == pytest.approx(0.006)
