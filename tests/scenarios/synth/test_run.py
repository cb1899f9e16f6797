"""Whole syntheses against a scripted model server: real HTTP, real workers."""

import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.authoring.synthesize import SynthesisOptions, run_synthesis
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.workers.pool import WorkerSettings
from rehearsal_room.scenarios.awm.folder import AwmFolder
from rehearsal_room.scenarios.errors import SynthesisError, ToolError
from rehearsal_room.scenarios.format import Call, read
from rehearsal_room.scenarios.synth.report import SynthesisReport
from rehearsal_room.scenarios.synth.storage.output_folder import SynthesisFolder
from tests.support.budgets import repeats
from tests.support.model_server import ModelServer, Status
from tests.support.synth_faults import DEAD, FAULTY, HIDDEN, HOPELESS, SOLUTIONS
from tests.support.synth_server import Writes
from tests.support.synth_worlds import (
    BERTHS,
    BIKES,
    CODE,
    LENSES,
    ROBES,
    TASKS,
    VERIFIERS,
    WORLDS,
    Words,
    code_block,
    data,
    put,
    tasks_answer,
)
from tests.support.synth_worlds import SOLUTIONS as ACCEPTED

pytestmark = pytest.mark.usefixtures("kept_fork_servers")
ENDED = "ended its worker: it ran longer than 1 s"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def asked(tmp_path: Path, url: str, *trades: Words, **more: Any) -> SynthesisOptions:
    """The settings of a synthesis of these trades' worlds."""
    seeds = tmp_path / "seeds.jsonl"
    rows = [{"name": words.name, "description": words.description} for words in trades]
    seeds.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields: dict[str, Any] = {"tasks": 3, "workers": 1, "base_url": url, "attempts": 1}
    return SynthesisOptions("m", str(seeds), str(tmp_path / "out"), **(fields | more))


async def synthesised(settings: SynthesisOptions) -> SynthesisReport:
    """Run a synthesis; return its report."""
    return await run_synthesis(settings, lambda *_: None)


def faults_of(folder: Path, world: str, stage: str) -> list[str]:
    """The beginning of the first fault of each answer of a stage."""
    record = SynthesisFolder(folder).record(world, stage)
    assert record is not None
    return [a.faults[0][:50].partition("(")[0].strip() if a.faults else "" for a in record.attempts]


@pytest.mark.slow
async def test_several_worlds_are_written_and_proved(tmp_path: Path) -> None:
    """With good answers each stage is valid at once, and the packages are as written. Another model
    makes every step of the solver, and nothing else. (`just test-long` writes all four worlds.)"""
    trades = WORLDS[: repeats(short=2, long=4)]
    num = len(trades)
    async with ModelServer(Writes()) as server:
        report = await synthesised(asked(tmp_path, server.url, *trades, solver="s"))
        models = {(each.body["model"], "tools" in each.body) for each in server.requests}
    assert report.ok
    assert models == {("m", False), ("s", True)}
    assert (report.worlds, report.tasks, report.tools) == (num, 3 * num, 5 * num)
    assert (report.mutants_caught, report.dead_tools) == (report.mutants, ())
    assert report.mutants == 14 * num
    figures = {stage.stage: (stage.subjects, stage.first_try) for stage in report.stages}
    stages = dict.fromkeys(("tasks", "schema", "data", "tools", "code"), (num, 1.0))
    others = dict.fromkeys(("classify", "invent", "embed", "solve"), (0, None))
    assert figures == {**stages, **others, "verify": (3 * num, 1.0)}
    assert report.sizes["rows"].median == 9.0
    assert (
        msgspec.json.decode((tmp_path / "out/report.json").read_bytes(), type=SynthesisReport)
        == report
    )
    worlds = [read(path) for path in sorted((tmp_path / "out/worlds").iterdir())]
    assert [world.name for world in worlds] == sorted(words.key for words in trades)
    [bikes] = (world for world in worlds if world.name == BIKES.key)
    lend = bikes.task("lend")
    assert [call.name for call in lend.oracle] == ["find_riders", "find_bike", "start_hire"]
    assert lend.difficulty == "medium"  # without the failed call
    whole = {name: put(BIKES, answer) for name, (_, answer) in ACCEPTED.items()}
    assert {task.id: task.answer for task in bikes.tasks} == {
        **whole,
        "who": "Her address is mia@example.com.",  # a mutant survived in the other sentence
    }
    assert not (tmp_path / "out/.drafts").exists()


