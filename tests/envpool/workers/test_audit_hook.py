"""The audit hook closes over immutable data, and its canary is a refusal."""

import dis
import subprocess
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType

import pytest

from rehearsal_room.envpool.workers import audit_hook
from rehearsal_room.envpool.workers.audit_hook import AuditHook

HOOK_FUNCTIONS = [audit_hook._hook, audit_hook._outside, audit_hook._real]
# What a default may be: nothing of it can be changed from Python.
IMMUTABLE = (str, bytes, int, type, type(None), CodeType, BuiltinFunctionType)

_HOOKED = """
import os, sys
from rehearsal_room.envpool.workers.audit_hook import AuditHook
hook = AuditHook(os.getcwd(), 3)
print(hook.is_disabled(), repr(hook.violation))
hook.install()
print(hook.is_disabled(), repr(hook.violation))
"""


def _run(text: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _HOOKED + text], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("function", HOOK_FUNCTIONS, ids=lambda each: each.__name__)
def test_a_function_of_the_hook_uses_no_globals(function: FunctionType) -> None:
    """It reads no name of a module and no cell of a closure, in which code could put another."""
    assert function.__closure__ is None
    used = {instruction.opname for instruction in dis.get_instructions(function)}
    assert not {name for name in used if name.endswith(("_GLOBAL", "_NAME", "_DEREF"))} - {
        "IMPORT_NAME"
    }
    assert "IMPORT_NAME" not in used
    assert not [each for each in function.__code__.co_consts if isinstance(each, CodeType)]


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, tuple | frozenset):
        for each in value:
            yield from _parts(each)
    else:
        yield value


@pytest.mark.parametrize("function", HOOK_FUNCTIONS, ids=lambda each: each.__name__)
def test_its_data_are_immutable(function: FunctionType) -> None:
    """Its default values are strings, tuples, sets that cannot change, and builtins."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = dict(zip(reversed(names), reversed(function.__defaults__ or ()), strict=False))
    defaults.pop("count", None)  # it only rises
    for name, value in defaults.items():
        for part in _parts(value):
            assert isinstance(part, IMMUTABLE), name


@pytest.mark.slow
def test_the_canary_is_refused() -> None:
    """A hook that works refuses the canary; one that lets it pass is disabled."""
    assert _run("") == ["True ''", "False ''"]
    assert AuditHook("/nowhere", 3).is_disabled()


@pytest.mark.slow
def test_a_refusal_is_counted_and_described() -> None:
    """The first forbidden action is the violation, and it stays one without its text."""
    lines = _run(
        "for path in ('/etc/passwd', '/etc/group'):\n"
        "    try: open(path)\n"
        "    except PermissionError as exc: print(exc)\n"
        "print(hook.violation)\n"
        "hook._texts.clear()\n"
        "print(hook.violation)\n"
    )
    assert lines[2:] == [
        "a worker may not open /etc/passwd",
        "a worker may not open /etc/group",
        "the code tried to open /etc/passwd",
        "the code did something forbidden and removed its description",
    ]


@pytest.mark.slow
def test_what_its_frames_show_changes_nothing() -> None:
    """The frames of a refusal lead to no value whose change lets the next action pass."""
    lines = _run(
        "import contextlib\n"
        "try: open('/etc/passwd')\n"
        "except PermissionError as exc: trace = exc.__traceback__.tb_next\n"
        "print(trace.tb_frame.f_code.co_name, sorted(trace.tb_frame.f_globals))\n"
        "trace.tb_frame.f_globals['refusal'] = str\n"
        "for value in trace.tb_frame.f_locals.values():\n"
        "    for name in ('__defaults__', '__kwdefaults__', '__code__'):\n"
        "        with contextlib.suppress(Exception): setattr(value, name, ())\n"
        "try: open('/etc/group')\n"
        "except PermissionError as exc: print(exc)\n"
        "print(hook.is_disabled())\n"
    )
    assert lines[2:] == ["_hook []", "a worker may not open /etc/group", "False"]
