"""Going on from an edited turn: tries as a run of their own, beside the original.

The model's endpoint (tests.support.recording_model) is ours and has no model; the command is that
of the command line, in a process of its own.
"""

import json
import os
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from rehearsal_room.harness.core.messages import Answer
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.setup.run_trust import RUN_FILE
from rehearsal_room.viewer.acting.commands import run_command
from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.recording_model import recording_model
from tests.support.viewer_client import Client, played, viewing

pytestmark = pytest.mark.timeout(300)  # commands are processes of their own


async def _fork(client: Client, run: Path, turn: int) -> str:
    asked = {"run": run_id(run), "episode": "e000000", "turn": turn}
    return f"/api/scratch/{(await client.post('/api/scratch', asked))['id']}/tries"


async def _finished(client: Client, tries: str) -> Any:
    with anyio.fail_after(90):
        while not (found := await client.get(f"/api/tries/{tries}"))["is_over"]:  # noqa: ASYNC110
            await anyio.sleep(0.1)  # the page asks again, too
    return found


def _rehearse(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rehearsal_room", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.slow  # five commands, each a process of its own
async def test_tries_go_on_from_an_edited_turn(
    oracles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call with another argument, which the tool refuses, and one whose result is given: the
    model reads both and the other instruction, goes on k times, and the share before and after is
    that of the log. The episodes replay, fork again and are not trained where somebody wrote them;
    and the command that is shown does the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with open_reader(oracles) as reader:
        origin = reader.trajectory("e000000")
    turns = [
        {
            "text": "I write <b>this</b> \u001b[31m.",
            "calls": [
                {"name": "get_order", "arguments": {"order_id": 999999}},
                {"name": "get_order", "arguments": {"order_id": 5}, "result": "It is gone."},
            ],
        }
    ]
    edit = {"instruction": "Do \u0000 nothing \u202e at all.", "turns": turns}
    with recording_model(replies=({"content": "I did nothing."},)) as model:
        going = {"edit": edit, "tries": 3, "policy": "openai", "model": "m", "base_url": model.url}
        async with viewing(oracles) as client:
            base = await _fork(client, oracles, 1)
            shown = await client.post(f"{base}/command", going)
            started = await client.post(base, going)
            found = await _finished(client, started["id"])
            page = await client.get(f"/api/runs/{found['run']}/episodes/e000000")
            (sent,) = (await client.get(f"/api/runs/{found['run']}/episodes/e000000/sent?turn=2"))[
                "requests"
            ]

        assert shown == {"fault": "", "command": found["command"]}
        assert found["error"] == ""
        assert len(found["rows"]) == 3
        assert found["before"]["completed"] == found["before"]["judged"] == 2
        assert (found["after"]["completed"], found["after"]["judged"]) == (0, 3)
        assert {*model.keys} == {""}, "the page's server gets no key"
        assert json.loads(sent["body"])["messages"] == json.loads(model.answered[-1])["messages"]
        same = tmp_path / "same"
        words = shlex.split(found["command"])[1:]
        await to_thread.run_sync(partial(_rehearse, *words, "-o", str(same)))
    assert [turn["is_kept"] for turn in page["turns"]] == [True, True, False]
    assert [turn["is_edited"] for turn in page["turns"]] == [False, True, False]
    for folder in (Path(found["folder"]), same):
        with open_reader(folder) as reader:
            assert len(reader.episodes()) == 3
            made = reader.trajectory("e000001")
        assert made.started.instruction == edit["instruction"]
        assert made.started.edit is not None
        assert made.started.edit.instruction == origin.started.instruction
        assert (made.first_own_turn, made.num_context) == (2, 2)
        assert made.steps[0] == origin.steps[0]
        written = made.steps[1]
        assert (written.reply.token_ids, written.reply.logprobs) == (b"", b"")
        assert [one.error for one in written.results] == ["refused", None]
        assert [one.injected for one in written.results] == [False, True]
        assert made.steps[2].decision == Answer("I did nothing.")
        replayed = await to_thread.run_sync(partial(_rehearse, "replay", str(folder)))
        assert "equal results and states at every step" in replayed
    again = tmp_path / "again"
    source = f"{same}/e000001@2"
    said = await to_thread.run_sync(
        partial(_rehearse, "run", "--from", source, "-p", "noop", "-o", str(again))
    )
    with open_reader(again) as reader:
        second = reader.trajectory("e000000")
    assert second.started.instruction == edit["instruction"], said
    assert second.steps[1] == made.steps[1]
    assert second.first_own_turn == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "says"),
    [
        ({"base_url": "http://127.0.0.1:9/v1"}, "no server answers"),
        ({"status": 401}, "401"),
    ],
)
async def test_a_model_that_is_not_there_is_said(
    oracles: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: dict[str, Any],
    says: str,
) -> None:
    """A sentence names the server's fault, without the key; the page and the original stay."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with recording_model(status=model.get("status", 200)) as server:
        url = model.get("base_url", server.url)
        going = {"policy": "openai", "model": "m", "base_url": url, "tries": 2}
        async with viewing(oracles) as client:
            base = await _fork(client, oracles, 1)
            found = await _finished(client, (await client.post(base, going))["id"])

    assert says in found["error"]
    assert "sk-very-secret" not in str(found)
    assert found["rows"] == []
    assert found["original"]["episode"] == "e000000"


async def test_what_the_command_line_refuses_is_not_offered(oracles: Path, tmp_path: Path) -> None:
    """After the turn that ends the episode, with a turn that ends it, in words that no model has,
    and for an edit that is too long, the page gets the sentence of the command line."""
    with open_reader(oracles) as reader:
        length = len(reader.trajectory("e000000").steps)
    answer = {"edit": {"turns": [{"text": "Done."}]}}
    empty = {"edit": {"turns": [{"text": ""}]}}
    long = {"edit": {"instruction": "x" * 100_001}}
    async with viewing(oracles) as client:
        end = await _fork(client, oracles, length)
        middle = await _fork(client, oracles, 1)
        told = [
            (await client.post(f"{end}/command", {}))["fault"],
            *[
                (await client.post(f"{middle}/command", going))["fault"]
                for going in (answer, empty, long, {"policy": "openai"})
            ],
        ]
        refused = await client.post(end, {}, status=400)
        unknown = await client.post(f"{middle}/command", {"polcy": "x"}, status=400)
        await client.error("/api/tries/none", 404)

    assert f"turn {length} ends the episode (answered)" in told[0]
    said = await to_thread.run_sync(
        partial(
            _rehearse, "run", "--from", f"{oracles}/e000000@{length}", "-o", str(tmp_path / "x")
        )
    )
    assert told[0] in " ".join(said.split())
    for sentence, words in zip(
        told[1:],
        ("ends the episode", "neither text nor calls", "longer than", "name the model"),
        strict=True,
    ):
        assert words in sentence
    assert refused["error"] == told[0]
    assert "polcy" in unknown["error"]


@pytest.mark.slow
async def test_a_run_of_somebody_else_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run.toml names a model's server: the command line refuses it, and nothing is sent."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with recording_model(replies=({"content": "No."},)) as model:
        flags = {"model": "m", "base_url": model.url, "max_steps": 4}
        run = tmp_path / "run"
        task = "shop_support:ask-which-size"
        await to_thread.run_sync(partial(played, run, task, **flags))
        settings = (run / RUN_FILE).read_text()
        (run / RUN_FILE).write_text(settings.rpartition("# begun")[0])
        model.answered.clear()
        async with viewing(run) as client:
            base = await _fork(client, run, 0)
            found = await _finished(client, (await client.post(base, {}))["id"])

    assert "--trust-run" in found["error"]
    assert model.answered == []


async def test_commands_of_a_page_import_nothing_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that somebody sent may have modules with the names of libraries."""
    for name in ("anyio", "click", "msgspec", "rehearsal_room"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    said = await run_command(["worlds", "list"], os.environ)
    assert b"shop_support" in said.out, said.error
    assert not (tmp_path / "trace").exists()


async def test_an_own_agent_does_not_go_on_from_a_turn(tmp_path: Path) -> None:
    """Its run's policy is refused in a sentence, as the command line does; a model is offered."""
    run = tmp_path / "agent"
    target = "tests.harness.agents.tracing:works"
    words = ("run", "shop_support", "-p", "oracle", "-n", "1", "--agent", target, "-o", str(run))
    await to_thread.run_sync(partial(_rehearse, *words))
    async with viewing(run) as client:
        fork = await _fork(client, run, 1)
        refused = await client.post(f"{fork}/command", {"tries": 2})
        other = await client.post(f"{fork}/command", {"tries": 2, "policy": "openai", "model": "m"})
    said = await to_thread.run_sync(_rehearse, "run", "--from", f"{run}/e000000@1", "--dry-run")

    assert "keeps its own memory" in refused["fault"] and refused["command"] == ""
    assert "keeps its own memory" in said
    assert other["fault"] == "" and "-p openai -m m" in other["command"]
