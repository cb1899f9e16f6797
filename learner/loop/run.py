"""A training run in its folder (learner.core.training_folder). Its parts are opened here, and
closed in reverse order."""

import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
from functools import partial
from math import inf
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
from rich.console import Console

from rehearsal_room.harness.bus.mqtt_runs import status_of
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.core.policy_card import PolicyCard
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.following.run_copy import open_copy
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import sole_writer
from rehearsal_room.harness.logged_runs.logged_run import is_complete
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.parts import OpenJudge, warn_of_mismatches
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.harness.tokenization.template_check import check_template
from rehearsal_room.harness.vllm.policy import VllmPolicy
from rehearsal_room.harness.vllm.server import VllmServer, VllmServerSettings
from rehearsal_room.learner.config.runs import TrainingRunSettings, rhythm_of
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.errors import ConfigError, TimeIsUpError
from rehearsal_room.learner.core.training_folder import (
    CHECKPOINTS,
    COPY,
    EVALUATIONS,
    ROLLOUTS,
    SERVER_LOG,
    VERSIONS,
)
from rehearsal_room.learner.data.alignment import Alignment
from rehearsal_room.learner.data.conversations import ConversationSource, read_conversations
from rehearsal_room.learner.data.followed_logs import FollowedSource
from rehearsal_room.learner.data.group_feed import groups_of_logs
from rehearsal_room.learner.data.grouping import Grouping
from rehearsal_room.learner.data.log_source import LogSource
from rehearsal_room.learner.loop.evaluation import open_evaluator
from rehearsal_room.learner.loop.learner import ModelLearner, RunLearner
from rehearsal_room.learner.loop.loop import BatchSource, Loop, LoopCallbacks
from rehearsal_room.learner.loop.metrics import MetricValue, open_metrics
from rehearsal_room.learner.loop.prime_rl_learner import PrimeRlLearner
from rehearsal_room.learner.loop.progress_bar import StepDisplay
from rehearsal_room.learner.loop.progress_state import TrainProgress
from rehearsal_room.learner.loop.report import TrainReport, report_of, write_report
from rehearsal_room.learner.loop.rollout_session import Rollouts, open_rollouts
from rehearsal_room.learner.loop.run_folder import (
    remove_later_evaluations,
    remove_leftovers,
    require_run,
    start_or_resume,
)
from rehearsal_room.learner.loop.trainable_policies import TrainablePolicy
from rehearsal_room.learner.model.distributed import Processes, join_processes
from rehearsal_room.learner.model.memory import size_of
from rehearsal_room.learner.selftest.start import check_server, check_start
from rehearsal_room.learner.trainer.trainer import open_trainer
from rehearsal_room.learner.trainer.weight_publisher import TakesWeights, WeightPublisher


class TrainDependencies(msgspec.Struct, frozen=True):
    """What the composition root gives to a training run."""

    judge_opener: Callable[[Settings], OpenJudge | None]  # None: no judge is configured
    policy_of: Callable[[Settings], TrainablePolicy]
    console: Console  # for progress
    # Of the broker that the run to learn from is on; None: its log is a file of this machine.
    bus: MqttSettings | None = None


def train(
    settings: TrainSettings,
    runs: TrainingRunSettings,
    folder: Path,
    dependencies: TrainDependencies,
    *,
    resume: bool,
) -> TrainReport | None:
    """Train in a folder, and write the report. None: this process is not process 0, and has
    followed it.

    No other process can write to the folder meanwhile. A start and a resume begin with a self-test
    (learner.selftest): the model's family under the settings' backend and sampler. A run that fails
    before it has results leaves no folder. Raises LearnerError, HarnessError, ScenarioError and
    PoolError.
    """
    limit = settings.save.must_save_by_s
    deadline = inf if limit is None else time.perf_counter() + limit
    with join_processes(settings.compute) as processes:
        if processes.rank:
            with _deaf():
                check_start(settings, runs)
                open_trainer(settings, processes=processes).follow()
            return None
        if resume:
            require_run(folder)
        is_new = not folder.exists()
        with sole_writer(folder):  # before anything in it is read, cut or removed
            starts = start_or_resume(folder, settings, resume=resume)
            try:
                return _train(settings, runs, folder, dependencies, processes, deadline)
            except Exception:
                if starts:
                    remove_leftovers(folder, is_new=is_new)
                raise


