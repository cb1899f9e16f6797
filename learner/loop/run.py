"""A training run in its folder: everything put together, and taken apart in order.

train.toml        the settings, resolved
metrics.jsonl     the figures of every batch
rollouts/         the run that is learned from, as of `rehearse run`
evaluations/      runs that nothing is learned from: b000010 after ten batches
versions/         published weights
checkpoints/      what a run goes on from
report.json       the result
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
from rich.console import Console

from harness.core.policy_card import PolicyCard
from harness.dialects.base import Dialect
from harness.dialects.registry import dialect_of
from harness.history.base import HistoryPolicy
from harness.history.windows import parse_history
from harness.rollout.launch import OpenJudge, warn_of_mismatches
from harness.rollout.process import run
from harness.settings.run import Settings
from harness.tokenization.chat_tokenizer import ChatTokenizer
from learner.config.runs import Runs, rhythm_of
from learner.config.settings import TrainSettings
from learner.data.alignment import Alignment
from learner.data.group_feed import groups_of_logs
from learner.data.grouping import Grouping
from learner.data.log_source import LogSource
from learner.loop.evaluation import open_evaluator
from learner.loop.learner import ModelLearner
from learner.loop.loop import Around, Loop, Source
from learner.loop.metrics import Value, open_metrics
from learner.loop.progress_bar import TrainProgress
from learner.loop.progress_state import Place
from learner.loop.report import TrainReport, report_of, write_report
from learner.loop.rollout_session import Rollouts, open_rollouts
from learner.loop.run_folder import (
    CHECKPOINTS,
    EVALUATIONS,
    ROLLOUTS,
    VERSIONS,
    begin,
    forget,
    forget_after,
)
from learner.loop.trainable_policies import Player
from learner.model.distributed import joined
from learner.trainer.trainer import open_trainer
from learner.trainer.weight_publisher import Publisher, TakesWeights


class Given(msgspec.Struct, frozen=True):
    """What a training run is given from outside."""

    judge_opener: Callable[[Settings], OpenJudge | None]  # what opens the judge of some settings
    player_of: Callable[[Settings], Player]  # their policy
    console: Console  # for progress


def train(
    settings: TrainSettings, runs: Runs, folder: Path, given: Given, *, resume: bool
) -> TrainReport | None:
    """Train in a folder, and write its report. None: another process does that, which this one
    has followed.

    A run that fails before there is anything to keep leaves no folder. Raises LearnerError,
    HarnessError, ScenarioError and PoolError.
    """
    with joined(settings.compute) as processes:
        if processes.rank:
            open_trainer(settings, processes=processes).follow()
            return None
        is_new = not folder.exists()
        begins = begin(folder, settings, resume=resume)
        try:
            trainer = open_trainer(settings, processes=processes)
            try:
                is_live = not settings.data.logs
                learner = ModelLearner(trainer, settings, folder / CHECKPOINTS, is_live=is_live)
                vocab = trainer.model.config.vocab_size
                training = _Training(rhythm_of(settings), runs, folder, given, learner, vocab)
                report: TrainReport = run(training.run)
            finally:
                trainer.close()
        except Exception:
            if begins:
                forget(folder, is_new=is_new)
            raise
    return report


class _Training(msgspec.Struct, frozen=True):
    """One training run's work inside of the event loop."""

    settings: TrainSettings
    runs: Runs
    folder: Path
    given: Given
    learner: ModelLearner
    vocab: int

    async def run(self) -> TrainReport:
        place = await anyio.to_thread.run_sync(self.learner.resume) or Place()
        await anyio.to_thread.run_sync(forget_after, self.folder, place.batches)
        async with AsyncExitStack() as stack:
            around = Around(tell=self._teller(stack, place))
            players: list[Player] = []
            if (settings := self.runs.evaluation) is not None:
                players.append(await stack.enter_async_context(self.given.player_of(settings)))
                open_judge = self.given.judge_opener(settings)
                opened = open_evaluator(settings, self.folder / EVALUATIONS, players[0], open_judge)
                evaluator = await stack.enter_async_context(opened)
                around = msgspec.structs.replace(around, evaluate=evaluator.evaluate)
            if self.settings.data.logs:
                publisher = self._publisher(players)
                loop = self._loop(self._log_source(place), publisher, around, place)
                await beside(loop)
            else:
                rollouts = self.runs.rollouts
                players.append(await stack.enter_async_context(self.given.player_of(rollouts)))
                publisher = self._publisher(players)
                live = await self._live(stack, players[-1], publisher, place)
                around = msgspec.structs.replace(
                    around, taken=live.admission.take, held_s=live.admission.held_s
                )
                loop = self._loop(live.feed, publisher, around, place)
                await beside(loop, live)
        report = report_of(loop.place, published=publisher.path_of(publisher.version))
        write_report(self.folder, report)
        return report

    @property
    def _history(self) -> HistoryPolicy:
        return parse_history(self.runs.rollouts.history)

    @property
    def _dialect(self) -> Dialect:
        rollouts = self.runs.rollouts
        return dialect_of(rollouts.dialect, lenient=rollouts.format_rules != "awm")

    def _teller(
        self, stack: AsyncExitStack, place: Place
    ) -> Callable[[int, dict[str, Value]], None]:
        """What the figures of each batch are told to."""
        opened = open_metrics(self.folder, self.settings, after=place.batches)
        metrics = stack.enter_context(opened)
        progress = stack.enter_context(
            TrainProgress(self.given.console, total=self.settings.steps, done=place.batches)
        )

        def tell(step: int, values: dict[str, Value]) -> None:
            if values:
                metrics.write(step, values)
            if step:
                progress.show(step, values)

        return tell

    def _grouping(self) -> Grouping:
        data = self.settings.data
        alignment = Alignment(
            self._history,
            self._dialect,
            ChatTokenizer.open(Path(self.settings.model)),
            misaligned=data.misaligned,
            check=data.check_prompts,
        )
        loss = self.settings.loss
        return Grouping(data, loss=loss, aligner=alignment, vocab=self.vocab)

    def _publisher(self, players: Sequence[TakesWeights]) -> Publisher:
        rollouts = self.runs.rollouts
        card = PolicyCard(
            version="",
            history=self._history.spec,
            fingerprint=self._history.fingerprint,
            dialect=self._dialect.name,
            temperature=1.0 if rollouts.temperature is None else rollouts.temperature,
            max_tokens=rollouts.max_tokens,
        )
        return Publisher(
            self.folder / VERSIONS,
            start=Path(self.settings.model),
            card=card,
            write=self.learner.publish,
            takers=players,
            keep=self.settings.save.keep_published,
        )

    def _log_source(self, place: Place) -> LogSource:
        data, grouping = self.settings.data, self._grouping()
        groups = groups_of_logs(map(Path, data.logs), grouping, epochs=data.epochs)
        return LogSource(groups, grouping, size=data.groups, first=place.next_group)

    async def _live(
        self, stack: AsyncExitStack, player: Player, publisher: Publisher, place: Place
    ) -> Rollouts:
        rollouts = self.runs.rollouts
        warn_of_mismatches(rollouts, self._history, self.given.console)
        opened = open_rollouts(
            self.settings,
            rollouts,
            self.folder / ROLLOUTS,
            player,
            open_judge=self.given.judge_opener(rollouts),
            grouping=self._grouping(),
            publisher=publisher,
            place=place,
        )
        return await stack.enter_async_context(opened)

    def _loop(self, source: Source, publisher: Publisher, around: Around, place: Place) -> Loop:
        return Loop(
            self.settings,
            learner=self.learner,
            source=source,
            publisher=publisher,
            around=around,
            place=place,
        )


async def beside(loop: Loop, rollouts: Rollouts | None = None) -> None:
    """Run the loop, and the rollouts that it learns from beside it.

    When either fails or is cancelled the other one ends, too: the loop saves where it is, the
    rollouts log what was live as cancelled.
    """
    await loop.begin()

    async def learn() -> None:
        await loop.run()
        if rollouts is not None:
            rollouts.admission.close()

    # Both in tasks of the group: asyncio's Ctrl-C cancels the task that waits for them here, and
    # they are cancelled by the group, which lets the learner's thread come to its end.
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(learn)
        if rollouts is not None:
            tasks.start_soon(rollouts.play)
