"""Hosting many scenarios in one process, as tests do."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _frozen_heap() -> Iterator[None]:
    """Keep the objects that exist before these tests out of the garbage collector, as workers do.

    Hosting a scenario searches all objects that the collector knows for state
    (envpool.hosting.determinism.state_discovery). In a process that has imported torch and the
    other tests, each search takes 0.2 s.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