@pytest.mark.slow
async def test_the_known_faults_are_sent_back_and_corrected(tmp_path: Path) -> None:
    """Each known fault of AWM's data is sent back with its reason; a task that cannot be proved is
    dropped with the evidence, and no code of the model is executed in this process."""
    async with ModelServer(Writes(FAULTY, solutions=SOLUTIONS)) as server:
        report = await synthesised(asked(tmp_path, server.url, BIKES, tasks=6))
    out = tmp_path / "out"
    stages = ("tasks", "schema", "data", "tools", "code")
    proofs = ("lend", "who", "blocked", "repaired", "ghost")
    faults = {stage: faults_of(out, BIKES.key, stage) for stage in stages}
    faults |= {task: faults_of(out, BIKES.key, f"verify-{task}") for task in proofs}
    assert faults == {
        "tasks": ["there is no JSON in the answer", ""],
        "schema": [
            'schema statement 1: near "name": syntax error in:',
            "table riders: no column for a password",
            "",
        ],
        "data": [
            'data statement 4: near "Dea": syntax error in: INS',
            "data statement 7: FOREIGN KEY constraint failed in",
            "",
        ],
        "tools": ["tool find_riders: there is no table 'people'", ""],
        "code": [
            "line 52: now",
            "start_hire",
            "no call of it succeeded: find_bike",
            "",
        ],
        "lend": [
            "the untouched world with an empty answer is accept",
            "on the untouched world: verifier 'lend' of scenari",
            "a solver tried, and the verifier does not accept i",
            "1 of 7 mistaken solutions are accepted",
            "",
        ],
        "who": ["on the untouched world: verifier 'who' of scenario", ""],
        "blocked": [""],
        "repaired": ["the untouched world with an empty answer is accept", ""],
        "ghost": ["a solver tried, and the verifier does not accept i", ""],
    }
    broken = SynthesisFolder(out).record(BIKES.key, "code")
    assert broken is not None
    assert "FOREIGN KEY constraint failed" in broken.attempts[1].faults[0]
    assert [(each.world, each.task) for each in report.dropped] == [(BIKES.key, "stubborn")]
    assert 'start_hire({"rider_id":4,"bike_id":1' in report.dropped[0].why
    world = read(out / "worlds" / BIKES.key)
    assert [task.id for task in world.tasks] == list(proofs)
    assert world.task("repaired").instruction.startswith("Mia O'Dea (mia@example.com)")
    assert report.ok
    assert not hasattr(ToolError, "executed")


@pytest.mark.slow
async def test_a_failed_scenario_does_not_stop_the_others(tmp_path: Path) -> None:
    """Its best answer and the faults stay on disk; `again` repeats it, and nothing else."""
    async with ModelServer(Writes(HOPELESS)) as server:
        settings = asked(tmp_path, server.url, ROBES, BERTHS)
        report = await synthesised(settings)
        record = SynthesisFolder(tmp_path / "out").record(ROBES.key, "schema")
        server.default = Writes()
        unchanged = await synthesised(settings)
        asked_before = len(server.requests)
        repeated = await synthesised(msgspec.structs.replace(settings, again=True))
        asked_again = len(server.requests) - asked_before
    assert [(each.world, each.stage) for each in report.failed] == [(ROBES.key, "schema")]
    why = "none of 5 answers was valid; schema statement 1: "
    assert report.failed[0].why.startswith(why)
    assert (report.worlds, report.ok) == (1, False)
    assert record is not None
    assert (record.ok, len(record.attempts)) == (False, 5)
    assert "CREATE TABLE singers (id INTEGER" in record.answer
    assert unchanged == report
    assert (repeated.worlds, repeated.ok) == (2, True)
    assert asked_again == 4 + 3 + 11  # schema to code, verifiers, the solver's steps


