"""Execute a scenario's generated code once and find its FastAPI application.

AWM runs the code as a script, so `if __name__ == "__main__":` blocks are executed here too, though
the module has another name. Where the script would start a server (`uvicorn.run(app)`, a
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

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.hosting.determinism.loop import Runner
from rehearsal_room.envpool.hosting.determinism.mutation_analysis import Uses, uses_of
from rehearsal_room.envpool.hosting.fastapi_compat import ignore_warnings

# Environment variables for the code. Whatever URL it opens, the hook gives it the world's database.
ENVIRONMENT = {"DATABASE_PATH": "sqlite:///world.db", "HOST": "127.0.0.1", "PORT": "8000"}


class _ServerReached(BaseException):
    """The code has reached the start of its server. `except Exception` does not catch this."""


class HostedApp:
    """A FastAPI application and its module. `close()` runs the shutdown and drops the module."""

    def __init__(self, app: FastAPI, module: ModuleType, uses: Uses, runner: Runner) -> None:
        self.app = app
        self.module = module
        self.uses = uses  # what the module's functions do to names
        self.runner = runner  # runs everything that the application does
        self._lifespan: Any = None  # the context manager of its lifespan; None: not entered

    def startup(self, path: Path) -> None:
        """Run the application's startup. Raises ToolsetError."""
        lifespan = self.app.router.lifespan_context(self.app)
        try:
            with ignore_warnings():
                self.runner.run(_enter(lifespan), keeps_generators=True)
        except (Exception, SystemExit) as exc:
            why = _exception_text(exc)
            raise ToolsetError(f"{_location(path, exc)}: its startup fails: {why}") from exc
        self._lifespan = lifespan

    def close(self) -> None:
        """Run the shutdown, ignoring its errors, and remove the module."""
        if self._lifespan is not None:
            with suppress(Exception, SystemExit), ignore_warnings():
                self.runner.run(_exit(self._lifespan))
        self.runner.close()
        sys.modules.pop(self.module.__name__, None)
        linecache.cache.pop(str(self.module.__file__), None)
        _clear_caches()


def _clear_caches() -> None:
    """Clear FastAPI's caches of functions and models, which keep 3 MB of each application."""
    for library in (dependencies, models):
        for value in vars(library).values():
            if isinstance(value, functools._lru_cache_wrapper):
                value.cache_clear()
    routing._endpoint_context_cache.clear()


async def _enter(lifespan: Any) -> None:
    await lifespan.__aenter__()


async def _exit(lifespan: Any) -> None:
    await lifespan.__aexit__(None, None, None)


def execute(code: str, name: str, path: Path) -> HostedApp:
    """Execute the code as the module `name`, which stays in sys.modules.

    The caller enters envpool.hosting.determinism.loop.VirtualAsyncio and the database hook around
    it. Raises ToolsetError naming `path` (of server.py), line and reason.
    """
    compiled, uses = _compile(code, path)
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    # Tracebacks and inspect.getsource find the text here; the file need not exist.
    linecache.cache[str(path)] = (len(code), None, code.splitlines(keepends=True), str(path))
    try:
        with (
            ignore_warnings(),
            _environment(),
            _without_server(module) as launched,
            suppress(_ServerReached),
        ):
            exec(compiled, vars(module))  # nosec B102 # untrusted code: only in a worker
        app = _choose_app(module, launched, path)
    except (Exception, SystemExit, KeyboardInterrupt) as exc:
        sys.modules.pop(name, None)
        if isinstance(exc, ToolsetError):
            raise
        raise ToolsetError(f"{_location(path, exc)}: {_exception_text(exc)}") from exc
    return HostedApp(app, module, uses, Runner())


def _compile(code: str, path: Path) -> tuple[CodeType, Uses]:
    """The code, and what its functions do to names. Both are read from one tree, which is freed
    before the code runs: parsing it again took a tenth of the time, and 4 MB of each process."""
    if not code.strip():
        raise ToolsetError(f"{path}: the code is empty")
    try:
        with ignore_warnings():  # such as those about invalid escapes in strings
            tree = ast.parse(code, filename=str(path))
            uses = uses_of(tree)
            compiled = compile(_as_script(tree, code), str(path), "exec", dont_inherit=True)
            return compiled, uses
    except SyntaxError as exc:
        line = f"line {exc.lineno}: " if exc.lineno else ""
        raise ToolsetError(f"{path}: {line}{exc.msg}") from exc
    except (ValueError, RecursionError, MemoryError) as exc:
        raise ToolsetError(f"{path}: not valid Python: {_exception_text(exc)}") from exc


def _as_script(tree: ast.Module, code: str) -> ast.Module:
    """Make the tree run as a script. Only statements that contain "__main__" are visited."""
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
def _without_server(module: ModuleType) -> Iterator[list[FastAPI]]:
    """A block in which uvicorn starts no server. Yields the applications that it should run."""
    launched: list[FastAPI] = []
    if importlib.util.find_spec("uvicorn") is None:
        yield launched
        return
    uvicorn = importlib.import_module("uvicorn")

    def run(app: Any = None, *_: Any, **keywords: Any) -> None:
        _note_app(launched, module, app if app is not None else keywords.get("app"))
        raise _ServerReached

    def serve(server: Any, *_: Any, **__: Any) -> None:
        _note_app(launched, module, server.config.app)
        raise _ServerReached

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


def _note_app(launched: list[FastAPI], module: ModuleType, app: Any) -> None:
    """Note the application that a server is asked to run: itself, or "module:attribute"."""
    if isinstance(app, str):
        app = getattr(module, app.rpartition(":")[2], None)
        if callable(app) and not isinstance(app, FastAPI):
            app = app()  # a factory
    if isinstance(app, FastAPI):
        launched.append(app)


def _choose_app(module: ModuleType, launched: list[FastAPI], path: Path) -> FastAPI:
    """The application that uvicorn was asked to run, else `app`, else the only one."""
    if launched:
        return launched[0]
    named = getattr(module, "app", None)
    if isinstance(named, FastAPI):
        return named
    every = {id(value): value for value in vars(module).values() if isinstance(value, FastAPI)}
    if len(every) == 1:
        return next(iter(every.values()))
    if not every:
        raise ToolsetError(f"{path}: it has no FastAPI application")
    found = f"it has {len(every)} FastAPI applications"
    raise ToolsetError(f"{path}: {found}, and none is called app or run by uvicorn")


def _location(path: Path, exc: BaseException) -> str:
    """The file and the innermost of its lines in the traceback, to begin an error message."""
    line = 0
    trace = exc.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{path}: line {line}" if line else str(path)


def _exception_text(exc: BaseException) -> str:
    """Type and message of an exception, whose own methods may be hostile."""
    try:
        text = str(exc)
    except Exception:
        text = "(its text is not available)"
    text = text.encode(errors="replace").decode()
    return f"{type(exc).__name__}: {text[:2000]}" if text else type(exc).__name__
