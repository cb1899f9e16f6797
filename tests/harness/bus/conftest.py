"""Fixtures for the tests of the MQTT bus: a real broker for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import Mosquitto, running_broker


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path) as running:
        yield running
