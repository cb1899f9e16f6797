"""python -m tests.suites.parity toolsandbox --checkout DIR --python PYTHON [--share F] [--seed N]
[--passes N] [--behaviour NAME] [--scenarios NAME…] [--services]

ToolSandbox's own command line and `rehearse eval` play the same scenarios with the same models.

Deterministic models on loopback play the agent and the user, once asked by `tool_sandbox.cli.main`
(upstream.py), once by `rehearse eval`. For each scenario these are compared: similarity, mapping of
milestones and minefields, number of turns, request bodies of both models, texts of tools, and the
tables at the end. On both sides the clock and the ids stand still. A pass draws one behaviour for
each scenario, unless one is named: also those that are known to differ. The exit status is 1 where
a scenario differs, and its behaviour is not one of these.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from rehearsal_room.harness.core.events import Judged
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.scenarios.suites import toolsandbox
from rehearsal_room.scenarios.suites.toolsandbox import CATEGORIES, PAID, VARIANTS, ToolSandboxData
from tests.suites.parity.fake_model import FakeModel
from tests.suites.parity.toolsandbox.behaviours import (
    BEHAVIOURS,
    KNOWN,
    Case,
    Plan,
    agent_reply,
    says,
    user_reply,
)

_HERE = Path(__file__).parent
_ADDRESS = re.compile(r"\bat 0x[0-9A-Fa-f]+")
_MOST_ALIKE = 60  # requests of one agent at one point: a runner that asks for ever is let go
_FOUND = re.compile(r"(milestone|minefield) (\d+) at message (\d+): (\S+?)(?:;|$)")
Result = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Compare; returns the exit status."""
    parser = argparse.ArgumentParser(prog="toolsandbox")
    parser.add_argument("--checkout", required=True, type=Path, metavar="DIR")
    parser.add_argument("--python", required=True, metavar="FILE", help="with all its packages")
    parser.add_argument("--share", type=float, default=1.0, help="share of the scenarios")
    parser.add_argument("--seed", type=int, default=0, help="of the first pass")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--behaviour", choices=[*BEHAVIOURS, *KNOWN])
    parser.add_argument("--scenarios", nargs="*", default=[])
    parser.add_argument("--services", action="store_true", help="those that need a service, too")
    given = parser.parse_args(arguments)
    checkout = Checkout(given.checkout, given.python)
    categories = (*VARIANTS, *PAID) if given.services else VARIANTS
    scenarios = [one.name for name in categories for one in checkout.data.scenarios(name)]
    if given.scenarios:
        scenarios = [one for one in scenarios if one in given.scenarios]
    differing = 0
    for seed in range(given.seed, given.seed + given.passes):
        rng = Random(seed)
        part = rng.sample(scenarios, max(1, round(given.share * len(scenarios))))
        names = {one: given.behaviour or rng.choice([*BEHAVIOURS]) for one in part}
        differing += Pass(checkout, seed, names).compare()
    return int(differing > 0)


