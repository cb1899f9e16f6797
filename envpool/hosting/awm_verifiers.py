"""The verifiers of AWM tasks: Python that reads the database before and after, as two files.

Both kinds are called as AWM calls them (reference: AgentWorldModel, arXiv:2602.10090, §4 of its
verification): the function is that of the first line that begins `def verify_` wherever it stands,
else the kind's own name; arguments go by the names initial_db_path, final_db_path and final_answer,
or all by position when none of these names is there. The code runs as it is, with every builtin, so
this belongs into a worker.

| kind | function               | label                                                      |
|------|------------------------|------------------------------------------------------------|
| code | verify_task_completion | its `result`: complete, or others; judge_error: it failed   |
| sql  | verify_task            | incomplete: evidence for a judge; judge_error: it failed    |

Here it differs from AWM: the answer reaches both kinds; what a verifier prints is kept; time is the
scenario's; leaving Python (SystemExit and the like) is a judge_error and not the runner's end.
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

from envpool.hosting.dbapi.clock_patch import telling_time
from envpool.hosting.determinism.clock import frozen, seeded
from scenarios.format import AwmRecord

Which = Literal["code", "sql"]

MAX_PRINTED = 64 * 1024  # characters
MAX_DETAIL = 2**20  # characters of JSON
_SHORTEST = 10  # characters of code; what is shorter cannot be a function
_dumps, _loads = json.dumps, json.loads  # whatever a verifier puts in their place
_NAMES = ("initial_db_path", "final_db_path", "final_answer")
_DEFAULTS = {"code": "verify_task_completion", "sql": "verify_task"}
_GUARDED = (builtins, io, json, os, os.path, re, sqlite3, sqlite3.dbapi2)


class Verdict(msgspec.Struct, frozen=True):
    """What an AWM verifier said."""

    label: Literal["complete", "others", "incomplete", "judge_error"]
    detail: Any  # what AWM's runner tells of it, in plain JSON
    printed: str = ""  # at most MAX_PRINTED
    fault: str = ""  # why there is no verdict; set with judge_error
    violation: str = ""  # it changed what other code in this process uses: the worker must go


class _Broken(Exception):
    """The verifier failed; the sentence says how."""


def verify_awm(
    record: AwmRecord,
    task_id: str,
    which: Which,
    before_image: bytes,
    after_image: bytes,
    answer: str,
    scratch: Path,
    *,
    clock: str,
) -> Verdict:
    """Ask a task's verifier about an episode's databases and final answer.

    The databases lie as read-only files in a folder of their own inside of `scratch`, written anew
    each time and gone afterwards. `clock` is the scenario's.
    """
    verifiers = record.verifiers.get(task_id)
    code = getattr(verifiers, which, None)
    if code is None or len(code.strip()) < _SHORTEST:
        why = f"task {task_id!r} has no {which} verifier"
        return Verdict("judge_error", {"error": why}, fault=why)
    printed = _Printed()
    with (
        _files(scratch, before_image, after_image) as paths,
        frozen(clock),
        telling_time(),
        redirect_stdout(printed),
        redirect_stderr(_Printed()),
        _watched() as replaced,
    ):
        seeded(task_id, 0)
        label, detail, fault = _judged(code, which, (*paths, answer))
    violation = f"the verifier replaced {', '.join(replaced)[:200]}" if replaced else ""
    return Verdict(label, detail, printed.text(), fault, violation)


def _judged(code: str, which: Which, given: tuple[str, str, str]) -> tuple[Any, Any, str]:
    """Label, detail and fault. Nothing that the code does escapes as an exception."""
    try:
        result = _called(code, which, given)
        return (_complete_or_others if which == "code" else _evidence)(result)
    except _Broken as exc:
        return _error(which, str(exc))
    except BaseException as exc:  # also SystemExit and KeyboardInterrupt, which code can raise
        return _error(which, f"Execution error: {_said(exc)}")


def _called(code: str, which: Which, given: tuple[str, str, str]) -> Any:
    namespace: dict[str, Any] = {"sqlite3": sqlite3, "json": json, "os": os}
    if which == "code":
        namespace["re"] = re
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(_compiled(code, which), namespace)
        name = _function_name(code, _DEFAULTS[which])
        function = namespace.get(name)
        if not function:
            raise _Broken(f"Function '{name}' not found")
        return _with_arguments(function, given)


@lru_cache(256)
def _compiled(code: str, which: Which) -> CodeType:
    return compile(code, f"<{which} verifier>", "exec", dont_inherit=True)


def _function_name(code: str, default: str) -> str:
    for line in code.split("\n"):
        line = line.strip()
        if line.startswith("def verify_") and "(" in line:
            return line.split("(")[0].removeprefix("def ").strip()
    return default


def _with_arguments(function: Callable[..., Any], given: tuple[str, str, str]) -> Any:
    taken = inspect.signature(function).parameters
    named = {name: value for name, value in zip(_NAMES, given, strict=True) if name in taken}
    if named or len(taken) < 2:
        return function(**named)
    return function(*given[: min(len(taken), 3)])


def _complete_or_others(result: Any) -> tuple[str, Any, str]:
    if not isinstance(result, dict) or "result" not in result:
        raise _Broken(f"Invalid return format: {type(result).__name__}")
    value = result.get("result")
    label = "complete" if isinstance(value, str) and str(value) == "complete" else "others"
    try:
        raw = _plain(result)
    except Exception as exc:  # AWM's runner does not look at the rest of it
        raw = f"it cannot be told as JSON: {_said(exc)}"
    return label, {"result": label, "execution_status": "success", "raw_result": raw}, ""


def _evidence(result: Any) -> tuple[str, Any, str]:
    detail = _plain(result)
    if isinstance(detail, dict) and detail.get("execution_status") == "error":
        return "judge_error", detail, str(detail.get("error_message", "it says so itself"))
    return "incomplete", detail, ""


def _error(which: Which, why: str) -> tuple[str, Any, str]:
    detail = {"execution_status": "error", "error_message": why}
    return "judge_error", {"result": "others", **detail} if which == "code" else detail, why


def _said(exc: BaseException) -> str:
    """An exception's text, which its class may have made a trap."""
    try:
        text = str.__str__(str(exc))
        kind = str.__str__(type(exc).__name__)
    except BaseException as other:
        return f"an exception whose text raises {_kind(other)}"
    if isinstance(exc, Exception):
        return _clean(text[:2_000])
    return _clean(f"{kind}: {text}"[:2_000])


