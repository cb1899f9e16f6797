"""Messages and logs of a stranger: verdicts without the key, and names that are paths."""

from pathlib import Path

import anyio
import msgspec
import pytest

from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.bus.mqtt_wire import (
    START,
    RunStatus,
    decode_records,
    decode_status,
    encode,
)
from rehearsal_room.harness.core.events import Judged, Label, Record
from rehearsal_room.harness.following.external_judge import open_external_judge
from rehearsal_room.harness.following.signed_verdicts import (
    VARIABLE,
    VerdictSeal,
    verdict_key,
)
from rehearsal_room.harness.log.schema import record_of, row_of
from tests.support.broker import running_broker

KEY, OTHER = bytes(32), bytes(31) + b"x"
HOSTILE = ("../../x", "/tmp/x", "..", ".", "a/b", "a\\b", "a\x00b", "a\nb", "a\n", "", "x" * 201)


def verdict(episode: str, *, attempt: int = 1, label: Label = Label.COMPLETED) -> Record:
    """A verdict of a judge."""
    return Record(episode, attempt, 0, 0.0, Judged("code", label, 1.0, reasoning="\ud800 é"))


async def nothing(after: int) -> list[tuple[int, Record]]:
    """The log of a publisher that has sent all it has."""
    return []


def sealed(record: Record, seal: VerdictSeal) -> Record:
    """The verdict with a seal."""
    assert isinstance(record.event, Judged)
    event = seal.sealed(record.episode, record.attempt, record.event)
    return msgspec.structs.replace(record, event=event)


def test_a_seal_holds_for_one_verdict_of_one_run() -> None:
    """A verdict with the seal of the key is genuine, also after log and broker; with no seal,
    another key, log, attempt, episode or label it is not."""
    seal = VerdictSeal(KEY, "log")
    genuine = sealed(verdict("e000001"), seal)
    assert isinstance(genuine.event, Judged)
    assert seal.is_genuine(genuine)
    assert seal.is_genuine(record_of(row_of(1, genuine)))
    forged = [
        verdict("e000001"),
        sealed(verdict("e000001"), VerdictSeal(OTHER, "log")),
        sealed(verdict("e000001"), VerdictSeal(KEY, "another log")),
        msgspec.structs.replace(genuine, attempt=2),
        msgspec.structs.replace(genuine, episode="e000002"),
        msgspec.structs.replace(
            genuine, event=msgspec.structs.replace(genuine.event, label=Label.AGENT_ERROR)
        ),
    ]
    assert [seal.is_genuine(one) for one in forged] == [False] * len(forged)


@pytest.fixture
def anyio_backend() -> str:
    """The bus runs on asyncio."""
    return "asyncio"


@pytest.mark.slow
async def test_a_run_takes_no_verdict_of_a_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may write on the broker, and lacks the key, judges nothing; who has it does."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = tmp_path / "night"
    run.mkdir()
    (run / "run.toml").write_text('[environment]\nlog_id = "17"\n')
    with running_broker(tmp_path) as broker:
        settings = MqttSettings(url=broker.url)
        async with (
            open_external_judge(settings, folder=run) as judge,
            MqttLink(
                settings, "night/judge/17", log="x", read_log=nothing, owner=False
            ) as stranger,
        ):
            offered = [
                verdict("e000001"),
                sealed(verdict("e000001"), VerdictSeal(OTHER, "17")),
                sealed(verdict("e000002"), VerdictSeal(verdict_key(), "17")),
            ]
            stranger.put(list(enumerate(offered, start=1)))
            with anyio.fail_after(10):
                while "1 taken" not in repr(judge):  # noqa: ASYNC110  # it has no event
                    await anyio.sleep(0.01)
            assert list(judge._taken) == [("e000002", 1)]


def test_a_key_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file that REHEARSE_VERDICT_KEY names is read, and never made."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "key"))
    with pytest.raises(Exception, match="there is no file"):
        verdict_key()
    (tmp_path / "key").write_text(KEY.hex())
    assert verdict_key() == KEY


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_is_a_path_is_no_episode(name: str) -> None:
    """Neither a message nor a log can have a record of it."""
    record = verdict(name, label=Label.COMPLETED)
    record = msgspec.structs.replace(record, event=Judged("code", None, None))
    with pytest.raises(msgspec.DecodeError):
        decode_records(encode(record))
    with pytest.raises(msgspec.DecodeError):
        record_of(row_of(1, record))


@pytest.mark.parametrize("name", ["..", ".", "a/..", "../a", "a/./b", "", "a\x00", "a\\b", "a//b"])
def test_a_name_that_is_a_path_is_no_run(name: str) -> None:
    """A follower names a folder by it, so the status of such a run is not read."""
    with pytest.raises(msgspec.DecodeError):
        decode_status(encode(RunStatus(name, "live", "17", START)))
    for good in ("night", "night 2/judge/17", "a..b", ".night"):
        assert decode_status(encode(RunStatus(good, "live", "17", START))).run == good
