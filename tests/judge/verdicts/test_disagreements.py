"""The queue of verdicts in which models contradict code or each other."""

import io
from typing import Any

import msgspec
from rich.console import Console

from rehearsal_room.harness.core.events import EpisodeEnded, Judged, Label, ModelJudgement
from rehearsal_room.harness.core.trajectory import Trajectory, assemble
from rehearsal_room.judge.verdicts.disagreements import (
    Disagreement,
    ModelVote,
    is_disagreement,
    queue,
    ranked,
    render,
)
from rehearsal_room.judge.verdicts.rejudge import is_selected
from tests.support import events

DONE, PART, AGENT, WORLD = Label
PROOF = "guard 'nothing else changed' failed: expected no other change, found 1 new refunds"


def judged(
    label: Label | None, code: Label | None, *judgements: ModelJudgement, **more: Any
) -> Judged:
    """A verdict of models; its reward is AWM's."""
    worth = {DONE: 1.0, PART: 0.1, AGENT: 0.0, WORLD: 0.0, None: None}
    fields = {"judge": "hybrid:m", "rewards": "awm", "proof": "", **more}
    return Judged(label=label, reward=worth[label], code=code, judgements=judgements, **fields)


def judgement(
    label: Label | None, *, model: str = "m", confidence: float = 0.9, **more: Any
) -> ModelJudgement:
    """A model's judgement."""
    return ModelJudgement(model, label, confidence=confidence, **more)


def trajectory(name: str, *verdicts: Judged, answer: str = "Done.") -> Trajectory:
    """An episode with these verdicts."""
    made = assemble(events.episode(name, 1))
    assert isinstance(made.ended, EpisodeEnded)
    ended = msgspec.structs.replace(made.ended, answer=answer)
    return msgspec.structs.replace(made, ended=ended, judged=verdicts)


LIE = judged(
    AGENT,
    AGENT,
    judgement(DONE, reasoning="It said so.", cited=("A", "S1")),
    proof=PROOF,
)


def test_what_is_a_disagreement() -> None:
    """A model against code, models against each other, models that are overruled; but not a missing
    judgement, nor a verdict for which no model was asked."""
    contested = [
        LIE,
        judged(DONE, AGENT, judgement(DONE)),
        judged(DONE, DONE, judgement(DONE), judgement(DONE), judgement(AGENT)),
        judged(None, None, judgement(DONE), judgement(AGENT), unjudged="the judges disagree"),
        judged(None, None, judgement(DONE), proof="the step limit ended it", unjudged="ruled out"),
        judged(DONE, None, judgement(DONE), judgement(DONE), judgement(AGENT), judge="llm:m+n+o"),
    ]
    agreed = [
        judged(DONE, DONE, judgement(DONE)),
        judged(AGENT, AGENT, proof=PROOF),
        judged(DONE, None, judgement(DONE)),
        judged(None, AGENT, judgement(None, fault="down"), unjudged="down"),
        Judged("code", DONE, 1.0),
    ]
    assert [is_disagreement(one) for one in contested] == [True] * len(contested)
    assert [is_disagreement(one) for one in agreed] == [False] * len(agreed)


def test_models_that_did_not_see_code_are_compared_with_it() -> None:
    """Judge `llm` has no label of code; judge `code` or `hybrid` has it for the same episode."""
    llm = judged(DONE, None, judgement(DONE), judge="llm:m")
    hybrid = judged(AGENT, AGENT, judgement(AGENT))
    for other in (Judged("code", AGENT, 0.0), hybrid):
        for verdicts in ((llm, other), (other, llm)):
            [entry] = queue([trajectory("e1", *verdicts)])
            assert (entry.judge, entry.label, entry.code) == ("llm:m", DONE, AGENT)
            assert entry.decided_by == "model"
    assert list(queue([trajectory("e1", llm, Judged("code", DONE, 1.0))])) == []
    assert list(queue([trajectory("e1", llm)])) == []
    both = trajectory("e1", llm, Judged("code", AGENT, 0.0))
    assert is_selected(both, "hybrid:n", "disagreements")


def test_an_entry_has_both_sides() -> None:
    """The queue comes from the log alone and has each side's findings, unshortened, and the
    episode."""
    other = judged(DONE, AGENT, judgement(DONE, confidence=0.6), judge="hybrid:n")
    fine = Judged("code", AGENT, 0.0)
    entries = list(queue([trajectory("a", fine), trajectory("b", fine, LIE, other)]))
    assert entries == [
        Disagreement(
            episode="b",
            scenario="ledger",
            task="open",
            judge="hybrid:m",
            label=AGENT,
            unjudged=None,
            reward=0.0,
            rewards="awm",
            decided_by="code",
            code=AGENT,
            proof=PROOF,
            judgements=(ModelVote("m", DONE, 0.9, "It said so.", ("A", "S1"), ""),),
            answer="Done.",
        ),
        Disagreement(
            episode="b",
            scenario="ledger",
            task="open",
            judge="hybrid:n",
            label=DONE,
            unjudged=None,
            reward=1.0,
            rewards="awm",
            decided_by="model",
            code=AGENT,
            proof="",
            judgements=(ModelVote("m", DONE, 0.6, "", (), ""),),
            answer="Done.",
        ),
    ]
    assert msgspec.json.decode(msgspec.json.encode(entries), type=list[Disagreement]) == entries


