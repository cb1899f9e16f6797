"""python -m tests.suites.parity vitabench --vita DIR --python FILE [--domain NAME] [--tasks N]

VitaBench's own command (runner) and `rehearse eval` play the same tasks with the same models.

Deterministic models on loopback (models) play the agent, the customer and the judge. For each case
these are compared: reward, whether each rubric is met, request bodies of all three, texts of tools,
and orders, bookings and reservations at the end. The exit status is 1 where a case differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.scenarios.suites.vitabench import DOMAINS, LANGUAGES
from tests.suites.parity.tau2 import _first
from tests.suites.parity.tau2_models import Case, JsonObject, serving
from tests.suites.parity.vitabench.models import BEHAVIOURS, FAILING, VitaModels

_PARTS = ("delivery", "instore")
_HERE = Path(__file__).parent
_SUITES = {language: suite for suite, language in LANGUAGES.items()}
_NAMED = ("customer_thinks",)  # the table in docs/suites/vitabench.md names it
_BOOKED = ("orders", "books", "reservations")
# What upstream copies from the user's list of models into each body, the bearer key among it.
_MODELS_ENTRY = ("base_url", "headers", "max_input_tokens", "name")


def main(arguments: Sequence[str]) -> int:
    """Compare; returns the exit status."""
    parser = argparse.ArgumentParser(prog="vitabench")
    parser.add_argument("--vita", required=True, type=Path, metavar="DIR")
    parser.add_argument("--python", required=True, metavar="FILE")
    parser.add_argument("--domain", choices=list(DOMAINS), action="append")
    parser.add_argument("--language", choices=list(_SUITES), default="english")
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--task", action="append", help="its id, in place of --tasks; in order")
    parser.add_argument("--seed", type=int, default=0)
    known = {**BEHAVIOURS, **FAILING}
    parser.add_argument("--behaviour", choices=known, action="append")
    parser.add_argument("--keep", type=Path, help="folder for bodies and results")
    given = parser.parse_args(arguments)
    differing = 0
    for domain in given.domain or ("delivery", "instore"):
        with tempfile.TemporaryDirectory(prefix="rehearse-parity-") as name:
            differing += Domain(given, domain, Path(name)).compare()
    return int(differing > 0)


class Played(NamedTuple):
    """What both sides made of the cases, by the names of their tasks."""

    theirs: dict[str, JsonObject]  # `reward` None: upstream leaves the task out
    ours: dict[str, JsonObject]
    differences: dict[str, list[tuple[str, str]]]
    report: JsonObject  # of `rehearse eval`
    models: VitaModels


class Domain:
    """One domain of the checkout, whose tasks are the cases."""

    def __init__(self, given: argparse.Namespace, domain: str, folder: Path) -> None:
        self._given, self._category, self._folder = given, domain, folder
        name = "tasks_en.json" if given.language == "english" else "tasks.json"
        where = Path("data/vita/domains") / ("cross_domain" if domain == "cross" else domain)
        tasks = _tasks_of(given.vita, domain, where / name)
        chosen = Random(given.seed).sample(tasks, min(given.tasks, len(tasks)))
        if given.task:
            named = {task["id"]: task for task in tasks}
            chosen = [named[one] for one in given.task]
        names = given.behaviour or [*BEHAVIOURS, *FAILING]
        pairs = ((task, name) for task in chosen for name in names)
        self.cases = [
            Case(_numbered(task, number, name), name, number, given.seed)
            for number, (task, name) in enumerate(pairs)
        ]
        self._ids = {case.task["id"]: case for case in self.cases}
        self._checkout = folder / "checkout"
        (self._checkout / where).mkdir(parents=True)
        for one in ("src", "pyproject.toml"):
            (self._checkout / one).symlink_to((given.vita / one).absolute())
        listed = json.dumps([case.task for case in self.cases], ensure_ascii=False)
        (self._checkout / where / name).write_text(listed, encoding="utf-8")

    def played(self) -> Played:
        """Play both."""
        models = VitaModels(self.cases)
        with serving(models) as address:
            theirs = self._played_upstream(address)
            ours, report = self._played_here(address)
        differences = {}
        for case in self.cases:
            task = case.task["id"]
            their = theirs.setdefault(task, {"reward": None})
            differences[task] = list(_differences(their, ours[task], case))
            if their["reward"] is not None:
                differences[task] += _body_differences(models, case.number)
        return Played(theirs, ours, differences, report, models)

    def compare(self) -> int:
        """Play both, print what differs; returns the number of cases that differ."""
        theirs, ours, differences, report, models = self.played()
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for case in self.cases:
            task = case.task["id"]
            their, found = theirs[task], differences[task]
            count = counts[case.behaviour]
            count["cases"] += 1
            count["solved"] += their["reward"] == 1.0
            count["left out upstream"] += their["reward"] is None
            count["windows"] += len(models.bodies.get(("ours", case.number, "judge"), ()))
            count["differ"] += bool(found) and case.behaviour not in _NAMED
            for what, why in found:
                count[f"  {what}"] += 1
                if count[f"  {what}"] <= 2:
                    _say(f"{self._category} {task}: {what}: {why}")
        for name, count in counts.items():
            rest = ", ".join(f"{what.strip()} {number}" for what, number in count.items())
            _say(f"{self._category} {name}: {rest}")
        num = sum(one["reward"] is not None for one in theirs.values())
        total = sum(count["differ"] for count in counts.values())
        mean, same = (
            _mean([one["reward"] for one in side.values() if one["reward"] is not None])
            for side in (theirs, ours)
        )
        shown = report["groups"].get("failed left out, as upstream", 0.0)
        _say(
            f"{self._category}: {len(self.cases)} cases, {num} that upstream counts, "
            f"upstream's mean {mean:.6f}, the same here {shown:.6f}, here with the failed "
            f"{report['scores'][self._category]:.6f}; {total} cases differ"
        )
        if self._given.keep:
            self._given.keep.mkdir(parents=True, exist_ok=True)
            bodies = {" ".join(map(str, key)): one for key, one in models.bodies.items()}
            for name, one in (("bodies", bodies), ("upstream", theirs), ("ours", ours)):
                path = self._given.keep / f"{self._category}-{name}.json"
                path.write_text(json.dumps(one, indent=1, default=str))
        return total + (abs(same - shown) > 1e-9)

    def _played_upstream(self, address: str) -> dict[str, JsonObject]:
        config = self._folder / "models.yaml"
        entry = {
            "base_url": f"{address}/upstream/v1/chat/completions",
            "temperature": 0.0,
            "max_input_tokens": 32768,
            "headers": {"Authorization": "Bearer secret", "Content-Type": "application/json"},
        }
        names = [{"name": name} for name in ("agent", "customer", "judge")]
        config.write_text(json.dumps({"default": entry, "models": names}))  # JSON is YAML
        command = [self._given.python, str(_HERE / "runner.py"), str(self._checkout)]
        command.append(DOMAINS[self._category])
        done = subprocess.run(
            [*command, self._given.language, "saved.json"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "VITA_MODEL_CONFIG_PATH": str(config), "PYTHONPATH": ""},
        )
        saved = self._checkout / "data" / "simulations" / "saved.json"
        if not saved.is_file():
            raise SystemExit(f"upstream's runner failed: {done.stderr[-2000:]}")
        return {
            one["task_id"]: _found_upstream(one)
            for one in json.loads(saved.read_text(encoding="utf-8"))["simulations"]
        }

    def _played_here(self, address: str) -> tuple[dict[str, JsonObject], JsonObject]:
        run, url = self._folder / "run", f"{address}/ours/v1"
        suite = _SUITES[self._given.language]
        command = [sys.executable, "-m", "rehearsal_room", "eval", suite, "--json", "-"]
        command += ["--suite-path", str(self._checkout), "--suite-python", self._given.python]
        command += ["--category", self._category, "-m", "agent", "--base-url", url]
        command += ["--user-model", "customer", "--user-base-url", url, "--no-preflight"]
        command += ["-o", str(run), "-c", "2", "--judge", "hybrid", "--judge-model", "judge"]
        command += ["--judge-base-url", url]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"rehearse eval failed: {done.stderr[-2000:]}")
        with open_reader(run) as reader:
            verdicts = {
                record.episode: record.event
                for record in reader.milestones()
                if isinstance(record.event, Judged)
            }
            found = [
                self._found_here(trajectory, verdicts[trajectory.episode])
                for trajectory in reader.trajectories()
            ]
        return {one["task"]: one for one in found}, json.loads(done.stdout)

    def _found_here(self, trajectory: Trajectory, verdict: Judged) -> JsonObject:
        number = int(trajectory.started.task.rpartition("_")[2])
        texts: list[str] = []
        ends: dict[str, Any] = {}
        for step in trajectory.steps:
            for result in step.executed_results:
                texts.append(result.text)
                for one in result.changes:
                    if one.key[0] in _BOOKED:
                        ends[str(one.key[1])] = one.after and json.loads(one.after["value"])
        ended = trajectory.ended
        assert ended is not None
        rubrics = [one for one in verdict.findings if one.name.startswith("rubric ")]
        is_left_out = verdict.label is None or verdict.label is Label.ENVIRONMENT_ERROR
        is_left_out |= ended.ending.value == "format_error" and "empty" not in (ended.error or "")
        return {
            "task": self.cases[number].task["id"],
            "reward": None if is_left_out else float(verdict.label is Label.COMPLETED),
            "share": verdict.share,
            "why": f"{ended.ending.value}: {ended.error} {verdict.unjudged}",
            "rubrics": {one.expected: one.passed for one in rubrics},
            "tools": texts,
            "ends": ends,
        }


def _tasks_of(checkout: Path, domain: str, file: Path) -> list[JsonObject]:
    """The tasks of a domain; where the file of the merged one is missing, tasks made of a delivery
    and a shop each."""
    if (checkout / file).is_file() or domain != "cross":
        return list(json.loads((checkout / file).read_text(encoding="utf-8")))
    _say(f"{file} is missing: its tasks are made of those of delivery and instore")
    pairs = (_tasks_of(checkout, one, file.parents[1] / one / file.name) for one in _PARTS)
    return [_merged(*pair) for pair in zip(*pairs, strict=True)]


def _merged(one: JsonObject, other: JsonObject) -> JsonObject:
    """A task of both."""
    made: JsonObject = json.loads(json.dumps(one))
    environment, criteria = made["environment"], made["evaluation_criteria"]
    for name, value in other["environment"].items():
        if name in ("orders", "location"):
            environment[name] = type(value)([*_items(environment[name]), *_items(value)])
        elif name not in environment:
            environment[name] = value
    theirs = other["evaluation_criteria"]
    for name in ("expected_states", "overall_rubrics"):
        criteria[name] = [*(criteria[name] or []), *(theirs[name] or [])]
    return {**made, "id": f"{one['id']}_{other['id']}"}


def _items(value: Any) -> Any:
    return value.items() if isinstance(value, dict) else value or ()


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _found_upstream(one: JsonObject) -> JsonObject:
    info = one["reward_info"]
    states = [row for rows in one["states"].values() for row in rows]
    return {
        "reward": info["reward"],
        "share": (info.get("reward_breakdown") or {}).get("NL_ASSERTION"),
        "why": one["termination_reason"],
        "rubrics": {row["nl_rubric"]: row["met"] for row in info.get("nl_rubrics") or []},
        "tools": [m["content"] for m in one["messages"] if m["role"] == "tool"],
        "ends": {_identifier(row): row for row in states},
    }


def _identifier(row: JsonObject) -> str:
    names = ("order_id", "reservation_id", "book_id")
    return next(str(row[name]) for name in names if name in row)


def _numbered(task: JsonObject, number: int, behaviour: str) -> JsonObject:
    """The task as a case: its number in its id and in the customer's instructions."""
    task = json.loads(json.dumps(task))
    task["id"] = f"{task['id']} {behaviour} case_{number}"
    task["instructions"] += f" Say that this is case number {number}."
    return task


