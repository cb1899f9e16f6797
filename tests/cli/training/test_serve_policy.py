"""`rehearse serve-policy`: a checkpoint is opened, served and closed."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from rehearsal_room.cli.train.serve_policy import serve_policy_command
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.core.policy_card import PolicyCard, write_card
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.learner.config.serving import ServePolicy
from rehearsal_room.learner.inference.serving import serve_policy
from tests.support.fake_vllm import fake_vllm
from tests.support.tiny_model import write_model, write_tokenizer

HELLO = {"messages": [{"role": "user", "content": "Void order 7."}], "max_tokens": 5, "seed": 1}
LAST = parse_history("last:3")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A directory that vLLM could serve, trained under last:3 and hermes."""
    folder = tmp_path / "v3"
    write_tokenizer(folder)
    (folder / "config.json").write_text('{"max_position_embeddings": 512}')
    write_card(folder, PolicyCard("v3", "last:3", LAST.fingerprint, "hermes", temperature=0.5))
    return folder


async def answered(wanted: ServePolicy) -> tuple[list[str], Any]:
    """The lines for the user, and the reply to one request."""
    lines: list[str] = []
    replies: list[Any] = []
    listening = anyio.Event()

    def say(line: str) -> None:
        lines.append(line)
        if line.startswith("serving on "):
            listening.set()

    async with anyio.create_task_group() as group:
        group.start_soon(serve_policy, wanted, WorldServerSettings(port=0), say)
        await listening.wait()
        url = lines[-1].removeprefix("serving on ")
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/chat/completions", json=HELLO) as response,
        ):
            assert response.status == 200, await response.text()
            replies.append(await response.json())
        group.cancel_scope.cancel()
    return lines[:-1], replies[0]


async def test_a_checkpoint_is_served_in_process(tmp_path: Path) -> None:
    """The backend `local` samples in process, by the checkpoint's weights, history and dialect."""
    folder = write_model(tmp_path / "v3")
    write_card(folder, PolicyCard("v3", "last:3", LAST.fingerprint, "hermes"))
    lines, reply = await answered(ServePolicy(str(folder)))
    assert lines == ["v3 under last:3, in the dialect hermes"]
    assert reply["model"] == "v3"
    assert reply["usage"]["completion_tokens"] <= 5
    assert reply["rehearsal"] == {
        "history": "last:3",
        "dialect": "hermes",
        "first_turn": 0,
        "recalled": [],
        "rewritten": 0,
        "weights": "v3",
        "warnings": [],
    }


async def test_a_checkpoint_is_served_by_a_vllm_server(checkpoint: Path) -> None:
    """The backend `vllm` asks the named server, with the settings of model card and flags."""
    wanted = ServePolicy(str(checkpoint), backend="vllm", name="desk", top_p=0.9, history="full")
    async with fake_vllm() as (fake, url):
        with capture_logs():
            lines, reply = await answered(msgspec.structs.replace(wanted, base_url=url))
    warning = "it was trained under the history window last:3 and is run under full"
    assert lines == [f"WARNING {checkpoint}: {warning}", "desk under full, in the dialect hermes"]
    assert (reply["rehearsal"]["weights"], reply["rehearsal"]["warnings"]) == ("v3", [warning])
    (sent,) = fake.completions
    assert [sent[name] for name in ("temperature", "top_p", "max_tokens")] == [0.5, 0.9, 5]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--http", "localhost"], "--http: 'localhost' is not HOST:PORT"),
        (["--history", "all"], "history: 'all' is not a history window"),
        (["--dialect", "elvish"], "dialect: there is no dialect 'elvish'"),
        (["--token", "ä"], "token: must be printable ASCII"),
        (["--backend", "vllm", "--vllm-python", "/no/python"], "python: /no/python cannot be run"),
    ],
)
def test_settings_that_cannot_be_served_are_refused(
    checkpoint: Path, arguments: list[str], fault: str
) -> None:
    """The command ends with a sentence before it listens on a port."""
    with pytest.raises(SettingsError, match=fault.replace("[", r"\[")):
        serve_policy_command.main([str(checkpoint), *arguments], standalone_mode=False)


def test_a_model_without_a_card_needs_flags(checkpoint: Path, tmp_path: Path) -> None:
    """Without a model card history and dialect must be given; without a model nothing is served."""
    (checkpoint / "rehearsal.json").unlink()
    with pytest.raises(SettingsError, match=r"^v3 has no model card .*--history and --dialect$"):
        serve_policy_command.main([str(checkpoint)], standalone_mode=False)
    with pytest.raises(SettingsError, match=r"nowhere.tokenizer\.json: the tokenizer cannot be"):
        serve_policy_command.main([str(tmp_path / "nowhere")], standalone_mode=False)


async def test_the_log_of_a_server_that_could_not_start_stays(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence has the last lines of the log and its path, because the cause is often further
    up. Otherwise no file is left."""
    logs = tmp_path / "logs"
    logs.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(logs))
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nprint('the cause'); raise SystemExit(3)")
    python.chmod(0o755)
    wanted = ServePolicy(str(checkpoint), backend="vllm", vllm_python=str(python))
    with pytest.raises(PolicyError, match="vLLM ended with 3: the end of") as caught:
        await serve_policy(wanted, WorldServerSettings(port=0), print)
    (log,) = logs.iterdir()
    assert str(log) in str(caught.value)
    assert log.read_text() == "the cause\n"
    log.unlink()
    with pytest.raises(SettingsError, match="cannot be run"):
        nothing = msgspec.structs.replace(wanted, vllm_python="/no/python")
        await serve_policy(nothing, WorldServerSettings(port=0), print)
    assert list(logs.iterdir()) == []
