"""Runs that are played on other machines: copied over a broker while they are shown.

A copy is a run folder as any other, in a temporary folder; the run does not notice it. A copy that
cannot go on, as its run's process or the broker is gone, stays as far as it came.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import structlog

from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.harness.bus.mqtt_runs import status_of
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.bus.mqtt_wire import RunStatus
from rehearsal_room.harness.core.errors import HarnessError
from rehearsal_room.harness.following.run_copy import open_copy

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def copies_of(url: str, names: Sequence[str]) -> AsyncIterator[list[Path]]:
    """Copy the runs of these names from a broker (none: the only live one), as long as the block
    lasts; gives their folders. Raises BusError, SettingsError and LogError."""
    settings = MqttSettings(url=url)
    async with AsyncExitStack() as stack:
        base = stack.enter_context(own_folder("view"))
        statuses = [await status_of(settings, name) for name in names or (None,)]
        group = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(group.cancel_scope.cancel)
        folders = []
        for status in statuses:
            folder = base / Path(status.run).name
            failure = await group.start(_copy, settings, status, folder)
            if failure is not None:
                raise failure
            folders.append(folder)
        yield folders


async def _copy(
    settings: MqttSettings,
    status: RunStatus,
    folder: Path,
    *,
    task_status: anyio.abc.TaskStatus[Any],
) -> None:
    """Copy one run until it ends or this task is cancelled."""
    is_open = False
    try:
        async with open_copy(settings, status, folder, is_lasting=False):
            is_open = True
            task_status.started(None)
            await anyio.sleep_forever()
    except (HarnessError, ExceptionGroup) as exc:
        failure = _only(exc)
        if is_open:
            _log.warning("copy_stopped", run=status.run, why=str(failure))
        else:
            task_status.started(failure)


def _only(exc: Exception) -> HarnessError:
    """The one error of the harness in a group. Raises the group where it has anything else."""
    found: BaseException = exc
    while isinstance(found, ExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    if not isinstance(found, HarnessError):
        raise exc
    return found
