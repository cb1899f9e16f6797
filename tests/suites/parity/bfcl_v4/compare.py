"""The BFCL's own runner and `rehearse eval bfcl_v4` over the memory categories: the talks, the
memory that each leaves, and the questions. The other categories are compared as those of v3."""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.judge.suites.scores import bfcl_v4_groups, bfcl_v4_overall
from rehearsal_room.scenarios.core.dialogue import UserScript
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.bfcl import agentic
from rehearsal_room.scenarios.suites.bfcl_entries import CATEGORIES, BfclData
from rehearsal_room.scenarios.suites.catalogue import suite
from rehearsal_room.scenarios.suites.suite_flags import SuiteFlags
from tests.suites.parity.behaviours import Message
from tests.suites.parity.bfcl_v4.behaviours import (
    PASTES,
    QUESTIONS,
    pasted,
    question_reply,
    talk_reply,
)
from tests.suites.parity.fake_model import FakeModel

_TABLES = 40  # made-up leaderboards whose totals are compared
_COLUMNS = {  # of upstream's tables: the table, the column, our group
    ("overall", "Overall Acc"): "overall",
    ("overall", "Non-Live AST Acc"): "non_live",
    ("overall", "Live Acc"): "live",
    ("overall", "Multi Turn Acc"): "multi_turn",
    ("agentic", "Agentic Overall Acc"): "agentic",
}


class Played(NamedTuple):
    """What one side made of an entry."""

    valid: bool | None  # None: a talk
    texts: list[str]  # what the calls returned
    memory: dict[str, Any] | None  # that a talk left; None: a question


class Chosen:
    """The entries of both categories, and the replies that they get."""

    def __init__(self, data: BfclData, seed: int, behaviour: str) -> None:
        self._seed, self._behaviour = seed, behaviour
        self.ids: dict[str, str] = {}  # name of a scenario -> the entry's own id
        self._scenarios: dict[tuple[str, str, str], Scenario] = {}
        for category in (*agentic.USUAL, *(f"{name}_prereq" for name in agentic.USUAL)):
            for scenario in data.scenarios(category):
                task = scenario.tasks[0]
                assert scenario.suite is not None
                subject = scenario.suite.scoring[task.id]["memory"]
                key = (category.removesuffix("_prereq"), subject, task.instruction)
                assert key not in self._scenarios, key
                self._scenarios[key] = scenario
                self.ids[scenario.name] = scenario.title

    def kind(self, id: str) -> str:
        """What the model does with an entry."""
        if "prereq" in id:
            return "talks" if self._behaviour != PASTES else PASTES
        return self._behaviour or Random(f"{self._seed} {id}").choice(QUESTIONS)

    def answer(self, category: str, body: dict[str, Any]) -> tuple[str, Message] | None:
        """The entry of a talk and the reply to it (see FakeModel)."""
        system, *said = body["messages"]
        subject = next(one for one in agentic.SUBJECTS if _SETTING[one] in system["content"])
        texts = [one["content"] for one in said if one["role"] == "user"]
        scenario = self._scenarios.get((category, subject, texts[0]))
        if scenario is None or scenario.suite is None:
            return None
        id, task, turn = scenario.title, scenario.tasks[0], len(texts) - 1
        assert isinstance(task.user, UserScript)
        assert texts[1:] == [one.text for one in task.user.turns[:turn]], id
        last = max(number for number, one in enumerate(said) if one["role"] == "user")
        step = sum(one["role"] == "assistant" for one in said[last:])
        functions = {tool["name"]: tool for tool in scenario.suite.world["tools"]}
        if self.kind(id) == PASTES:
            return id, pasted(id, said, system["content"], step)
        if "prereq" in id:
            return id, talk_reply(id, turn, step, texts[-1], functions, self._seed)
        truth = scenario.suite.scoring[task.id]["truth"]
        rng = Random(f"{self._seed} {id} {step}")
        return id, question_reply(self.kind(id), step, truth, functions, rng)


# By what the system prompt of a subject is known.
_SETTING = {
    "student": "academic-support assistant",
    "customer": "customer support assistant",
    "finance": "executive assistant",
    "healthcare": "healthcare assistant",
    "notetaker": "personal organization assistant",
}


