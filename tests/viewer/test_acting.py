"""Scratch worlds, play and worlds in the viewer."""

import shutil
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.log.writer import open_log
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.paths import ROOT
from tests.support.viewer_client import Client, viewing

LIBRARY = ROOT / "tests" / "fixtures" / "worlds" / "library"


async def _fork(client: Client, run: Path, episode: str, turn: int) -> Any:
    return await client.post("/api/scratch", {"run": run_id(run), "episode": episode, "turn": turn})


async def test_a_fork_goes_on_from_the_state_of_a_turn(oracles: Path) -> None:
    """It has the digest of that turn, its calls change rows as in an episode, nothing is logged."""
    with open_reader(oracles) as reader:
        trajectory = reader.trajectory("e000000")
        length = reader.num_records()
    turn = len(trajectory.steps) // 2
    async with viewing(oracles) as client:
        fork = await _fork(client, oracles, "e000000", turn)
        digest = trajectory.started.start_digest
        for step in trajectory.steps[:turn]:
            for result in step.executed_results:
                digest = result.digest
        assert fork["digest"] == digest
        base = f"/api/scratch/{fork['id']}"
        for step in trajectory.steps[turn:]:
            for call, logged in zip(step.executed_calls, step.executed_results, strict=True):
                made = await client.post(
                    f"{base}/call", {"tool": call.name, "arguments": call.arguments}
                )
                assert made["digest"] == logged.digest
                assert len(made["changes"]) == len(logged.changes)
        assert trajectory.ended is not None
        verdict = await client.post(f"{base}/judge", {"answer": trajectory.ended.answer})
        assert verdict["label"] == "completed"
        world = await client.get(f"{base}/world")
        assert sum(table["from_start"]["updated"] for table in world["tables"]) > 0
        rows = await client.post(f"{base}/sql", {"sql": "SELECT count(*) FROM orders"})
        assert rows["rows"][0][0] > 0
        other = await _fork(client, oracles, "e000000", turn)
        assert other["digest"] == digest
        verdict = await client.post(f"/api/scratch/{other['id']}/judge", {"answer": "No."})
        assert verdict["label"] != "completed"
        assert (await client.ask(base, method="DELETE")).status == 200
        assert "closed" in await client.error(base, 404)
    with open_reader(oracles) as reader:
        assert reader.num_records() == length


async def test_many_scratch_worlds_close_the_oldest() -> None:
    """At most 32 are open."""
    async with viewing() as client:
        opened = [
            await client.post("/api/scratch", {"scenario": "shop_support"}) for _ in range(33)
        ]
        await client.error(f"/api/scratch/{opened[0]['id']}", 404)
        await client.get(f"/api/scratch/{opened[1]['id']}")
        judged = await client.post(
            f"/api/scratch/{opened[1]['id']}/judge", {"answer": "x"}, status=400
        )

    assert "without a task" in judged["error"]


async def test_a_fork_of_what_is_not_there(oracles: Path) -> None:
    """A turn beyond the end and an unknown episode are refused with a sentence."""
    async with viewing(oracles) as client:
        run = run_id(oracles)
        late = {"run": run, "episode": "e000000", "turn": 99}
        assert "turns" in (await client.post("/api/scratch", late, status=400))["error"]
        other = {"run": run, "episode": "e9", "turn": 0}
        assert await client.post("/api/scratch", other, status=404)


async def test_a_person_plays_a_task(tmp_path: Path, monkeypatch: Any) -> None:
    """The episode is logged under policy `human` in a run of its own, and judged."""
    monkeypatch.chdir(tmp_path)
    task = find("shop_support").task("address-to-parents")
    async with viewing() as client:
        body = {"scenario": "shop_support", "task": task.id}
        play = await client.post("/api/play", body)
        base = f"/api/play/{play['id']}"
        described = await client.get(base)
        assert described["instruction"] == task.instruction
        for call in task.oracle:
            made = await client.post(
                f"{base}/call", {"tool": call.name, "arguments": call.arguments}
            )
            assert not made["is_error"], made
        assert (await client.post(f"{base}/answer", {"text": task.answer}))["ended"]
        with anyio.fail_after(20):
            while (found := await client.get(base))["result"] is None:  # noqa: ASYNC110
                await anyio.sleep(0.05)  # the page asks again, too
        late = await client.post(f"{base}/call", {"tool": "x"}, status=400)
        episode = await client.get(f"/api/runs/{found['run']}/episodes/{found['episode']}")

    assert found["result"]["label"] == "completed"
    assert episode["policy"] == "human"
    assert "over" in late["error"]
    assert (Path(play["folder"]) / LOG_NAME).is_file()


