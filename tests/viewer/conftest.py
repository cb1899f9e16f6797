"""Runs that the tests of the viewer look at: played once."""

import gc
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from rehearsal_room.harness.rollout import gc_tuning
from tests.support.viewer_client import played

TASKS = ("shop_support:address-to-parents", "shop_support:cancel-duplicate")


@pytest.fixture
def anyio_backend() -> str:
    """The viewer runs on asyncio, as all commands do."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    """Runs tune their process's collector; that of the tests stays as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc_tuning, "gc", Mock(spec=gc))
        yield


@pytest.fixture(scope="session")
def mutants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups of four, most of which fail."""
    folder = tmp_path_factory.mktemp("view") / "mutants"
    return played(folder, *TASKS, policy="mutant", group_size=4)


@pytest.fixture(scope="session")
def oracles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same tasks, solved."""
    folder = tmp_path_factory.mktemp("view") / "oracles"
    return played(folder, *TASKS, policy="oracle", group_size=2)
