"""The checks of a suite's task, in processes of their own: a script, or MCP-Universe's evaluators.

What a check needs and lacks breaks the world (WorldError), so that the episode is not counted as
the agent's failure.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.served.needs import ServedSettings
from rehearsal_room.envpool.served.starts import run
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.core.served_worlds import EvaluatorCheck, ScriptCheck, ServedWorld
from rehearsal_room.scenarios.files import UNREADABLE

_PROGRAM = Path(__file__).with_name("universe_program.py")
_SHOWN = 200  # characters of a script's last line that a finding shows
_LACKS = ("ModuleNotFoundError:", "ImportError:")
Made = dict[str, Any]  # a call that was made: server, tool, arguments, text


async def checked(
    world: ServedWorld, settings: ServedSettings, variables: Mapping[str, str], answer: str
) -> tuple[Finding, ...]:
    """The findings on a world at its end. Raises WorldError."""
    try:
        match world.check:
            case ScriptCheck():
                return (await _by_script(world.check, world, settings, variables),)
            case EvaluatorCheck():
                return await _by_evaluators(world, settings, answer)
    except PoolError as exc:
        raise WorldError(f"the task could not be checked: {exc}") from exc


async def clean(world: ServedWorld, settings: ServedSettings, calls: Sequence[Made]) -> str:
    """Let MCP-Universe undo what the calls did outside, as the task's `cleanups` say. Returns why
    that failed; empty: it did not."""
    assert isinstance(world.check, EvaluatorCheck)
    try:
        answer = await _ask(world, settings, {"op": "clean", "calls": list(calls)})
    except PoolError as exc:
        return str(exc)
    return str(answer.get("fault", ""))


def imports_of(world: ServedWorld) -> tuple[str, ...]:
    """What the check imports: packages of a script, names of evaluators' functions."""
    match world.check:
        case ScriptCheck():
            return world.check.packages
        case EvaluatorCheck(config=config):
            return tuple(sorted({f"{one['func']} {one.get('op')}" for one in config["evaluators"]}))


async def require_imports(world: ServedWorld, settings: ServedSettings) -> None:
    """Check that the interpreter has what the check imports. Raises PoolError."""
    if isinstance(world.check, EvaluatorCheck):
        if fault := (await _ask(world, settings, {"op": "load"})).get("fault"):
            raise PoolError(
                f"{settings.interpreter} cannot load the evaluators ({fault}): name an interpreter "
                "that has the checkout's packages with --suite-python"
            )
        return
    for name in world.check.packages:
        command = [settings.interpreter, "-c", f"import {name}"]
        if (await run(command, settings.environment(world.root))).returncode:
            raise PoolError(
                f"the checks import {name!r}, which {settings.interpreter} does not have: install "
                "it there, or name another interpreter with --suite-python"
            )


async def _by_script(
    check: ScriptCheck, world: ServedWorld, settings: ServedSettings, variables: Mapping[str, str]
) -> Finding:
    environment = {**settings.environment(world.root), **variables}
    database = variables.get("POSTGRES_DATABASE")
    command = [settings.interpreter, check.path, *([database] if database else [])]
    done = await run(command, environment, cwd=Path(world.root), seconds=settings.check_timeout)
    last = _last_line(done.stderr)
    if done.returncode and last.startswith(_LACKS):
        raise WorldError(f"{check.path} could not run: {last}")
    text = _last_line(done.stdout) or last or f"status {done.returncode}"
    return Finding("verify.py", done.returncode == 0, "status 0", text[:_SHOWN], "goal")


async def _by_evaluators(
    world: ServedWorld, settings: ServedSettings, answer: str
) -> tuple[Finding, ...]:
    found = await _ask(world, settings, {"op": "check", "answer": answer})
    if fault := found.get("fault"):
        raise WorldError(f"the evaluators could not run: {fault}")
    return tuple(
        Finding(one["name"], one["passed"], one["expected"], one["found"][:_SHOWN], "goal")
        for one in found["findings"]
    )


async def _ask(
    world: ServedWorld, settings: ServedSettings, request: Mapping[str, Any]
) -> dict[str, Any]:
    """Ask the program beside this file. Raises PoolError."""
    assert isinstance(world.check, EvaluatorCheck)
    config = world.check.config
    given = msgspec.json.encode({"root": world.root, "config": config, **request})
    done = await run(
        [settings.interpreter, str(_PROGRAM)],
        settings.environment(world.root),
        given=given,
        seconds=settings.check_timeout,
    )
    try:
        answer: dict[str, Any] = msgspec.json.decode(done.stdout)
    except UNREADABLE as exc:
        raise PoolError(f"the evaluators' program ended: {_last_line(done.stderr)}") from exc
    return answer


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
