"""Counting the verdicts of one judging, and printing the counts."""

import msgspec
from rich.console import Console

from rehearsal_room.harness.core.events import Judged, Label, ProfileVerdict
from rehearsal_room.harness.core.terminal_text import printable
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.outcomes.model_failures import lacks_model
from rehearsal_room.harness.outcomes.profile_scores import (
    ProfileScore,
    profile_line,
    profile_score,
)
from rehearsal_room.judge.code.code_judge import NAME
from rehearsal_room.judge.verdicts.disagreements import is_disagreement

_NUM_SHOWN = 20  # unjudged episodes that are printed one by one
_DISAGREED = {
    True: "disagreements (judge RUN --disagreements shows them)",
    False: "verdicts with another label than an earlier one",
}


class Unjudged(msgspec.Struct, frozen=True):
    """An episode without a verdict, and why."""

    episode: str
    why: str


class JudgingSummary(msgspec.Struct, frozen=True):
    """The output of `rehearse judge --json`."""

    episodes: int
    labels: dict[Label, int]  # every label, also those that no episode has
    unjudged: int
    # Episodes in which a model contradicts the code or another model; where no model was asked,
    # those to which an earlier verdict gave another label.
    disagreements: int
    model_calls: int  # requests of this judging; judgements from the cache need none
    cost_usd: float | None  # of this judging; None: a model that was asked has no price
    mean_reward: float | None  # of the judged episodes; None: there are none
    unjudged_episodes: tuple[Unjudged, ...] = ()  # sorted by name
    judge: str = ""
    rewards: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0  # prompt tokens that servers had in their caches
    completion_tokens: int = 0
    cached_judgements: int = 0  # taken from the verdict cache
    # Of episodes that get a label; None: no price is known, or no episode got a label.
    usd_per_1024_episodes: float | None = None
    judged_now: int = 0  # episodes; the others had a verdict already

    profile: ProfileScore | None = None  # None: the run has no profile
    asked_in_vain: int = 0  # episodes without a label, about which a model was asked and gave none

    @property
    def lacks_verdicts(self) -> bool:
        """Whether models were asked in vain, so often that the judging shows nothing."""
        return lacks_model(self.asked_in_vain, self.episodes)


class VerdictTally:
    """Counts verdicts, one at a time."""

    def __init__(self, *, judge: str = "code", rewards: str = "") -> None:
        self._judge = judge
        self._rewards_name = rewards
        self._labels = dict.fromkeys(Label, 0)
        self._unjudged: list[Unjudged] = []
        self._num_in_vain = 0
        self._disagreements = 0
        self._cost_usd: float | None = 0.0
        self._rewards = 0.0
        self._num_judged = self._num_now = self._num_labelled_now = 0
        self._requests = self._cached_judgements = 0
        self._prompt_tokens = self._cached_tokens = self._completion_tokens = 0
        self._profiles: list[ProfileVerdict | None] = []

    def add(self, trajectory: Trajectory, judged: Judged, *, is_new: bool = True) -> None:
        """Count a verdict; the trajectory's own verdicts are the earlier ones. A verdict that is
        not new costs nothing now."""
        if is_new:
            self._num_now += 1
            self._num_labelled_now += judged.label is not None
            self._add_cost(judged)
        self._profiles.append(judged.profile)
        self._disagreements += is_contested(trajectory, judged)
        if judged.label is None:
            why = judged.unjudged or "no reason was given"
            self._unjudged.append(Unjudged(trajectory.episode, why))
            given = (*judged.judgements, *judged.asked)
            asked = any(one.requests for one in given)
            self._num_in_vain += asked and any(one.label is None for one in given)
            return
        self._num_judged += 1
        self._labels[judged.label] += 1
        self._rewards += judged.reward or 0.0

    def _add_cost(self, judged: Judged) -> None:
        theirs = None if judged.profile is None else judged.profile.judgement
        for judgement in (*judged.judgements, *judged.asked, *([] if theirs is None else [theirs])):
            self._requests += judgement.requests
            self._prompt_tokens += judgement.prompt_tokens
            self._cached_tokens += judgement.cached_tokens
            self._completion_tokens += judgement.completion_tokens
            self._cached_judgements += judgement.is_cached
            if judgement.cost_usd is None or self._cost_usd is None:
                self._cost_usd = None
            else:
                self._cost_usd += judgement.cost_usd

    def summary(self) -> JudgingSummary:
        """The counts so far."""
        cost, labelled = self._cost_usd, self._num_labelled_now
        return JudgingSummary(
            episodes=self._num_judged + len(self._unjudged),
            labels=dict(self._labels),
            unjudged=len(self._unjudged),
            disagreements=self._disagreements,
            model_calls=self._requests,
            cost_usd=cost,
            mean_reward=self._rewards / self._num_judged if self._num_judged else None,
            unjudged_episodes=tuple(sorted(self._unjudged, key=lambda left: left.episode)),
            judge=self._judge,
            rewards=self._rewards_name,
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self._cached_tokens,
            completion_tokens=self._completion_tokens,
            cached_judgements=self._cached_judgements,
            asked_in_vain=self._num_in_vain,
            usd_per_1024_episodes=None if cost is None or not labelled else cost / labelled * 1024,
            judged_now=self._num_now,
            profile=profile_score(self._profiles),
        )


def is_contested(trajectory: Trajectory, judged: Judged) -> bool:
    """Whether the verdict counts as a disagreement (see JudgingSummary)."""
    if judged.judgements:
        return is_disagreement(judged)
    earlier = {verdict.label for verdict in trajectory.judged if verdict.label is not None}
    return judged.label is not None and bool(earlier - {judged.label})


def render(summary: JudgingSummary, console: Console) -> None:
    """Print the summary."""

    def write(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    reward = "none" if summary.mean_reward is None else f"{summary.mean_reward:.3f}"
    judge = f" by {summary.judge}" if summary.judge else ""
    write(f"{summary.episodes} episodes judged{judge}, mean reward {reward}")
    for label, count in summary.labels.items():
        write(f"  {label:<20} {count:,}")
    if summary.unjudged:
        write(f"  {'unjudged':<20} {summary.unjudged:,}")
    if summary.profile is not None:
        write(profile_line(summary.profile))
    if summary.disagreements:
        write(f"{summary.disagreements:,} {_DISAGREED[summary.judge != NAME]}")
    if summary.model_calls or summary.cached_judgements:
        write(_cost(summary))
    for left in summary.unjudged_episodes[:_NUM_SHOWN]:
        write(f"  unjudged {left.episode}: {printable(' '.join(left.why.split()))}")
    if (more := len(summary.unjudged_episodes) - _NUM_SHOWN) > 0:
        write(f"  and {more:,} more")


def _cost(summary: JudgingSummary) -> str:
    tokens = f"{summary.prompt_tokens:,} + {summary.completion_tokens:,} tokens"
    calls = f"{summary.model_calls:,} model calls, {tokens}"
    if summary.cached_judgements:
        calls += f", {summary.cached_judgements:,} judgements from the cache"
    if summary.cost_usd is None:
        return f"{calls}; the cost is not known (--prices)"
    each = summary.usd_per_1024_episodes
    per = "" if each is None else f" ({each:.2f} USD per 1,024 episodes)"
    return f"{calls}; {summary.cost_usd:.4f} USD{per}"
