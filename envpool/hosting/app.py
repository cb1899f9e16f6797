"""Executing generated code once: one FastAPI application per scenario.

AWM runs the code as a script, so `if __name__ == "__main__":` blocks are executed here too, though
the module has a name of its own. Where the script would start a server (`uvicorn.run(app)`, a
`uvicorn.Server`), its execution ends and the application is known. Then the application's startup
is run, as the server would have run it.
"""

import ast
import functools
import importlib.util
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from fastapi import FastAPI, routing
from fastapi._compat import v2 as models
from fastapi.dependencies import models as dependencies

from envpool.core.errors import ToolsetError
from envpool.hosting.determinism.loop import Runner
from envpool.hosting.fastapi_compat import quiet

# What the code may ask of its environment; the database is the hook's, whatever is asked for.
ENVIRONMENT = {"DATABASE_PATH": "sqlite:///world.db", "HOST": "127.0.0.1", "PORT": "8000"}


class _Started(BaseException):
    """The code has come to where its server would run. No `except Exception` of its stops this."""


class HostedApp:
    """An application and the module that it came from. `close()` runs its shutdown and lets go."""

    def __init__(self, app: FastAPI, module: ModuleType, runner: Runner) -> None:
        self.app = app
        self.module = module
        self.runner = runner  # of everything that the application does
        self._lifespan: Any = None  # its context manager; None: not entered

    def startup(self, path: Path) -> None:
        """Run the application's startup. Raises ToolsetError."""
        lifespan = self.app.router.lifespan_context(self.app)
        try:
            with quiet():
                self.runner.run(_entered(lifespan), keeps_generators=True)
        except (Exception, SystemExit) as exc:
            raise ToolsetError(f"{_place(path, exc)}: its startup fails: {_told(exc)}") from exc
        self._lifespan = lifespan

    def close(self) -> None:
        """Run the shutdown, whatever comes of it, and forget the module."""
        if self._lifespan is not None:
            with suppress(Exception, SystemExit), quiet():
                self.runner.run(_left(self._lifespan))
        self.runner.close()
        sys.modules.pop(self.module.__name__, None)
        linecache.cache.pop(str(self.module.__file__), None)
        _clear_caches()


def _clear_caches() -> None:
    """Empty FastAPI's memory of functions and models: 3 MB of each application would stay."""
    for library in (dependencies, models):
        for value in vars(library).values():
            if isinstance(value, functools._lru_cache_wrapper):
                value.cache_clear()
    routing._endpoint_context_cache.clear()


async def _entered(lifespan: Any) -> None:
    await lifespan.__aenter__()


async def _left(lifespan: Any) -> None:
    await lifespan.__aexit__(None, None, None)


def execute(code: str, name: str, path: Path) -> HostedApp:
    """Execute the code under a module name of its own, which stays in sys.modules.

    Enter envpool.hosting.determinism.loop.Contained and the database hook around it. Raises
    ToolsetError naming `path` (of server.py), line and reason.
    """
    compiled = _compiled(code, path)
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    # Tracebacks and inspect.getsource find the text here; the file need not exist.
    linecache.cache[str(path)] = (len(code), None, code.splitlines(keepends=True), str(path))
    try:
        with quiet(), _environment(), _no_server(module) as launched, suppress(_Started):
            exec(compiled, vars(module))
        app = _chosen(module, launched, path)
    except (Exception, SystemExit, KeyboardInterrupt) as exc:
        sys.modules.pop(name, None)
        if isinstance(exc, ToolsetError):
            raise
        raise ToolsetError(f"{_place(path, exc)}: {_told(exc)}") from exc
    return HostedApp(app, module, Runner())