@pytest.mark.slow
async def test_each_stage_may_fail(tmp_path: Path) -> None:
    """Its world fails in this stage, with the best answer and the faults on disk; a scenario that
    cannot be classified is refused, and the others are written."""
    stages = ("tasks", "schema", "data", "tools", "code", "verify")
    trades = [replace(BIKES, name=f"Hire {word}") for word in ("classify", *stages, "whole")]
    no = ("I would rather not.",)
    script = {(f"Hire {stage}", stage): no for stage in ("classify", *stages[:-1])}
    script |= {("Hire verify", task): no for task in TASKS}
    async with ModelServer(Writes(script, known=trades)) as server:
        report = await synthesised(asked(tmp_path, server.url, *trades, tries=2, same=1.0))
    assert [(each.world, each.stage) for each in report.failed] == [
        (f"hire_{stage}", stage) for stage in stages
    ]
    records = [
        SynthesisFolder(tmp_path / "out").record(
            f"hire_{stage}", stage if stage != "verify" else f"verify-{task}"
        )
        for stage in stages
        for task in (TASKS if stage == "verify" else ("",))
    ]
    assert [(r.ok, r.answer, len(r.attempts)) for r in records if r] == [(False, no[0], 2)] * 8
    assert (report.worlds, report.refused, report.ok) == (1, 1, False)
    assert [path.name for path in (tmp_path / "out/worlds").iterdir()] == ["hire_whole"]


@pytest.mark.slow
async def test_an_outdated_world_is_removed(tmp_path: Path) -> None:
    """For example when more tasks must be proved than before; its stage records stay."""
    script = {(BIKES.name, "who"): ("I would rather not.",)}
    async with ModelServer(Writes(script)) as server:
        settings = asked(tmp_path, server.url, BIKES, tries=1)
        assert (await synthesised(settings)).worlds == 1
        package = tmp_path / "out/worlds" / BIKES.key
        assert package.exists()
        before = len(server.requests)
        report = await synthesised(msgspec.structs.replace(settings, least_tasks=3))
        assert len(server.requests) == before
    assert report.failed[0].why.startswith("2 of 3 tasks could be proved, at least 3 must be: ")
    assert list(package.parent.iterdir()) == []


@pytest.mark.slow
async def test_a_dead_tool_is_left_out(tmp_path: Path) -> None:
    """The author insists on it and no oracle calls it: it becomes a helper, and the report names it
    with its most advanced refusal."""
    async with ModelServer(Writes(DEAD)) as server:
        report = await synthesised(asked(tmp_path, server.url, BERTHS, tasks=1, awm=True))
        assert isinstance(server.default, Writes)
        assert server.default.asked[BERTHS.name, "code"] == 2
    [dead] = report.dead_tools
    assert dead.startswith(f"{BERTHS.key}.find_berth (")
    assert "the most advanced: find_berth(code=" in dead
    assert (report.worlds, report.tasks, report.tools, report.ok) == (1, 1, 4, True)
    assert "def _find_berth(" in (tmp_path / "out/worlds" / BERTHS.key / "tools.py").read_text()
    record = AwmFolder(tmp_path / "out/awm").find(BERTHS.key)
    assert record.awm is not None
    assert "def _find_berth(" in record.awm.code
    assert '"/find_berth"' not in record.awm.code