def test_in_llm_mode_the_models_decided() -> None:
    """The log shows which side decided; in mode `llm` it is always the models."""
    split = judged(
        DONE, DONE, judgement(DONE), judgement(DONE), judgement(AGENT), judge="llm:m+n+o"
    )
    both = msgspec.structs.replace(split, judge="hybrid:m+n+o")
    silent = judged(None, None, judgement(DONE), judgement(AGENT), unjudged="the judges disagree")
    decided = [entry.decided_by for entry in queue([trajectory("a", split, both, silent)])]
    assert decided == ["model", "both", None]


def test_the_most_important_entries_come_first() -> None:
    """Models that changed the reward come before lies that changed nothing; a larger difference in
    reward before a smaller one, and confident models before others."""
    verdicts = {
        "unsure lie": judged(AGENT, AGENT, judgement(DONE, confidence=0.4), proof=PROOF),
        "sure lie": judged(AGENT, AGENT, judgement(DONE, confidence=0.95), proof=PROOF),
        "small lie": judged(AGENT, AGENT, judgement(PART, confidence=1.0), proof=PROOF),
        "changed a little": judged(PART, AGENT, judgement(PART, confidence=0.95)),
        "changed a lot": judged(DONE, AGENT, judgement(DONE, confidence=0.1)),
        "undecided": judged(
            None, None, judgement(PART, confidence=0.2), judgement(AGENT), unjudged="?"
        ),
    }
    entries = ranked(queue(trajectory(name, verdict) for name, verdict in verdicts.items()))
    assert [entry.episode for entry in entries] == [
        "changed a lot",
        "changed a little",
        "undecided",
        "sure lie",
        "unsure lie",
        "small lie",
    ]


def shown(*trajectories: Trajectory) -> list[str]:
    """The lines at a terminal of 80 columns."""
    console = Console(file=io.StringIO(), width=80)
    render(queue(trajectories), console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_both_sides_are_printed_side_by_side() -> None:
    """In 80 columns: episode, verdict, answer, what code found and what each model found."""
    verdict = msgspec.structs.replace(
        LIE, judgements=(*LIE.judgements, judgement(None, model="n", fault="n is down"))
    )
    assert shown(trajectory("e1", verdict)) == [
        "─" * 80,
        "1. e1  ledger / open, hybrid:m",
        "verdict: agent_error, reward 0, decided by code",
        "answer: Done.",
        "code                                    models",
        "agent_error                             m: completed, confidence 0.90",
        "guard 'nothing else changed' failed:    It said so.",
        "expected no other change, found 1 new   cites A, S1",
        "refunds                                 n: n is down",
        "",
        "1 disagreement",
    ]


def test_no_disagreement() -> None:
    """An empty queue is reported in one line."""
    assert shown(trajectory("a", Judged("code", DONE, 1.0))) == ["no disagreements"]


def test_an_unjudged_episode_is_printed_with_its_reason() -> None:
    """Where neither the verdict nor code has a label, the reason and both models are printed."""
    verdict = judged(
        None,
        None,
        judgement(DONE, model="m"),
        judgement(AGENT, model="n"),
        unjudged="the judges disagree",
    )
    lines = shown(trajectory("e1", verdict, answer=""))
    assert lines[2:7] == [
        "verdict: unjudged: the judges disagree",
        "code                                    models",
        "no label                                m: completed, confidence 0.90",
        "nothing is proved                       n: agent_error, confidence 0.90",
        "",
    ]


def test_untrusted_text_is_printed_as_plain_text() -> None:
    """Markup has no effect, hidden and control characters are shown by number, long texts are
    shortened, and nothing leaves its column."""
    evil = "[bold red]no[/] \x1b[2J\u202e\u200b\n\n# Verdict: completed " + "x" * 2000
    verdict = judged(
        AGENT,
        AGENT,
        judgement(DONE, model=evil[:20], reasoning=evil, cited=("[/]",)),
        proof=f"found {evil[:40]}",
    )
    lines = shown(trajectory("[/]e\x07", verdict, answer=evil))
    text = "\n".join(lines)
    assert not any(hidden in text for hidden in "\x1b\x07\u202e\u200b")
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].startswith("1. [/]e⟨U+0007⟩  ledger / open")
    assert "answer: [bold red]no[/] ⟨U+001B⟩[2J⟨U+202E⟩⟨U+200B⟩ # Verdict: completed" in text
    assert "cites [/]" in text
    assert text.count("x") < 1300
