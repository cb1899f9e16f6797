"""Where models contradict the code or each other: a queue for people, made of the log alone.

Each entry has what both sides said, so that a reader can tell who was right: a verifier that misses
something, a rubric that is read wrongly, a model that was talked into it.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from harness.core.events import Judged, Label, ModelJudgement
from harness.core.trajectory import Trajectory
from judge.core.rewards import AWM, PROFILES
from judge.llm.quoting import visible
from judge.llm.voting import Decider, contested, decided_by

_LONGEST_ANSWER = 500  # characters
_LONGEST_REASONING = 700
_STYLES = {
    Label.COMPLETED: "green",
    Label.PARTIALLY_COMPLETED: "yellow",
    Label.AGENT_ERROR: "red",
    Label.ENVIRONMENT_ERROR: "magenta",
}


class Voice(msgspec.Struct, frozen=True):
    """What one model said."""

    model: str
    label: Label | None  # None: nothing, `fault` says why
    confidence: float | None  # from 0 to 1; None: it did not say
    reasoning: str
    leaned_on: tuple[str, ...]  # the exhibits that it named, as in `F2`
    fault: str


class Disagreement(msgspec.Struct, frozen=True):
    """A verdict that was contested, with both sides."""

    episode: str
    scenario: str
    task: str
    judge: str
    label: Label | None  # the verdict; None: it was left unjudged
    unjudged: str | None
    reward: float | None
    rewards: str  # the profile of the reward
    decided_by: Decider | None
    code: Label | None  # what the code alone says; None: nothing
    proof: str  # what the code proved; empty: nothing
    opinions: tuple[Voice, ...]
    answer: str  # the agent's, shortened


def is_disagreement(judged: Judged) -> bool:
    """Whether the verdict was contested (see judge.llm.voting)."""
    return contested(judged.label, judged.code, judged.opinions)


def queue(trajectories: Iterable[Trajectory]) -> Iterator[Disagreement]:
    """The contested ones among the latest verdict of each judge on each episode, in the log's
    order."""
    for trajectory in trajectories:
        for judged in trajectory.judged:
            if is_disagreement(judged):
                yield _disagreement(trajectory, judged)


def ranked(disagreements: Iterable[Disagreement]) -> list[Disagreement]:
    """Most worth a look first: where the verdict is not the code's, then where more reward is at
    stake between what was said, then where a model that contradicts the code is more confident."""
    return sorted(disagreements, key=_rank)


def render(disagreements: Iterable[Disagreement], console: Console) -> None:
    """The queue for a terminal, ranked, what the code says beside what the models say."""
    entries = ranked(disagreements)
    if not entries:
        console.print("no disagreements", highlight=False)
        return
    for number, entry in enumerate(entries, start=1):
        console.print(_entry(number, entry))
    count = f"{len(entries):,} disagreement{'' if len(entries) == 1 else 's'}"
    console.print(Text(f"\n{count}", "bold"))


def _disagreement(trajectory: Trajectory, judged: Judged) -> Disagreement:
    ended = trajectory.ended
    mode = judged.judge.partition(":")[0]
    return Disagreement(
        episode=trajectory.episode,
        scenario=trajectory.started.scenario,
        task=trajectory.started.task,
        judge=judged.judge,
        label=judged.label,
        unjudged=judged.unjudged,
        reward=judged.reward,
        rewards=judged.rewards,
        decided_by=decided_by(judged.label, judged.code, judged.opinions, mode),
        code=judged.code,
        proof=judged.proof,
        opinions=tuple(map(_voice, judged.opinions)),
        answer=_cut("" if ended is None else ended.answer, _LONGEST_ANSWER),
    )


def _voice(opinion: ModelJudgement) -> Voice:
    return Voice(
        opinion.model,
        opinion.label,
        opinion.confidence,
        opinion.reasoning,
        opinion.leaned_on,
        opinion.fault,
    )


def _rank(entry: Disagreement) -> tuple[bool, float, float, str, str]:
    against = [voice for voice in entry.opinions if voice.label not in (None, entry.code)]
    confidence = max((voice.confidence or 0.0 for voice in against), default=0.0)
    worth = PROFILES.get(entry.rewards, AWM).labels
    labels = {entry.label, entry.code, *(voice.label for voice in entry.opinions)}
    worths = [worth[label] for label in labels if label is not None]
    is_codes = entry.label is not None and entry.label is entry.code
    return (is_codes, min(worths) - max(worths), -confidence, entry.episode, entry.judge)


def _entry(number: int, entry: Disagreement) -> RenderableType:
    head = Text(f"{number}. {_shown(entry.episode)}", "bold")
    head.append(f"  {_shown(entry.scenario)} / {_shown(entry.task)}, {_shown(entry.judge)}", "dim")
    parts: list[RenderableType] = [Rule(style="dim"), head, _outcome(entry)]
    if entry.answer:
        parts.append(Text(f"answer: {_shown(entry.answer)}", "italic"))
    sides = Table(box=None, padding=(0, 2, 0, 0), expand=True, header_style="dim")
    for name in ("the code says", "the models say"):
        sides.add_column(name, ratio=1, overflow="fold")
    sides.add_row(_code_side(entry), _models_side(entry.opinions))
    return Group(*parts, sides)


def _outcome(entry: Disagreement) -> Text:
    text = Text("verdict: ")
    if entry.label is None:
        return text.append(f"unjudged: {_shown(entry.unjudged or 'no reason was given')}", "yellow")
    text.append(_label(entry.label))
    by = {"code": "the code", "model": "the models", "both": "code and models", None: "nobody"}
    reward = "" if entry.reward is None else f", reward {entry.reward:g}"
    return text.append(f"{reward}, decided by {by[entry.decided_by]}")


def _code_side(entry: Disagreement) -> RenderableType:
    label = Text("nothing", "dim") if entry.code is None else _label(entry.code)
    return Group(label, Text(_shown(entry.proof) or "nothing is proved"))


def _models_side(opinions: Sequence[Voice]) -> RenderableType:
    parts: list[Text] = []
    for voice in opinions:
        head = Text(f"{_shown(voice.model)}: ")
        if voice.label is None:
            parts.append(head.append(_shown(voice.fault or "no opinion"), "yellow"))
            continue
        head.append(_label(voice.label))
        if voice.confidence is not None:
            head.append(f", confidence {voice.confidence:.2f}")
        parts.append(head)
        if voice.reasoning:
            parts.append(Text(_shown(_cut(voice.reasoning, _LONGEST_REASONING)), "italic"))
        if voice.leaned_on:
            parts.append(Text(f"leaned on {_shown(', '.join(voice.leaned_on))}", "dim"))
    return Group(*parts)


def _label(label: Label) -> Text:
    return Text(label, _STYLES[label])


def _cut(text: str, longest: int) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= longest else f"{plain[:longest]}… ({len(plain):,} characters)"


def _shown(text: str) -> str:
    """What others wrote on lines of its own: hidden characters made visible, breaks as spaces."""
    return visible(" ".join(text.split()))