def _calls(name: str) -> str:
    """An answer that names a call of a tool."""
    call = {"name": "find_riders", "arguments": {"name": name}}
    return json.dumps({"calls": {"find_riders": [call]}})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "lends", "named"),
    [
        ((_calls("Ana Ruiz"), _calls("ana ruiz")), "Ana Ruiz", [0, 1]),
        ((code_block(BIKES, HIDDEN),), "ana ruiz", [0, 0]),
    ],
    ids=["a named call", "an oracle's call"],
)
async def test_a_tool_that_no_draw_can_call_is_proved(
    tmp_path: Path, answers: Sequence[str], lends: str, named: Sequence[int]
) -> None:
    """By a call that the author names, without sending the code again, or by an oracle's call. A
    named call that is refused goes back with its refusal and the code. The tool stays."""
    instruction = put(BIKES, TASKS["lend"])
    calls: list[tuple[str, dict[str, Any]]] = [
        ("find_riders", {"name": lends}),
        ("start_hire", {"rider_id": 1, "bike_id": 2, "due_on": "2026-03-21"}),
    ]
    script = {(BIKES.name, "code"): (code_block(BIKES, HIDDEN), *answers)}
    solutions = {(BIKES.name, instruction): (calls, "Done.")}
    async with ModelServer(Writes(script, solutions=solutions)) as server:
        report = await synthesised(asked(tmp_path, server.url, BIKES, tasks=1))
        assert isinstance(server.default, Writes)
        assert server.default.asked[BIKES.name, "code"] == 1 + len(answers)
        sent = [each.body["messages"][-1]["content"] for each in server.requests]
    asked_again = [text for text in sent if "no call of them succeeded" in text]
    assert [text.count("def find_riders(") for text in asked_again] == named[: len(answers)]
    assert (report.dead_tools, report.tools, report.ok) == ((), 5, True)
    folder = SynthesisFolder(tmp_path / "out")
    proofs = read(folder.worlds / BIKES.key).proofs
    right = Call("find_riders", {"name": "ana ruiz"})
    assert proofs == ({"find_riders": (right,)} if lends == "Ana Ruiz" else {})
    record = folder.record(BIKES.key, "code")
    assert record is not None
    faults = [attempt.faults[0] for attempt in record.attempts if attempt.faults]
    assert all(fault.startswith("no call of it succeeded: find_riders (") for fault in faults)
    assert [fault.count('find_riders({"name":"Ana Ruiz"}) -> Error: ') for fault in faults] == named


def _planned_decline() -> str:
    """The answer of stage `tasks` with one decline, the rule that forbids it, and its function."""
    answer = json.loads(tasks_answer(BIKES))
    rules = ("Nothing is booked out to a rider who is blocked.", "A rider has at most two bikes.")
    answer["policy"] = [{"rule": rule, "functions": ["start_hire"]} for rule in rules]
    answer["functions"] = ["start_hire"]
    answer["tasks"] = [answer["tasks"][2] | {"rule": 1, "functions": ["start_hire"]}]
    return json.dumps(answer)


@pytest.mark.slow
async def test_a_decline_gets_tempting_mutants(tmp_path: Path) -> None:
    """A verifier that overlooks a hire for somebody else, or accepts another rule as the reason,
    goes back with what it accepts."""
    good = VERIFIERS["blocked"]
    answers = (
        good.replace("    check.nothing_else()\n", ""),
        good.replace('"blocked"', '"blocked", "a MEMBER"'),
        good,
    )
    script = {
        (BIKES.name, "tasks"): (_planned_decline(),),
        (BIKES.name, "blocked"): tuple(code_block(BIKES, answer) for answer in answers),
    }
    async with ModelServer(Writes(script)) as server:
        report = await synthesised(asked(tmp_path, server.url, BIKES, tasks=1))
    record = SynthesisFolder(tmp_path / "out").record(BIKES.key, "verify-blocked")
    assert record is not None
    writes, reasons, none = (attempt.faults for attempt in record.attempts)
    assert all(fault.startswith("an unwanted start_hire(") for fault in writes[1:])
    assert len(writes) > 1
    assert reasons[1:] == ("it refuses for another rule: 'A rider has at most two bikes.'",)
    assert none == ()
    assert (report.ok, report.uncovered_functions) == (True, ())


@pytest.mark.slow
async def test_code_that_never_ends_is_sent_back(tmp_path: Path) -> None:
    """In a tool, in the data and in a verifier: its worker ends, and the author gets the reason."""
    counting = (
        "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c"
    )
    endless = "    while True:\n        pass\n"
    script = {
        (BIKES.name, "data"): (
            data(BIKES, members=(f"INSERT INTO MEMBERS (id) {counting}",)),
            data(BIKES),
        ),
        (BIKES.name, "code"): (
            code_block(BIKES, CODE.replace("    who = get", f"{endless}    who = get")),
            code_block(BIKES, CODE),
        ),
        (BIKES.name, "lend"): (
            code_block(BIKES, VERIFIERS["lend"].replace("    check =", f"{endless}    check =")),
            code_block(BIKES, VERIFIERS["lend"]),
        ),
    }
    async with ModelServer(Writes(script)) as server:
        report = await synthesised(asked(tmp_path, server.url, BIKES, call_timeout=1.0))
    records = [
        SynthesisFolder(tmp_path / "out").record(BIKES.key, stage)
        for stage in ("data", "code", "verify-lend")
    ]
    first = [record.attempts[0].faults for record in records if record]
    assert [faults[0].partition("(")[0].removesuffix(ENDED) for faults in first] == [
        "the package: hosting it ",
        "start_hire",
        "on the untouched world: it ",
    ]
    assert [faults[0].endswith(ENDED) for faults in first] == [True, True, True]
    assert (report.worlds, report.tasks, report.ok) == (1, 3, True)


