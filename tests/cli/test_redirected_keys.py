"""Keys go to servers that the user names, and to none that such a server names."""

import json
from pathlib import Path

import pytest

from tests.support.cli import Rehearse
from tests.support.strangers import KEY, listener

TASKS = """
name = "notes"
description = "Notes."
[[task]]
id = "a"
instruction = "Say hello."
answer = "Hello."
"""


@pytest.mark.parametrize("key", [KEY, ""])
def test_the_card_of_an_agent_gets_no_key(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """An A2A agent whose card names another server is asked there without a key only."""
    monkeypatch.setenv("REHEARSE_AGENT_KEY", key)
    with listener() as (other, heard):
        card = json.dumps({"name": "x", "url": f"{other}/a2a"}).encode()
        with listener(200, card) as (url, _):
            words = ("run", "shop_support", "--agent", url, "-n", 1, "-o", tmp_path / "run")
            status, _, err = rehearse(*words)
    assert KEY not in "".join(heard)
    assert (status, bool(heard)) == ((2, False) if key else (0, True)), err
    assert not key or f"--agent {other}/a2a" in err


def test_a_redirect_gets_no_key(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the header for an MCP server nor the token for a server of worlds goes on to another
    server."""
    monkeypatch.setenv("NOTES_KEY", KEY)
    monkeypatch.setenv("REHEARSE_TOKEN", KEY)
    tasks = tmp_path / "tasks.toml"
    tasks.write_text(TASKS)
    with listener() as (other, heard), listener(to=other) as (url, sent):
        for words in (
            (tasks, "--mcp", f"{url}/mcp", "--mcp-header", "X-Key=NOTES_KEY"),
            ("shop_support", "--pool", url),
        ):
            sent.clear()
            output = ("-p", "noop", "-n", 1, "-o", tmp_path / "run")
            status, _, err = rehearse("run", *words, *output)
            assert (status, len(err.strip().splitlines())) == (2, 1)
            assert KEY in "".join(sent)
    assert heard == []
