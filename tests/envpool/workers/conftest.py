"""Fixtures: one warm fork server for the tests of this folder."""

from tests.support.fork_server import anyio_backend, fork_server, open_spawner

__all__ = ["anyio_backend", "fork_server", "open_spawner"]
