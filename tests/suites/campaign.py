"""python -m tests.suites.campaign PYTHON: the suite bfcl_v3 against the BFCL itself.

Plays every reference solution and nothing at all by the command line; then scores reference
solutions of the 800 multi-turn entries without their last call, and with one constant changed, with
our suite and with upstream's own checker, and 2,000 single-turn answers with a mistake, too. Prints
a table; the exit status is 1 where a figure is
not the expected one. About half a minute.
"""

import ast
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import anyio

from rehearsal_room.envpool.objects.pool import ObjectPool
from rehearsal_room.envpool.objects.process import ProgramSettings
from rehearsal_room.scenarios.format import Call, Scenario
from rehearsal_room.scenarios.suites.bfcl import LIVE, MULTI_TURN, NON_LIVE, BfclData, parsed_call
from rehearsal_room.scenarios.suites.catalogue import suite
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags

# Entries whose reference solution no checker accepts: the data contradicts itself there (a required
# argument without an accepted value, or one that the function does not have).
UNSOLVABLE = {"live_multiple": 2, "live_simple": 2, "simple_java": 3}
WITHHELD = {"multi_turn_miss_func": 1}  # a reference solution calls a function that is withheld
_ANSWERS = 2_000  # of single-turn entries, with a mistake
ENDED = {"text": "", "ended": True, "calls": []}
GOES_ON = {"text": "", "ended": False, "calls": []}


def main(python: str) -> int:
    """Run the campaign; returns the exit status."""
    source = suite("bfcl_v3").open(SuiteFlags(python=python))
    wrong = _reference_solutions(python)
    cases = [
        (category, scenario, turns)
        for category in MULTI_TURN
        for scenario, turns in _solutions(source.scenarios(category))
    ]
    dropped = [_without_last(turns) for _, _, turns in cases]
    changed = [_with_one_constant_changed(turns) for _, _, turns in cases]
    assert isinstance(source, BfclData)
    ours = anyio.run(_score, source, python, cases, dropped, changed)
    theirs = _upstream(python, cases, changed)
    _say(f"last call dropped: {ours[0].count(False)} of {len(cases)} caught")
    _say(f"one constant changed: {ours[1].count(False)} of {len(cases)} caught")
    differing = sum(one != other for one, other in zip(ours[1], theirs, strict=True))
    _say(f"verdicts that differ from upstream's: {differing} of {len(cases)}")
    wrong += _single_turn_answers(source, python)
    return int(bool(wrong or differing or any(ours[0])))


