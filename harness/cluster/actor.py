"""The actor class, which Ray carries to each node by value: it also runs where this project is not
installed, and answers there with one sentence. So it imports nothing of the project at the top.

What it yields: first (address of the node, process id); then lists of messages, or one sentence
that says why the node cannot play.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import ray.util

Yielded = tuple[str, int] | list[bytes] | str


class RolloutActor:
    """A rollout process on a node."""

    def __init__(self, project: str, driver: str, install: str) -> None:
        """`project` is this project's name on the package index, `driver` the version that the
        driver has, `install` the command that installs it."""
        self._project, self._driver = project, driver
        self._install = install
        self._playing: Any = None
        self._begun = asyncio.Event()

    async def play(self, payload: bytes) -> AsyncGenerator[Yielded]:
        """Be the worker of this payload (see harness.cluster.node) until it ends."""
        address = ray.util.get_node_ip_address()
        yield address, os.getpid()
        # Before anything of the payload is read: another version may not have its types.
        if (found := self._found_version()) != self._driver:
            yield (
                f"node {address} has version {found} of {self._project}, the driver "
                f"{self._driver}; every node needs the same version: {self._install}"
            )
            return
        try:
            from rehearsal_room.harness.cluster.node import Playing
        except ImportError as exc:
            yield (
                f"node {address} cannot play: {exc} there; every node needs the same version of "
                f"this package: {self._install}"
            )
            return
        self._playing = Playing(payload, address)
        self._begun.set()
        async for contents in self._playing.batches():
            yield contents

    def _found_version(self) -> str:
        try:
            return version(self._project)
        except PackageNotFoundError:
            return "unknown"  # as the driver says, too, where it is not installed

    async def deliver(self, contents: list[bytes]) -> None:
        """Take messages from the coordinator."""
        await self._begun.wait()
        self._playing.deliver(contents)
