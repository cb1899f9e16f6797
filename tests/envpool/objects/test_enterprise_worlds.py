"""EnterpriseOps-Gym's worlds by its own code, on a stub gym.

They need a checkout ($REHEARSE_ENTERPRISEOPS) and an interpreter with httpx and langchain-core
($REHEARSE_ENTERPRISEOPS_PYTHON).
"""

import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.types import Env
from rehearsal_room.envpool.objects.pool import ObjectPool
from rehearsal_room.envpool.objects.process import ProgramSettings
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.enterpriseops import AUDIT, CATEGORIES, EnterpriseOpsData
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags
from tests.suites.parity.enterprise.stub_gym import TOOLS, StubGym
from tests.suites.parity.enterprise.tasks import Made, tasks, write

CHECKOUT = os.environ.get("REHEARSE_ENTERPRISEOPS", "")
PYTHON = os.environ.get("REHEARSE_ENTERPRISEOPS_PYTHON", "")
pytestmark = [
    pytest.mark.skipif(
        not (CHECKOUT and PYTHON),
        reason="$REHEARSE_ENTERPRISEOPS and $REHEARSE_ENTERPRISEOPS_PYTHON name no checkout and "
        "interpreter",
    ),
    pytest.mark.slow,  # the checkout's own packages take seconds to load
]
_CLOSE = ("update_case", {"case_id": 1, "state": "closed"})


class Desk(NamedTuple):
    """A pool, its gyms, and the tasks by their number."""

    pool: ObjectPool
    gym: StubGym
    made: list[Made]
    scenarios: dict[str, Scenario]

    def of(self, number: int) -> Scenario:
        name = self.made[number].name
        return next(one for key, one in self.scenarios.items() if key.endswith(name))

    async def played(self, number: int, *calls: tuple[str, Any]) -> dict[str, Finding]:
        """The findings, by name, in a world after these calls."""
        scenario = self.of(number)
        async with self.pool.lease(scenario) as env:
            for at, (name, arguments) in enumerate(calls):
                await env.call(name, arguments, f"c{at}")
            return {one.name: one for one in await env.check(scenario.tasks[0], "")}


@contextmanager
def gyms(*, shared: bool = False) -> Iterator[tuple[StubGym, StubGym]]:
    with StubGym().served() as gym, StubGym(TOOLS[:1] if shared else None).served() as second:
        yield gym, second


@asynccontextmanager
async def desk(folder: Path) -> AsyncIterator[Desk]:
    with gyms() as (gym, second):
        made = tasks(gym.url, second.url)
        write(folder, made)
        data = EnterpriseOpsData(SuiteFlags(CHECKOUT, PYTHON, tasks=str(folder)))
        found = {one.name: one for name in CATEGORIES for one in data.scenarios(name)}
        async with ObjectPool(ProgramSettings("enterprise", data.options(), PYTHON)) as pool:
            yield Desk(pool, gym, made, found)
        assert not gym.databases
        assert not second.databases


def shares(findings: dict[str, Finding]) -> dict[str, float]:
    return {name: one.share for name, one in findings.items() if one.share is not None}


async def test_traps_of_upstream_are_kept(tmp_path: Path) -> None:
    """Equal names, verifiers of no server, none at all, unknown tools, equal tools of two servers,
    the form of results, and a text for a number are as upstream has them."""
    async with desk(tmp_path) as one:
        # (a) Of equal names only the last counts, and it is said.
        fails, passes = await one.played(2, _CLOSE), await one.played(3, _CLOSE)
        assert (shares(fails), shares(passes)) == ({"closed": 0.0}, {"closed": 1.0})
        equal = passes["verifiers of equal names, of which the last alone counts"]
        assert (equal.passed, equal.found) == (True, "'closed': 2")
        # (b) A verifier of no server is skipped; where none is left, nothing is reached.
        assert shares(await one.played(4, _CLOSE)) == {"closed": 1.0}
        assert shares(await one.played(5, _CLOSE)) == {"a verifier runs": 0.0}
        # (c) A call of an unknown tool is an error of the run, whatever else was done.
        unknown = await one.played(0, _CLOSE, ("drop_all", {}))
        assert shares(unknown) == {"every call names a tool": 0.0}
        # A tool that the gym has and the task does not select is executed.
        assert shares(await one.played(0, ("whoami", {}), _CLOSE)) == {"closed": 1.0}
        # (f) Of two servers' equal tools the first one's is called.
        assert shares(await one.played(19, _CLOSE)) == {"closed": 1.0, "second": 1.0}
        # (g) A result is the JSON of the whole MCP result; the context is in headers.
        async with one.pool.lease(one.of(3)) as env:
            text = (await env.call("whoami", {}, "a")).text
        user = '{\\"user\\": \\"ann@x.example\\", \\"team\\": \\"North\\"}'
        assert text == f'{{"content": [{{"type": "text", "text": "{user}"}}], "isError": false}}'
        # (h) The number 2 is not the text "2".
        assert shares(await one.played(6)) == {"priority": 0.0}
        # An unknown comparison, a broken query and an unknown type fail.
        assert shares(await one.played(10, _CLOSE)) == {"x": 0.0}
        assert shares(await one.played(11, _CLOSE)) == {"closed": 1.0, "y": 0.0}
        assert shares(await one.played(18, _CLOSE)) == {"closed": 1.0, "magic": 0.0}