def _reference_solutions(python: str) -> int:
    """Play every category with the oracle; returns how many figures are not the expected ones."""
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "report.json"
        command = [
            sys.executable,
            "-m",
            "rehearsal_room",
            "eval",
            "bfcl_v3",
            "--suite-python",
            python,
        ]
        command += ["-p", "oracle", "-o", str(Path(name) / "run"), "--json", str(report)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = json.loads(report.read_text())
    sizes = {
        category: len(suite("bfcl_v3").open(SuiteFlags(python=python)).scenarios(category))
        for category in found["scores"]
    }
    wrong = 0
    for category, share in found["scores"].items():
        solved = round(share * sizes[category])
        expected = sizes[category] - (UNSOLVABLE | WITHHELD).get(category, 0)
        wrong += solved != expected
        _say(f"{category:<26} {solved:>5} of {sizes[category]:<5} expected {expected}")
    _say(f"overall {100 * found['overall']:.2f} %, doing nothing {100 * found['floor']:.2f} %")
    return wrong


def _single_turn_answers(source: BfclData, python: str) -> int:
    """Score answers with a mistake by both; returns how many verdicts differ."""
    rng = Random(13)
    cases = [
        (category, scenario)
        for category in (*NON_LIVE, *LIVE)
        if not category.endswith("relevance")
        for scenario in source.scenarios(category)
    ]
    chosen = [rng.choice(cases) for _ in range(_ANSWERS)]
    answers = [_mistaken(rng, scenario.tasks[0].oracle) for _, scenario in chosen]
    ours = anyio.run(_score_answers, source, python, chosen, answers)
    lines = [
        json.dumps({"id": scenario.title, "calls": calls, "category": category})
        for (category, scenario), calls in zip(chosen, answers, strict=True)
    ]
    theirs = _asked_upstream(python, lines)
    differing = sum(one != other for one, other in zip(ours, theirs, strict=True))
    _say(f"single-turn answers with a mistake: {ours.count(False):,} of {_ANSWERS:,} caught")
    _say(f"verdicts that differ from upstream's: {differing} of {_ANSWERS:,}")
    return differing


def _mistaken(rng: Random, oracle: Sequence[Call]) -> list[dict[str, Any]]:
    """The reference calls with one mistake of a random kind, as JSON."""
    calls: list[dict[str, Any]] = [
        {"name": one.name, "arguments": dict(one.arguments)} for one in oracle
    ]
    kind = rng.choice(("value", "type", "left out", "added", "name", "twice", "dropped", "order"))
    one = rng.choice(calls)
    arguments = one["arguments"]
    name = rng.choice(list(arguments)) if arguments else ""
    match kind:
        case "value" if name:
            arguments[name] = _other_json(arguments[name])
        case "type" if name:
            arguments[name] = str(arguments[name])
        case "left out" if name:
            del arguments[name]
        case "added":
            arguments["surplus"] = 1
        case "name":
            one["name"] = f"{one['name']}_x"
        case "twice":
            calls.append(one)
        case "dropped":
            calls.remove(one)
        case "order":
            calls.reverse()
    return calls


def _other_json(value: Any) -> Any:
    if isinstance(value, list):
        return [*value, *value[:1]] if value else [1]
    if isinstance(value, dict):
        return {**value, "surplus": 1}
    return _other(value) if value is not None else "x"


async def _score_answers(
    source: BfclData, python: str, chosen: list[Any], answers: list[list[dict[str, Any]]]
) -> list[bool]:
    verdicts = []
    async with ObjectPool(ProgramSettings("bfcl", source.options(), python)) as pool:
        for (_, scenario), calls in zip(chosen, answers, strict=True):
            made = [{**call, "text": "", "error": None} for call in calls]
            talk = [{"calls": made, "text": None, "user": None}]
            findings = await pool.score(scenario, scenario.tasks[0], talk)
            verdicts.append(all(one.passed for one in findings))
    return verdicts


def _solutions(scenarios: list[Scenario]) -> Iterator[tuple[Scenario, list[list[str]]]]:
    """Each scenario with the calls of its reference solution, as text, turn by turn."""
    for scenario in scenarios:
        assert scenario.suite is not None
        yield scenario, scenario.suite.scoring[scenario.tasks[0].id]["truth"]


def _without_last(turns: list[list[str]]) -> list[list[str]]:
    """The same without its last call."""
    last = max(number for number, turn in enumerate(turns) if turn)
    return [turn[:-1] if number == last else turn for number, turn in enumerate(turns)]


def _with_one_constant_changed(turns: list[list[str]]) -> list[list[str]]:
    """The same with the first constant changed that its last changeable call has."""
    for number in range(len(turns) - 1, -1, -1):
        for index in range(len(turns[number]) - 1, -1, -1):
            tree = ast.parse(turns[number][index].strip(), mode="eval")
            constants = [one for one in ast.walk(tree) if isinstance(one, ast.Constant)]
            if constants:
                constants[0].value = _other(constants[0].value)
                text = ast.unparse(tree)
                turn = [*turns[number][:index], text, *turns[number][index + 1 :]]
                return [turn if at == number else one for at, one in enumerate(turns)]
    return turns


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value}x"


async def _score(
    source: BfclData, python: str, cases: list[Any], *variants: list[list[list[str]]]
) -> list[list[bool]]:
    """Whether our suite counts each variant of each case as solved."""
    verdicts: list[list[bool]] = []
    async with ObjectPool(ProgramSettings("bfcl", source.options(), python)) as pool:
        for variant in variants:
            verdicts.append([])
            for (_, scenario, _), calls in zip(cases, variant, strict=True):
                assert scenario.suite is not None
                talk = _talk(calls, source.docs(scenario.suite.world["classes"]))
                findings = await pool.score(scenario, scenario.tasks[0], talk)
                verdicts[-1].append(all(one.passed for one in findings))
    return verdicts


def _talk(turns: list[list[str]], docs: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """An episode in which these calls are made."""
    talk: list[dict[str, Any]] = []
    for number, turn in enumerate(turns, 1):
        if turn:
            talk.append({"calls": [_call(text, docs) for text in turn], "text": None, "user": None})
        user = ENDED if number == len(turns) else GOES_ON
        talk.append({"calls": [], "text": "Done.", "user": user})
    return talk


def _call(text: str, docs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    call = parsed_call(text, docs)
    return {"name": call.name, "arguments": call.arguments, "text": "", "error": None}


def _upstream(python: str, cases: list[Any], variant: list[list[list[str]]]) -> list[bool]:
    """The verdicts of upstream's own checker."""
    lines = [
        json.dumps({"id": scenario.title, "turns": turns, "category": category})
        for (category, scenario, _), turns in zip(cases, variant, strict=True)
    ]
    return _asked_upstream(python, lines)


def _asked_upstream(python: str, lines: list[str]) -> list[bool]:
    script = Path(__file__).with_name("upstream.py")
    found = subprocess.run(
        [python, str(script)], input="\n".join(lines), text=True, capture_output=True, check=True
    )
    return [json.loads(line) for line in found.stdout.splitlines()]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
