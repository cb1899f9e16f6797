"""`rehearse new world --openapi`: a REST service as a world, or as tasks with checks as calls.

The service is a small one of FastAPI, on SQLite, started by uvicorn; FastMCP makes its tools.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastmcp import Client

from rehearsal_room.authoring.openapi import server
from rehearsal_room.authoring.openapi.server import DocumentError, base_url_of, load, server_of
from rehearsal_room.scenarios.format import read
from tests.support import rest_service
from tests.support.cli import Rehearse, json_of
from tests.support.paths import TESTS
from tests.support.recorded_sessions import REHEARSE, Session


@pytest.fixture
def anyio_backend() -> str:
    """FastMCP runs on asyncio."""
    return "asyncio"


UVICORN = f"{sys.executable} -m uvicorn --log-level warning --app-dir {TESTS / 'support'}"
SERVE = f"{UVICORN} rest_service:app --port {{port}}"
ORDER = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
PART = {
    "type": "object",
    "properties": {"parts": {"type": "array", "items": {"$ref": "#/components/schemas/Part"}}},
}


def document(paths: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An OpenAPI document with these paths."""
    info = {"title": "Shop", "version": "1"}
    return {"openapi": "3.1.0", "info": info, "paths": paths, **more}


def operation(schema: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """An operation, with a body of this schema."""
    body = {"requestBody": {"content": {"application/json": {"schema": schema}}}} if schema else {}
    return {"responses": {"200": {"description": "done"}}, **body, **more}


MANY = document({f"/things/{n}": {"get": operation(operationId=f"thing_{n}")} for n in range(300)})
CYCLE = document(
    {"/parts": {"post": operation({"$ref": "#/components/schemas/Part"}, operationId="add_part")}},
    components={"schemas": {"Part": PART}},
)
NAMELESS = document(
    {
        "/orders": {"get": operation(), "post": operation(ORDER)},
        "/orders/{id}": {
            "get": operation(
                parameters=[{"name": "id", "in": "path", "required": True, "schema": {}}]
            )
        },
    }
)
DATES = """\
openapi: 3.0.3
info: {title: Shop, version: 1.0}
servers: [{url: "https://{place}.example/v1", variables: {place: {default: north}}}]
paths:
  /orders:
    get:
      operationId: listOrders
      description: Orders since a day
      parameters:
        - {name: since, in: query, schema: {type: string}, example: 2026-01-02}
      responses: {200: {description: done}}
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (json.dumps(MANY), [f"thing_{n}" for n in range(300)]),
        (json.dumps(CYCLE), ["add_part"]),
        (json.dumps(NAMELESS), ["GET_orders", "POST_orders", "GET_ordersid"]),
        (yaml.safe_dump(NAMELESS), ["GET_orders", "POST_orders", "GET_ordersid"]),
        (DATES, ["listOrders"]),
    ],
)
async def test_each_operation_is_a_tool(text: str, names: list[str], tmp_path: Path) -> None:
    """Of 300 operations, of schemas that hold themselves, of operations without an id, of YAML with
    dates and numbers for keys; and a GET says that it only reads."""
    path = tmp_path / "openapi"
    path.write_text(text)
    async with Client(server_of(load(path), "https://shop.example", {})) as client:
        tools = await client.list_tools()
    assert sorted(tool.name for tool in tools) == sorted(names)
    hints = {tool.name: tool.annotations.read_only_hint for tool in tools if tool.annotations}
    assert hints == {name: "POST" not in name and "add" not in name for name in names}


# YAML's aliases: 9 ** 8 values in 300 bytes.
BOMB = "a: &a [x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
REFERS = {
    "paths": {
        "/a": {
            "get": {
                "parameters": [{"$ref": "#/components/parameters/size"}],
                "responses": {"200": {"$ref": "#/components/responses/none"}},
            }
        }
    },
    "components": {"parameters": {"size": {"$ref": "#/components/parameters/page"}}},
}


def test_a_document_is_yaml_1_2(tmp_path: Path) -> None:
    """The words `on` and `no`, and dates, are texts, as OpenAPI means them."""
    path = tmp_path / "openapi.yaml"
    path.write_text(
        "openapi: 3.1.0\ninfo: {title: on, version: 2026-01-01}\npaths:\n  /a:\n    get:\n"
        "      description: no\n      deprecated: true\n      responses: {200: {description: ok}}\n"
    )
    document = load(path)
    assert document["info"] == {"title": "on", "version": "2026-01-01"}
    operation = document["paths"]["/a"]["get"]
    assert operation["description"] == "no" and operation["deprecated"] is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "neither JSON nor YAML"),
        ("swagger: '2.0'", "expected an OpenAPI document of version 3"),
        ("[1, 2]", "expected an OpenAPI document of version 3"),
        ("a: &a [*a]", "it has more than 2,000,000 values"),
        (BOMB, "it has more than 2,000,000 values"),
        (json.dumps({**MANY, "paths": {}}), "it has no paths, and so no operations"),
        (json.dumps({**MANY, **REFERS}), "'#/components/parameters/page', which is not in"),
        (json.dumps(MANY), "the document names no whole URL of a server (''): --base-url URL"),
        (
            json.dumps({**MANY, "servers": [{"url": "/v1"}]}),
            "the document names no whole URL of a server ('/v1')",
        ),
    ],
)
def test_a_document_that_cannot_be_used(
    text: str, said: str, rehearse: Rehearse, tmp_path: Path
) -> None:
    """One sentence, and nothing is written."""
    (tmp_path / "openapi.yaml").write_text(text)
    words = ("--openapi", tmp_path / "openapi.yaml", "-o", tmp_path / "made")
    status, _, err = rehearse("new", "world", "shop", *words)
    assert (status, said in err) == (2, True), err
    assert not (tmp_path / "made").exists()


def test_where_a_service_is(tmp_path: Path) -> None:
    """As given, or where the document says, with its variables."""
    (tmp_path / "a.yaml").write_text(DATES)
    found = load(tmp_path / "a.yaml")
    assert base_url_of(found) == "https://north.example/v1"
    assert base_url_of(found, "http://127.0.0.1:1/x") == "http://127.0.0.1:1/x"
    with pytest.raises(DocumentError):
        base_url_of(found, "shop.example")


def test_a_document_gets_no_key(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value of a variable goes to an address that the user names, and not to one that only the
    document names: neither the command nor the server that it writes sends it there."""
    monkeypatch.setenv("SHOP_KEY", "secret")
    file = tmp_path / "a.yaml"
    file.write_text(DATES)
    words = ("new", "world", "shop", "--openapi", file, "-o", tmp_path / "made")
    for flags in (("--bearer", "SHOP_KEY"), ("--header", "x-api-key=SHOP_KEY")):
        status, _, err = rehearse(*words, *flags)
        assert status == 2 and "--base-url https://north.example/v1" in err, err
        served = [sys.executable, server.__file__, file, *flags]
        done = subprocess.run(served, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "--base-url" in done.stderr
    assert not (tmp_path / "made").exists()


@pytest.mark.slow  # it starts FastMCP and uvicorn a dozen times
@pytest.mark.usefixtures("quick_gate")
@pytest.mark.timeout(300)
def test_a_service_becomes_a_world(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its command, the service's database is the state: a session that is recorded in the
    world becomes a gated task, whose episodes are replayed; a header has the value of a variable.
    Without the command there is a file of tasks, which names the tools."""
    monkeypatch.setenv("SHOP_KEY", "k3y")
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(rest_service.app.openapi()))
    words = ("new", "world", "--openapi", file, "-o", tmp_path, "--header", "x-api-key=SHOP_KEY")
    serve = ("--serve", SERVE, "--var", "SHOP_DB={scratch}/orders.db")
    status, out, err = rehearse(*words, "shop", *serve)
    assert (status, err) == (0, ""), out
    assert "4 tools; it writes orders.db" in out
    with Session(
        (
            *REHEARSE,
            "new",
            "recording",
            str(tmp_path / "r.jsonl"),
            "--world",
            str(tmp_path / "shop"),
        )
    ) as session:
        made = session.call("add_order", item="pens", qty=3)["id"]
        session.call("set_state", order_id=made, state="paid")
        assert session.call("read_secret") == {"result": "the secret"}
        session.call("set_state", order_id=made, state="sent")
    status, out, err = rehearse(
        *("new", "world", "sent", "--from-recording", tmp_path / "r.jsonl", "-o", tmp_path),
        *("--world", tmp_path / "shop"),
    )
    assert (status, err) == (0, ""), out
    (task,) = read(tmp_path / "sent").tasks
    assert task.instruction.endswith("then set state with its order_id, state 'sent'.")
    gate = json_of(rehearse, "worlds", "check", tmp_path / "sent")
    assert (gate["failures"], gate["survivors"], gate["equivalent"] > 0) == ([], [], True)
    run = tmp_path / "run"
    report = json_of(rehearse, "run", tmp_path / "sent", "-p", "oracle", "-o", run)
    assert report["labels"] == {"completed": 1}
    assert json_of(rehearse, "replay", run)["divergences"] == []

    status, out, err = rehearse(*words, "far", "--base-url", "http://127.0.0.1:9")
    assert (status, err) == (0, ""), out
    assert "#   add_order: Order something." in (tmp_path / "far" / "tasks.toml").read_text()
    assert shlex.quote("x-api-key=SHOP_KEY") in out