def _train(
    settings: TrainSettings,
    runs: TrainingRunSettings,
    folder: Path,
    dependencies: TrainDependencies,
    processes: Processes,
    deadline: float,
) -> TrainReport:
    check_start(settings, runs)
    learner = _open_learner(settings, folder / CHECKPOINTS, processes)
    try:
        training = _Training(rhythm_of(settings), runs, folder, dependencies, learner, deadline)
        report: TrainReport = run(training.run)
        return report
    except BaseExceptionGroup as exc:
        over, others = exc.split(TimeIsUpError)
        if over is None or others is not None:
            raise
        raise _leaves(over)[0] from None
    finally:
        learner.close()


def _open_learner(settings: TrainSettings, checkpoints: Path, processes: Processes) -> RunLearner:
    """The engine that the settings name. Raises ModelError and ConfigError."""
    if settings.engine.kind == "prime-rl":
        if processes.size > 1:
            raise ConfigError("engine.kind: 'prime-rl' has its own processes: start this one alone")
        return PrimeRlLearner(settings, checkpoints)
    trainer = open_trainer(settings, processes=processes)
    return ModelLearner(trainer, settings, checkpoints, is_live=settings.data.is_live)


def _leaves(group: BaseExceptionGroup[TimeIsUpError]) -> list[TimeIsUpError]:
    """The errors in a group and its groups."""
    return [
        leaf
        for one in group.exceptions
        for leaf in (_leaves(one) if isinstance(one, BaseExceptionGroup) else [one])
    ]


