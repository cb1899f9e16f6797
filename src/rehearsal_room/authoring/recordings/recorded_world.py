"""A new world from a recording: its server is watched, and the recorded calls are made again."""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import msgspec

from rehearsal_room.authoring.recordings.checked_tasks import (
    CheckedTask,
    checked_tasks,
    write_checked,
)
from rehearsal_room.authoring.recordings.groups import PAUSE_S, Group, groups_of
from rehearsal_room.authoring.recordings.lines import Recording, read_recording
from rehearsal_room.authoring.recordings.remaking import remade_tasks
from rehearsal_room.authoring.server_worlds.new_world import free_folder, write_server_world
from rehearsal_room.authoring.server_worlds.package_text import NewTask, write_tasks
from rehearsal_room.authoring.server_worlds.watching import StateUnknown
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.mcp.client import is_url
from rehearsal_room.scenarios.core.server_record import SCRATCH
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Call, Scenario, read
from rehearsal_room.scenarios.mcp_tasks import read_mcp_tasks

_PROGRAMS = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".jar", ".rb", ".pl", ".php")
_NAME_LINE = re.compile(r"^name\s*=.*$", re.MULTILINE)


class RecordedWorld(msgspec.Struct, frozen=True):
    """What was written of a recording."""

    folder: Path
    target: str  # the server of a task file; empty: it is a package
    tasks: tuple[NewTask, ...] | tuple[CheckedTask, ...]
    left_out: tuple[str, ...]  # a sentence for each call that is in no task
    num_unread: int  # lines of the recording that are not its own


async def write_recorded_world(
    name: str,
    parent: Path,
    path: Path,
    command: str = "",
    *,
    world: Path | None = None,
    environment: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    probe: bool = True,
    pause_s: float = PAUSE_S,
) -> RecordedWorld:
    """Write a new world `name` below `parent` from the recording at `path`.

    `command` takes the place of the recorded one; `world` is a package whose server and seed are
    taken. Without `probe`, and for a service behind a URL, nothing is called. Raises PackageError
    and PoolError.
    """
    recording = read_recording(path)
    groups = groups_of(recording, pause_s)
    folder = free_folder(name, parent)
    if not any(group.calls for group in groups):
        raise PackageError(f"{path}: no call was made in this recording")
    if world is not None:
        return await _from_package(folder, world, groups, recording)
    target = command or shlex.join(recording.command)
    if not probe or any(map(is_url, shlex.split(target))):
        return await _from_reads(folder, target, groups, recording, "", environment)
    if not command:
        _check_command(path, recording)
    left_out: list[str] = []

    async def make_tasks(scenario: Scenario) -> Sequence[NewTask]:
        remade = await remade_tasks(scenario, groups)
        left_out.extend(remade.left_out)
        _check_some(path, remade.tasks, remade.left_out)
        return remade.tasks

    try:
        made = await write_server_world(
            name,
            parent,
            target,
            environment=environment,
            variables=variables,
            calls=[Call(one.name, one.arguments) for group in groups for one in group.calls],
            make_tasks=make_tasks,
        )
    except StateUnknown:
        return await _from_reads(folder, target, groups, recording, target, environment)
    return RecordedWorld(made.folder, "", made.tasks, tuple(left_out), recording.num_unread)


async def _from_package(
    folder: Path, world: Path, groups: Sequence[Group], recording: Recording
) -> RecordedWorld:
    """A copy of a package with the recording's tasks in the place of its own."""
    if read(world).server is None:
        raise PackageError(f"{world}: it is not a world of an MCP server (docs/mcp-worlds.md)")
    await anyio.Path(folder.parent).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as made:
        draft = Path(made, folder.name)
        shutil.copytree(world, draft, symlinks=True)
        head = (draft / "scenario.toml").read_text(encoding="utf-8")
        head = _NAME_LINE.sub(f'name = "{folder.name}"', head, count=1)
        (draft / "scenario.toml").write_text(head, encoding="utf-8")
        (draft / "near_misses.toml").unlink(missing_ok=True)
        remade = await remade_tasks(read(draft), groups)
        _check_some(world, remade.tasks, remade.left_out)
        write_tasks(draft, remade.tasks)
        read(draft)
        shutil.move(draft, folder)
    return RecordedWorld(folder, "", remade.tasks, remade.left_out, recording.num_unread)


async def _from_reads(
    folder: Path,
    target: str,
    groups: Sequence[Group],
    recording: Recording,
    command: str,
    environment: Sequence[str],
) -> RecordedWorld:
    """A task file whose checks are tool calls. `command`: makes the calls again; empty: none."""
    tasks, left_out = await checked_tasks(groups, recording.tools, command, environment)
    _check_some(folder, tasks, left_out)
    tools = [
        ToolSpec(str(tool.get("name")), str(tool.get("description") or ""), {})
        for tool in recording.tools
    ]
    await anyio.Path(folder.parent).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as made:
        draft = Path(made, folder.name)
        await anyio.Path(draft).mkdir()
        write_checked(draft / "tasks.toml", folder.name, target, tools, tasks)
        read_mcp_tasks(draft / "tasks.toml", target)
        shutil.move(draft, folder)
    return RecordedWorld(folder, target, tuple(tasks), tuple(left_out), recording.num_unread)


def _check_some(
    place: Path, tasks: Sequence[NewTask] | Sequence[CheckedTask], left_out: Sequence[str]
) -> None:
    if not tasks:
        why = f"; {left_out[0]}" if left_out else ""
        more = f" (and {len(left_out) - 1} more)" if len(left_out) > 1 else ""
        raise PackageError(f"{place}: no recorded call that writes can be a task{why}{more}")


def _check_command(path: Path, recording: Recording) -> None:
    """Refuse the recorded command of somebody else, and one that names files of the user, which
    the calls would change. Raises PackageError."""
    if not recording.is_own:
        command = shlex.quote(shlex.join(recording.command))
        raise PackageError(
            f"{path} names the server {command}, and a recording that you did not make on this "
            f"machine starts nothing: give the server as --mcp {command} yourself, or call nothing "
            "with --no-probe"
        )
    for word in recording.command[1:]:
        value = os.path.expanduser(word.rpartition("=")[2])
        if not os.path.isabs(value) or value.endswith(_PROGRAMS):
            continue
        is_program = os.path.isfile(value) and os.access(value, os.X_OK)
        if os.path.exists(os.path.dirname(value)) and not is_program:
            command = shlex.join(recording.command).replace(word, SCRATCH)
            raise PackageError(
                f"{path}: the recorded command names {value}, which the calls would change when "
                f"they are made again; give a command with {SCRATCH} in its place, for example "
                f"--mcp {shlex.quote(command)}"
            )
