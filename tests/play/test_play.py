"""A person, or a program, plays an episode: at a terminal and over HTTP."""

import io
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.play.terminal import read_arguments
from tests.support.cli import Rehearse
from tests.support.warm_process import Child, WarmProcess

TASK = "shop_support:address-to-parents"
ANSWER = "Order 4101 now goes to Karin Lindqvist, 418 Greysolon Rd, Duluth, MN 55812."
CALL = {"tool": "change_delivery_address", "arguments": {"order_id": 4101, "address_id": 602}}
TOKEN = "secret"


BOOTS = "Orders 4150 and 4151, 3 pairs."


class Game:
    """A client of a played episode."""

    def __init__(self, port: int, child: Child) -> None:
        self.port = port
        self.child = child

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = TOKEN,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {token}", **(headers or {})}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            return response.status, json.loads(response.read())


@pytest.fixture
def play(
    warm_cli: WarmProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Starts `rehearse play --http` and gives a client of it."""
    monkeypatch.setenv("REHEARSE_TOKEN", TOKEN)

    @contextmanager
    def start(*flags: object, task: str = TASK) -> Iterator[Game]:
        output = tmp_path / "output.txt"
        arguments = ("play", task, "--http", 0, "-o", tmp_path / "run", *flags)
        child = warm_cli.start_command(*arguments, output=output)
        try:
            deadline = time.monotonic() + 30
            while not (found := re.search(r"127\.0\.0\.1:(\d+)", output.read_text())):
                assert child.poll() is None and time.monotonic() < deadline, output.read_text()
                time.sleep(0.01)
            yield Game(int(found[1]), child)
        finally:
            child.kill()

    return start


def test_a_person_plays_at_the_terminal(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines at the terminal become calls and the answer of a judged episode."""
    lines = [
        "tools",
        "help get_order",
        "get_ticket ticket_id=3001",
        "nonsense 1",
        "change_delivery_address order_id=4101 address_id=602",
        "answer <think>",
        f"answer {ANSWER}",
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    file = tmp_path / "episode.json"
    status, out, err = rehearse("play", TASK, "-o", tmp_path / "run", "--json", file)
    assert status == 0, err
    episode = json.loads(file.read_bytes())
    calls = [call["name"] for step in episode["steps"] for call in step["calls"]]
    assert calls == ["get_ticket", "change_delivery_address"]
    assert (episode["policy"], episode["label"], episode["answer"]) == (
        "human",
        "completed",
        ANSWER,
    )
    assert "there is no tool 'nonsense'" in out
    assert "an answer cannot hold <think>" in out
    status, _, err = rehearse("replay", tmp_path / "run")
    assert status == 0, err


def test_a_person_talks_with_the_user(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a dialogue an answer is said to the user, until the user ends the talk."""
    lines = ["answer Which model?", "find_orders sku=RDG-B-40 status=open", f"answer {BOOTS}"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    file = tmp_path / "episode.json"
    status, out, err = rehearse(
        *("play", "shop_support:which-boots", "-o", tmp_path / "run", "--json", file)
    )
    assert status == 0, err
    assert "The user answers questions" in out
    assert "user: The Ridgeline Boot in size 40. The SKU is RDG-B-40." in out
    episode = json.loads(file.read_bytes())
    assert (episode["label"], episode["answer"]) == ("completed", f"Which model?\n\n{BOOTS}")


def test_a_program_talks_over_http(play: Callable[..., Any]) -> None:
    """POST /answer returns the user's words, and at the end the judged episode."""
    with play(task="shop_support:which-boots") as game:
        _, heard = game("POST", "/answer", {"text": "Which model?"})
        assert heard == {"user": "The Ridgeline Boot in size 40. The SKU is RDG-B-40."}
        _, episode = game("POST", "/answer", {"text": BOOTS})
        assert (episode["ending"], episode["label"]) == ("answered", "completed")


def test_the_end_of_the_input_ends_the_episode(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A player who leaves without an answer leaves a judged episode that says so."""
    monkeypatch.setattr("sys.stdin", io.StringIO("get_ticket ticket_id=3001\n"))
    file = tmp_path / "episode.json"
    status, _, err = rehearse("play", TASK, "-o", tmp_path / "run", "--json", file)
    assert status == 0, err
    episode = json.loads(file.read_bytes())
    assert (episode["ending"], len(episode["steps"])) == ("policy_error", 1)
    assert episode["error"] == "the player left before the final answer"


def test_a_program_plays_over_http(play: Callable[..., Any], tmp_path: Path) -> None:
    """GET /task shows what an agent is shown, POST /call makes calls, and POST /answer returns the
    judged episode."""
    with play("--json", tmp_path / "episode.json") as game:
        status, task = game("GET", "/task")
        assert (status, task["task"], task["calls"]) == (200, TASK, [])
        assert "Hannah Lindqvist" in task["instruction"]
        assert "change_delivery_address" in [tool["name"] for tool in task["tools"]]
        status, refused = game("POST", "/call", {"tool": "get_order", "arguments": {"order_id": 1}})
        assert (status, refused["is_error"], refused["ended"]) == (200, True, False)
        status, made = game("POST", "/call", CALL)
        assert (status, made["is_error"], json.loads(made["text"])["address_id"]) == (
            200,
            False,
            602,
        )
        assert len(game("GET", "/task")[1]["calls"]) == 2
        status, episode = game("POST", "/answer", {"text": ANSWER})
        assert (status, episode["label"], episode["ending"]) == (200, "completed", "answered")
        assert game.child.wait(30) == 0
    assert json.loads((tmp_path / "episode.json").read_bytes()) == episode


def test_requests_that_cannot_be_are_answered(play: Callable[..., Any]) -> None:
    """A wrong token, host, path, body or a second answer gets a sentence, and the episode goes
    on."""
    with play("--max-steps", 1) as game:
        assert game("GET", "/task", token="wrong")[0] == 401
        assert game("GET", "/task", headers={"Host": "evil.example"})[0] == 403
        assert game("GET", "/nothing")[0] == 404
        for body in (b"{", b"\xff", b'{"tool": 1}', {"tool": "x", "more": 1}, b"9" * 5000):
            status, answer = game("POST", "/call", body)
            assert (status, answer["error"][:26]) == (400, "the request cannot be read")
        assert game("POST", "/answer", {"text": "<think>"})[0] == 400
        assert game("POST", "/call", CALL) == (
            200,
            {"text": "", "is_error": False, "ended": True},
        )
        assert game.child.wait(30) == 0


def test_the_task_must_be_named(rehearse: Rehearse) -> None:
    """A scenario without a task, and policy `human` in a run, are refused by a sentence."""
    status, _, err = rehearse("play", "shop_support")
    assert (status, err) == (2, "error: shop_support: name one task, as SCENARIO:TASK\n")
    status, _, err = rehearse("run", "shop_support", "-p", "human")
    assert (status, err) == (
        2,
        "error: policy: 'human' plays one episode at a time: rehearse play\n",
    )


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        ('a=1 b="x y" c=[1] d=true e=007', {"a": 1, "b": "x y", "c": [1], "d": True, "e": "007"}),
        ("phone=123", {"phone": "123"}),
    ],
)
def test_arguments_are_typed(text: str, expected: dict[str, Any]) -> None:
    """KEY=VALUE is read as JSON, and as text where the tool asks for text."""
    spec = ToolSpec("tool", "", {"properties": {"phone": {"type": "string"}}})
    assert read_arguments(text, spec) == expected
