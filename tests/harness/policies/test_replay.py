"""Policy `replay`: logged replies, repeated."""

from pathlib import Path

import pytest

from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from tests.support.cli import Rehearse


def _episodes(folder: Path) -> list[Trajectory]:
    with open_reader(folder) as reader:
        return list(reader.trajectories())


def test_a_run_repeats_itself(rehearse: Rehearse, tmp_path: Path) -> None:
    """Replies that are repeated in the same worlds lead to the same states and verdicts, member by
    member."""
    first, again = tmp_path / "first", tmp_path / "again"
    common = ["run", "shop_support", "-g", "2", "-n", "12", "--dialect", "hermes"]
    assert rehearse(*common, "-p", "mutant", "-o", first)[0] == 0
    assert rehearse(*common, "-p", "replay", "--replay", first, "-o", again)[0] == 0
    outcomes = [
        [
            (
                [step.reply.text for step in one.steps],
                one.ended and one.ended.state and one.ended.state.digest,
                [verdict.label for verdict in one.judged],
            )
            for one in _episodes(folder)
        ]
        for folder in (first, again)
    ]
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0]) == 12
    assert {one.started.policy for one in _episodes(again)} == {"replay"}


def test_a_log_that_ends_early_ends_the_episode(rehearse: Rehearse, tmp_path: Path) -> None:
    """Where the logged episode was cut off, there is no further reply: the episode ends with
    `policy_error`."""
    first, again = tmp_path / "first", tmp_path / "again"
    common = ["run", "shop_support", "-n", "1"]
    rehearse(*common, "-p", "random", "--max-steps", "2", "-o", first)
    rehearse(*common, "-p", "replay", "--replay", first, "--max-steps", "3", "-o", again)
    (episode,) = _episodes(again)
    assert episode.ended is not None
    assert (episode.ended.ending, episode.ended.error, len(episode.steps)) == (
        "policy_error",
        "the logged episode e000000 has no further reply",
        2,
    )


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["shop_support", "--dialect", "hermes"], "dialect: the replies of {} are in native, not"),
        (["flight_desk"], "replay: {} has no finished episode of task"),
    ],
)
def test_a_log_that_does_not_fit_is_refused(
    rehearse: Rehearse, tmp_path: Path, arguments: list[str], fault: str
) -> None:
    """Another dialect or a task that is not in the log: one sentence, status 2, no run folder."""
    first, again = tmp_path / "first", tmp_path / "again"
    rehearse("run", "shop_support", "-n", "1", "-p", "oracle", "-o", first)
    status, _, err = rehearse(
        "run", *arguments, "-n", "1", "-p", "replay", "--replay", first, "-o", again
    )
    assert status == 2
    assert fault.format(first) in err
    assert not again.exists()


def test_it_needs_a_run(rehearse: Rehearse) -> None:
    """Without a run to replay the settings are refused."""
    status, _, err = rehearse("run", "shop_support", "-p", "replay")
    fault = "replay: policy 'replay' needs the folder of a run: --replay RUN"
    assert (status, err) == (2, f"error: {fault}\n")