def _kind(exc: BaseException) -> str:
    return next(base.__name__ for base in type(exc).__mro__ if base.__module__ == "builtins")


def _plain(value: Any) -> Any:
    """The value as JSON says it: what a log and a frame can hold.

    Example: {1: (b"ab", {2})} -> {"1": ["ab", [2]]}

    Raises what the value's own methods raise, and ValueError when it refers to itself.
    """
    text = _dumps(_stringed(value, set()), default=str)
    if len(text) > MAX_DETAIL:
        raise _Broken(f"its result is larger than {MAX_DETAIL} characters of JSON")
    return _loads(text, parse_int=_bounded)


def _stringed(value: Any, around: set[int]) -> Any:
    """The same with texts for keys, lists for sets, and texts that UTF-8 can say."""
    if isinstance(value, str):
        return _clean(str.__str__(value))
    if not isinstance(value, dict | list | tuple | set | frozenset | bytes):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if id(value) in around:
        raise ValueError("Circular reference detected")
    around.add(id(value))
    if isinstance(value, dict):
        plain: Any = {_key(key): _stringed(inner, around) for key, inner in value.items()}
    else:
        plain = [_stringed(inner, around) for inner in value]
    around.discard(id(value))
    return plain


def _key(key: Any) -> str:
    if isinstance(key, str):
        return _clean(str.__str__(key))
    if key is None or isinstance(key, bool | int | float):
        return str(_dumps(key))
    return _clean(str(key))


def _bounded(digits: str) -> int | str:
    number = int(digits)
    return number if -(2**63) <= number < 2**63 else digits


def _clean(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()


class _Printed(io.TextIOBase):
    """Where a verifier prints to. It keeps the beginning."""

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
        """What was printed, as UTF-8 can say it."""
        return _clean("".join(self._pieces))


@contextmanager
def _files(scratch: Path, before: bytes, after: bytes) -> Iterator[tuple[str, str]]:
    """The two databases as files in a folder that holds nothing else."""
    folder = scratch / "verify"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    paths = (folder / "initial.db", folder / "final.db")
    try:
        for path, image in zip(paths, (before, after), strict=True):
            with open(path, "xb", opener=_read_only) as file:
                file.write(image)
        yield str(paths[0]), str(paths[1])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o444)  # at once: a worker may not change a file's mode


@contextmanager
def _watched() -> Iterator[list[str]]:
    """Afterwards the list names what the code put in the place of functions that others use too,
    and all is as it was."""
    replaced: list[str] = []
    before = [(module, vars(module), vars(module).copy()) for module in _GUARDED]
    try:
        yield replaced
    finally:
        for module, now, names in before:
            for name in [name for name, value in names.items() if now.get(name) is not value]:
                now[name] = names[name]
                replaced.append(f"{module.__name__}.{name}")
            for name in now.keys() - names.keys():
                if name == "__builtins__":  # code of dataclasses, run for a class without a module
                    del now[name]
                elif not isinstance(now[name], ModuleType):  # which a plain import leaves there
                    del now[name]
                    replaced.append(f"{module.__name__}.{name}")
