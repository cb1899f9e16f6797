"""What a simulation silences is heard again after each test."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_again() -> Iterator[None]:
    yield
    structlog.reset_defaults()
