"""Check that an episode was run under the windows that are trained.

A model that is trained on other windows than it is shown later loses what it learned. AWM's own
figures are 64.5 % when trained and run on windows, and 61.9 % (on the harder benchmark 22.6 %
against 9.4 %) when trained on full histories and run on windows (arXiv:2602.10090, 4B weights, BFCL
v3 and tau2). Therefore the history window's fingerprint and the dialect are compared, and each
prompt is computed again from the log and must equal the logged prompt, token for token.

`misaligned` accepts a mismatch on purpose: an episode of another history window or dialect then
gets the prompts that it would have had under the training run's own, and keeps its sampled tokens.
Trainers that do not know windows do the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Protocol

import msgspec
import numpy as np

from rehearsal_room.harness.core.briefings import logged_briefing
from rehearsal_room.harness.core.events import HistorySummarized
from rehearsal_room.harness.core.messages import Briefing, Window
from rehearsal_room.harness.core.token_bytes import ID_BYTES, decode_ids, encode_ids
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.history.windows import (
    HistoryFold,
    window_of_episode,
    window_of_group,
    windows_of,
)
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.harness.tokenization.chat_tokenizer import reply_key
from rehearsal_room.learner.core.errors import AlignmentError, SampleError
from rehearsal_room.learner.data.trajectory_samples import PromptIds


class Renderer(Protocol):
    """Turns windows into prompts (harness.tokenization.chat_tokenizer.ChatTokenizer)."""

    def prompt(self, window: Window, own: Mapping[str, Sequence[int]]) -> list[int]:
        """The token ids of a window; `own` maps `reply_key` to the ids that the agent sampled."""


class Alignment:
    """Compares episodes with the history window, dialect and tokens of a training run."""

    def __init__(
        self,
        history: HistoryWindow,
        dialect: Dialect,
        renderer: Renderer,
        *,
        misaligned: bool = False,
        check_share: float = 1.0,
    ) -> None:
        """`check_share` is the share of episodes whose prompts are computed again; the episode's
        name decides whether it is checked."""
        self._history = history
        self._dialect = dialect
        self._renderer = renderer
        self._misaligned = misaligned
        self._check_share = check_share
        self._scenarios: dict[str, ScenarioSnapshot] = {}
        self._num_checked = 0
        self._num_misaligned = 0

    def use_scenarios(self, scenarios: Mapping[str, ScenarioSnapshot]) -> None:
        """Set the scenarios of the next episodes, by scenario digest."""
        self._scenarios = dict(scenarios)

    def replacement_prompts(self, trajectory: Trajectory, *, where: str) -> PromptIds | None:
        """The prompts to train instead of the logged ones; None: train the logged ones.

        `where` names the log for messages. Raises AlignmentError naming log, episode, turn and
        token.
        """
        source = f"{where}: episode {trajectory.episode!r}"
        replies = [event.reply for event in trajectory.replies()]
        if any(len(one.token_ids) % ID_BYTES or len(one.prompt_ids) % ID_BYTES for one in replies):
            return None  # trajectory_samples refuses these, and replies without tokens
        mismatch = self._mismatch(trajectory)
        if mismatch is not None:
            if not self._misaligned:
                raise AlignmentError(f"{source} {mismatch}; --misaligned trains it anyway")
            if trajectory.asked:
                raise AlignmentError(
                    f"{source} {mismatch}; its agent wrote its own requests, which cannot be shown"
                    " in another way"
                )
            self._num_misaligned += 1
            return [
                None if ids is None else np.array(ids, np.int32)
                for ids in self._prompts(trajectory, source)
            ]
        if trajectory.asked:  # the agent's own requests are what was shown, token for token
            return None
        has_tokens = all(one.token_ids for one in replies[trajectory.num_context :])
        if has_tokens and self._is_checked(trajectory.episode):
            self._num_checked += 1
            self._compare(trajectory, source)
        return None

    def statistics(self) -> dict[str, int]:
        """Episodes whose prompts were computed again, and episodes that were misaligned."""
        return {"checked": self._num_checked, "misaligned": self._num_misaligned}

    def _mismatch(self, trajectory: Trajectory) -> str | None:
        """How the episode's history window or dialect differs from the trained one, as the end of a
        sentence; None: they are equal."""
        started = trajectory.started
        if window_of_episode(self._history, started.history, started.fingerprint) is None:
            return (
                f"was run under the history window {started.history} (fingerprint"
                f" {started.fingerprint}), but the training run uses {self._history.spec}"
                f" (fingerprint {self._history.fingerprint})"
            )
        if started.dialect != self._dialect.name:
            return (
                f"was run in the dialect {started.dialect}, but the training run uses"
                f" {self._dialect.name}"
            )
        return None

    def _is_checked(self, episode: str) -> bool:
        drawn = int.from_bytes(blake2b(episode.encode(), digest_size=4).digest(), "big")
        return drawn < self._check_share * 2**32

    def _compare(self, trajectory: Trajectory, source: str) -> None:
        logged = trajectory.prompts()
        for index, ids in enumerate(self._prompts(trajectory, source)):
            if index < trajectory.num_context:  # shown to another agent, maybe under other windows
                continue
            if ids is None or encode_ids(ids) != logged[index]:
                raise AlignmentError(
                    f"{source}, reply {index}: prompt_ids: the logged prompt differs from the one"
                    f" computed now: {_difference(decode_ids(logged[index]), ids or ())}. Was the"
                    " episode run with another tokenizer or chat template?"
                )

    def _prompts(self, trajectory: Trajectory, source: str) -> Iterator[list[int] | None]:
        """The prompt of each reply under the training run's windows; None: under these windows the
        reply would not exist (a summary that is not asked for)."""
        started = trajectory.started
        shown = window_of_episode(self._history, started.history, started.fingerprint)
        policy = shown or window_of_group(self._history, started.group)
        fold = HistoryFold(policy, self._dialect, self._briefing(trajectory, source, policy))
        replies = trajectory.replies()
        own: dict[str, Sequence[int]] = {}
        windows = zip(replies, windows_of(fold, replies), strict=True)
        for index, (event, window) in enumerate(windows):
            is_summary = isinstance(event, HistorySummarized)
            if index < trajectory.num_context:
                yield None
            elif window.asks_for_summary and not is_summary:
                raise AlignmentError(
                    f"{source}: under {self._history.spec} the agent would have been asked for a"
                    " summary, but the log has none: the prompts after it cannot be computed"
                )
            elif is_summary and not window.asks_for_summary:
                yield None
            else:
                yield self._renderer.prompt(window, own)
            if (reply := event.reply).token_ids:  # a fork keeps those of its own policy only
                own[reply_key(reply.text, reply.calls)] = decode_ids(reply.token_ids)

    def _briefing(self, trajectory: Trajectory, source: str, policy: HistoryWindow) -> Briefing:
        """The briefing as under this window, whose tool the agent has."""
        scenario = self._scenarios.get(trajectory.started.scenario_digest)
        if scenario is None:
            raise SampleError(
                f"{source}: the log does not contain its scenario "
                f"(digest {trajectory.started.scenario_digest})"
            )
        return logged_briefing(
            msgspec.structs.replace(trajectory.started, history=policy.spec),
            rules=scenario.rules,
            tools=scenario.tools,
            user=scenario.user,
            now=scenario.now,
        )


def _difference(logged: Sequence[int], computed: Sequence[int]) -> str:
    """The first difference of two prompts.

    Example: [1, 2, 3], [1, 9] -> "token 1 was 2 and is now 9"
    """
    for index, (one, other) in enumerate(zip(logged, computed, strict=False)):
        if one != other:
            return f"token {index} was {one} and is now {other}"
    return f"there were {len(logged)} tokens and are now {len(computed)}"
