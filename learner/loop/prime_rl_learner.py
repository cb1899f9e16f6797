"""prime-rl as the trainer of a run: batches go to it as files, and its weights come back.

What it computes of a batch (loss, gradient norm, entropy) is in its own metrics. Its optimiser is
in its own checkpoints; ours say how many batches it got. A batch that is written again after a kill
is the same one, so it does not matter whether prime-rl had it already.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import anyio.from_thread
import msgspec

from rehearsal_room.harness.core.policy_card import PolicyCard
from rehearsal_room.harness.log.schema import write_atomically
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.learner.advantages.registry import advantages_of
from rehearsal_room.learner.config.engine import read_prime_rl
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.errors import CheckpointError
from rehearsal_room.learner.core.samples import NO_GROUPS, Group, GroupSize
from rehearsal_room.learner.data.sample_lengths import TokenLimits
from rehearsal_room.learner.loop.progress_state import TrainProgress
from rehearsal_room.learner.losses.aggregation import weights_of
from rehearsal_room.learner.model.memory import MemoryNeed
from rehearsal_room.learner.model.pretrained import open_config
from rehearsal_room.learner.packing.prefix_groups import batch_of
from rehearsal_room.learner.prime_rl.batches import grid_of, write
from rehearsal_room.learner.prime_rl.weights import publish, require_same, wait_for
from rehearsal_room.learner.trainer.trainer import StepReport
from rehearsal_room.scenarios.files import UNREADABLE

_NAME = "prime-rl.json"


class _Checkpoint(msgspec.Struct, frozen=True):
    num_steps: int  # batches that prime-rl got
    progress: TrainProgress


def stop_when_cancelled() -> None:
    """Raise the cancellation of the task that waits for this thread."""
    with suppress(RuntimeError):  # the thread is nobody's: a caller without an event loop
        anyio.from_thread.check_cancelled()


class PrimeRlLearner:
    """Hands batches to prime-rl and takes its weights; see
    `rehearsal_room.learner.loop.learner.RunLearner`."""

    memory: MemoryNeed | None = None

    def __init__(
        self,
        settings: TrainSettings,
        checkpoints: Path,
        *,
        check: Callable[[], None] = stop_when_cancelled,
    ) -> None:
        """`check` is called while prime-rl is waited for; what it raises ends the waiting. Raises
        ConfigError and ModelError."""
        self._settings = settings
        self._start = Path(settings.model)
        self._folder = Path(settings.engine.folder)
        self._path = checkpoints / _NAME
        self._check = check
        self._num_steps = 0
        self._seq_len = read_prime_rl(settings.engine).model.seq_len
        control = ChatTokenizer.open(self._start).control_ids
        limits = TokenLimits.of_config(open_config(self._start), control)
        context = min(limits.context or self._seq_len, self._seq_len)
        self.limits = msgspec.structs.replace(limits, context=context)

    def resume(self) -> TrainProgress | None:
        """The progress of the checkpoint; None: there is none. Raises CheckpointError."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=_Checkpoint)
        except FileNotFoundError:
            return None
        except (OSError, *UNREADABLE) as exc:
            raise CheckpointError(f"{self._path}: the checkpoint cannot be read: {exc}") from exc
        self._num_steps = found.num_steps
        return found.progress

    def step(self, groups: Sequence[Group], also: GroupSize = NO_GROUPS) -> StepReport:
        """Give prime-rl a batch, and wait until it has published the weights after it. Raises
        LearnerError."""
        started = time.perf_counter()
        if not self._num_steps:
            require_same(self._wait(0), self._start)
        loss = self._settings.loss
        advantages = [advantages_of(group, loss) for group in groups]
        weights = weights_of(groups, loss.aggregate, length=loss.constant_length, also=also)
        batch = batch_of(groups, advantages, weights, share=False)
        grid = grid_of(
            batch,
            [group.scenario for group in groups],
            clones=loss.policy == "likelihood",
            seq_len=self._seq_len,
            ranks=self._settings.engine.ranks,
        )
        write(self._folder, self._num_steps + 1, grid)
        self._wait(self._num_steps + 1)
        self._num_steps += 1
        return StepReport(
            step=self._num_steps,
            loss=None,
            grad_norm=None,
            lr=None,
            updates=1,
            measures={},
            num_trained=batch.num_trained,
            num_tokens=batch.num_tokens,
            num_row_tokens=batch.num_row_tokens,
            seconds=time.perf_counter() - started,
        )

    def save(self, progress: TrainProgress, *, keep_all: bool = False) -> None:
        """Write how far the run is; see `rehearsal_room.learner.loop.loop.Learner`."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(
                self._path, msgspec.json.encode(_Checkpoint(self._num_steps, progress))
            )
        except OSError as exc:
            raise CheckpointError(f"{self._path}: cannot be written: {exc.strerror}") from exc

    def publish(self, folder: Path, card: PolicyCard) -> None:
        """Write prime-rl's weights and their model card as a folder. Raises LearnerError."""
        publish(self._wait(self._num_steps), folder, card, start=self._start)

    def close(self) -> None:
        """prime-rl's processes are its own, and go on."""

    def _wait(self, step: int) -> Path:
        timeout = self._settings.engine.timeout
        return wait_for(self._folder, step, timeout=timeout, check=self._check)
