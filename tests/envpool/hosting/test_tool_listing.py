"""Tools are listed as by fastapi-mcp 0.4.0 (recorded by tests/fixtures/hosting/record.py)."""

import json
from pathlib import Path

import pytest
from fastapi.openapi.utils import get_openapi

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.hosting.app_loading import execute
from rehearsal_room.envpool.hosting.determinism.loop import VirtualAsyncio
from rehearsal_room.envpool.hosting.fastapi_compat import (
    compat,
    ignore_warnings,
    plain_model_search,
)
from rehearsal_room.envpool.hosting.tool_listing import list_tools
from tests.support.paths import FIXTURES

FOLDER = FIXTURES / "hosting"
PATH = Path("odd/server.py")
HEAD = """
from fastapi import FastAPI
from pydantic import BaseModel
app = FastAPI()
"""


def list_specs(code: str) -> list[ToolSpec]:
    with VirtualAsyncio(), compat():
        hosted = execute(code, "odd_listing", PATH)
        try:
            return [tool.spec for tool in list_tools(hosted.app, PATH)]
        finally:
            hosted.close()


@pytest.mark.parametrize("name", ["shapes", "answers"])
def test_odd_applications_are_listed_as_genuine(name: str) -> None:
    """Unions, enums, nested models, headers, forms and several responses are equal, also where the
    genuine list depends on a hash seed."""
    record = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    specs = list_specs((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    assert [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
        for tool in specs
    ] == record["tools"]


def test_order_within_a_schema_is_the_genuine_one() -> None:
    """The keys have the same order, because a dialect shows schemas as text."""
    record = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))
    specs = list_specs((FOLDER / "answers.py").read_text(encoding="utf-8"))
    assert [json.dumps(tool.schema) for tool in specs] == [
        json.dumps(tool["inputSchema"]) for tool in record["tools"]
    ]


@pytest.mark.parametrize("name", ["shapes", "answers", "library"])
def test_the_plain_search_finds_the_same_models(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document is FastAPI's own, though no validator was made for each field of a model."""
    monkeypatch.chdir(tmp_path)  # where the library's code makes its database
    code = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    # Without a hook around it, this would set foreign keys in the engines of all later tests.
    code = code.replace('@event.listens_for(Engine, "connect")\n', "")
    with VirtualAsyncio(), compat(), ignore_warnings():
        hosted = execute(code, name, PATH)
        try:
            own = get_openapi(title="a", version="1", routes=hosted.app.routes)
            with plain_model_search():
                plain = get_openapi(title="a", version="1", routes=hosted.app.routes)
        finally:
            hosted.close()
    assert json.dumps(plain) == json.dumps(own)
    assert len(own["components"]["schemas"]) > 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            HEAD + "class Node(BaseModel):\n    child: 'Node | None' = None\n"
            "@app.post('/n')\nasync def make(node: Node): ...\n",
            "odd/server.py: the model Node contains itself, so no tool that has it can be listed "
            "(fastapi-mcp does not start with such a model either)",
        ),
        (
            HEAD + "class A(BaseModel):\n    b: 'list[B]' = []\n"
            "class B(BaseModel):\n    a: dict[str, A] = {}\n"
            "@app.get('/a', response_model=A)\nasync def get(): ...\n",
            "odd/server.py: the model A contains itself, so no tool that has it can be listed "
            "(fastapi-mcp does not start with such a model either)",
        ),
        (HEAD, "odd/server.py: its application has no tool: its OpenAPI document has no route"),
        (
            HEAD + "@app.get('/x', include_in_schema=False)\nasync def x(): ...\n",
            "odd/server.py: its application has no tool: its OpenAPI document has no route",
        ),
        (
            HEAD + "class Odd:\n    pass\nfrom pydantic import ConfigDict\n"
            "class A(BaseModel):\n    model_config = ConfigDict(arbitrary_types_allowed=True)\n"
            "    odd: Odd\n@app.post('/x')\nasync def x(a: A): ...\n",
            "odd/server.py: its tools have no OpenAPI description: PydanticInvalidForJsonSchema: "
            "Cannot generate a JsonSchema for core_schema.IsInstanceSchema "
            "(<class 'odd_listing.Odd'>)",
        ),
    ],
    ids=["recursive", "mutually recursive", "no route", "hidden", "no schema"],
)
def test_applications_that_cannot_be_listed_are_refused(code: str, reason: str) -> None:
    """The message names the file and the model."""
    with pytest.raises(ToolsetError) as refused:
        list_specs(code)
    assert str(refused.value).splitlines()[0] == reason


def test_forward_references_are_resolved() -> None:
    """A model may refer to a model that is defined after it."""
    code = HEAD + (
        "class Box(BaseModel):\n    lid: 'Lid'\nclass Lid(BaseModel):\n    round: bool\n"
        "@app.post('/boxes', operation_id='make_box')\nasync def make(box: Box): ...\n"
    )
    [tool] = list_specs(code)
    assert tool.schema == {
        "type": "object",
        "properties": {
            "lid": {
                "properties": {"round": {"type": "boolean", "title": "Round"}},
                "type": "object",
                "required": ["round"],
                "title": "lid",
            }
        },
        "title": "make_boxArguments",
        "required": ["lid"],
    }
