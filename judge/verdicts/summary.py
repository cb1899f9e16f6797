"""Counting the verdicts of one judging, and telling them."""

import msgspec
from rich.console import Console

from harness.core.events import Judged, Label
from harness.core.terminal_text import printable
from harness.core.trajectory import Trajectory
from judge.code.code_judge import NAME
from judge.verdicts.disagreements import is_disagreement

_SHOWN = 20  # unjudged episodes that a terminal is told of one by one


_DISAGREED = {
    True: "disagreements (judge RUN --disagreements shows them)",
    False: "verdicts with another label than an earlier one",
}


class Unjudged(msgspec.Struct, frozen=True):
    """An episode without a verdict, and why."""

    episode: str
    why: str


class Summary(msgspec.Struct, frozen=True):
    """What `rehearse judge --json` says of a run."""

    episodes: int
    labels: dict[Label, int]  # every label, those that were not given too
    unjudged: int
    # Episodes in which a model contradicts the code or another model; where none was asked, those
    # to which an earlier verdict gave another label.
    disagreements: int
    model_calls: int  # requests of this judging; opinions from the cache take none
    cost_usd: float | None  # of this judging; None: a model that was asked has no price
    mean_reward: float | None  # of the judged episodes; None: there is none
    unjudged_episodes: tuple[Unjudged, ...] = ()  # by name, whoever was judged first
    judge: str = ""
    rewards: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0  # of the prompts', those that servers had kept
    completion_tokens: int = 0
    cached_opinions: int = 0  # taken from the verdict cache
    usd_per_1024_episodes: float | None = None  # with a label now; None: not known, or none has
    judged_now: int = 0  # episodes; the others had a verdict that counts


class Tally:
    """Counts verdicts, one at a time."""

    def __init__(self, *, judge: str = "code", rewards: str = "") -> None:
        self._judge = judge
        self._rewards_name = rewards
        self._labels = dict.fromkeys(Label, 0)
        self._unjudged: list[Unjudged] = []
        self._disagreements = 0
        self._cost_usd: float | None = 0.0
        self._rewards = 0.0
        self._num_judged = self._num_now = self._num_labelled_now = 0
        self._requests = self._prompt = self._kept = self._completion = self._hits = 0

    def add(self, trajectory: Trajectory, judged: Judged, *, is_new: bool = True) -> None:
        """Count a verdict; the trajectory's own verdicts are the earlier ones. One that is not
        new was given before: nothing was spent on it now."""
        if is_new:
            self._num_now += 1
            self._num_labelled_now += judged.label is not None
            self._spend(judged)
        self._disagreements += is_contested(trajectory, judged)
        if judged.label is None:
            why = judged.unjudged or "no reason was given"
            self._unjudged.append(Unjudged(trajectory.episode, why))
            return
        self._num_judged += 1
        self._labels[judged.label] += 1
        self._rewards += judged.reward or 0.0

    def _spend(self, judged: Judged) -> None:
        for opinion in judged.opinions:
            self._requests += opinion.requests
            self._prompt += opinion.prompt_tokens
            self._kept += opinion.cached_tokens
            self._completion += opinion.completion_tokens
            self._hits += opinion.is_cached
            if opinion.cost_usd is None or self._cost_usd is None:
                self._cost_usd = None
            else:
                self._cost_usd += opinion.cost_usd

    def summary(self) -> Summary:
        """What has been counted."""
        cost, labelled = self._cost_usd, self._num_labelled_now
        return Summary(
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
            prompt_tokens=self._prompt,
            cached_tokens=self._kept,
            completion_tokens=self._completion,
            cached_opinions=self._hits,
            usd_per_1024_episodes=None if cost is None or not labelled else cost / labelled * 1024,
            judged_now=self._num_now,
        )


def is_contested(trajectory: Trajectory, judged: Judged) -> bool:
    """Whether the verdict counts as a disagreement (see Summary)."""
    if judged.opinions:
        return is_disagreement(judged)
    earlier = {verdict.label for verdict in trajectory.judged if verdict.label is not None}
    return judged.label is not None and bool(earlier - {judged.label})


def render(summary: Summary, console: Console) -> None:
    """The summary for a terminal."""

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    reward = "none" if summary.mean_reward is None else f"{summary.mean_reward:.3f}"
    judge = f" by {summary.judge}" if summary.judge else ""
    say(f"{summary.episodes} episodes judged{judge}, mean reward {reward}")
    for label, count in summary.labels.items():
        say(f"  {label:<20} {count:,}")
    if summary.unjudged:
        say(f"  {'unjudged':<20} {summary.unjudged:,}")
    if summary.disagreements:
        say(f"{summary.disagreements:,} {_DISAGREED[summary.judge != NAME]}")
    if summary.model_calls or summary.cached_opinions:
        say(_spending(summary))
    for left in summary.unjudged_episodes[:_SHOWN]:
        say(f"  unjudged {left.episode}: {printable(' '.join(left.why.split()))}")
    if (more := len(summary.unjudged_episodes) - _SHOWN) > 0:
        say(f"  and {more:,} more")


def _spending(summary: Summary) -> str:
    tokens = f"{summary.prompt_tokens:,} + {summary.completion_tokens:,} tokens"
    calls = f"{summary.model_calls:,} model calls, {tokens}"
    if summary.cached_opinions:
        calls += f", {summary.cached_opinions:,} opinions from the cache"
    if summary.cost_usd is None:
        return f"{calls}; the cost is not known (--prices)"
    each = summary.usd_per_1024_episodes
    per = "" if each is None else f" ({each:.2f} USD per 1,024 episodes)"
    return f"{calls}; {summary.cost_usd:.4f} USD{per}"
