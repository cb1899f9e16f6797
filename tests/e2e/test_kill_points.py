"""Commands killed at chosen system calls: the log opens, and nothing is lost, doubled or half."""

from pathlib import Path

import pytest

from tests.support.budgets import IS_LONG, repeats
from tests.support.kill_campaign import Campaign
from tests.support.kill_points import is_available
from tests.support.warm_process import open_warm_process

KILLS = repeats(short=3, long=500)  # nightly: `just kills`, and this test in `just test-long`


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not is_available(), reason="this system has no seccomp notifications")
def test_a_log_opens_after_a_kill_at_any_point(tmp_path: Path) -> None:
    """After each kill every command opens the run, finished episodes stay finished and have one
    ending, `--resume` goes on after the last logged turns and completes, and report, results and
    digests equal those of a run which was left alone."""
    with open_warm_process("tests.support.loaded_commands", "tests.support.kill_points") as warm:
        campaign = Campaign(warm, tmp_path, seed=6, episodes=12)
        campaign.run(KILLS)
    assert len(campaign.kills) >= KILLS
    assert campaign.num_continued or not IS_LONG  # a few kills may all come between two episodes
    assert not IS_LONG or {kill.kind for kill in campaign.kills} > {"fsync", "pwrite"}
