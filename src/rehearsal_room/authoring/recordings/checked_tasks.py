"""Tasks with checks as tool calls, from a recording of a server whose state is unknown.

A server that a command starts is started again, and the calls are made once more; with a service
behind a URL nothing is called, and the recording alone says what the reads after the writes found.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec

from rehearsal_room.authoring.recordings.expectations import proven
from rehearsal_room.authoring.recordings.groups import Group, NewIds, leaves
from rehearsal_room.authoring.recordings.lines import RecordedCall, shown
from rehearsal_room.authoring.recordings.remaking import (
    CALL_S,
    DRAFT,
    given_names,
    instruction_of,
    task_id,
)
from rehearsal_room.authoring.server_worlds.package_text import inline_table, toml_text, tool_lines
from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.mcp.client import McpSettings, ServerConnection, command_of
from rehearsal_room.scenarios.call_checks import CallCheck, Expectation
from rehearsal_room.scenarios.format import Call

_UNSEEN = "no read shows what it did"
_ELSEWHERE = (
    "; if the server keeps its state outside of its folder, say where: --var NAME={scratch}/FILE"
)
_MAX_READS = 8  # that the checks of a task are taken from
_READS = (  # first words of the names of tools that only read
    *("get", "list", "search", "read", "find", "show", "query", "fetch", "describe", "count"),
    *("view", "lookup", "check", "open", "browse", "is", "has", "status", "info", "download"),
)


class CheckedTask(msgspec.Struct, frozen=True):
    """A task of a `--mcp` task file."""

    id: str
    instruction: str
    oracle: tuple[Call, ...]  # empty: its calls cannot be written down, since ids change
    checks: tuple[CallCheck, ...]
    note: str = ""


Texts = tuple[str | None, ...]  # of the reads; None: not made, or refused


class _Observed(msgspec.Struct, frozen=True):
    """Calls that were made, and the texts of reads before and after the writes among them."""

    calls: tuple[Call, ...]
    given: tuple[frozenset[str], ...]  # of each call: arguments that earlier answers gave
    reads: tuple[Call, ...]
    before: Texts
    stages: tuple[tuple[tuple[Any, ...], Texts], ...]  # what a write, or several, wrote; the texts
    last: tuple[Texts, ...]  # the texts at the end, of each time that the calls were made
    refused: Mapping[int, str] = {}  # index of a call -> why


def is_read(name: str, tools: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a tool only reads: as it says itself, or else by the first word of its name."""
    tool = next((tool for tool in tools if tool.get("name") == name), {})
    hint = (tool.get("annotations") or {}).get("readOnlyHint")
    if isinstance(hint, bool):
        return hint
    words = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).replace("-", "_")
    return words.strip("_").split("_")[0] in _READS


async def checked_tasks(
    groups: Sequence[Group],
    tools: Sequence[Mapping[str, Any]],
    command: str,
    environment: Sequence[str] = (),
) -> tuple[list[CheckedTask], list[str]]:
    """A task for each group with a write that reads show, and a sentence for each that was left
    out. `command` starts the server; empty: nothing is called. Raises PoolError where it does not
    start."""
    tasks: list[CheckedTask] = []
    left_out: list[str] = []
    elsewhere = _ELSEWHERE if command else ""
    for group in groups:
        calls = [call for call in group.calls if call.was_made]
        while calls and is_read(calls[-1].name, tools):
            calls.pop()
        if not calls:
            continue
        writes = [call for call in calls if not is_read(call.name, tools)]
        reads = _reads_of(group, calls, tools)
        if command:
            settings = McpSettings(command, environment=tuple(environment))
            observed = await _repeated(settings, calls, reads, tools, left_out)
        else:
            observed = _recorded(group, calls, reads, tools)
        if observed is None or not observed.calls:
            continue
        made = zip(observed.calls, observed.given, strict=True)
        written = [(call, given) for call, given in made if not is_read(call.name, tools)]
        known = "" if command else "\n".join(call.text or "" for call in group.earlier)
        checks, unseen = _checks(observed, known, is_each_seen=bool(command))
        if not checks or not written:
            left_out.append(f"{', '.join(shown(call) for call in writes)}: {_UNSEEN}{elsewhere}")
            continue
        if command:
            left_out += [f"a check of {shown(written[stage][0])}: {_UNSEEN}" for stage in unseen]
        can_repeat = bool(command) or not any(given for _, given in written)
        tasks.append(
            CheckedTask(
                task_id(written[0][0].name, len(tasks) + 1),
                instruction_of(written),
                observed.calls if can_repeat else (),
                tuple(checks),
                DRAFT if can_repeat else f"{DRAFT}; without a solution: its ids change",
            )
        )
    return tasks, left_out