async def test_a_person_leaves_a_task(tmp_path: Path, monkeypatch: Any) -> None:
    """The episode ends without an answer; the viewer goes on, and can end at once."""
    monkeypatch.chdir(tmp_path)
    async with viewing() as client:
        body = {"scenario": "shop_support", "task": "address-to-parents"}
        play = await client.post("/api/play", body)
        await client.get(f"/api/play/{play['id']}")
        await client.ask(f"/api/play/{play['id']}", method="DELETE")
        again = await client.post("/api/play", body)
        await client.get(f"/api/play/{again['id']}")

    with open_reader(Path(play["folder"])) as reader:
        assert [row.ending for row in reader.episodes()] == ["policy_error"]


async def test_a_replay_finds_where_the_log_is_wrong(oracles: Path, tmp_path: Path) -> None:
    """An episode that repeats is equal in every call; one whose log was changed diverges at that
    call, with what is logged and what came out."""
    with open_reader(oracles) as reader:
        trajectory = reader.trajectory("e000000")
        scenarios, records = reader.scenarios(), reader.records_of("e000000")
    turn, step = next(
        (turn, step) for turn, step in enumerate(trajectory.steps) if step.executed_results
    )
    first = msgspec.structs.replace(step.results[0], text="What the world never said.")
    wrong = msgspec.structs.replace(step, results=(first, *step.results[1:]))
    changed = tmp_path / "changed"
    async with open_log(changed, resume=False) as log:
        for scenario in scenarios.values():
            log.add_scenario(scenario)
        for record in records:
            event = wrong if record.event == step else record.event
            log.append(msgspec.structs.replace(record, event=event))
    (changed / "run.toml").write_bytes((oracles / "run.toml").read_bytes())
    async with viewing(oracles, changed) as client:
        same = await client.post(f"/api/runs/{run_id(oracles)}/episodes/e000000/replay")
        other = await client.post(f"/api/runs/{run_id(changed)}/episodes/e000000/replay")

    num_calls = sum(len(step.executed_calls) for step in trajectory.steps)
    assert same == {"calls": num_calls, "divergence": None}
    divergence = other["divergence"]
    assert (divergence["what"], divergence["turn"], divergence["call"]) == ("text", turn, 0)
    assert divergence["expected"] == "What the world never said."
    assert step.results[0].text.startswith(divergence["found"].removesuffix("…"))


@pytest.mark.slow
async def test_the_gate_checks_a_world(tmp_path: Path) -> None:
    """A sound package has no failure; one whose solution is wrong has one that names the task. The
    world's page shows what was found last."""
    sound, broken = tmp_path / "sound", tmp_path / "broken"
    for folder in (sound, broken):
        shutil.copytree(LIBRARY, folder)
    tasks = broken / "tasks.toml"
    wrong = tasks.read_text().replace('amount_cents = 350, method = "card"', "amount_cents = 1")
    tasks.write_text(wrong)
    async with viewing(worlds=[sound, broken]) as client:
        before = await client.get(f"/api/worlds/{run_id(broken)}")
        found = await client.post(f"/api/worlds/{run_id(sound)}/gate")
        bad = await client.post(f"/api/worlds/{run_id(broken)}/gate")
        after = await client.get(f"/api/worlds/{run_id(broken)}")

    assert found["failures"] == []
    assert "pay-fine" in str(bad["failures"])
    assert before["gate"] is None
    assert after["gate"] == bad


async def test_worlds_with_their_tables_tools_and_solutions(tmp_path: Path) -> None:
    """Bundled worlds are listed, and packages that are given by path; a solution is played now."""
    bundled = find("shop_support").path
    async with viewing(worlds=[bundled]) as client:
        lines = (await client.get("/api/worlds"))["worlds"]
        world = await client.get("/api/worlds/shop_support")
        rows = await client.get("/api/worlds/shop_support/table/orders?limit=2")
        oracle = await client.get("/api/worlds/shop_support/tasks/address-to-parents/oracle")

    assert {"shop_support", "flight_desk", "claims_desk", run_id(bundled)} <= {
        line["name"] for line in lines
    }
    by_name = {line["name"]: line for line in lines}
    assert by_name["shop_support"]["tables"] == len(world["tables"])
    assert by_name["shop_support"]["tools"] == len(world["tools"])
    assert len(rows["rows"]) == 2
    assert oracle["verdicts"][0]["label"] == "completed"
    assert any(result["changes"] for turn in oracle["turns"] for result in turn["results"])
