"""A world's tools in AWM's form: one FastAPI file with a route per tool, and SQLAlchemy.

The file needs only FastAPI and SQLAlchemy. It contains the package's own code, a replacement for
`Db`, and one route for each tool. A refusal is a response of status 400 with the tool's sentence.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence

from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.synth.core.code_rules import is_ours
from rehearsal_room.scenarios.synth.core.world_drafts import ToolDraft, ToolParameter

_HEAD = """import os
from typing import Annotated

import uvicorn
from fastapi import Body, FastAPI, HTTPException
from sqlalchemy import create_engine, event

engine = create_engine(os.getenv("DATABASE_PATH", "sqlite:///world.db"))
app = FastAPI(title={title!r})
NOW = {now!r}
Row = dict
SqlValue = object
RowChange = object


@event.listens_for(engine, "connect")
def _check_foreign_keys(connection, _record):
    connection.execute("PRAGMA foreign_keys=ON")


class ToolError(Exception):
    pass


class User:
    id = {user_id!r}
    name = {user_name!r}
    role = {user_role!r}


class Db:
    def __init__(self, connection):
        self._connection = connection
        self.now = NOW
        self.user = User()

    def _cursor(self, sql, params):
        return self._connection.exec_driver_sql(sql, tuple(params))

    def all(self, sql, *params):
        return [dict(row) for row in self._cursor(sql, params).mappings()]

    def one(self, sql, *params):
        row = self._cursor(sql, params).mappings().first()
        return None if row is None else dict(row)

    def value(self, sql, *params):
        row = self._cursor(sql, params).first()
        return None if row is None else row[0]

    def run(self, sql, *params):
        return self._cursor(sql, params).rowcount

    def insert(self, table, **values):
        names = ", ".join(values)
        marks = ", ".join("?" for _ in values)
        sql = f"INSERT INTO {{table}} ({{names}}) VALUES ({{marks}})"
        return self._cursor(sql, values.values()).lastrowid

    def execute(self, sql, params=()):
        return [tuple(row) for row in self._cursor(sql, params)]


Reads = State = Db


def _call(tool, **arguments):
    try:
        with engine.begin() as connection:
            return tool(Db(connection), **arguments)
    except ToolError as exc:
        raise HTTPException(status_code=400, detail=str(exc)) from None
"""
_ROUTE = """
@app.post(
    "/{name}", operation_id="{name}", summary={summary!r}, description={text!r}, tags=["tools"]
)
async def route_{name}({parameters}):
    return _call({name}{arguments})
"""
_TAIL = """
if __name__ == "__main__":
    host = os.getenv("HOST", "127.0.0.1")
    port = int(os.getenv("PORT", "8000"))
    uvicorn.run(app, host=host, port=port)
"""


def server_code(
    tools: str, specified: Sequence[ToolDraft] = (), *, title: str, clock: str, user: User
) -> str:
    """The file for a package's tools.py. Parameters get the descriptions of `specified`."""
    parameters = {tool.name: tool.parameters for tool in specified}
    head = _HEAD.format(
        title=title, now=clock, user_id=user.id, user_name=user.name, user_role=user.role
    )
    futures, body = _split(ast.parse(tools))
    routes = [
        _route(node, parameters.get(node.name, {}))
        for node in body
        if isinstance(node, ast.FunctionDef) and _is_tool(node)
    ]
    code = "\n\n\n".join(ast.unparse(node) for node in body)
    return "\n".join([*futures, head, "", code, "", *routes, _TAIL])


def _split(tree: ast.Module) -> tuple[list[str], list[ast.stmt]]:
    """The imports from `__future__`, which must come first, and the other statements without the
    imports of scenarios."""
    futures, body = [], []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            futures.append(ast.unparse(node))
        elif not (isinstance(node, ast.ImportFrom) and is_ours(node)):
            body.append(node)
    return futures, body


def _is_tool(node: ast.FunctionDef) -> bool:
    """Whether the pool takes it for a tool: it is public, and its first parameter is a `Db`."""
    first = node.args.args[0] if node.args.args else None
    kind = None if first is None or first.annotation is None else ast.unparse(first.annotation)
    return not node.name.startswith("_") and kind is not None and kind.strip("'\"") == "Db"


def _route(node: ast.FunctionDef, specified: Mapping[str, ToolParameter]) -> str:
    text = " ".join((ast.get_docstring(node) or node.name).split())
    parameters = list(_parameters(node, specified))
    names = [name for name, _ in parameters]
    return _ROUTE.format(
        name=node.name,
        summary=text[:80],
        text=text,
        parameters=", ".join(declaration for _, declaration in parameters),
        arguments="".join(f", {name}={name}" for name in names),
    )


def _parameters(
    node: ast.FunctionDef, specified: Mapping[str, ToolParameter]
) -> Iterator[tuple[str, str]]:
    """Yield a tool's parameters except the first: the name, and its declaration in the route."""
    positional = node.args.args[1:]
    missing = len(positional) - len(node.args.defaults)
    defaults = [None] * missing + list(node.args.defaults) if missing >= 0 else node.args.defaults
    pairs = [*zip(positional, defaults, strict=False)]
    keywords = [*zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    declared = []
    for argument, default in [*pairs, *keywords]:
        kind = "str" if argument.annotation is None else ast.unparse(argument.annotation)
        parameter = specified.get(argument.arg)
        text = parameter.description if parameter else ""
        about = f", description={text!r}" if text else ""
        declaration = f"{argument.arg}: Annotated[{kind}, Body(embed=True{about})]"
        if default is not None:
            declaration += f" = {ast.unparse(default)}"
        declared.append((default is not None, argument.arg, declaration))
    for _, name, declaration in sorted(declared, key=lambda each: each[0]):  # defaults come last
        yield name, declaration
