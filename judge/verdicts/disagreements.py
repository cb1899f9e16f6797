"""Where models contradict code or each other: a queue for people, from the log alone.

Models of mode `llm` do not see what code found; they are compared with what judge `code` or
`hybrid` says of the same episode.

Each entry has what both sides found, so that a reader can see which one was right: a verifier that
misses something, a rubric that is misread, a model that was talked into its label.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from rehearsal_room.harness.core.events import Judged, Label, ModelJudgement
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.core.rewards import AWM, PROFILES
from rehearsal_room.judge.llm.quoting import make_visible
from rehearsal_room.judge.llm.voting import Decider, contested, decided_by

_MAX_ANSWER = 500  # characters
_MAX_REASONING = 700
_STYLES = {
    Label.COMPLETED: "green",
    Label.PARTIALLY_COMPLETED: "yellow",
    Label.AGENT_ERROR: "red",
    Label.ENVIRONMENT_ERROR: "magenta",
}
_DECIDERS: dict[Decider | None, str] = {
    "code": "code",
    "model": "the models",
    "both": "code and models",
    None: "neither",
}


class ModelVote(msgspec.Struct, frozen=True):
    """The judgement of one model."""

    model: str
    label: Label | None  # None: there is no judgement, `fault` has the reason
    confidence: float | None  # from 0 to 1; None: not stated
    reasoning: str
    cited: tuple[str, ...]  # ids of the evidence items that it named, as in `F2`
    fault: str


class Disagreement(msgspec.Struct, frozen=True):
    """A contested verdict, with both sides."""

    episode: str
    scenario: str
    task: str
    judge: str
    label: Label | None  # of the verdict; None: it was left unjudged
    unjudged: str | None
    reward: float | None
    rewards: str  # the reward profile
    decided_by: Decider | None
    code: Label | None  # the code's own label; None: it has none
    proof: str  # what code proved; empty: nothing
    judgements: tuple[ModelVote, ...]
    answer: str  # the agent's, shortened


def is_disagreement(judged: Judged) -> bool:
    """Whether the verdict was contested (see judge.llm.voting)."""
    return contested(judged.label, judged.code, judged.judgements)


def queue(trajectories: Iterable[Trajectory]) -> Iterator[Disagreement]:
    """The contested verdicts among the latest of each judge on each episode, in the log's order."""
    for trajectory in trajectories:
        for judged in beside_code(trajectory):
            if is_disagreement(judged):
                yield _disagreement(trajectory, judged)


def beside_code(trajectory: Trajectory) -> tuple[Judged, ...]:
    """The latest verdicts of each judge. Those of models that did not see what code found get
    code's label from another judge of the episode, where there is one."""
    of_code = [one.label for one in trajectory.judged if one.judge == "code"]
    labels = [*of_code, *(one.code for one in trajectory.judged if one.judge != "code")]
    code = next((label for label in labels if label is not None), None)
    return tuple(
        msgspec.structs.replace(judged, code=code)
        if judged.judgements and judged.code is None
        else judged
        for judged in trajectory.judged
    )


def ranked(disagreements: Iterable[Disagreement]) -> list[Disagreement]:
    """The most important first: verdicts that are not the code's, then those with the largest
    difference in reward between the labels, then those in which a model that contradicts the code
    is most confident."""
    return sorted(disagreements, key=_rank)


def render(disagreements: Iterable[Disagreement], console: Console) -> None:
    """Print the ranked queue, with what code found beside what the models found."""
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
        decided_by=decided_by(judged.label, judged.code, judged.judgements, mode),
        code=judged.code,
        proof=judged.proof,
        judgements=tuple(map(_vote, judged.judgements)),
        answer=_cut("" if ended is None else ended.answer, _MAX_ANSWER),
    )


def _vote(judgement: ModelJudgement) -> ModelVote:
    return ModelVote(
        judgement.model,
        judgement.label,
        judgement.confidence,
        judgement.reasoning,
        judgement.cited,
        judgement.fault,
    )


def _rank(entry: Disagreement) -> tuple[bool, float, float, str, str]:
    against = [vote for vote in entry.judgements if vote.label not in (None, entry.code)]
    confidence = max((vote.confidence or 0.0 for vote in against), default=0.0)
    worth = PROFILES.get(entry.rewards, AWM).labels
    labels = {entry.label, entry.code, *(vote.label for vote in entry.judgements)}
    worths = [worth[label] for label in labels if label is not None]
    is_codes = entry.label is not None and entry.label is entry.code
    return (is_codes, min(worths) - max(worths), -confidence, entry.episode, entry.judge)


def _entry(number: int, entry: Disagreement) -> RenderableType:
    head = Text(f"{number}. {_line(entry.episode)}", "bold")
    head.append(f"  {_line(entry.scenario)} / {_line(entry.task)}, {_line(entry.judge)}", "dim")
    parts: list[RenderableType] = [Rule(style="dim"), head, _outcome(entry)]
    if entry.answer:
        parts.append(Text(f"answer: {_line(entry.answer)}", "italic"))
    sides = Table(box=None, padding=(0, 2, 0, 0), expand=True, header_style="dim")
    for name in ("code", "models"):
        sides.add_column(name, ratio=1, overflow="fold")
    sides.add_row(_code_side(entry), _models_side(entry.judgements))
    return Group(*parts, sides)


def _outcome(entry: Disagreement) -> Text:
    text = Text("verdict: ")
    if entry.label is None:
        return text.append(f"unjudged: {_line(entry.unjudged or 'no reason was given')}", "yellow")
    text.append(_label(entry.label))
    reward = "" if entry.reward is None else f", reward {entry.reward:g}"
    return text.append(f"{reward}, decided by {_DECIDERS[entry.decided_by]}")


def _code_side(entry: Disagreement) -> RenderableType:
    label = Text("no label", "dim") if entry.code is None else _label(entry.code)
    return Group(label, Text(_line(entry.proof) or "nothing is proved"))


def _models_side(votes: Sequence[ModelVote]) -> RenderableType:
    parts: list[Text] = []
    for vote in votes:
        head = Text(f"{_line(vote.model)}: ")
        if vote.label is None:
            parts.append(head.append(_line(vote.fault or "no judgement"), "yellow"))
            continue
        head.append(_label(vote.label))
        if vote.confidence is not None:
            head.append(f", confidence {vote.confidence:.2f}")
        parts.append(head)
        if vote.reasoning:
            parts.append(Text(_line(_cut(vote.reasoning, _MAX_REASONING)), "italic"))
        if vote.cited:
            parts.append(Text(f"cites {_line(', '.join(vote.cited))}", "dim"))
    return Group(*parts)


def _label(label: Label) -> Text:
    return Text(label, _STYLES[label])


def _cut(text: str, longest: int) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= longest else f"{plain[:longest]}… ({len(plain):,} characters)"


def _line(text: str) -> str:
    """Untrusted text on one line: hidden characters made visible, line breaks as spaces."""
    return make_visible(" ".join(text.split()))
