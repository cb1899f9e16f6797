"""What a run learns of its model server, and what a user tells it.

The server is ours; its refusals are worded as those of servers that people use.
"""

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Rehearse
from tests.support.judged_runs import no_environment, served
from tests.support.model_server import Completes, ReceivedRequest, Status

TASK = "shop_support:address-to-parents"


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_environment(monkeypatch)
    monkeypatch.chdir(tmp_path)


class Refuses:
    """Refuses a seed, and `max_tokens` under that name."""

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        behaviour: Any = Completes("I cannot help.")
        for name in ("seed", "max_tokens"):
            if name in request.body:
                behaviour = Status(
                    400,
                    f"Unsupported parameter: '{name}' is not supported"
                    f"{'; use max_completion_tokens instead' * (name != 'seed')}",
                )
        return bool(await behaviour.perform(request, writer))


def run_of(url: str, *more: object) -> tuple[object, ...]:
    model = ("-p", "openai", "-m", "m", "--base-url", url, "--max-tokens", 50)
    return ("run", TASK, *model, "-o", "r", *more)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_remembers_what_its_server_refuses(rehearse: Rehearse, processes: int) -> None:
    """run.toml has it in words that are flags, too; a run that goes on asks no refused question."""
    with served(Refuses()) as server:
        flags = ("-n", 2, "--processes", processes)
        assert rehearse(*run_of(server.url, *flags))[0] == 0
        learned = ["max_completion_tokens", "without:seed"]
        assert tomllib.loads(Path("r/run.toml").read_text())["model"]["adapt"] == learned
        before = len(server.requests)
        assert rehearse("run", "-o", "r", "--resume", "-n", 4)[0] == 0
        later = [request.body for request in server.requests[before:]]
    num_asked = 2 if processes == 1 else 3  # the first process rehearses for the others
    assert [("seed" in one, one["max_completion_tokens"]) for one in later] == [
        (False, 50)
    ] * num_asked


def test_a_user_says_what_a_server_takes(rehearse: Rehearse) -> None:
    """With flags no request is refused, and more fields go with each; what cannot be set so is
    named."""
    known = ("--adapt", "without:seed", "--adapt", "max_completion_tokens")
    more = ("--extra-body", '{"top_k": 20, "chat_template_kwargs": {"enable_thinking": false}}')
    with served(Refuses()) as server:
        assert rehearse(*run_of(server.url, *known, *more))[0] == 0
        [request] = server.requests
        for flags, sentence in (
            (("--extra-body", "[1]"), "extra_body: expected a JSON object such as"),
            (("--extra-body", '{"messages": []}'), "extra_body: 'messages' cannot be set there"),
            (("--adapt", "seed"), "adapt: 'seed' is none of without:NAME, "),
        ):
            status, _, err = rehearse(*run_of(server.url, *flags, "-o", "other"))
            assert (status, len(err.splitlines())) == (2, 1) and sentence in err
    body = request.body
    assert (body["top_k"], body["max_completion_tokens"], "seed" in body) == (20, 50, False)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
