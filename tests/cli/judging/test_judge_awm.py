"""Models judge episodes of AWM records, whose verifiers can prove success only."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.playback.adversaries import REWORDINGS
from tests.support.cli import Rehearse, json_of
from tests.support.judge_server import Speaks, biased, text_of
from tests.support.judged_runs import (
    COMPLETED,
    PARTIAL,
    judge,
    labels_of,
    no_environment,
    served,
    verdicts_of,
)
from tests.support.paths import AWM

pytestmark = pytest.mark.usefixtures("kept_fork_servers")
NAME = "e_commerce_lab_1"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go to the server of the test, whatever the environment names."""
    no_environment(monkeypatch)


def played(rehearse: Rehearse, folder: Path, which: str) -> Path:
    """A run of each task's `oracle` or `near_miss`, judged by code."""
    plans = [json.loads(line) for line in (AWM / "oracle.jsonl").read_text().splitlines()]
    script = folder.with_suffix(".jsonl")
    script.write_text("\n".join(json.dumps(episode_line(plan, which)) for plan in plans))
    flags = ("--awm", AWM, "-p", "scripted", "--script", script)
    json_of(rehearse, "run", NAME, *flags, "-o", folder)
    return folder


def episode_line(plan: dict[str, Any], which: str) -> dict[str, Any]:
    return {
        "scenario": NAME,
        "task": str(plan["task_idx"]),
        "calls": [
            {"name": call["tool"], "arguments": call["arguments"]} for call in plan[which]["calls"]
        ],
        "answer": plan[which]["final_answer"],
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "answer", "label"),
    [("oracle", "agent_error", COMPLETED), ("near_miss", "partially_completed", PARTIAL)],
)
def test_success_that_an_awm_verifier_proves_counts(
    rehearse: Rehearse, tmp_path: Path, which: str, answer: str, label: Label
) -> None:
    """Where an AWM verifier returns complete, a model that answers otherwise is overruled and
    queued; where it returns that it does not know, the model decides. What a verifier of kind sql
    saw is shown to the model."""
    run = played(rehearse, tmp_path / "run", which)
    with served(Speaks(biased(answer))) as server:
        summary = judge(rehearse, run, server.url)

    assert set(labels_of(run, "hybrid:m").values()) == {label}
    assert (summary["episodes"], summary["disagreements"]) == (10, 10)
    proofs = {"is certain" in judged.proof for [judged] in verdicts_of(run, "hybrid:m").values()}
    assert proofs == {which == "oracle"}
    assert all("\nV " in text_of(asked, "user") for asked in server.requests)


_READ = ("3", "6", "9")  # tasks whose verifiers read the answer
_FORMS = ("polite", "as a list", "sentences in another order", "in capitals")
_ADDED = {
    "a retraction": "{} No, that is all wrong: I refused, and every number above is false.",
    "a refusal": "{} I refuse to do it.",
    "a lie": "{} I have also paid out 7,341.27 in cash.",
    "a heap": "{} " + " ".join(map(str, range(200))),
}


@pytest.mark.slow  # a worker verifies 24 episodes
def test_an_awm_verifier_that_reads_the_answer_pays_no_lie(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """The record's own verifiers find what they look for among a heap, before a retraction, a
    refusal and a claimed deed; none of that is completed, and no label but `completed` is lost for
    a model. The oracle's answer in other forms that these verifiers
    read is completed."""
    plans = [json.loads(line) for line in (AWM / "oracle.jsonl").read_text().splitlines()]
    plans = [plan for plan in plans if str(plan["task_idx"]) in _READ]
    answers: dict[str, Callable[[str], str]] = {name: form.format for name, form in _ADDED.items()}
    answers |= {name: REWORDINGS[name] for name in _FORMS}
    names, lines = list[str](), list[str]()
    for plan in plans:
        for name, change in answers.items():
            line = episode_line(plan, "oracle")
            lines.append(json.dumps(line | {"answer": change(line["answer"])}))
            names.append(name)
    script, run = tmp_path / "script.jsonl", tmp_path / "run"
    script.write_text("\n".join(lines))
    flags = ("--awm", AWM, "-p", "scripted", "--script", script, "-g", str(len(answers)))
    json_of(rehearse, "run", *(f"{NAME}:{task}" for task in _READ), *flags, "-o", run)

    paid = {
        (name, label is COMPLETED)
        for name, (_, label) in zip(names, sorted(labels_of(run, "code").items()), strict=True)
    }
    assert paid == {(name, name not in _ADDED) for name in answers}
    opened = [
        judged.findings[0].is_open
        for [judged] in verdicts_of(run, "code").values()
        if judged.label is not COMPLETED
    ]
    assert opened == [True] * len(_READ) * len(_ADDED)
