"""Whether an episode was run under the windows that are trained.

A model that is trained on other windows than it is shown later loses what it learned: AWM's own
figures are 64.5 % trained and run on windows, 61.9 % (and 22.6 % against 9.4 % on the harder
benchmark) trained on full histories and run on windows (arXiv:2602.10090, 4B, BFCL v3 and tau2).
So the history policy's fingerprint and the dialect are compared, and what the agent was shown is
computed once more from the log and must be the logged prompt, token for token.

`misaligned` says that it is wanted: an episode of another history policy or dialect then gets the
prompts that it would have had under the training run's, with the sampled tokens as they are. That
is what trainers do that know no windows.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Protocol

import numpy as np

from harness.core.events import HistorySummarized
from harness.core.messages import Briefing, Window
from harness.core.token_bytes import ID_BYTES, decode_ids, encode_ids
from harness.core.trajectory import Trajectory
from harness.dialects.base import Dialect
from harness.history.base import HistoryPolicy
from harness.history.windows import HistoryFold, windows_of
from harness.log.schema import ScenarioSnapshot
from harness.tokenization.chat_tokenizer import reply_key
from learner.core.errors import AlignmentError, SampleError
from learner.data.trajectory_samples import Shown


class Renderer(Protocol):
    """Makes prompts of windows (harness.tokenization.chat_tokenizer.ChatTokenizer)."""

    def prompt(self, window: Window, sampled: Mapping[str, Sequence[int]]) -> list[int]:
        """The ids that show a window; `sampled`: the ids of the agent's replies, by `reply_key`."""


class Alignment:
    """Holds episodes against the history policy, the dialect and the tokens of a training run."""

    def __init__(
        self,
        history: HistoryPolicy,
        dialect: Dialect,
        renderer: Renderer,
        *,
        misaligned: bool = False,
        check: float = 1.0,
    ) -> None:
        """`check` is the share of episodes whose prompts are computed again; which ones follows
        from their names."""
        self._history = history
        self._dialect = dialect
        self._renderer = renderer
        self._misaligned = misaligned
        self._check = check
        self._worlds: dict[str, ScenarioSnapshot] = {}
        self._num_checked = 0
        self._num_misaligned = 0

    def know(self, worlds: Mapping[str, ScenarioSnapshot]) -> None:
        """What the worlds of the next episodes were, by package digest."""
        self._worlds = dict(worlds)

    def shown(self, trajectory: Trajectory, *, where: str) -> Shown | None:
        """The prompts that are trained instead of the logged ones; None: those are right.

        Raises AlignmentError naming log, episode, turn and token.
        """
        what = f"{where}: episode {trajectory.episode!r}"
        replies = [event.reply for event in trajectory.replies()]
        if any(len(one.token_ids) % ID_BYTES or len(one.prompt_ids) % ID_BYTES for one in replies):
            return None  # whoever makes samples refuses these, and replies without tokens
        misfit = self._misfit(trajectory)
        if misfit is not None:
            if not self._misaligned:
                raise AlignmentError(f"{what} {misfit}; --misaligned trains it all the same")
            self._num_misaligned += 1
            return [
                None if ids is None else np.array(ids, np.int32)
                for ids in self._prompts(trajectory, what)
            ]
        told = all(one.token_ids for one in replies)
        if told and self._is_checked(trajectory.episode):
            self._num_checked += 1
            self._compare(trajectory, what)
        return None

    def statistics(self) -> dict[str, int]:
        """How many episodes were computed again, and how many were of another run."""
        return {"checked": self._num_checked, "misaligned": self._num_misaligned}

    def _misfit(self, trajectory: Trajectory) -> str | None:
        started = trajectory.started
        if started.fingerprint != self._history.fingerprint:
            return (
                f"was run under the history policy {started.history} (fingerprint"
                f" {started.fingerprint}), and {self._history.spec} is trained"
                f" ({self._history.fingerprint})"
            )
        if started.dialect != self._dialect.name:
            return f"was run in the dialect {started.dialect}, and {self._dialect.name} is trained"
        return None

    def _is_checked(self, episode: str) -> bool:
        drawn = int.from_bytes(blake2b(episode.encode(), digest_size=4).digest(), "big")
        return drawn < self._check * 2**32

    def _compare(self, trajectory: Trajectory, what: str) -> None:
        logged = trajectory.prompts()
        for place, ids in enumerate(self._prompts(trajectory, what)):
            if ids is None or encode_ids(ids) != logged[place]:
                raise AlignmentError(
                    f"{what}, reply {place}: prompt_ids: the agent was shown other tokens than its"
                    f" window has now: {_difference(decode_ids(logged[place]), ids or ())}. Was it"
                    " run with another tokenizer or chat template?"
                )

    def _prompts(self, trajectory: Trajectory, what: str) -> Iterator[list[int] | None]:
        """The prompt of each reply under the training run's windows; None: under these there is no
        such reply (a summary where none is asked for)."""
        fold = HistoryFold(self._history, self._dialect, self._briefing(trajectory, what))
        replies = trajectory.replies()
        own: dict[str, Sequence[int]] = {}
        for event, window in zip(replies, windows_of(fold, replies), strict=True):
            is_summary = isinstance(event, HistorySummarized)
            if window.asks_for_summary and not is_summary:
                raise AlignmentError(
                    f"{what}: under {self._history.spec} the agent would have been asked for a"
                    " summary, and the log has none: what it was shown then cannot be computed"
                )
            if is_summary and not window.asks_for_summary:
                yield None
            else:
                yield self._renderer.prompt(window, own)
            reply = event.reply
            own[reply_key(reply.text, reply.calls)] = decode_ids(reply.token_ids)

    def _briefing(self, trajectory: Trajectory, what: str) -> Briefing:
        world = self._worlds.get(trajectory.started.scenario_digest)
        if world is None:
            raise SampleError(
                f"{what}: the log does not contain its scenario "
                f"(digest {trajectory.started.scenario_digest})"
            )
        return Briefing(
            instruction=trajectory.started.instruction,
            rules=world.rules,
            tools=world.tools,
            user=world.user,
            now=world.now,
        )


def _difference(logged: Sequence[int], computed: Sequence[int]) -> str:
    """Where two prompts differ first.

    Example: [1, 2, 3], [1, 9] -> "token 1 was 2 and is 9"
    """
    for place, (one, other) in enumerate(zip(logged, computed, strict=False)):
        if one != other:
            return f"token {place} was {one} and is {other}"
    return f"there were {len(logged)} tokens and are {len(computed)}"