async def test_the_last_result_is_the_answer_of_a_talk_that_was_stopped(tmp_path: Path) -> None:
    """(e) Where the limit of rounds ends a talk, a model is asked about the last result; where the
    agent ends it, about its words. Without a model, that verifier is left open."""
    async with desk(tmp_path) as one:
        scenario = one.of(17)
        task = scenario.tasks[0]
        async with one.pool.lease(scenario) as env:
            text = (await env.call(*_CLOSE, "a")).text
            findings = await env.check(task, "")
        assert [(each.name, each.is_open) for each in findings][1] == ("response", True)
        call = {"name": _CLOSE[0], "arguments": _CLOSE[1], "text": text, "error": None}
        stopped = [{"calls": [call], "text": None}]
        said = [*stopped, {"calls": [], "text": "It is closed."}]
        for talk, words in ((stopped, text), (said, "It is closed.")):
            ((system, user),) = await one.pool.questions(scenario, task, talk)
            assert system["content"].startswith("You are an AI judge")
            assert f"AI Assistant Response:\n{words}\n\n" in user["content"]
            # Nothing follows on an answer: else a judge would ask, and pay, for ever.
            assert await one.pool.questions(scenario, task, talk, ['{"score": 7}']) == []
        for score, met in ((7, 1.0), (6, 0.0), ("ten", 0.0)):
            answers = [f'{{"score": {score}}}']
            found = await one.pool.score(scenario, task, said, answers)
            assert {each.name: each.share for each in found if each.share is not None} == {
                "closed": 1.0,
                "response": met,
            }


async def test_changes_that_no_verifier_asks_about_are_said(tmp_path: Path) -> None:
    """An agent that does its task and changes another row passes; the audit names the row."""
    async with desk(tmp_path) as one:
        clean = await one.played(0, _CLOSE)
        assert clean[AUDIT].found == "none of 1 changed rows"
        harm = await one.played(
            0, _CLOSE, ("delete_case", {"case_id": 2}), ("add_note", {"case_id": 1, "text": "x"})
        )
        assert shares(harm) == {"closed": 1.0}
        assert harm[AUDIT].passed
        assert harm[AUDIT].found == "2 of 3 changed rows: cases 2 (deleted), notes 2 (created)"


async def test_lazy_agents_are_not_paid(tmp_path: Path) -> None:
    """Silence meets one task of twenty, whose verifier it does not violate; reading everything,
    making one change everywhere, or closing all cases meets few, and the audit says so."""
    async with desk(tmp_path) as one:
        lazy: dict[str, tuple[tuple[str, Any], ...]] = {
            "silent": (),
            "reads": (("list_cases", {}), ("find_case", {"case_id": 1})),
            "closes all": tuple(
                [("update_case", {"case_id": at, "state": "closed"}) for at in (1, 2, 3)]
            ),
        }
        solved = {}
        for name, calls in lazy.items():
            found = [await one.played(number, *calls) for number in range(20)]
            solved[name] = (
                sum(all(map(bool, shares(each).values())) for each in found),
                sum(
                    each[AUDIT].found.startswith(("1", "2", "3")) for each in found if AUDIT in each
                ),
            )
        assert solved == {"silent": (1, 0), "reads": (1, 0), "closes all": (9, 18)}


@pytest.mark.timeout(900)
async def test_a_run_a_fork_and_a_replay_are_alike(tmp_path: Path) -> None:
    """200 sequences of calls: a straight run, a fork that goes on in its middle with the same
    calls, and a replay have equal texts and digests; findings from log and world are equal."""
    rng = Random(40)
    async with desk(tmp_path) as one:
        scenario = one.of(0)
        for _ in range(200):
            calls = [_random_call(rng) for _ in range(rng.randint(1, 6))]
            middle = rng.randint(0, len(calls))
            async with one.pool.lease(scenario) as env:
                before = await _made(env, calls[:middle], "a")
                async with _forked(env) as fork:
                    straight = before + await _made(env, calls[middle:], "b")
                    forked = before + await _made(fork, calls[middle:], "c")
                live = await env.check(scenario.tasks[0], "")
                env.reset()
                again = await _made(env, calls, "d")
            assert straight == forked == again
            talk = [
                {"calls": [{"name": name, "arguments": given, "text": text}], "text": None}
                for (name, given), (text, _) in zip(calls, straight, strict=True)
            ]
            logged = await one.pool.score(scenario, scenario.tasks[0], talk)
            assert [each for each in logged if each.name != "calls repeated"] == list(live)
            assert logged[-1].found == "alike"


@asynccontextmanager
async def _forked(env: Env) -> AsyncIterator[Env]:
    yield env.fork()


