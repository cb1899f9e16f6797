"""Answers in free words, right and false, over right rows: shares, not single answers.

`free_answers.jsonl` has 77 right and 84 false answers, written before the words were classed. The
false ones have right rows and values and one claim that nobody can know to be so ("the bank bounced
it"). When they were first judged, by lists of false words, 86 % of the right and 80 % of the false
ones were completed; by what is understood, 68 % and 20 %. Clauses were then read with these answers
in view, so that today's 79 % and 5 % say less than the 80 % and 22 % of 20 right and 40 false ones
that were written for it on other worlds and judged once. The bounds below are these figures with
some room: a change that goes beyond them is a decision.

`assistant_answers.jsonl` has 38 right and 18 false answers in the manner of chat models, written by
hand. The first 20 right ones were tuned on. Of the others, 72 % of the right ones and 22 % of the
false ones were completed when they were first judged (94 % and 67 % by the lists before), and 89 %
and 11 % are today.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.authoring.generate import generate_worlds
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.runners import InProcessRunner
from rehearsal_room.judge.playback.playback import play
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Scenario, read
from rehearsal_room.scenarios.generate.output_folder import GenerationOrder

BUNDLED = ("shop_support", "flight_desk", "claims_desk")
NUM_GENERATED, SEED = 14, 770077


class FreeAnswer(msgspec.Struct, frozen=True):
    """An answer to one task whose rows are right. `world`: of a generated one, its trade."""

    world: str
    task: str
    is_true: bool
    answer: str


def shares(
    worlds: Iterable[tuple[str, Scenario]], file: str = "free_answers.jsonl"
) -> tuple[float, float, float]:
    """Of a file's answers to tasks of these worlds: right ones completed, right ones held for
    wrong, and false ones completed."""
    answers = msgspec.json.Decoder(FreeAnswer).decode_lines(
        Path(__file__).with_name(file).read_bytes()
    )
    right, wrong, false = list[bool](), list[bool](), list[bool]()
    for name, scenario in worlds:
        world = HostedScenario(scenario)
        judge = CodeJudge(scenario, InProcessRunner(world))
        for one in answers:
            if one.world != name:
                continue
            task = scenario.task(one.task)
            judged = judge.verdict_at_once(play(world, task, task.oracle, one.answer).trajectory)
            is_completed = all(finding.passed for finding in judged.findings)
            (right if one.is_true else false).append(is_completed)
            if one.is_true:
                wrong.append(any(not f.passed and not f.is_open for f in judged.findings))
    return sum(right) / len(right), sum(wrong) / len(wrong), sum(false) / len(false)


def test_free_answers_over_right_rows_of_the_bundled_worlds() -> None:
    """Three in four right answers are completed, none is held for wrong, and one false one in ten
    is paid: free words are for a model, which decides what code leaves open."""
    right, wrong, false = shares((name, find(name)) for name in BUNDLED)
    assert right >= 0.75
    assert wrong == 0
    assert false <= 0.1


def test_answers_in_the_manner_of_chat_models() -> None:
    """Four in five right answers are completed, none is held for wrong, one false one in six is
    paid."""
    worlds = ((name, find(name)) for name in BUNDLED)
    right, wrong, false = shares(worlds, "assistant_answers.jsonl")
    assert right >= 0.8
    assert wrong == 0
    assert false <= 0.17


@pytest.mark.slow(reason="generates 14 worlds")
def test_free_answers_over_right_rows_of_generated_worlds(tmp_path: Path) -> None:
    """The same holds for worlds on which no word was tuned."""
    generate_worlds(GenerationOrder(seed=SEED), NUM_GENERATED, tmp_path / "worlds")
    folders = sorted(path for path in (tmp_path / "worlds").iterdir() if path.is_dir())
    right, wrong, false = shares((one.name.rpartition("_")[0], read(one)) for one in folders)
    assert right >= 0.7
    assert wrong == 0
    assert false <= 0.1
