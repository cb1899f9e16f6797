"""Runs killed in mid-episode and resumed at the turn; the model's server compares every request."""

from pathlib import Path

import pytest

from tests.support.budgets import repeats
from tests.support.judged_runs import no_environment, served
from tests.support.resume_campaign import COURSES, Model, ResumeCampaign
from tests.support.warm_process import open_warm_process

KILLS = repeats(short=2, long=40)  # of each course; nightly: `just resumes`
MOST = 12 * KILLS
EPISODES = repeats(short=6, long=16)
TRIED = COURSES[: repeats(short=1, long=len(COURSES))]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_killed_run_goes_on_at_the_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a run is killed, its next life asks for exactly the replies that the log does not
    have, with the windows of a run that was left alone; calls, results, endings and digests are
    that run's, too, whichever history window, and wherever the tools run."""
    no_environment(monkeypatch)
    model = Model()
    with (
        open_warm_process(
            "tests.support.loaded_commands", "rehearsal_room.harness.policies.openai"
        ) as warm,
        served(model) as server,
    ):
        campaign = ResumeCampaign(warm, server, model, tmp_path, seed=3, episodes=EPISODES)
        for number, course in enumerate(TRIED, 1):
            campaign.run(number * KILLS, [course])
        while not campaign.num_kept and len(campaign.kills) < MOST:  # all came before a logged turn
            campaign.run(len(campaign.kills) + KILLS, TRIED)
    assert len(campaign.kills) >= len(TRIED) * KILLS
    assert campaign.num_continued and campaign.num_kept
