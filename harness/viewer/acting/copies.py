"""Runs that are played on other machines: copied over a broker while they are shown.

A copy is a run folder as any other, in a temporary folder; the run does not notice it.
"""

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path

from harness.bus.mqtt_settings import MqttSettings


@asynccontextmanager
async def copies_of(url: str, names: Sequence[str]) -> AsyncIterator[list[Path]]:
    """Copy the runs of these names from a broker (none: the only live one), as long as the block
    lasts; gives their folders. Raises BusError, SettingsError and LogError."""
    settings = MqttSettings(url=url)
    runs = import_module("harness.bus.mqtt_runs")  # its library takes long to import
    copying = import_module("harness.following.run_copy")
    async with AsyncExitStack() as stack:
        base = stack.enter_context(tempfile.TemporaryDirectory(prefix="rehearse-view-"))
        folders = []
        for name in names or (None,):
            status = await runs.status_of(settings, name)
            folder = Path(base) / Path(status.run).name
            await stack.enter_async_context(copying.open_copy(settings, status, folder))
            folders.append(folder)
        yield folders