def main(arguments: list[str]) -> int:
    """Compare; returns the exit status."""
    parser = argparse.ArgumentParser(prog="parity bfcl_v4")
    parser.add_argument(
        "--python", default=".venv-suites/bin/python", help="interpreter for `rehearse eval`"
    )
    parser.add_argument("--runner", help="interpreter with all of the package (default: it)")
    parser.add_argument("--seed", type=int, default=0, help="of the first pass")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--behaviour", default="", help="to all questions")
    asked = parser.parse_args(arguments)
    if asked.behaviour not in (known := ("", PASTES, *QUESTIONS)):
        parser.error(f"--behaviour: no {asked.behaviour!r}; one of {', '.join(known[1:])}")
    data = suite("bfcl_v4").open(SuiteFlags(python=asked.python))
    assert isinstance(data, BfclData)
    different = 0
    for seed in range(asked.seed, asked.seed + asked.passes):
        chosen = Chosen(data, seed, asked.behaviour)
        different += compare(chosen, asked.python, asked.runner or asked.python, seed)
    return int(different > 0)


def compare(chosen: Chosen, python: str, runner: str, seed: int) -> int:
    """Play both sides and print what differs; returns how many entries and totals differ."""
    tables = list(_made_up(Random(seed)))
    with FakeModel(chosen.answer).served() as model, ThreadPoolExecutor(2) as sides:
        asked = sides.submit(_upstream, runner, model.url, tables)
        ours, report = _ours(chosen, python, model.url)
        upstream, last = asked.result()
    found = list(_differences(chosen, model, upstream, ours))
    faults = list(_totals(report, last, tables))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for id, one in upstream.items():
        counts[chosen.kind(id)].update(entries=1, right=bool(one.valid))
    for id, what, *_ in found:
        counts[chosen.kind(id)][what] += 1
    names = ("entries", "right", "verdict", "requests", "texts", "memory")
    _say(f"{'behaviour':<36}" + "".join(f"{name:>9}" for name in names))
    for kind, row in sorted(counts.items()):
        _say(f"{kind:<36}" + "".join(f"{row[name]:>9}" for name in names))
    for id, what, one, two in found[:40]:
        _say(f"{id}, {chosen.kind(id)}: {what}\n  upstream: {one}\n  ours:     {two}")
    for fault in [*faults, *model.strange[:5]]:
        _say(fault)
    for name, score in report["scores"].items():
        _say(f"{name}: upstream {last['scores'][name]:.4f}, ours {score:.4f}")
    sent = [sum(n.total() for n in model.bodies[side].values()) for side in ("upstream", "ours")]
    differing = len({id for id, *_ in found})
    snapshots = sum(one.memory is not None for one in upstream.values())
    _say(
        f"{len(upstream)} entries, {snapshots} snapshots, {sent[0]} and {sent[1]} requests: "
        f"{differing} entries differ; overall by upstream "
        f"{last['leaderboard']['overall']['Overall Acc']}, by ours {report['overall']:.2%}; "
        f"{len(tables)} made-up leaderboards"
    )
    return differing + len(faults) + len(model.strange)


def _upstream(
    python: str, url: str, tables: list[dict[str, Any]]
) -> tuple[dict[str, Played], dict[str, Any]]:
    file = Path(__file__).parents[1] / "upstream_bfcl.py"
    adapter = Path(__file__).parents[4] / "envpool" / "objects" / "adapters" / "bfcl.py"
    with tempfile.TemporaryDirectory() as folder:
        entries: dict[str, list[str]] = {name: [] for name in agentic.USUAL}
        asked = {"url": url, "folder": folder, "entries": entries, "adapter": str(adapter)}
        done = subprocess.run(
            [python, str(file)],
            input=json.dumps({**asked, "tables": tables}) + "\n",
            text=True,
            capture_output=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"upstream's runner failed:\n{done.stderr[-4000:]}")
    *lines, last = map(json.loads, done.stdout.splitlines())
    found = {one["id"]: Played(one["valid"], one["texts"], one.get("state")) for one in lines}
    return found, last


def _ours(chosen: Chosen, python: str, url: str) -> tuple[dict[str, Played], dict[str, Any]]:
    """Our side: the entries of both categories, and the report of both together."""
    played: dict[str, Played] = {}
    scores: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        for category in agentic.USUAL:
            run, report = Path(name) / category, Path(name) / f"{category}.json"
            command = [sys.executable, "-m", "rehearsal_room", "eval", "bfcl_v4"]
            command += ["--category", category, "--suite-python", python, "-m", "parity"]
            command += ["-c", "8", "--no-preflight", "-p", "openai", "-o", str(run)]
            command += ["--base-url", f"{url}/ours/{category}/v1", "--json", str(report)]
            done = subprocess.run(command, text=True, capture_output=True, check=False)
            if done.returncode:
                raise SystemExit(f"rehearse eval failed:\n{done.stderr[-4000:]}")
            scores |= json.loads(report.read_text())["scores"]
            played |= _read(chosen, run)
    groups = bfcl_v4_groups(scores, dict.fromkeys(scores, 155))
    return played, {"scores": scores, **groups, "overall": bfcl_v4_overall(scores, groups)}


