"""What the learner's tests share."""

from collections.abc import Iterator

import pytest

from tests.support.warm_process import WarmProcess, open_warm_process


@pytest.fixture(scope="session")
def warm_process() -> Iterator[WarmProcess]:
    """A process that has imported everything that training needs, and forks children."""
    with open_warm_process("tests.support.warm_training") as warm:
        yield warm
