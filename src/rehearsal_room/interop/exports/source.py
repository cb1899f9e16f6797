"""What every export reads: the chosen episodes of a run, each with its world and its times."""

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    HistorySummarized,
    Judged,
    Label,
    Record,
    StepTaken,
)
from rehearsal_room.harness.core.trajectory import Trajectory, assemble
from rehearsal_room.harness.log.reader import LogReader
from rehearsal_room.harness.log.schema import EpisodeRow, ScenarioSnapshot, log_error
from rehearsal_room.harness.policies.noop import LAZY
from rehearsal_room.harness.settings.run import Settings, log_id_of, resolve
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.reliability.annotations import HumanLabel, own_labels
from rehearsal_room.learner.config.loader import read_settings
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.training_folder import ROLLOUTS, SETTINGS_NAME

_WITHOUT_MODEL = frozenset(("oracle", "mutant", "random", "noop", "scripted", *LAZY))


def asks_no_model(policy: str) -> bool:
    """Whether no model wrote the replies of this policy.

    Example: "oracle" -> True; "openai:gpt-5" -> False
    """
    return policy.partition(":")[0] in _WITHOUT_MODEL


class LoggedEpisode(msgspec.Struct, frozen=True):
    """One episode of a log. Times are Unix seconds."""

    log: Path
    row: EpisodeRow
    trajectory: Trajectory
    snapshot: ScenarioSnapshot | None  # None: the log does not have its world
    started_at: float
    replied_at: tuple[float, ...]  # when each of `trajectory.replies()` was complete
    ended_at: float | None  # None: it was cut off

    @property
    def world(self) -> ScenarioSnapshot:
        """The snapshot of its scenario. Raises LogError where the log does not have it."""
        if self.snapshot is None:
            raise LogError(
                f"{self.log}: the log does not hold the world of episode {self.row.episode!r}"
                f" (package {self.row.scenario_digest})"
            )
        return self.snapshot

    @property
    def verdict(self) -> Judged | None:
        """The latest verdict; None: it is not judged."""
        return self.trajectory.judged[-1] if self.trajectory.judged else None


class ExportSource:
    """The episodes of one run that an export writes."""

    def __init__(
        self,
        reader: LogReader,
        rows: list[EpisodeRow],
        *,
        dumps: bool = False,
        license: str = "",
        training: TrainSettings | None = None,
    ) -> None:
        self.path = reader.path
        self.rows = rows
        self.dumps = dumps  # whether the final content of every table is written, too
        self.license = license  # of a dataset, as the user named it; empty: not named
        self._training = training
        self._reader = reader
        self._worlds: dict[str, ScenarioSnapshot] | None = None
        self._by_hand: dict[str, list[HumanLabel]] | None = None

    def __repr__(self) -> str:
        return f"<ExportSource {self.path} [{len(self.rows)} episodes]>"

    @property
    def run(self) -> str:
        """The name of the run: its folder's."""
        return self.path.parent.absolute().name

    @property
    def log_id(self) -> str:
        """The id of the log, equal for every export of it; without a run.toml the run's name."""
        settings = self.path.parent / "run.toml"
        return log_id_of(settings) if settings.is_file() else self.run

    @property
    def is_part(self) -> bool:
        """Whether the log has episodes that are not chosen."""
        return len(self.rows) < len(self._reader.episodes())

    @property
    def training(self) -> TrainSettings:
        """The settings that make batches of the run: those that were given, those of the training
        run whose rollouts these are, or the defaults. Raises ConfigError."""
        file = self.path.parent.parent / SETTINGS_NAME
        if self._training is None and self.path.parent.name == ROLLOUTS and file.is_file():
            return read_settings(file)
        return self._training or TrainSettings(model="")

    @property
    def settings(self) -> Settings | None:
        """The settings of the run; None: it has no run.toml."""
        settings = self.path.parent / "run.toml"
        return resolve(settings, {}) if settings.is_file() else None

    @property
    def worlds(self) -> dict[str, ScenarioSnapshot]:
        """The snapshots of the scenarios in the log, by scenario digest."""
        if self._worlds is None:
            self._worlds = self._reader.scenarios()
        return self._worlds

    def by_hand(self, episode: str) -> list[HumanLabel]:
        """The labels and notes of people on an episode. Raises LogError."""
        if self._by_hand is None:
            self._by_hand = {}
            try:
                said = own_labels(self.path.parent).said()
            except JudgeError as exc:
                raise LogError(str(exc)) from exc
            for one in said:
                self._by_hand.setdefault(one.episode, []).append(one)
        return self._by_hand.get(episode, [])

    def episodes(self) -> Iterator[LoggedEpisode]:
        """The episodes, in the order in which they began; one is in memory at a time."""
        for row in self.rows:
            yield self._episode(row)

    def _episode(self, row: EpisodeRow) -> LoggedEpisode:
        records = self._reader.records_of(row.episode)
        try:
            trajectory = assemble(records)
        except ValueError as exc:
            raise log_error(self.path, "the log is damaged", exc) from exc
        return LoggedEpisode(
            log=self.path,
            row=row,
            trajectory=trajectory,
            snapshot=self.worlds.get(row.scenario_digest),
            started_at=records[0].at,
            replied_at=_times(records, StepTaken, HistorySummarized),
            ended_at=next(iter(_times(records, EpisodeEnded)), None),
        )


def _times(records: list[Record], *kinds: type) -> tuple[float, ...]:
    return tuple([record.at for record in records if isinstance(record.event, kinds)])


def rows_with(
    reader: LogReader,
    *,
    labels: Collection[Label] | None = None,
    endings: Collection[Ending] | None = None,
) -> list[EpisodeRow]:
    """The episodes with one of these labels and endings; None selects all. Raises LogError."""
    return [
        row
        for row in reader.episodes()
        if (labels is None or row.label in labels) and (endings is None or row.ending in endings)
    ]
