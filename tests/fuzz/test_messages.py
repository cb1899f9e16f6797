"""Changed messages of a stranger on a real mosquitto, which a real run and real judges use."""

from pathlib import Path
from random import Random

import aiomqtt
import anyio
import pytest

from rehearsal_room.harness.core.events import EpisodeEnded, Judged
from rehearsal_room.scenarios.format import read
from tests.fuzz.messages import (
    Message,
    changed_message,
    forged_part,
    forged_verdicts,
    properties_of,
    received,
)
from tests.fuzz.strangers import Lair
from tests.support.broker import running_broker
from tests.support.budgets import IS_LONG, repeats
from tests.support.commands import Commands, Started, end_of
from tests.support.followed_runs import check_judged_once, until_num
from tests.support.judged_runs import records_of
from tests.support.paths import LIBRARY
from tests.support.strangers import KEY, listener
from tests.support.warm_process import WarmProcess

MADE = {"lair", "program", "other.key", "here", "there", "output"} | {
    "mosquitto.conf",
    "mosquitto.log",
}
INPUTS, FOLLOWERS = repeats(short=60, long=1_000), repeats(short=1, long=20)


@pytest.fixture
def anyio_backend() -> str:
    """The bus runs on asyncio."""
    return "asyncio"


@pytest.mark.timeout(3600 if IS_LONG else 180)
async def test_a_strangers_messages_do_nothing(
    warm_cli: WarmProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on and has the verdicts of the judge with its key, and no other; followers end,
    if they do, with a sentence; nothing runs, no server hears of a key, no file is made outside."""
    lair_folder, trace = tmp_path / "lair", tmp_path / "trace"
    lair_folder.mkdir()
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {trace}\n")
    program.chmod(0o755)
    for name in ("OPENAI_API_KEY", "REHEARSE_TOKEN"):
        monkeypatch.setenv(name, KEY)
    other_key = tmp_path / "other.key"
    other_key.write_bytes(bytes(32))
    other_key.chmod(0o600)
    commands, rng = Commands(warm_cli, tmp_path), Random("stranger's messages")
    run_folder = tmp_path / "here" / "night"
    with running_broker(tmp_path) as broker, listener() as (url, heard):
        lair = Lair(lair_folder, url, program, LIBRARY)
        words = ("run", LIBRARY, "-p", "mutant", "--judge", "elsewhere", "--bus", broker.url)
        run = commands.start(*words, "-o", run_folder)
        until_num(run_folder, "ended", len(read(LIBRARY).tasks))
        attempts = [
            (one.episode, one.attempt)
            for one in records_of(run_folder)
            if isinstance(one.event, EpisodeEnded)
        ]
        monkeypatch.setenv("REHEARSE_VERDICT_KEY", str(other_key))
        followers: list[Started] = []
        async with aiomqtt.Client(
            "127.0.0.1", broker.port, protocol=aiomqtt.ProtocolVersion.V5
        ) as stranger:
            genuine: list[Message] = []
            await stranger.subscribe("rehearse/#")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_answer, stranger, genuine, lair, rng)
                for number in range(INPUTS):
                    if number % (INPUTS // FOLLOWERS) == 0:
                        there = tmp_path / f"there-{number}"
                        follow = ("judge", "night", "--follow", "--bus", broker.url, "-o", there)
                        followers.append(commands.start(*follow))
                        with anyio.move_on_after(5):  # what is retained may keep it away
                            while _num_here(genuine) < len(followers):  # noqa: ASYNC110
                                await anyio.sleep(0.01)
                    await _publish(stranger, changed_message(genuine, rng), rng.random() < 0.2)
                    await anyio.sleep(0.01)  # so that they are read one by one
                log = next(one.topic for one in genuine if "judge%2F" in one.topic)
                log = log.split("judge%2F")[1].split("/")[0]
                for forged in forged_verdicts("night", log, attempts, rng):
                    await _publish(stranger, forged, False)
                tasks.cancel_scope.cancel()
        assert run[0].poll() is None, run[1].read_text()
        monkeypatch.delenv("REHEARSE_VERDICT_KEY")
        end_of(commands.start("judge", run_folder, "--follow"))
        printed = [end_of(run)]
        for child, output in followers:
            child.kill()
            child.wait()
            printed.append(output.read_text())
    assert [text for text in printed if "Traceback (most recent" in text] == []
    verdicts = [one.event for one in records_of(run_folder) if isinstance(one.event, Judged)]
    assert len(verdicts) == len(attempts)
    assert "forged" not in {one.reasoning for one in verdicts}
    check_judged_once(run_folder)
    assert (trace.exists(), heard, lair.is_untouched()) == (False, [], True)
    assert _made(tmp_path) <= MADE


def _num_here(messages: list[Message]) -> int:
    """How many followers have said that they are there."""
    return len({one.topic for one in messages if one.topic.endswith("/here")})


def _made(folder: Path) -> set[str]:
    return {path.name.split("-")[0] for path in folder.iterdir()}


async def _publish(stranger: aiomqtt.Client, one: Message, retain: bool) -> None:
    topic = one.topic.replace("+", "x").replace("#", "x")[:60_000]
    await stranger.publish(topic, one.payload, 1, retain, properties_of(one))


async def _answer(
    stranger: aiomqtt.Client, genuine: list[Message], lair: Lair, rng: Random
) -> None:
    """Keep what is sent, and answer followers that ask for the settings of the run."""
    async for message in stranger.messages:
        one = received(message)
        if len(genuine) < 2_000 and one.payload:
            genuine.append(one)
        if one.topic.endswith("/ask"):
            part = forged_part(one, lair, rng)
            if part is not None:
                await _publish(stranger, part, False)