@contextmanager
def _deaf() -> Iterator[None]:
    """A block in which SIGTERM and Ctrl-C do nothing. A launcher sends them to all processes, and
    process 0 needs the others for its last checkpoint; it ends them when it has it."""
    before = {one: signal.signal(one, signal.SIG_IGN) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


class _Training(msgspec.Struct, frozen=True):
    """The work of one training run inside the event loop."""

    settings: TrainSettings
    runs: TrainingRunSettings
    folder: Path
    dependencies: TrainDependencies
    learner: RunLearner
    deadline: float  # on time.perf_counter

    async def run(self) -> TrainReport:
        async with AsyncExitStack() as stack:
            if not self.settings.vllm.python:
                return await self._run()
            server = await stack.enter_async_context(self._server())
            runs = self.runs
            for name in ("rollouts", "evaluation"):
                if (one := getattr(runs, name)) is not None:
                    model = msgspec.structs.replace(one.model, base_url=server.base_url)
                    one = msgspec.structs.replace(one, model=model)
                    runs = msgspec.structs.replace(runs, **{name: one})
            return await msgspec.structs.replace(self, runs=runs)._run()

    def _server(self) -> VllmServer:
        """A vLLM server with the model that the run starts with, in the trainer's precision."""
        settings = VllmServerSettings(
            self.settings.model,
            python=self.settings.vllm.python,
            dtype=self.settings.compute.dtype,
            lora_rank=self.settings.lora.rank,
            arguments=self.settings.vllm.args,
        )
        return VllmServer(settings, self.folder / SERVER_LOG)

    async def _run(self) -> TrainReport:
        progress = await anyio.to_thread.run_sync(self.learner.resume) or TrainProgress()
        await anyio.to_thread.run_sync(remove_later_evaluations, self.folder, progress.batches)
        async with AsyncExitStack() as stack:
            callbacks = LoopCallbacks(report=self._reporter(stack, progress))
            policies: list[TrainablePolicy] = []
            if (settings := self.runs.evaluation) is not None:
                policies.append(
                    await stack.enter_async_context(self.dependencies.policy_of(settings))
                )
                open_judge = self.dependencies.judge_opener(settings)
                opened = open_evaluator(
                    settings, self.folder / EVALUATIONS, policies[0], open_judge
                )
                evaluator = await stack.enter_async_context(opened)
                callbacks = msgspec.structs.replace(callbacks, evaluate=evaluator.evaluate)
            if not self.settings.data.is_live:
                publisher = self._publisher(policies)
                check = partial(self._check_servers, policies, publisher)
                source = await self._log_source(stack, progress)
                loop = self._loop(source, publisher, callbacks, progress)
                await run_with_rollouts(loop, begun=check)
            else:
                rollouts = self.runs.rollouts
                policies.append(
                    await stack.enter_async_context(self.dependencies.policy_of(rollouts))
                )
                publisher = self._publisher(policies)
                check = partial(self._check_servers, policies, publisher)
                live = await self._open_rollouts(stack, policies[-1], publisher, progress)
                callbacks = msgspec.structs.replace(
                    callbacks,
                    version_in_use=live.gating.set_version,
                    throttled_s=live.gating.throttled_s,
                )
                loop = self._loop(live.feed, publisher, callbacks, progress)
                await run_with_rollouts(loop, live, begun=check)
        report = report_of(loop.progress, published=publisher.path_of(publisher.version))
        write_report(self.folder, report)
        return report

    @property
    def _history(self) -> HistoryWindow:
        return parse_history(self.runs.rollouts.history)

    @property
    def _dialect(self) -> Dialect:
        rollouts = self.runs.rollouts
        return dialect_of(rollouts.dialect, lenient=rollouts.format.rules != "awm")

    def _reporter(
        self, stack: AsyncExitStack, progress: TrainProgress
    ) -> Callable[[int, dict[str, MetricValue]], None]:
        """The callback that writes and shows the metrics of each batch."""
        opened = open_metrics(self.folder, self.settings, after=progress.batches)
        metrics = stack.enter_context(opened)
        display = stack.enter_context(
            StepDisplay(self.dependencies.console, total=self.settings.steps, done=progress.batches)
        )

        def report(step: int, values: dict[str, MetricValue]) -> None:
            if values:
                metrics.write(step, values)
            if step:
                display.show_step(step, values)

        return report

    def _grouping(self) -> Grouping:
        data = self.settings.data
        chat = ChatTokenizer.open(Path(self.settings.model))
        check_template(chat, self._dialect, model=self.settings.model)
        alignment = Alignment(
            self._history,
            self._dialect,
            chat,
            misaligned=data.misaligned,
            check_share=data.check_prompts,
        )
        loss = self.settings.loss
        return Grouping(data, loss=loss, aligner=alignment, limits=self.learner.limits)

    def _publisher(self, policies: Sequence[TakesWeights]) -> WeightPublisher:
        rollouts = self.runs.rollouts
        card = PolicyCard(
            version="",
            history=self._history.spec,
            fingerprint=self._history.fingerprint,
            dialect=self._dialect.name,
            temperature=1.0 if rollouts.model.temperature is None else rollouts.model.temperature,
            max_tokens=rollouts.model.max_tokens,
        )
        return WeightPublisher(
            self.folder / VERSIONS,
            start=Path(self.settings.model),
            card=card,
            write=self.learner.publish,
            policies=policies,
            keep=self.settings.save.keep_published,
        )

    async def _check_servers(
        self, policies: Sequence[TrainablePolicy], publisher: WeightPublisher
    ) -> None:
        """Test the model servers of the run, see `check_server`."""
        for policy in policies:
            if isinstance(policy, VllmPolicy):
                folder = publisher.path_of(publisher.version)
                await check_server(policy, folder, self.settings.compute)

    async def _log_source(self, stack: AsyncExitStack, progress: TrainProgress) -> BatchSource:
        """The source of batches from logs or conversations; what it needs is open until the stack
        is closed."""
        data, first = self.settings.data, progress.next_group
        if data.messages:
            return ConversationSource(
                await anyio.to_thread.run_sync(read_conversations, data.messages),
                ChatTokenizer.open(Path(self.settings.model)),
                data,
                limits=self.learner.limits,
                seed=self.settings.compute.seed,
                first=first,
            )
        grouping, size = self._grouping(), data.groups
        folders = await self._log_folders(stack)
        if not data.follow:
            for folder in folders:  # one that cannot be read is named before anything is computed
                with open_reader(folder):
                    pass
            groups = groups_of_logs(folders, grouping, epochs=data.epochs)
            return LogSource(groups, grouping, size=size, first=first)
        source = FollowedSource(
            folders,
            grouping,
            size=size,
            first=first,
            epochs=data.epochs,
            is_complete=is_complete,
        )
        return stack.enter_context(closing(source))

    async def _log_folders(self, stack: AsyncExitStack) -> list[Path]:
        """The folders of the logs. With a broker it is that of a copy, which is made until the
        stack is closed; a run that is resumed without one learns from the copy that it has."""
        copy, bus, logs = self.folder / COPY, self.dependencies.bus, self.settings.data.logs
        if bus is not None:
            status = await status_of(bus, logs[0])
            await stack.enter_async_context(open_copy(bus, status, copy))
        return [copy] if copy.exists() else [Path(log) for log in logs]

    async def _open_rollouts(
        self,
        stack: AsyncExitStack,
        policy: TrainablePolicy,
        publisher: WeightPublisher,
        progress: TrainProgress,
    ) -> Rollouts:
        rollouts = self.runs.rollouts
        warn_of_mismatches(rollouts, self._history, self.dependencies.console)
        opened = open_rollouts(
            self.settings,
            rollouts,
            self.folder / ROLLOUTS,
            policy,
            open_judge=self.dependencies.judge_opener(rollouts),
            grouping=self._grouping(),
            publisher=publisher,
            progress=progress,
        )
        return await stack.enter_async_context(opened)

    def _loop(
        self,
        source: BatchSource,
        publisher: WeightPublisher,
        callbacks: LoopCallbacks,
        progress: TrainProgress,
    ) -> Loop:
        self._say_memory()
        return Loop(
            self.settings,
            learner=self.learner,
            source=source,
            publisher=publisher,
            callbacks=callbacks,
            progress=progress,
            deadline=self.deadline,
        )

    def _say_memory(self) -> None:
        """Say what the training will need, before it starts and when everything else is open."""
        if (need := self.learner.memory) is None:
            return
        plays = [self.runs.evaluation, self.runs.rollouts if self.settings.data.is_live else None]
        line = f"memory for training {need}"
        if any(one is not None and one.policy.name == "local" for one in plays):
            line += f"; policy local {size_of(need.weights)} for each version"
        self.dependencies.console.print(line, highlight=False, markup=False, soft_wrap=True)


async def run_with_rollouts(
    loop: Loop,
    rollouts: Rollouts | None = None,
    *,
    begun: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Run the loop and, at the same time, the rollouts that it learns from. `begun` is called when
    the policies have the weights with which the run starts or resumes.

    When either fails or is cancelled, the other one ends as well: the loop writes a checkpoint, and
    the rollouts log the live episodes as cancelled.
    """
    await loop.begin()
    if begun is not None:
        await begun()

    async def learn() -> None:
        await loop.run()
        if rollouts is not None:
            rollouts.gating.close()

    # Both run in tasks of the group: on Ctrl-C asyncio cancels the task that waits for them here,
    # and the group cancels them, which lets the learner's thread finish its call.
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(learn)
        if rollouts is not None:
            tasks.start_soon(rollouts.run)