class Checkout:
    """ToolSandbox's code, an interpreter with its packages, and what both say of the scenarios."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder, self.python = folder, python
        self.data = ToolSandboxData(str(folder), python)
        self.targets: dict[str, Any] = json.loads(self.upstream([], ""))

    def num_earlier(self, name: str) -> int:
        """How many of the user's messages come before a scenario's talk."""
        found = (one for kind in CATEGORIES for one in self.data.scenarios(kind))
        user = next(one.tasks[0].user for one in found if one.name == name)
        return sum(one.role == "user" for one in user.earlier)  # type: ignore[union-attr]

    def upstream(self, arguments: Sequence[str], words: str) -> str:
        """What upstream.py prints."""
        command = [self.python, "-P", str(_HERE / "upstream.py"), str(toolsandbox._LISTING)]
        done = subprocess.run(
            [*command, str(self.folder.absolute()), *arguments],
            input=words,
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0"},
        )
        if done.returncode:
            raise SystemExit(f"upstream's runner failed: {done.stderr[-3000:]}")
        return done.stdout


class Pass:
    """One behaviour for each scenario."""

    def __init__(self, checkout: Checkout, seed: int, behaviours: Mapping[str, str]) -> None:
        """`behaviours`: scenario -> that of its models."""
        self._checkout, self._seed, self._behaviours = checkout, seed, behaviours
        self._earlier = {name: checkout.num_earlier(name) for name in behaviours}
        self._plans: dict[str, Plan] = {}
        self.alike: Counter[tuple[bool, str, int]] = Counter()  # (here, scenario, messages)

    def _plan(self, name: str, body: dict[str, Any]) -> Plan:
        """The plan of a scenario, made when its agent is asked first: its tools are in the body."""
        if name not in self._plans:
            found = [one["function"] for one in body["tools"]]
            tools = [{"name": one["name"], "schema": one["parameters"]} for one in found]
            case = Case(
                name, self._checkout.targets[name], sorted(tools, key=lambda one: str(one["name"]))
            )
            rng = Random(f"{self._seed} {name}")
            made = {**BEHAVIOURS, **KNOWN}[self._behaviours[name]]
            self._plans[name] = made(case, rng)
        return self._plans[name]

    def _answer(self, category: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        name, _, who = category.rpartition(":")
        is_here = "user" in body
        name = body.pop("user", name)
        if who == "agent":
            self.alike[at := (is_here, name, len(body["messages"]))] += 1
            if self.alike[at] > _MOST_ALIKE:
                return f"{name} agent", says("Enough.")
            return f"{name} agent", agent_reply(self._plan(name, body), body)
        return f"{name} user", user_reply(self._plans[name], body, self._earlier[name])

    def played(
        self,
    ) -> tuple[dict[str, Result], dict[str, Result], dict[str, list[tuple[str, str]]], FakeModel]:
        """What upstream and ours made of each scenario, what differs, and the model that both
        asked."""
        model = FakeModel(self._answer, canonical=lambda body: _still({**body, "model": ""}))
        with (
            model.served(),
            tempfile.TemporaryDirectory(prefix="rehearse-parity-") as folder,
            ThreadPoolExecutor(1) as other,
        ):
            asked = other.submit(self._played_upstream, model.url, Path(folder))
            ours = self._played_here(model.url, Path(folder))
            theirs = asked.result()
        found = {
            name: [
                *_differences(theirs[name], ours[name]),
                *self._body_differences(model, name),
            ]
            for name in self._behaviours
        }
        return theirs, ours, found, model

    def compare(self) -> int:
        """Play both sides and print what differs; returns how many scenarios differ."""
        theirs, ours, differences, model = self.played()
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for name, behaviour in self._behaviours.items():
            found = differences[name]
            count = counts[behaviour]
            count["scenarios"] += 1
            count["differ"] += bool(found) and behaviour not in KNOWN
            for at, side in enumerate((theirs, ours)):
                sums[behaviour][at] += side[name]["similarity"]
            for what, why in found:
                count[what] += 1
                if count[what] <= 2:
                    _say(f"{name}, {behaviour}: {what}: {why}")
        for behaviour, count in sorted(counts.items()):
            means = [one / count["scenarios"] for one in sums[behaviour]]
            rest = ", ".join(f"{what} {number}" for what, number in count.items())
            _say(f"{behaviour}: mean {means[0]:.4f} and {means[1]:.4f}; {rest}")
        total = sum(count["differ"] for count in counts.values())
        num = sum(map(sum, (one.values() for one in model.bodies["ours"].values())))
        means = [sum(one[at] for one in sums.values()) / len(self._behaviours) for at in (0, 1)]
        _say(
            f"seed {self._seed}: {len(self._behaviours)} scenarios, {len(counts)} behaviours, "
            f"{num} requests, mean similarity {means[0]:.6f} upstream and {means[1]:.6f} here, "
            f"{total} scenarios differ"
        )
        return total

    def _played_upstream(self, url: str, folder: Path) -> dict[str, Result]:
        arguments = [f"{url}/upstream", str(folder / "upstream")]
        lines = self._checkout.upstream(arguments, "\n".join(self._behaviours)).splitlines()
        return {one["name"]: one for one in map(json.loads, lines)}

    def _played_here(self, url: str, folder: Path) -> dict[str, Result]:
        run = folder / "run"
        command = [sys.executable, "-m", "tests.suites.parity.toolsandbox.marked_eval", "eval"]
        command += ["toolsandbox", "--suite-path", str(self._checkout.folder)]
        command += ["--suite-python", self._checkout.python, "--no-preflight", "-o", str(run)]
        command += ["-p", "openai", "-m", "agent", "--base-url", f"{url}/ours/:agent/v1", "-c", "4"]
        command += ["--user-model", "user", "--user-base-url", f"{url}/ours/:user/v1"]
        command += [word for name in self._behaviours for word in ("--task", name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"rehearse eval failed: {done.stderr[-3000:]}")
        return dict(_read(run))

    def _body_differences(self, model: FakeModel, name: str) -> Iterator[tuple[str, str]]:
        for who in ("agent", "user"):
            one, two = (model.bodies[side][f"{name} {who}"] for side in ("upstream", "ours"))
            if one != two:
                left, right = list(one - two), list(two - one)
                bodies = [model.body(side[0]) if side else None for side in (left, right)]
                yield f"requests of {who}", f"{one.total()} and {two.total()}; {_first(*bodies)}"


def _read(run: Path) -> Iterator[tuple[str, Result]]:
    with open_reader(run) as reader:
        verdicts = {
            record.episode: record.event
            for record in reader.milestones()
            if isinstance(record.event, Judged)
        }
        for trajectory in reader.trajectories():
            verdict = verdicts[trajectory.episode]
            (finding,) = verdict.findings or (None,)
            text = "" if finding is None else finding.found
            mapping: dict[str, dict[str, list[float]]] = {"milestone": {}, "minefield": {}}
            for kind, number, at, similarity in _FOUND.findall(text):
                mapping[kind][number] = [int(at), float(similarity)]
            texts, state = [], {}
            for step in trajectory.steps:
                if step.user is None:
                    made = [one for one in step.results if not one.injected]
                    texts += [one.text for one in sorted(made, key=lambda one: one.place or 0)]
                for result in step.executed_results:
                    for change in result.changes:
                        key = " ".join(map(str, change.key))
                        state[key] = change.after and change.after["value"]
            turns = re.search(r"turns (\d+)", text)
            assert trajectory.ended is not None
            yield (
                trajectory.started.scenario,
                {
                    "similarity": verdict.share if verdict.share is not None else -1.0,
                    "turn_count": int(turns[1]) if turns else -1,
                    "milestone_mapping": mapping["milestone"],
                    "minefield_mapping": mapping["minefield"],
                    "texts": texts,
                    "state": state,
                    "why": f"{trajectory.ended.ending.value} {trajectory.ended.error} {text}",
                },
            )


def _differences(theirs: Result, ours: Result) -> Iterator[tuple[str, str]]:
    if abs(theirs["similarity"] - ours["similarity"]) > 1e-9:
        why = f"{theirs['similarity']} and {ours['similarity']}"
        yield "similarity", f"{why}; {theirs['exception_type']}; {ours['why']}"
    if theirs["turn_count"] != ours["turn_count"]:
        yield "turns", f"{theirs['turn_count']} and {ours['turn_count']}; {ours['why']}"
    for kind in ("milestone_mapping", "minefield_mapping"):
        left = {str(k): [at, float(f"{one:.6g}")] for k, (at, one) in theirs[kind].items()}
        if left != ours[kind]:
            yield kind, f"{left} and {ours[kind]}; {theirs['exception_type']}; {ours['why']}"
    if _still(theirs["texts"]) != ours["texts"]:
        yield "texts", _first(_still(theirs["texts"]), ours["texts"])
    left = theirs["state"]
    for key, value in ours["state"].items():
        table, name = key.split(" ", 1)
        if value is not None and json.dumps(json.loads(value), sort_keys=True) not in left[table]:
            yield "state", f"{key}: {value}"[:300]
        if value is None and any(name in row for row in left[table]):
            yield "state", f"{key} is there"


def _still(value: Any) -> Any:
    """The value with every address of an object in memory as 0, which is ours already."""
    return json.loads(_ADDRESS.sub("at 0x0", json.dumps(value)))


def _first(one: Any, two: Any, path: str = "") -> str:
    """Where two values differ first."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(one.keys() | two.keys()):
            if one.get(key) != two.get(key):
                return _first(one.get(key), two.get(key), f"{path}.{key}")
    if isinstance(one, list) and isinstance(two, list):
        for at in range(max(len(one), len(two))):
            left, right = (side[at] if at < len(side) else None for side in (one, two))
            if left != right:
                return _first(left, right, f"{path}[{at}]")
    return f"at {path}: {one!r:.300} and {two!r:.300}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