def write_checked(
    path: Path, name: str, target: str, tools: Sequence[ToolSpec], tasks: Sequence[CheckedTask]
) -> None:
    """Write a task file for `rehearse run --mcp TARGET FILE`."""
    lines = [
        f"# Tasks for an MCP server whose state is unknown: docs/external-worlds.md. Its "
        f"{len(tools)} tools:",
        tool_lines(tools),
        f"name = {toml_text(name)}",
        f"description = {toml_text(f'What the MCP server {target} keeps.')}",
    ]
    path.write_text("\n".join([*lines, *map(_task_toml, tasks)]) + "\n", encoding="utf-8")


def _task_toml(task: CheckedTask) -> str:
    lines = [
        "",
        f"# {task.note}",
        "[[task]]",
        f"id = {toml_text(task.id)}",
        f"instruction = {toml_text(task.instruction)}",
    ]
    if task.oracle:
        calls = [_call_toml(call) for call in task.oracle]
        lines.append("oracle = [\n" + "".join(f"    {call},\n" for call in calls) + "]")
    for check in task.checks:
        expect = msgspec.to_builtins(check.expect)
        lines += [
            "[[task.check]]",
            f"name = {toml_text(check.name)}",
            *([f"arguments = {inline_table(check.arguments)}"] if check.arguments else []),
            f"expect = {inline_table(expect)}",
        ]
    return "\n".join(lines)


def _call_toml(call: Call) -> str:
    return f"{{ name = {toml_text(call.name)}, arguments = {inline_table(call.arguments)} }}"


def _reads_of(
    group: Group, calls: Sequence[RecordedCall], tools: Sequence[Mapping[str, Any]]
) -> list[RecordedCall]:
    """The reads that may show what the calls wrote: those after them until the session's next
    write, then those among them; each once."""
    made = [call for call in group.calls if call.was_made]
    found: list[RecordedCall] = []
    for call in (*made[len(calls) :], *group.later):
        if call.was_made and not is_read(call.name, tools):
            break
        if call.was_made:
            found.append(call)
    found += [call for call in calls if is_read(call.name, tools)]
    kept: list[RecordedCall] = []
    for call in found:
        if all((call.name, call.arguments) != (one.name, one.arguments) for one in kept):
            kept.append(call)
    return kept[:_MAX_READS]


def _recorded(
    group: Group,
    calls: Sequence[RecordedCall],
    reads: Sequence[RecordedCall],
    tools: Sequence[Mapping[str, Any]],
) -> _Observed:
    """What the recording has of the calls and reads: nothing is called."""
    ids, given = NewIds(), []
    for earlier in group.earlier:
        ids.see(earlier.arguments)
        ids.see(earlier.text or "")
    has_written = False
    for call in calls:
        given.append(given_names(ids, Call(call.name, call.arguments)))
        ids.see(call.arguments)
        has_written |= not is_read(call.name, tools)
        if has_written:
            ids.learn(call.text or "", call.text or "")
        else:
            ids.see(call.text or "")
    before, after = [], []
    for read in reads:
        same = [
            call
            for call in (*group.earlier, *calls)
            if (call.name, call.arguments) == (read.name, read.arguments)
        ]
        before.append(same[-1].text if same and same[-1].was_made else None)
        is_after = not any(read is call for call in calls)
        knows = not ids.from_answers(read.arguments)  # else it names an id that changes
        after.append(read.text if is_after and knows else None)
    return _Observed(
        tuple(Call(call.name, call.arguments) for call in calls),
        tuple(given),
        tuple(Call(one.name, one.arguments) for one in reads),
        tuple(before),
        ((_written([call for call in calls if not is_read(call.name, tools)]), tuple(after)),),
        (tuple(after),),
    )


