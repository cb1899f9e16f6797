"""What the tests of the demonstration share."""

from pathlib import Path

import pytest

from rehearsal_room.demo.stages import RunCommand
from tests.support.cli import Rehearse


@pytest.fixture
def command(rehearse: Rehearse) -> RunCommand:
    """Runs `rehearse` in this process, which avoids importing the libraries again."""

    def run(name: str, config: Path, output: Path) -> None:
        settings = ["--config", config] if name == "run" else [config]
        status, _, error = rehearse(name, *settings, "-o", output)
        assert status == 0, error

    return run
