"""The garbage collector of a process with many live episodes."""

import subprocess
import sys

CHECK = """
import gc
from rehearsal_room.harness.rollout.gc_tuning import tune_garbage_collector
tune_garbage_collector()
assert gc.get_freeze_count() > 1_000, gc.get_freeze_count()
assert gc.get_threshold()[0] > 700, gc.get_threshold()
"""


def test_what_exists_is_not_scanned_again() -> None:
    """Objects that exist when a run begins are frozen, and collections become rare."""
    assert subprocess.run([sys.executable, "-c", CHECK]).returncode == 0
