"""Run the verifiers of AWM tasks: Python code that reads two database files, before and after.

Both kinds are called as AWM calls them (reference: AgentWorldModel, arXiv:2602.10090, §4 of its
verification). The function is that of the first line that begins with `def verify_`, at any depth,
else the default name of its kind. Arguments are passed by the names initial_db_path, final_db_path
and final_answer, or all by position when the function has none of these names. The code runs
unchanged, with every builtin, so it must run in a worker.

| kind | function               | label                                                      |
|------|------------------------|------------------------------------------------------------|
| code | verify_task_completion | its `result`: complete, or others; judge_error: it failed   |
| sql  | verify_task            | incomplete: evidence for a judge; judge_error: it failed    |

Differences from AWM: both kinds get the answer; what a verifier prints is returned; time is the
scenario's; leaving Python (SystemExit and the like) is a judge_error and does not end the runner.
"""

import builtins
import inspect
import io
import json
import os
import re
import shutil
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Literal

import msgspec

from rehearsal_room.envpool.hosting.dbapi.clock_patch import patch_sql_clock
from rehearsal_room.envpool.hosting.determinism.clock import frozen_clock, seed_random
from rehearsal_room.envpool.hosting.dict_versions import DictVersions
from rehearsal_room.scenarios.format import AwmRecord

VerifierKind = Literal["code", "sql"]

MAX_PRINTED = 64 * 1024  # characters
MAX_DETAIL = 2**20  # characters of JSON
_MIN_LENGTH = 10  # characters of code; what is shorter cannot be a function
_dumps, _loads = json.dumps, json.loads  # a verifier may replace those of the module
_NAMES = ("initial_db_path", "final_db_path", "final_answer")
_DEFAULTS = {"code": "verify_task_completion", "sql": "verify_task"}
_GUARDED = (builtins, io, json, os, os.path, re, sqlite3, sqlite3.dbapi2)


class AwmVerdict(msgspec.Struct, frozen=True):
    """The result of an AWM verifier."""

    label: Literal["complete", "others", "incomplete", "judge_error"]
    detail: Any  # what AWM's runner reports about it, in plain JSON
    printed: str = ""  # at most MAX_PRINTED
    fault: str = ""  # why the verifier failed; set with judge_error
    violation: str = ""  # what it changed of other code: then the worker must be replaced


class _VerifierError(Exception):
    """The verifier failed; the message has the reason."""


def verify_awm(
    record: AwmRecord,
    task_id: str,
    kind: VerifierKind,
    before_image: bytes,
    after_image: bytes,
    answer: str,
    scratch: Path,
    *,
    clock: str,
) -> AwmVerdict:
    """Run a task's verifier on an episode's databases and final answer.

    The databases are read-only files in a separate folder inside of `scratch`, written for each run
    and deleted afterwards. `clock` is the scenario's.
    """
    verifiers = record.verifiers.get(task_id)
    code = getattr(verifiers, kind, None)
    if code is None or len(code.strip()) < _MIN_LENGTH:
        why = f"task {task_id!r} has no {kind} verifier"
        return AwmVerdict("judge_error", {"error": why}, fault=why)
    printed = _CapturedOutput()
    with (
        _database_files(scratch, before_image, after_image) as paths,
        frozen_clock(clock),
        patch_sql_clock(),
        redirect_stdout(printed),
        redirect_stderr(_CapturedOutput()),
        _guarded.restored() as replaced,
    ):
        seed_random(task_id, 0)
        label, detail, fault = _run_verifier(code, kind, (*paths, answer))
    violation = f"the verifier replaced {', '.join(replaced)[:200]}" if replaced else ""
    return AwmVerdict(label, detail, printed.text(), fault, violation)


def _run_verifier(
    code: str, kind: VerifierKind, arguments: tuple[str, str, str]
) -> tuple[Any, Any, str]:
    """Label, detail and fault. The code's exceptions do not leave this function."""
    try:
        result = _call(code, kind, arguments)
        return (_code_verdict if kind == "code" else _sql_verdict)(result)
    except _VerifierError as exc:
        return _error_verdict(kind, str(exc))
    except BaseException as exc:  # also SystemExit and KeyboardInterrupt, which code can raise
        return _error_verdict(kind, f"Execution error: {_exception_text(exc)}")


def _call(code: str, kind: VerifierKind, arguments: tuple[str, str, str]) -> Any:
    namespace: dict[str, Any] = {"sqlite3": sqlite3, "json": json, "os": os}
    if kind == "code":
        namespace["re"] = re
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(_compile(code, kind), namespace)  # nosec B102 # untrusted code: only in a worker
        name = _function_name(code, _DEFAULTS[kind])
        function = namespace.get(name)
        if not function:
            raise _VerifierError(f"Function '{name}' not found")
        return _call_with_arguments(function, arguments)


@lru_cache(256)
def _compile(code: str, kind: VerifierKind) -> CodeType:
    return compile(code, f"<{kind} verifier>", "exec", dont_inherit=True)


def _function_name(code: str, default: str) -> str:
    for line in code.split("\n"):
        line = line.strip()
        if line.startswith("def verify_") and "(" in line:
            return line.split("(")[0].removeprefix("def ").strip()
    return default


def _call_with_arguments(function: Callable[..., Any], arguments: tuple[str, str, str]) -> Any:
    parameters = inspect.signature(function).parameters
    named = {n: value for n, value in zip(_NAMES, arguments, strict=True) if n in parameters}
    if named or len(parameters) < 2:
        return function(**named)
    return function(*arguments[: min(len(parameters), 3)])


