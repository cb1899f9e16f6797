"""A short share of `python -m tests.cli.fault_campaign`."""

from pathlib import Path

import pytest

from tests.cli.fault_campaign import campaign
from tests.support.judged_runs import no_environment


@pytest.mark.slow  # two runs of 120 episodes, each of whose replies takes 30 ms
@pytest.mark.parametrize("stream", [False, True])
def test_faults_of_a_model_server_make_no_label_false(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """3 % rate limits, 1 % errors, 1 % cut answers and 1 % failed generations: every episode gets
    the label that it gets without them."""
    no_environment(monkeypatch)
    found = campaign(tmp_path, 120, stream=stream, seed=7)
    assert (found.episodes, found.false, found.unanswered) == (120, [], 0)
    assert found.faults.keys() == {"rate_limit", "error", "cut", "failed"}
    assert len(found.labels) > 1  # some are right, and some are wrong