async def _repeated(
    settings: McpSettings,
    calls: Sequence[RecordedCall],
    reads: Sequence[RecordedCall],
    tools: Sequence[Mapping[str, Any]],
    left_out: list[str],
) -> _Observed | None:
    """Make the calls twice, in a new server each time, without those that it refuses now. None:
    the server does not do the same each time. Raises PoolError where it starts with what was
    written before."""
    first = await _observed(settings, calls, reads, tools)
    left_out += [f"{shown(calls[index])}: {why}" for index, why in first.refused.items()]
    kept = [call for index, call in enumerate(calls) if index not in first.refused]
    second = await _observed(settings, kept, reads, tools)
    if first.before != second.before:
        raise PoolError(
            f"the MCP server {settings.target!r} still has in a new process what it wrote in "
            "another one: it keeps its state outside of its folder; say where, with {scratch}: "
            "--var NAME={scratch}/FILE, or --mcp COMMAND"
        )
    third = await _observed(settings, kept, reads, tools)
    if second.calls != third.calls or second.refused or third.refused:
        left_out.append(f"the calls up to {shown(calls[-1])}: the server makes other ids each time")
        return None
    return msgspec.structs.replace(second, last=(*second.last, *third.last))


async def _observed(
    settings: McpSettings,
    calls: Sequence[RecordedCall],
    reads: Sequence[RecordedCall],
    tools: Sequence[Mapping[str, Any]],
) -> _Observed:
    connection = ServerConnection(settings, command_of(settings.target))
    ids, made, given, refused = NewIds(), list[Call](), list[frozenset[str]](), dict[int, str]()
    stages: list[tuple[tuple[Any, ...], Texts]] = []
    try:
        await connection.open()
        before = await _texts(connection, reads, ids)
        for index, recorded in enumerate(calls):
            call = Call(recorded.name, ids.renamed(recorded.arguments))
            made.append(call)
            given.append(given_names(ids, call))
            ids.see(recorded.arguments)
            text, is_refused = await _called(connection, call)
            if is_refused:
                refused[index] = " ".join(text.split())[:200]
                continue
            if not is_read(call.name, tools) or stages:
                ids.learn(recorded.text or "", text)
            else:
                ids.see(recorded.text or "")
            if not is_read(call.name, tools):
                stages.append((_written([call]), await _texts(connection, reads, ids)))
        final = tuple(Call(one.name, ids.renamed(one.arguments)) for one in reads)
    finally:
        await connection.close()
    last = stages[-1][1] if stages else before
    return _Observed(tuple(made), tuple(given), final, before, tuple(stages), (last,), refused)


async def _texts(connection: ServerConnection, reads: Sequence[RecordedCall], ids: NewIds) -> Texts:
    found = []
    for read in reads:
        text, is_refused = await _called(connection, Call(read.name, ids.renamed(read.arguments)))
        found.append(None if is_refused else text)
    return tuple(found)


async def _called(connection: ServerConnection, call: Call) -> tuple[str, bool]:
    """The text of a call, and whether it was refused. Raises PoolError where the server is slow."""
    try:
        with anyio.fail_after(CALL_S):
            text, error = await connection.call(call.name, call.arguments)
    except WorldError as exc:
        return str(exc), True
    except TimeoutError as exc:
        raise PoolError(f"a call of {call.name} took more than {CALL_S:g} s") from exc
    return text, error is not None


def _written(calls: Sequence[Call | RecordedCall]) -> tuple[Any, ...]:
    return tuple(value for call in calls for value in leaves(call.arguments))


def _checks(
    observed: _Observed, known: str, *, is_each_seen: bool
) -> tuple[list[CallCheck], list[int]]:
    """The checks that the reads prove: what came with the writes and is there at the end; and the
    stages that no read shows. `known`: earlier answers, whose texts are not new. `is_each_seen`:
    the reads were made after each write; then the first one that shows it is enough."""
    found: dict[str, CallCheck] = {}
    unseen: list[int] = []
    before = observed.before
    for stage, (values, after) in enumerate(observed.stages):
        of_stage: list[CallCheck] = []
        for index, call in enumerate(observed.reads):
            own = set(map(str, leaves(call.arguments)))  # a read may repeat what it was asked
            new = [value for value in values if str(value) not in own]
            text = after[index]
            if text is None or (of_stage and is_each_seen):
                continue
            of_stage += [
                CallCheck(call.name, expect, call.arguments)
                for expect in proven(before[index], text, new, known)
                if all(_holds(expect, texts[index]) for texts in observed.last)
            ]
        found |= {f"{check.name} {check.arguments} {check.expect}": check for check in of_stage}
        unseen += [] if of_stage else [stage]
        before = after
    return list(found.values()), unseen


def _holds(expect: Expectation, text: str | None) -> bool:
    return text is not None and expect.check(text, failed=False)[0]