async def _made(env: Env, calls: list[tuple[str, Any]], mark: str) -> list[tuple[str, str]]:
    found = []
    for at, (name, arguments) in enumerate(calls):
        result = await env.call(name, arguments, f"{mark}{at}")
        found.append((result.text, result.digest))
    return found


def _random_call(rng: Random) -> tuple[str, Any]:
    id = rng.randint(1, 5)
    return rng.choice(
        [
            ("update_case", {"case_id": id, "state": rng.choice(["open", "closed"])}),
            ("create_case", {"title": f"T{id}", "user_id": 1}),
            ("delete_case", {"case_id": id}),
            ("add_note", {"case_id": id, "text": "n"}),
            ("find_case", {"case_id": id}),
            ("find_case", {}),
        ]
    )


async def test_what_is_missing_is_one_sentence(tmp_path: Path) -> None:
    """A gym that is down, a missing seed, a gym that goes away in the middle, and an interpreter
    without the packages are one sentence each."""
    async with desk(tmp_path) as one:
        scenario = one.of(0)
        seed = tmp_path / "dbs" / "desk.sql"
        moved = seed.rename(seed.with_suffix(".away"))
        with pytest.raises(
            PoolError, match=r"no seed_database_file 'dbs/desk\.sql'.*unzip gym_dbs"
        ):
            await one.pool.host(scenario)
        moved.rename(seed)
        async with one.pool.lease(scenario) as env:
            await env.call(*_CLOSE, "a")
            one.gym.databases.popitem()[1].close()
            # A server that answers with an error is the engine's business, as upstream.
            assert (await env.call("find_case", {"case_id": 1}, "b")).error == "refused"
            one.gym.databases.clear()
    write(tmp_path / "down", tasks("http://127.0.0.1:9"))
    data = EnterpriseOpsData(SuiteFlags(CHECKOUT, PYTHON, tasks=str(tmp_path / "down")))
    settings = ProgramSettings("enterprise", data.options(), PYTHON)
    async with ObjectPool(settings) as pool:
        with pytest.raises(
            PoolError, match=r"desk at http://127\.0\.0\.1:9\): start its container"
        ):
            await pool.host(data.scenarios("oracle")[0])
    async with ObjectPool(ProgramSettings("enterprise", data.options())) as pool:
        with pytest.raises(PoolError, match="pip install httpx langchain-core"):
            await pool.host(data.scenarios("oracle")[0])


async def test_a_world_that_is_lost_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    """Where a gym stops answering, a call and the verifiers break the world."""
    with StubGym().served() as gym:
        write(tmp_path, tasks(gym.url))
        data = EnterpriseOpsData(SuiteFlags(CHECKOUT, PYTHON, tasks=str(tmp_path)))
        scenario = data.scenarios("oracle")[0]
        pool = ObjectPool(ProgramSettings("enterprise", data.options(), PYTHON))
        async with pool, pool.lease(scenario) as env:
            await env.call(*_CLOSE, "a")
            gym.stop()
            with pytest.raises(WorldError, match="desk did not answer a call of find_case"):
                await env.call("find_case", {"case_id": 1}, "b")
            with pytest.raises(WorldError, match="could not be checked"):
                await env.check(scenario.tasks[0], "")
            env.reset()
            with pytest.raises(WorldError, match=r"could not make a database.*its container"):
                await env.call(*_CLOSE, "c")


async def test_worlds_of_a_task_share_a_connection(tmp_path: Path) -> None:
    """As upstream's runs of a task do: one after the other has the connection of the one before,
    worlds that live together have one each, and where a gym has forgotten a session, a new one."""
    async with desk(tmp_path) as one:
        one.gym.session = "first"
        scenario = one.of(0)

        async def closed(env: Env) -> bool:
            result = await env.call(*_CLOSE, "a")
            return result.error is None and "closed" in result.text

        async with one.pool.lease(scenario) as env:
            for _ in range(3):
                assert await closed(env)
                env.reset()
            assert one.gym.counts["initialize"] == 1
            async with one.pool.lease(scenario) as other:
                assert await closed(other)
                assert await closed(env)
                assert one.gym.counts["initialize"] == 2
        assert not one.gym.databases
        one.gym.session = "second"
        async with one.pool.lease(scenario) as env:
            assert await closed(env)
        assert one.gym.counts["initialize"] == 3


async def test_how_long_a_reset_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints what a new world costs up to the result of its first call, and what a second call
    costs; it seeds one database."""
    async with desk(tmp_path) as one:
        times: dict[str, list[float]] = {"new world and call": [], "call": []}
        async with one.pool.lease(one.of(0)) as env:
            for at in range(20):
                env.reset()
                for name, taken in times.items():
                    began = time.perf_counter()
                    await env.call("find_case", {"case_id": 1}, f"{name} {at}")
                    taken.append(time.perf_counter() - began)
        assert one.gym.counts["/api/seed-database"] == 21
        with capsys.disabled():
            for name, taken in times.items():
                sys.stdout.write(f"\n{name}: median {1000 * sorted(taken)[10]:.1f} ms")
