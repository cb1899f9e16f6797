"""Requests that no page sends: odd ids, odd values, bodies of other types."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from rehearsal_room.viewer.reading.open_runs import run_id
from tests.support.viewer_client import Client, viewing

ODD = ("..", "%2e%2e%2fx", "a/b", "\x00", "' OR 1=1 --", "x" * 5_000, "9" * 30, "é\u202e")
RUN = "/api/runs/{run}"
EPISODE = RUN + "/episodes/{episode}"
PATHS = (
    *(RUN, f"{RUN}/episodes", f"{RUN}/grid", f"{RUN}/tasks", f"{RUN}/reasons", "/api/pair"),
    *(EPISODE, f"{EPISODE}/failures", f"{RUN}/judge/queue"),
    *(f"{RUN}/judge/evidence/{{episode}}", f"{RUN}/training", f"{RUN}/training/batch"),
    *(f"{EPISODE}/world", f"{EPISODE}/world/{{table}}", f"{RUN}/groups/{{group}}", f"{RUN}/pair"),
    *("/api/compare", "/api/worlds", "/api/worlds/{world}", "/api/worlds/{world}/table/{table}"),
    *("/api/worlds/{world}/tasks/{task}/oracle", "/api/scratch/{id}", "/api/scratch/{id}/world"),
    *("/api/scratch/{id}/world/{table}", "/api/play/{id}"),
)
KEYS = {
    f"{RUN}/episodes": ("offset", "limit", "sort", "text", "label", "ending", "reward", "x"),
    f"{RUN}/training/batch": ("step",),
    f"{EPISODE}/world": ("turn",),
    f"{EPISODE}/world/{{table}}": ("turn", "offset", "limit", "only"),
    f"{RUN}/pair": ("a", "b"),
    f"{RUN}/grid": ("offset", "limit"),
    f"{RUN}/tasks": ("by", "sort", "scenario", "tag", "failure", "name", "offset", "limit"),
    "/api/pair": ("run", "other", "a", "b"),
    "/api/compare": ("a", "b", "run"),
    "/api/worlds/{world}/table/{table}": ("offset", "limit"),
}
POSTS: dict[str, dict[str, Any]] = {
    f"{EPISODE}/sql": {"sql": "SELECT 1", "turn": 0, "only": "all"},
    f"{EPISODE}/replay": {},
    f"{RUN}/judge/labels": {"episode": "e000000", "label": "completed", "note": "x"},
    "/api/scratch": {"run": "RUN", "episode": "e000000", "turn": 0, "scenario": "", "task": None},
    "/api/scratch/{id}/call": {"tool": "get_order", "arguments": {"order_id": 1}},
    "/api/scratch/{id}/sql": {"sql": "SELECT 1"},
    "/api/scratch/{id}/judge": {"answer": "x", "text": ""},
    "/api/play": {"scenario": "shop_support", "task": "new-email"},
    "/api/play/{id}/call": {"tool": "get_order", "arguments": {}},
    "/api/play/{id}/answer": {"answer": "x"},
    "/api/worlds/{world}/gate": {},
}
VALUES: tuple[Any, ...] = (None, True, -1, 10**30, "", "\x00", [], {"x": {}})


async def sentence(client: Client, path: str, body: Any = None, *, is_post: bool = False) -> str:
    """What is wrong with the answer to a request; empty: it is an answer, or one sentence."""
    found = await client.ask(path, method="POST" if is_post else "GET", body=body)
    if found.status < 400:
        return ""
    why = json.loads(found.body)["error"] if found.body.startswith(b"{") else ""
    is_one = found.status < 500 and "Traceback" not in why and "\n" not in why
    return "" if is_one else f"{path[:120]} {str(body)[:80]}: {found.status} {why}"


@pytest.mark.slow  # a thousand requests
async def test_an_odd_request_is_one_sentence(mutants: Path, tmp_path: Path) -> None:
    """Each id of each path, each parameter and each field of each body, changed one at a time: the
    viewer answers, or says in a sentence what is wrong with the request."""
    run, wrong = run_id(mutants), list[str]()
    right = {
        "run": run,
        "episode": "e000000",
        "table": "orders",
        "group": "g0",
        "world": "shop_support",
        "task": "new-email",
        "id": "x",
    }
    async with viewing(mutants) as client:
        for path in (*PATHS, *POSTS):
            for name in (one for one in right if f"{{{one}}}" in path):
                for odd in ODD:
                    asked = path.format(**{**right, name: odd})
                    is_post, body = path in POSTS, POSTS.get(path)
                    wrong.append(await sentence(client, asked, body, is_post=is_post))
        for path, keys in KEYS.items():
            for key in keys:
                for odd in (*ODD, "-1", "1e9", ""):
                    query = f"{path.format(**right)}?{key}={quote(odd)}"
                    wrong.append(await sentence(client, query))
        for path, body in POSTS.items():
            asked, known = path.format(**right), {**body}
            if not body:  # nothing is read of it
                continue
            if known.get("run"):
                known["run"] = run
            changed = [*VALUES, *({**known, name: value} for name in known for value in VALUES)]
            for one in changed:
                wrong.append(await sentence(client, asked, one, is_post=True))
    assert [one for one in wrong if one] == []