def _code_verdict(result: Any) -> tuple[str, Any, str]:
    if not isinstance(result, dict) or "result" not in result:
        raise _VerifierError(f"Invalid return format: {type(result).__name__}")
    value = result.get("result")
    label = "complete" if isinstance(value, str) and str(value) == "complete" else "others"
    try:
        raw = _to_json(result)
    except Exception as exc:  # AWM's runner reads only the label
        raw = f"it cannot be written as JSON: {_exception_text(exc)}"
    return label, {"result": label, "execution_status": "success", "raw_result": raw}, ""


def _sql_verdict(result: Any) -> tuple[str, Any, str]:
    detail = _to_json(result)
    if isinstance(detail, dict) and detail.get("execution_status") == "error":
        why = str(detail.get("error_message", "the verifier reported an error without a message"))
        return "judge_error", detail, why
    return "incomplete", detail, ""


def _error_verdict(kind: VerifierKind, why: str) -> tuple[str, Any, str]:
    detail = {"execution_status": "error", "error_message": why}
    return "judge_error", {"result": "others", **detail} if kind == "code" else detail, why


def _exception_text(exc: BaseException) -> str:
    """An exception's message; its class's own methods may be hostile."""
    try:
        text = str.__str__(str(exc))
        name = str.__str__(type(exc).__name__)
    except BaseException as other:
        return f"an exception whose text raises {_builtin_name(other)}"
    if isinstance(exc, Exception):
        return _without_surrogates(text[:2_000])
    return _without_surrogates(f"{name}: {text}"[:2_000])


def _builtin_name(exc: BaseException) -> str:
    return next(base.__name__ for base in type(exc).__mro__ if base.__module__ == "builtins")


def _to_json(value: Any) -> Any:
    """The value as JSON has it, which a log and a message to the pool can hold.

    Example: {1: (b"ab", {2})} -> {"1": ["ab", [2]]}

    Raises what the value's own methods raise, and ValueError for a value that contains itself.
    """
    text = _dumps(_stringify(value, set()), default=str)
    if len(text) > MAX_DETAIL:
        raise _VerifierError(f"its result is larger than {MAX_DETAIL} characters of JSON")
    return _loads(text, parse_int=_parse_integer)


def _stringify(value: Any, enclosing: set[int]) -> Any:
    """The value with texts as keys, lists instead of sets, and texts that UTF-8 can encode."""
    if isinstance(value, str):
        return _without_surrogates(str.__str__(value))
    if not isinstance(value, dict | list | tuple | set | frozenset | bytes):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if id(value) in enclosing:
        raise ValueError("Circular reference detected")
    enclosing.add(id(value))
    if isinstance(value, dict):
        plain: Any = {_key(key): _stringify(inner, enclosing) for key, inner in value.items()}
    else:
        plain = [_stringify(inner, enclosing) for inner in value]
    enclosing.discard(id(value))
    return plain


def _key(key: Any) -> str:
    if isinstance(key, str):
        return _without_surrogates(str.__str__(key))
    if key is None or isinstance(key, bool | int | float):
        return str(_dumps(key))
    return _without_surrogates(str(key))


def _parse_integer(digits: str) -> int | str:
    number = int(digits)
    return number if -(2**63) <= number < 2**63 else digits


def _without_surrogates(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()


class _CapturedOutput(io.TextIOBase):
    """A verifier's standard output. It stores the beginning."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[str] = []
        self._left = MAX_PRINTED

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        piece = text[: self._left]
        if piece:
            self._pieces.append(piece)
            self._left -= len(piece)
        return len(text)

    def text(self) -> str:
        """The printed text, without what UTF-8 cannot encode."""
        return _without_surrogates("".join(self._pieces))


@contextmanager
def _database_files(scratch: Path, before: bytes, after: bytes) -> Iterator[tuple[str, str]]:
    """The two databases as files in a folder with nothing else in it."""
    folder = scratch / "verify"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    paths = (folder / "initial.db", folder / "final.db")
    try:
        for path, image in zip(paths, (before, after), strict=True):
            with open(path, "xb", opener=_open_read_only) as file:
                file.write(image)
        yield str(paths[0]), str(paths[1])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _open_read_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o444)  # at creation: a worker may not change a file's mode


class _GuardedModules:
    """The names of modules that verifiers use, to be restored after a verifier.

    They are copied again only when they have changed since the last copy: to copy is to touch every
    object (envpool.hosting.dict_versions). So the fork server copies them, and its workers do not.
    """

    def __init__(self, modules: tuple[ModuleType, ...]) -> None:
        self._modules = modules
        self._versions = DictVersions(map(vars, modules))
        self._names = [vars(module).copy() for module in modules]
        self._copied_at = self._versions.read()

    @contextmanager
    def restored(self) -> Iterator[list[str]]:
        """A block after which the modules have their old names and values again.

        Yields a list that afterwards has the names that the code replaced, removed or added.
        """
        before = self._versions.read()
        for number in self._versions.changed(self._copied_at, before):
            self._names[number] = vars(self._modules[number]).copy()
        self._copied_at = before
        replaced: list[str] = []
        try:
            yield replaced
        finally:
            for number in self._versions.changed(before, self._versions.read()):
                replaced += _restore(self._modules[number], self._names[number])


_guarded = _GuardedModules(_GUARDED)


def _restore(module: ModuleType, names: dict[str, Any]) -> Iterator[str]:
    """Give a module its old names and values; yield what differs."""
    now = vars(module)
    for name in [name for name, value in names.items() if now.get(name) is not value]:
        now[name] = names[name]
        yield f"{module.__name__}.{name}"
    for name in now.keys() - names.keys():
        if name == "__builtins__":  # from dataclasses, for a class without a module
            del now[name]
        elif not isinstance(now[name], ModuleType):  # which a plain import adds
            del now[name]
            yield f"{module.__name__}.{name}"
