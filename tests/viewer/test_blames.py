"""The turn that is to blame, asked over the viewer's interface: the command of the command line."""

import json
import shlex
from pathlib import Path
from typing import Any

import anyio
import pytest

from rehearsal_room.harness.setup.run_trust import RUN_FILE
from rehearsal_room.viewer.acting.commands import environment_of
from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.viewer_client import Client, viewing
from tests.viewer.test_tries import _rehearse

pytestmark = pytest.mark.timeout(300)  # commands are processes of their own


async def _asked(client: Client, run: Path, episode: str, body: Any) -> Any:
    path = f"/api/runs/{run_id(run)}/episodes/{episode}/blame"
    started = await client.post(path, body)
    with anyio.fail_after(90):
        while not (found := await client.get(f"/api/blames/{started['id']}"))["is_over"]:  # noqa: ASYNC110
            await anyio.sleep(0.1)  # the page asks again, too
    return found


@pytest.mark.slow  # three commands, each a process of its own
async def test_the_page_gets_what_the_command_line_writes(
    mutants: Path, oracles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same JSON from the command that is shown; of a completed episode its sentence."""
    monkeypatch.chdir(tmp_path)
    async with viewing(mutants, oracles) as client:
        found = await _asked(client, mutants, "e000000", {"tries": 2, "policy": "oracle"})
        done = await _asked(client, oracles, "e000000", {"tries": 1})
        gone = await client.ask("/api/blames/blame-99")
    words = shlex.split(found["command"])[1:]
    assert words[-4:] == ["-n", "2", "-p", "oracle"]
    assert json.loads(_rehearse(*words, "--json", str(tmp_path / "b.json")) and "1")
    assert json.loads((tmp_path / "b.json").read_text()) == found["found"]
    assert found["error"] == "" and found["found"]["blamed"] is not None
    assert done["found"] is None and "no turn is to blame" in done["error"]
    assert (gone.status, "another viewer" in gone.json["error"]) == (404, True)


async def test_what_cannot_be_asked(mutants: Path) -> None:
    """One sentence, and nothing is started."""
    async with viewing(mutants) as client:
        path = f"/api/runs/{run_id(mutants)}/episodes/e000000/blame"
        for body, said in (
            ({"policy": "openai"}, "name the model"),
            ({"tries": 65}, "tries"),
            ({"policy": "mutant"}, "policy"),
            ({"model": "a\nb"}, "model"),
        ):
            answer = await client.ask(path, method="POST", body=body)
            assert answer.status == 400 and said in answer.json["error"], answer.json
        absent = path.replace("e000000", "e999999")
        assert (await client.ask(absent, method="POST", body={})).status == 404


def test_the_key_stays_here(mutants: Path) -> None:
    """A server that the page alone names does not get the key of the environment."""
    assert (mutants / RUN_FILE).is_file()
    environment = {"OPENAI_API_KEY": "sk", "OPENAI_BASE_URL": "http://here/v1", "A": "b"}
    for url, has_key in (("", True), ("http://here/v1/", True), ("http://evil/v1", False)):
        found = environment_of(mutants, url, environment)
        assert ("OPENAI_API_KEY" in found) == has_key and found["A"] == "b"