def _read(chosen: Chosen, run: Path) -> Iterator[tuple[str, Played]]:
    with open_reader(run) as reader:
        labels = {row.episode: row.label for row in reader.episodes()}
        for one in reader.trajectories():
            id = chosen.ids[one.started.scenario]
            texts = [result.text for step in one.steps for result in step.executed_results]
            is_talk = "prereq" in id
            valid = None if is_talk else labels[one.episode] is Label.COMPLETED
            yield id, Played(valid, texts, memory_of(one) if is_talk else None)


def memory_of(trajectory: Trajectory) -> dict[str, Any]:
    """The memory at the end of a talk, as upstream's snapshot has it."""
    origin = trajectory.started.origin
    moves = [] if origin is None else [origin.changes]
    moves += [one.changes for step in trajectory.steps for one in step.executed_results]
    is_kv = "memory_kv" in trajectory.started.scenario
    found: dict[str, Any] = {"core_memory": {}, "archival_memory": {}} if is_kv else {"memory": ""}
    for change in net_changes(moves):
        if change.after is None:
            continue
        kind, key = change.key
        value = json.loads(change.after["value"])
        if is_kv:
            found[kind.rpartition(".")[2]][key] = value
        else:
            found["memory"] = value
    return found


def _differences(
    chosen: Chosen, model: FakeModel, upstream: Mapping[str, Played], ours: Mapping[str, Played]
) -> Iterator[tuple[str, str, str, str]]:
    """Entry, what differs, and both sides of it."""
    for id in sorted(upstream.keys() | ours.keys()):
        if id not in upstream or id not in ours:
            yield id, "verdict", *("played" if id in side else "none" for side in (upstream, ours))
            continue
        theirs, own = upstream[id], ours[id]
        if theirs.valid != own.valid:
            yield id, "verdict", str(theirs.valid), str(own.valid)
        if theirs.texts != own.texts:
            pairs = zip(theirs.texts, own.texts, strict=False)
            unlike = next((pair for pair in pairs if pair[0] != pair[1]), None)
            one, two = unlike or (f"{len(theirs.texts)} texts", f"{len(own.texts)} texts")
            yield id, "texts", one[:300], two[:300]
        if "prereq" in id and theirs.memory != own.memory:
            yield id, "memory", str(theirs.memory)[:600], str(own.memory)[:600]
        first, second = model.bodies["upstream"][id], model.bodies["ours"][id]
        if first != second:
            left, right = list(first - second), list(second - first)
            one, two = f"{first.total()} requests", f"{second.total()} requests"
            if left and right:
                one, two = (json.dumps(model.body(side[0])) for side in (left, right))
                at = next(n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
                one, two = (text[max(0, at - 100) : at + 200] for text in (one, two))
            yield id, "requests", one, two


def _made_up(rng: Random) -> Iterator[dict[str, Any]]:
    """Accuracies and counts of categories, of which some were not played."""
    for number in range(_TABLES):
        names = [*CATEGORIES, *agentic.CATEGORIES]
        kept = names if number < _TABLES // 2 else rng.sample(names, rng.randint(1, len(names)))
        yield {name: [rng.random(), rng.randint(1, 400)] for name in kept}


def _totals(
    report: Mapping[str, Any], last: Mapping[str, Any], tables: list[dict[str, Any]]
) -> Iterator[str]:
    """Where the tables that upstream wrote say something else than our groups."""
    if report["scores"] != last["scores"]:
        yield f"scores: upstream {last['scores']}, ours {report['scores']}"
    sides = [(last["leaderboard"], report)]
    for table, written in zip(tables, last["tables"], strict=True):
        scores = {name: accuracy for name, (accuracy, _) in table.items()}
        sizes = {name: count for name, (_, count) in table.items()}
        groups = bfcl_v4_groups(scores, sizes)
        sides.append((written, {**groups, "overall": bfcl_v4_overall(scores, groups)}))
    for written, groups in sides:
        for (table, column), name in _COLUMNS.items():
            shown = written[table][column]
            if shown == "N/A":  # a category of it was not played; in the total it counts as 0
                continue
            own = f"{groups[name]:.2%}"
            if abs(float(shown.rstrip("%")) - float(own.rstrip("%"))) > 0.011:
                yield f"{column}: upstream {shown}, ours {own}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
