"""The requests of a logged episode, read from its run."""

from rehearsal_room.harness.setup.run_trust import RUN_FILE, counts
from rehearsal_room.viewer.reading.logged_episodes import logged_episode
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.sent.judged import sent_to_judge
from rehearsal_room.viewer.sent.shown import SentAtTurn
from rehearsal_room.viewer.sent.turns import Began, sent_at


def read_sent(run: ShownRun, episode: str, turn: int) -> SentAtTurn:
    """What the model was sent for a turn. Raises HarnessError."""
    trajectory, world = logged_episode(run, episode)
    return sent_at(trajectory, world, _began(run), turn)


def read_sent_to_judge(run: ShownRun, episode: str) -> SentAtTurn:
    """What the models of the latest verdict that asked some were asked. Raises HarnessError."""
    trajectory, world = logged_episode(run, episode)
    asked = [one for one in trajectory.judged if one.judgements or one.asked]
    if not asked:
        return SentAtTurn(missing="No judge asked a model about this episode.")
    return sent_to_judge(trajectory, world, asked[-1], run.log_folder, _began(run))


def _began(run: ShownRun) -> Began:
    file = run.log_folder / RUN_FILE
    if not file.is_file():
        return Began(None)
    return Began(run.settings(), counts(file), run.text_of())