@pytest.mark.slow
@pytest.mark.timeout(180)  # it starts an interpreter that imports everything
async def test_a_killed_synthesis_can_be_resumed(tmp_path: Path) -> None:
    """A rerun after SIGKILL asks only for what is missing, and ends with the same worlds."""
    async with ModelServer(Writes(halt="code")) as server:
        settings = asked(tmp_path, server.url, BIKES, LENSES)
        text = msgspec.json.encode(settings).decode()
        code = (
            "import sys, anyio, msgspec; from rehearsal_room.authoring import synthesize; "
            "options = msgspec.json.decode(sys.argv[1], type=synthesize.SynthesisOptions); "
            "anyio.run(synthesize.run_synthesis, options, lambda *_: None)"
        )
        async with await anyio.open_process([sys.executable, "-c", code, text]) as process:
            assert isinstance(server.default, Writes)
            await server.default.halted(2)
            process.send_signal(signal.SIGKILL)
        assert not (tmp_path / "out/report.json").exists()
        before = len(server.requests)
        server.default = Writes()
        report = await synthesised(settings)
        stages = server.default.asked
    assert (report.worlds, report.tasks, report.ok) == (2, 6, True)
    assert before == 2 + 2 * 4 + 2  # classified, four stages each, code
    assert set(stages) == {
        ("", "solve"),
        *((name, part) for name in (BIKES.name, LENSES.name) for part in ("code", "lend", "who")),
        *((name, "blocked") for name in (BIKES.name, LENSES.name)),
    }
    first = {path.name: read(path).digest for path in (tmp_path / "out/worlds").iterdir()}
    (tmp_path / "not killed").mkdir()
    async with ModelServer(Writes()) as server:
        await synthesised(asked(tmp_path / "not killed", server.url, BIKES, LENSES))
    worlds = tmp_path / "not killed/out/worlds"
    assert {path.name: read(path).digest for path in worlds.iterdir()} == first


@pytest.mark.slow
async def test_no_more_is_spent_than_the_budget(tmp_path: Path) -> None:
    """A rerun with a larger budget finishes the rest."""
    prices = tmp_path / "prices.toml"
    prices.write_text("[models.m]\ninput = 0\noutput = 1000\n")
    usage = {"prompt_tokens": 100, "completion_tokens": 10}  # 0.01 USD a request
    async with ModelServer(Writes(usage=usage)) as server:
        settings = asked(
            tmp_path, server.url, BIKES, prices=str(prices), max_tokens=1_000, budget=1.035
        )
        stopped = await synthesised(settings)
        finished = await synthesised(msgspec.structs.replace(settings, budget=9.0))
    assert stopped.stopped.startswith("budget exhausted: 0.04 of 1.0350 USD spent or reserved")
    assert (stopped.unfinished, stopped.ok) == ((BIKES.key,), False)
    assert stopped.cost_usd == pytest.approx(0.04)
    assert (finished.worlds, finished.ok) == (1, True)
    assert finished.cost_usd == pytest.approx(0.20)  # 1 + 5 + 3 answers and 11 steps of the solver
    stages = {stage.stage: stage.requests for stage in finished.stages}
    assert stages["solve"] == 11


