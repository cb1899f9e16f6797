"""The layout of a training run's folder, for commands that read it."""

import subprocess
import sys


def test_the_layout_is_light_to_import() -> None:
    """Commands that only read a folder do not wait for torch."""
    check = (
        "import sys, rehearsal_room.learner.core.training_folder; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0
