"""Mutated inputs: a command ends with 0, 1 or 2, a sentence, and nothing half written."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from rehearsal_room.demo.recipe import read_recipe
from rehearsal_room.learner.core.errors import LearnerError
from tests.fuzz.campaign import BEFORE, Tally, Target, campaign, fault_of, play
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import finished_run, targets
from tests.support.budgets import IS_LONG, repeats
from tests.support.paths import ROOT
from tests.support.warm_process import WarmProcess

INPUTS = repeats(short=1, long=150)  # of each of some twenty targets: 3,000 in the long profile
NAMES = [target.name for target in targets(Path("done"))]


@pytest.fixture(scope="module")
def every(
    warm_cli: WarmProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Target]]:
    done = finished_run(warm_cli, tmp_path_factory.mktemp("finished"))
    yield {target.name: target for target in targets(done)}


@pytest.mark.timeout(1800 if IS_LONG else 120)
@pytest.mark.parametrize("name", NAMES)
def test_a_mutated_input_is_refused_or_used(
    name: str, every: dict[str, Target], warm_cli: WarmProcess, tmp_path: Path
) -> None:
    """Exit status 0, 1 or 2, no traceback, nothing that a terminal obeys, no output half
    written."""
    tally = campaign([every[name]], range(INPUTS), warm_cli, tmp_path)[name]
    assert tally == Tally(tally.statuses, [])
    assert tally.inputs == INPUTS


@pytest.mark.slow
def test_inputs_without_a_mutation_are_used(
    every: dict[str, Target],
    warm_cli: WarmProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The files from which the mutations start are valid: their commands succeed. (All targets are
    tried, so it takes more than two seconds.)"""
    monkeypatch.setattr("tests.fuzz.targets.mutated", lambda data, rng: data)
    monkeypatch.setattr("tests.fuzz.targets.mutated_words", lambda words, flags, rng: list(words))
    played = {name: play(target, 0, warm_cli, tmp_path / "one") for name, target in every.items()}
    assert {name: fault for name, (_, _, fault) in played.items() if fault} == {}
    assert {name: text for name, (status, text, _) in played.items() if status} == {}


@pytest.mark.parametrize(
    ("status", "text", "file", "content", "fault"),
    [
        (0, "done\n", "", b"", ""),
        (2, "error: x\n", "", b"", ""),
        (3, "", "", b"", "exit status 3"),
        (-9, "", "", b"", "exit status -9"),
        (1, "Traceback (most recent call last):\n", "", b"", "a traceback"),
        (0, "\x1b[2J", "", b"", "an output that a terminal obeys"),
        (2, "\n", "", b"", "no sentence"),
        (0, "", "result.json", b'{"a": ', "result.json is half written"),
        (2, "error: x", "result.json", b"{}", "a command that refused its input wrote its result"),
        (0, "", "run/episodes.sqlite", b"half", "the run cannot be opened"),
        (0, "", "imported/x/scenario.toml", b"", "an imported world is half written"),
        (0, "", "export.jsonl", b'{"a": 1}\n{"b', "the export is half written"),
        (0, "", "run/report.json.tmp", b"", "report.json.tmp was left"),
    ],
)
def test_the_campaign_sees_faults(
    status: int, text: str, file: str, content: bytes, fault: str, tmp_path: Path
) -> None:
    """Each of the things that no command may do is a fault, and what commands do is none."""
    (tmp_path / "result.json").write_bytes(BEFORE)
    if file:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(content)
    found = fault_of(status, text, tmp_path)
    assert found.startswith(fault)
    assert bool(found) == bool(fault)


@pytest.mark.timeout(600 if IS_LONG else 60)
def test_a_mutated_recipe_is_refused_or_used(tmp_path: Path) -> None:
    """The recipe of `just learn` is read, or refused by one sentence."""
    recipe = (ROOT / "configs" / "learn-cpu.toml").read_bytes()
    for number in range(repeats(short=100, long=3000)):
        file = tmp_path / "recipe.toml"
        file.write_bytes(mutated(recipe, Random(f"recipe {number}")))
        try:
            read_recipe(file)
        except LearnerError as exc:
            assert str(exc).startswith(str(file)), number