@pytest.mark.slow
async def test_a_model_that_never_answers_ends_the_synthesis(tmp_path: Path) -> None:
    """The error names model, address and fault; a later run can use the same folder."""
    async with ModelServer(Status(503, "overloaded")) as server:
        with pytest.raises(SynthesisError) as caught:
            await synthesised(asked(tmp_path, server.url, BIKES))
        assert str(caught.value) == (
            f"model 'm' at {server.url}: status 503: overloaded (after 1 attempt)"
        )
        server.default = Writes()
        assert (await synthesised(asked(tmp_path, server.url, BIKES))).ok


@pytest.mark.slow
async def test_new_scenarios_are_requested_until_there_are_enough(tmp_path: Path) -> None:
    """Unsuitable ones and duplicates are refused with the reason; similarity is measured by the
    server's vectors, and a rerun in the folder must use the same ones."""
    batch = [
        {"name": "City bike hire", "description": "The same in other letters."},
        {"name": BERTHS.name, "description": BERTHS.description},
        {"name": "News Ticker", "description": "Headlines of the hour."},
        {"name": "Citi Scooters", "description": "Scooters on every corner."},
    ]
    script = {
        ("", "invent"): ("Which ones?", json.dumps({"scenarios": batch})),
        ("News Ticker", "classify"): (
            '{"score": 20}',
            '{"score": 2, "reason": "live content"}',
        ),
    }
    async with ModelServer(Writes(script)) as server:
        settings = asked(tmp_path, server.url, BIKES, count=2, embeddings="e")
        report = await synthesised(settings)
        with pytest.raises(SynthesisError, match="embeddings: the first run had 'e'"):
            await synthesised(msgspec.structs.replace(settings, embeddings=""))
    ideas = json.loads((tmp_path / "out/ideas.json").read_bytes())
    assert [idea["name"] for idea in ideas["kept"]] == [BIKES.name, BERTHS.name]
    assert {each["name"]: each["why"] for each in ideas["refused"]} == {
        "News Ticker": "score 2 of 10: live content",
        "City bike hire": "'City Bike Hire' has the same name",
    }
    assert (report.worlds, report.ideas, report.refused) == (2, 2, 2)
    paths = [request.path for request in server.requests]
    assert paths.count("/v1/embeddings") == 3 - 1


@pytest.mark.slow
async def test_worlds_are_exported_to_awms_files(tmp_path: Path) -> None:
    """AWM's loader reads them, hosts them without a fault, and each verifier accepts its task's
    solution and refuses doing nothing."""
    async with ModelServer(Writes()) as server:
        await synthesised(asked(tmp_path, server.url, BIKES, awm=True))
    record = AwmFolder(tmp_path / "out/awm").find(BIKES.key)
    package = read(tmp_path / "out/worlds" / BIKES.key)
    [spec] = (tmp_path / "out/awm/gen_spec.jsonl").read_bytes().splitlines()
    [group] = json.loads(spec)["api_spec"]["api_groups"]
    assert group["endpoints"][0]["request_params"] == {
        "name": {"type": "string", "param_type": "body", "required": True, "description": ""}
    }
    verdicts = []
    async with RoutingPool(WorkerSettings(workers=1)) as pool:
        world: Any = await pool.host(record)
        names = [tool.name for tool in world.tools]
        faults = world.loaded.seed_faults
        for task, own in zip(record.tasks, package.tasks, strict=True):
            for calls, answer in ((own.oracle, own.answer), ((), "")):
                async with pool.lease(record, task) as env:
                    for index, call in enumerate(calls):
                        result = await env.call(call.name, call.arguments, f"c{index}")
                        assert result.error is None, result.text
                    code = await pool.verify(record, task, env.state(), answer)
                    sql = await pool.verify(record, task, env.state(), answer, "sql")
                assert (code.fault, code.violation, sql.fault, sql.violation) == ("", "", "", "")
                verdicts.append((own.id, code.label, sorted(sql.detail)))
        async with pool.lease(record, None) as env:
            refused = await env.call("get_rider", {"rider_id": 77}, "c0")
    assert names == ["find_riders", "find_bike", "list_hires", "get_rider", "start_hire"]
    assert faults == ()
    detail = ["changes", "findings"]
    assert verdicts == [
        (task, label, detail)
        for task in ("lend", "who", "blocked")
        for label in ("complete", "others")
    ]
    assert (refused.error, "There is no rider 77." in refused.text) == ("refused", True)
