"""The exported file: whole, closed, and from the same answers as the server's."""

import base64
import json
import re
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio.to_thread

from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.cli import Rehearse
from tests.support.viewer_client import viewing


def _parts(path: Path) -> tuple[str, dict[str, Any]]:
    """The page, and the answers in it."""
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/octet-stream" id="embedded">([^<]*)<', text)
    assert found is not None
    answers: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(found[1])))
    return text, answers


async def test_it_has_what_the_server_answers(
    mutants: Path, tmp_path: Path, rehearse: Rehearse
) -> None:
    """Episodes, groups and the run's page are equal; the start of each world is beside them."""
    file = tmp_path / "run.html"
    await _export(rehearse, mutants, file)
    _, answers = _parts(file)
    base = f"/api/runs/{run_id(mutants)}"
    async with viewing(mutants) as client:
        for path in (base, f"{base}/grid", f"{base}/groups/g000000", f"{base}/episodes/e000001"):
            assert answers[path] == await client.get(path), path
        rows = (await client.get(f"{base}/episodes"))["rows"]
        world = await client.get(f"{base}/episodes/e000001/world?turn=0")
    digest = rows[0]["start_digest"]
    tables = answers[f"/embedded/start/{digest}"]["tables"]

    assert answers[f"{base}/episodes"]["rows"] == rows
    assert [(one["name"], len(one["rows"])) for one in tables] == [
        (one["name"], one["rows"]) for one in world["tables"]
    ]
    assert answers["/api/about"]["exported"] is True


async def test_it_needs_nothing_from_outside(
    mutants: Path, tmp_path: Path, rehearse: Rehearse
) -> None:
    """Script and style are inline and allowed by their hashes; no other script can run, and no
    text of an agent is outside of the deflated part."""
    file = tmp_path / "run.html"
    await _export(rehearse, mutants, file)
    text, answers = _parts(file)
    episode = answers[f"/api/runs/{run_id(mutants)}/episodes/e000000"]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    hashed = base64.b64encode(sha256(scripts[0].encode()).digest()).decode()

    assert len(scripts) == 1
    assert f"script-src 'sha256-{hashed}'" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "src=" not in text.replace(scripts[0], "").split("<noscript>")[0].split("</style>")[-1]
    assert episode["instruction"] not in text
    assert len(text) < 2_000_000


async def _export(rehearse: Rehearse, run: Path, file: Path) -> None:
    def call() -> None:
        status, out, err = rehearse("view", run, "--export", file)
        assert status == 0, err
        assert str(file) in out

    await anyio.to_thread.run_sync(call)