def _compiled(code: str, path: Path) -> CodeType:
    if not code.strip():
        raise ToolsetError(f"{path}: there is no code")
    try:
        with quiet():  # about invalid escapes in strings
            tree = _as_script(ast.parse(code, filename=str(path)), code)
            compiled: CodeType = compile(tree, str(path), "exec", dont_inherit=True)
            return compiled
    except SyntaxError as exc:
        place = f"line {exc.lineno}: " if exc.lineno else ""
        raise ToolsetError(f"{path}: {place}{exc.msg}") from exc
    except (ValueError, RecursionError, MemoryError) as exc:
        raise ToolsetError(f"{path}: not valid Python: {_told(exc)}") from exc


def _as_script(tree: ast.Module, code: str) -> ast.Module:
    """The same as it runs as a script. Only statements that name `__main__` are looked into."""
    ends = re.split(r"\r\n|\r|\n", code)  # as Python's parser counts lines
    lines = [number for number, line in enumerate(ends, 1) if "__main__" in line]
    for position, node in enumerate(tree.body):
        if any(node.lineno <= number <= (node.end_lineno or 0) for number in lines):
            tree.body[position] = _RunsAsScript().visit(node)
    return tree


class _RunsAsScript(ast.NodeTransformer):
    """Makes `__name__ == "__main__"` true, on either side, and `!=` false."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        sides = [node.left, *node.comparators]
        if len(sides) == 2 and any(map(_is_name, sides)) and any(map(_is_main, sides)):
            if isinstance(node.ops[0], ast.Eq):
                return ast.copy_location(ast.Constant(True), node)
            if isinstance(node.ops[0], ast.NotEq):
                return ast.copy_location(ast.Constant(False), node)
        self.generic_visit(node)
        return node


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "__name__"


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == "__main__"


@contextmanager
def _environment() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _no_server(module: ModuleType) -> Iterator[list[FastAPI]]:
    """While it is entered, uvicorn starts nothing. Gives the applications that it was told of."""
    launched: list[FastAPI] = []
    if importlib.util.find_spec("uvicorn") is None:
        yield launched
        return
    uvicorn = importlib.import_module("uvicorn")

    def run(app: Any = None, *_: Any, **keywords: Any) -> None:
        _note(launched, module, app if app is not None else keywords.get("app"))
        raise _Started

    def serve(server: Any, *_: Any, **__: Any) -> None:
        _note(launched, module, server.config.app)
        raise _Started

    replaced: list[tuple[Any, str, Callable[..., None]]] = [
        (uvicorn, "run", run),
        (sys.modules["uvicorn.main"], "run", run),
        (uvicorn.Server, "run", serve),
        (uvicorn.Server, "serve", serve),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    for owner, name, function in replaced:
        setattr(owner, name, function)
    try:
        yield launched
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def _note(launched: list[FastAPI], module: ModuleType, app: Any) -> None:
    """Note the application that a server is asked to run: itself, or "module:attribute"."""
    if isinstance(app, str):
        app = getattr(module, app.rpartition(":")[2], None)
        if callable(app) and not isinstance(app, FastAPI):
            app = app()  # a factory
    if isinstance(app, FastAPI):
        launched.append(app)


def _chosen(module: ModuleType, launched: list[FastAPI], path: Path) -> FastAPI:
    """The application: the one that is run, else `app`, else the only one."""
    if launched:
        return launched[0]
    named = getattr(module, "app", None)
    if isinstance(named, FastAPI):
        return named
    every = {id(value): value for value in vars(module).values() if isinstance(value, FastAPI)}
    if len(every) == 1:
        return next(iter(every.values()))
    found = "there is no FastAPI application" if not every else "it has several applications"
    raise ToolsetError(f"{path}: {found}, and none is called app or run by uvicorn")


def _place(path: Path, exc: BaseException) -> str:
    """The file, and the innermost line of it that the exception passed through."""
    line = 0
    trace = exc.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{path}: line {line}" if line else str(path)


def _told(exc: BaseException) -> str:
    """An exception in words; its own code may be hostile."""
    try:
        text = str(exc)
    except Exception:
        text = "(its text cannot be had)"
    text = text.encode(errors="replace").decode()
    return f"{type(exc).__name__}: {text[:2000]}" if text else type(exc).__name__
