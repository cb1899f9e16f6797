"""Make recorded calls again in a world whose state is declared: tasks from what they changed."""

import re
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec

from rehearsal_room.authoring.recordings.groups import Group, NewIds, tokens_of, values_of
from rehearsal_room.authoring.recordings.lines import RecordedCall, shown
from rehearsal_room.authoring.server_worlds.package_text import NewTask
from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.types import Env, ToolResult
from rehearsal_room.envpool.mcp_worlds.pool import ServerWorldPool
from rehearsal_room.envpool.store.states import States
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import Call, Scenario

CALL_S = 60.0  # seconds that a call may take that is made again
DRAFT = "A draft from a recording"


class Remade(msgspec.Struct, frozen=True):
    """Tasks of a recording, and what was left out of them."""

    tasks: tuple[NewTask, ...]
    left_out: tuple[str, ...]  # a sentence for each call, or group of calls


class _Step(msgspec.Struct, frozen=True):
    recorded: RecordedCall
    call: Call  # with the ids of now
    given: frozenset[str] = frozenset()  # names of arguments whose values earlier answers gave
    changes: tuple[RowChange, ...] = ()
    why_not: str = ""  # why it cannot be made again; empty: it was made


async def remade_tasks(scenario: Scenario, groups: Sequence[Group]) -> Remade:
    """A task for each group whose calls change rows when they are made again from the world's
    start. Raises PoolError."""
    tasks: list[NewTask] = []
    left_out: list[str] = []
    async with ServerWorldPool() as pool:
        states = await pool.host(scenario)
        for group in groups:
            async with pool.lease(scenario, None) as env:
                task = await _task(env, states, group, len(tasks) + 1, left_out)
            if task is not None:
                tasks.append(task)
    return Remade(tuple(tasks), tuple(left_out))


async def _task(
    env: Env, states: States, group: Group, number: int, left_out: list[str]
) -> NewTask | None:
    first = await _played(env, [call for call in group.calls if call.was_made])
    left_out += [_refusal(step, group) for step in first if step.why_not]
    kept = [step for step in first if not step.why_not]
    while kept and not kept[-1].changes:
        kept.pop()
    if not kept:
        return None
    calls = [step.recorded for step in kept]
    env.reset()
    second = await _played(env, calls)
    if failed := [step for step in second if step.why_not]:
        left_out += [_refusal(step, group) for step in failed]
        return None
    _, after = states.states(env.state())
    env.reset()
    third = await _played(env, calls)
    if [step.call for step in second] != [step.call for step in third]:
        other = next(a for a, b in zip(second, third, strict=True) if a.call != b.call)
        left_out.append(
            f"the calls up to {shown(other.recorded)}: the server makes other ids each time"
        )
        return None
    if not after.changes:
        return None
    writes = [(step.call, step.given) for step in second if step.changes]
    return NewTask(
        task_id(writes[0][0].name, number),
        instruction_of(writes),
        tuple(step.call for step in second),
        tuple(after.changes),
        tuple(tuple(step.changes) for step in second),
        note=DRAFT,
    )


async def _played(env: Env, calls: Sequence[RecordedCall]) -> list[_Step]:
    """Make recorded calls from the world's start, with the ids that it gives now."""
    ids, written, steps = NewIds(), set[str](), list[_Step]()
    for recorded in calls:
        call = Call(recorded.name, ids.renamed(recorded.arguments))
        given = given_names(ids, call)
        ids.see(recorded.arguments)
        result, why_not = await _called(env, call)
        changes = () if result is None else result.changes
        steps.append(_Step(recorded, call, given, changes, why_not))
        if why_not and result is None:  # the world is broken: its other calls are not made
            steps += [
                _Step(
                    one, Call(one.name, one.arguments), why_not="a call before it broke the world"
                )
                for one in calls[len(steps) :]
            ]
            env.reset()
            return steps
        written |= values_of(changes)
        if written and result is not None and recorded.text is not None and not why_not:
            ids.learn(recorded.text, result.text, written)
        else:
            ids.see(recorded.text or "")
    return steps


async def _called(env: Env, call: Call) -> tuple[ToolResult | None, str]:
    """The result, and why the call cannot be made; None: the world broke."""
    try:
        with anyio.fail_after(CALL_S):
            result = await env.call(call.name, call.arguments, "")
    except TimeoutError:
        return None, f"it took more than {CALL_S:g} s"
    except PoolError as exc:
        return None, str(exc)
    return result, "" if result.error is None else " ".join(result.text.split())[:200]


def _refusal(step: _Step, group: Group) -> str:
    names = {value for value in tokens_of(step.recorded.arguments) if len(value) > 2}
    answers = [tokens_of(call.text or "") for call in group.earlier]
    hint = (
        "; a larger --pause joins it with the calls before it"
        if any(names & answer for answer in answers)
        else ""
    )
    return f"{shown(step.recorded)}: {step.why_not}{hint}"


def task_id(tool: str, number: int) -> str:
    """The id of a task, also the name of its verifier. Example: ("add-note", 2) -> "add_note_2" """
    name = re.sub(r"\W+", "_", tool, flags=re.ASCII).strip("_").lower()
    return f"{name if name[:1].isalpha() else f'task_{name}'}_{number}"


def given_names(ids: NewIds, call: Call) -> frozenset[str]:
    """The names of the arguments whose values earlier answers gave."""
    return frozenset(
        name for name, value in call.arguments.items() if ids.from_answers(value, name)
    )


def instruction_of(writes: Sequence[tuple[Call, frozenset[str]]]) -> str:
    """What the calls do, in words. An argument that an earlier answer gives is only named.

    Example: "Please add ticket with title 'Door'; then close ticket with its ticket_id."
    """
    parts = [
        " ".join([re.sub(r"\W|_", " ", call.name), *_with(call.arguments, given)])
        for call, given in writes
    ]
    return f"Please {'; then '.join(parts)}."


def _with(arguments: dict[str, Any], given: frozenset[str]) -> list[str]:
    shown = [
        f"its {name}" if name in given else f"{name} {value!r}" for name, value in arguments.items()
    ]
    return ["with " + ", ".join(shown)] if shown else []