def _differences(theirs: JsonObject, ours: JsonObject, case: Case) -> list[tuple[str, str]]:
    found = []
    if theirs["reward"] != ours["reward"]:
        why = f"{theirs['reward']} ({theirs.get('why')}), here {ours['reward']} ({ours['why']})"
        found.append(("reward", why))
    if theirs["reward"] is None:
        return found
    if theirs["rubrics"]:  # upstream lists none where no judge was asked
        if theirs["rubrics"] != ours["rubrics"]:
            found.append(("rubrics", _first(theirs["rubrics"], ours["rubrics"])))
        if abs(theirs["share"] - ours["share"]) > 1e-9:
            found.append(("share", f"{theirs['share']}, here {ours['share']}"))
    made = ours["tools"]
    if theirs["why"] == "max_steps":  # there the calls of the last message are not made
        made = made[: len(theirs["tools"])]
    if theirs["tools"] != made:
        found.append(("tools", _first(theirs["tools"], made)))
    environment = case.task["environment"]
    # By their own ids: one task's data has an order under another one's.
    rows = [row for name in _BOOKED for row in (environment.get(name) or {}).values()]
    start = {_identifier(row): row for row in rows}
    changed = {
        key: row
        for key, row in theirs["ends"].items()
        if key not in start or key in ours["ends"] or row["status"] != start[key]["status"]
    }
    if changed != ours["ends"]:
        found.append(("state", _first(changed, ours["ends"])))
    return found


def _body_differences(models: VitaModels, number: int) -> list[tuple[str, str]]:
    found = []
    for who in ("agent", "customer", "judge"):
        theirs, ours = (
            [_plain(body, who) for body in models.bodies.get((side, number, who), [])]
            for side in ("upstream", "ours")
        )
        if theirs != ours:
            found.append((f"requests of {who}", _first(theirs, ours)))
    return found


def _plain(body: JsonObject, who: str) -> JsonObject:
    """A body without what the table in docs/suites/vitabench.md names: fields that are null,
    `stream: false`, the entry of the list of models, and of the customer the second name of a
    call."""
    kept = {name: value for name, value in body.items() if name not in _MODELS_ENTRY}
    if kept.get("stream") is False:
        del kept["stream"]
    found = _without_nulls(kept)
    for message in found["messages"] if who == "customer" else ():
        for one in (message, *message.get("tool_calls", ())):
            one.pop("name", None)
    return dict(found)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
