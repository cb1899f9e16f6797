"""The actor class, which Ray carries to each node by value: it also runs where this project is not
installed, and answers there with one sentence. So it imports nothing of the project at the top.

What it yields: first (address of the node, process id); then lists of messages, or one sentence
that says why the node cannot play.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from importlib import import_module
from typing import Any

import ray.util

Yielded = tuple[str, int] | list[bytes] | str


class RolloutActor:
    """A rollout process on a node."""

    def __init__(self, install: str) -> None:
        """`install` is the command that installs what is missing."""
        self._install = install
        self._playing: Any = None
        self._begun = asyncio.Event()

    async def play(self, payload: bytes) -> AsyncGenerator[Yielded]:
        """Be the worker of this payload (see harness.cluster.node) until it ends."""
        address = ray.util.get_node_ip_address()
        yield address, os.getpid()
        try:
            node = import_module("rehearsal_room.harness.cluster.node")
        except ImportError as exc:
            yield (
                f"node {address} cannot play: {exc} there; every node needs the same version of "
                f"this package: {self._install}"
            )
            return
        self._playing = node.Playing(payload, address)
        self._begun.set()
        async for contents in self._playing.batches():
            yield contents

    async def deliver(self, contents: list[bytes]) -> None:
        """Take messages from the coordinator."""
        await self._begun.wait()
        self._playing.deliver(contents)
