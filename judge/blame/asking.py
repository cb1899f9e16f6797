"""Asking which turn of a logged episode is to blame."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.outcomes.scores import score_of
from rehearsal_room.harness.reports.summary import read_report, write_report
from rehearsal_room.harness.rollout.session import unwrapped
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.policies import OpenLocalPolicy
from rehearsal_room.judge.blame.blame import blame_episodes, label_of
from rehearsal_room.judge.blame.forks import Origin, open_player
from rehearsal_room.judge.blame.report import Blame
from rehearsal_room.judge.verdicts.opener import judge_opener


def episode_named(text: str) -> tuple[Path, str]:
    """The run and the episode in `RUN/EPISODE`. Raises SettingsError.

    Example: "runs/mine/e000003" -> (Path("runs/mine"), "e000003")
    """
    run, slash, episode = text.rstrip("/").rpartition("/")
    if not slash or not episode or "@" in episode:
        raise SettingsError(
            f"{text!r} is not an episode of a run (expected RUN/EPISODE, for example "
            "runs/mine/e000003)"
        )
    return Path(run or "/"), episode


def require_blame(where: str, trajectory: Trajectory) -> None:
    """Check that a turn of this episode can be to blame, and that episodes can go on from each of
    its turns. Raises SettingsError."""
    started, ended = trajectory.started, trajectory.ended
    if ended is None:
        raise SettingsError(f"{where} has not ended: a turn is to blame when the episode is over")
    label = label_of(trajectory)
    if label is Label.COMPLETED:
        raise SettingsError(f"{where} completed its task: no turn is to blame")
    if label is Label.ENVIRONMENT_ERROR or ended.ending is Ending.WORLD_ERROR:
        raise SettingsError(f"{where} failed because its world failed: no turn is to blame")
    if score_of(ended.ending, label) is None:
        run = where.rpartition("/")[0]
        raise SettingsError(
            f"{where} has no verdict (it ended as {str(ended.ending).replace('_', ' ')}): "
            f"`rehearse judge {run}` judges what has none"
        )
    if not started.start_digest:
        raise SettingsError(
            f"{where}: its world is an external server, which does not reveal its state, so no "
            "episode can begin in the middle of it"
        )
    if started.is_dialogue:
        raise SettingsError(
            f"{where} is a dialogue: what was said cannot be taken back, so no oracle goes on from "
            "its turns; `rehearse run --from` plays on from one"
        )
    if not trajectory.steps:
        raise SettingsError(f"{where} has no turn: it ended before the first reply")


async def blame_one(
    origin: Origin,
    settings: Settings,
    *,
    tries: int,
    folder: Path | None,
    local_policy: OpenLocalPolicy | None = None,
    progress: bool = False,
) -> Blame:
    """Which turn of an episode is to blame. `settings` are those of a fork of it; `folder` gets the
    log of all forks (None: it is not kept). Raises SettingsError, and what a run raises."""
    if origin.task.single_turn:
        raise SettingsError(f"{origin.name} ends with its first reply: there is no turn before it")
    with TemporaryDirectory(prefix="rehearse-") as there, unwrapped():
        (found,) = await blame_many(
            [origin],
            settings,
            folder or Path(there) / "forks",
            tries=tries,
            local_policy=local_policy,
            progress=progress,
        )
    if folder is None:
        return found
    return msgspec.structs.replace(found, kept=str(folder))


async def blame_many(
    origins: Sequence[Origin],
    settings: Settings,
    folder: Path,
    *,
    tries: int,
    local_policy: OpenLocalPolicy | None = None,
    progress: bool = False,
) -> list[Blame]:
    """The same for many episodes of one run, whose forks go into one log."""
    settings = _judged(settings)
    open_judge = judge_opener(settings)
    assert open_judge is not None
    tasks = list({(one.scenario.digest, one.task.id): one for one in origins}.values())
    opened = open_player(
        settings,
        folder,
        [(one.scenario, one.task) for one in tasks],
        open_judge=open_judge,
        local_policy=local_policy,
        plays_own=tries > 0,
        progress=progress,
    )
    async with opened as player:
        found = await blame_episodes(origins, player, tries=tries)
        player.keep()
    with open_reader(folder) as reader:
        write_report(folder, read_report(reader, max_steps=settings.limits.max_steps))
    return found


def _judged(settings: Settings) -> Settings:
    """The settings with a judge that tells the truth as it can: the worlds' code where the run had
    none, and no errors that an experiment planted."""
    judge = msgspec.structs.replace(settings.judge, errors="")
    if judge.mode in ("none", "elsewhere"):
        judge = JudgeSettings(rewards=judge.rewards)
    return msgspec.structs.replace(settings, judge=judge)
