"""python -m tests.suites.parity.tau2 --tau2 DIR [--domain NAME] [--tasks N] [--seed N]
                                      [--retrieval NAME]

τ²-bench's own runner and `rehearse eval` play the same tasks with the same models.

Deterministic models on loopback (tau2_models) play the agent, the customer and the judge of
assertions in words, once asked by upstream's orchestrator and evaluator (tau2_runner), once by
`rehearse eval`. For each case these are compared: reward, request bodies of all three, texts of
tools, and the final state. No real model takes part: what is compared is the two harnesses.

Prints a line for each domain and kind of behaviour, and the first differences of each; the exit
status is 1 where there is one that the table in docs/suites/tau2.md does not name.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from tests.suites.parity import tau2_banking
from tests.suites.parity.tau2_models import (
    BEHAVIOURS,
    Case,
    JsonObject,
    Models,
    agent_plan,
    customer_reply,
    serving,
)

DOMAINS = ("retail", "airline", "telecom")
_BANKING = "banking_knowledge"
_RETRIEVALS = ("no_knowledge", "full_kb", "golden_retrieval", "grep_only", "bm25", "bm25_grep")
_RUNNER = Path(__file__).with_name("tau2_runner.py")
_SIDES = ("upstream", "ours")
_NAMED = ("blank_arguments",)  # the table in docs/suites/tau2.md names it


def main(arguments: Sequence[str]) -> int:
    """Compare; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tau2")
    parser.add_argument("--tau2", required=True, type=Path, metavar="DIR")
    parser.add_argument("--python", metavar="FILE", help="default: DIR/.venv/bin/python")
    parser.add_argument("--domain", choices=(*DOMAINS, _BANKING), action="append")
    parser.add_argument("--retrieval", choices=_RETRIEVALS, default="bm25_grep")
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--behaviour", choices={**BEHAVIOURS, **tau2_banking.BEHAVIOURS}, action="append"
    )
    parser.add_argument(
        "--kill", type=int, default=0, help="kill ours after N requests, and resume"
    )
    parser.add_argument("--keep", type=Path, help="folder for bodies and results")
    given = parser.parse_args(arguments)
    given.python = given.python or str(given.tau2 / ".venv" / "bin" / "python")
    differing = 0
    for domain in given.domain or DOMAINS:
        with tempfile.TemporaryDirectory(prefix="rehearse-parity-") as name:
            differing += _Domain(given, domain, Path(name)).compare()
    return int(differing > 0)


class _Domain:
    """One domain of the checkout, cut down to the cases."""

    def __init__(self, given: argparse.Namespace, domain: str, folder: Path) -> None:
        self._given, self._domain, self._folder = given, domain, folder
        source = given.tau2 / "data" / "tau2" / "domains" / domain
        self._is_banking = domain == _BANKING
        tasks = _banking_tasks(source) if self._is_banking else _tasks(source)
        chosen = Random(given.seed).sample(tasks, min(given.tasks, len(tasks)))
        known = tau2_banking.BEHAVIOURS if self._is_banking else BEHAVIOURS
        names = given.behaviour or list(known)
        self._cases = [
            Case(_numbered(task, number, name), name, number, given.seed)
            for number, (task, name) in enumerate((t, name) for t in chosen for name in names)
        ]
        self._checkout = self._cut_down(source)

    def _cut_down(self, source: Path) -> Path:
        """A checkout with the same code and data, whose tasks are the cases."""
        checkout = self._folder / "checkout"
        data = checkout / "data" / "tau2" / "domains" / self._domain
        data.mkdir(parents=True)
        for name in ("src", "pyproject.toml"):
            (checkout / name).symlink_to((self._given.tau2 / name).absolute())
        guidelines = self._given.tau2 / "data" / "tau2" / "user_simulator"
        (data.parents[1] / "user_simulator").symlink_to(guidelines.absolute())
        for path in source.iterdir():
            if path.name not in ("tasks", "tasks.json", "split_tasks.json"):
                (data / path.name).symlink_to(path.absolute())
        if self._is_banking:
            (data / "tasks").mkdir()
            for case in self._cases:
                path = data / "tasks" / f"task_{case.number:05d}.json"
                path.write_text(json.dumps(case.task))
            return checkout
        (data / "tasks.json").write_text(json.dumps([case.task for case in self._cases]))
        ids = [case.task["id"] for case in self._cases]
        (data / "split_tasks.json").write_text(json.dumps({"base": ids}))
        return checkout

    def compare(self) -> int:
        """Play both, print what differs; returns the number of cases that differ."""
        sides = (agent_plan, customer_reply)
        if self._is_banking:
            sides = (tau2_banking.banking_plan, tau2_banking.banking_customer)
        models = Models(self._cases, *sides)
        with serving(models) as address:
            theirs = self._played_upstream(address)
            ours = self._played_here(address, models)
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for case in self._cases:
            task = case.task["id"]
            here = ours.get(task, {"reward": None, "why": "not played"})
            found = list(_differences(theirs[task], here))
            found += _body_differences(models, case.number)
            count = counts[case.behaviour]
            count["cases"] += 1
            count["solved upstream"] += theirs[task]["reward"] == 1.0
            count["solved here"] += here["reward"] == 1.0
            count["left out upstream"] += theirs[task]["reward"] is None
            count["differ"] += bool(found) and case.behaviour not in _NAMED
            for what, why in found:
                count[f"  {what}"] += 1
                if count[f"  {what}"] <= 2:
                    _say(f"{self._domain} {task}: {what}: {why}")
        for name, count in counts.items():
            rest = ", ".join(f"{what.strip()} {number}" for what, number in count.items())
            _say(f"{self._domain} {name}: {rest}")
        total = sum(count["differ"] for count in counts.values())
        rewards = sum(count["  reward"] for count in counts.values())
        _say(
            f"{self._domain}: {len(self._cases)} cases, rewards that differ {rewards}, any {total}"
        )
        if self._given.keep:
            self._keep(models, theirs, ours)
        return total

    def _keep(self, models: Models, theirs: Any, ours: Any) -> None:
        folder: Path = self._given.keep
        folder.mkdir(parents=True, exist_ok=True)
        bodies = {" ".join(map(str, key)): one for key, one in models.bodies.items()}
        for name, one in (("bodies", bodies), ("upstream", theirs), ("ours", ours)):
            (folder / f"{self._domain}-{name}.json").write_text(json.dumps(one, indent=1))

    def _played_upstream(self, address: str) -> dict[str, JsonObject]:
        url = f"{address}/upstream/v1"
        command = [
            self._given.python,
            "-P",
            str(_RUNNER),
            str(self._checkout / "data"),
            self._domain,
        ]
        done = subprocess.run(
            [*command, url, url, *([self._given.retrieval] if self._is_banking else [])],
            input="".join(f"{case.task['id']}\n" for case in self._cases),
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONPATH": str(self._given.tau2 / "src"), "PATH": "/usr/bin:/bin"},
        )
        if done.returncode:
            raise SystemExit(f"upstream's runner failed: {done.stderr[-2000:]}")
        return {one["task"]: one for one in map(json.loads, done.stdout.splitlines())}

    def _played_here(self, address: str, models: Models) -> dict[str, JsonObject]:
        run = self._folder / "run"
        url = f"{address}/ours/v1"
        suite = f"tau2_{self._domain}"
        if self._is_banking:
            suite = f"tau2_banking_{self._given.retrieval}"
        command = [sys.executable, "-m", "rehearsal_room", "eval", suite]
        command += ["--tau2", str(self._checkout), "--suite-python", self._given.python]
        command += ["-m", "agent", "--base-url", url, "--user-model", "customer"]
        command += ["--user-base-url", url, "--no-preflight", "-o", str(run), "-c", "2"]
        command += ["--judge", "hybrid", "--judge-model", "judge", "--judge-base-url", url]
        if self._given.kill:
            command = self._killed(command, models)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"rehearse eval failed: {done.stderr[-2000:]}")
        with open_reader(run) as reader:
            verdicts = {
                record.episode: record.event
                for record in reader.milestones()
                if isinstance(record.event, Judged)
            }
            return {
                found["task"]: found
                for trajectory in reader.trajectories()
                for found in [self._found_here(trajectory, verdicts[trajectory.episode])]
            }

    def _killed(self, command: list[str], models: Models) -> list[str]:
        """Kill the command after some requests; returns the one that goes on."""
        begun = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while begun.poll() is None and models.num_asked("ours") < self._given.kill:
            time.sleep(0.01)
        begun.kill()
        begun.wait()
        _say(f"{self._domain}: killed after {models.num_asked('ours')} requests")
        return [*command, "--resume"]

    def _found_here(self, trajectory: Trajectory, verdict: Judged) -> JsonObject:
        number = self._number_of(trajectory)
        texts: list[str] = []
        starts: dict[str, Any] = {}  # records before their first change; None: there was none
        ends: dict[str, Any] = {}
        for step in trajectory.steps:
            for result in step.executed_results:
                texts.append(result.text)
                for one in result.changes:
                    key = " ".join(map(str, one.key))
                    starts.setdefault(key, one.before and one.before["value"])
                    ends[key] = one.after and one.after["value"]
        ended = trajectory.ended
        assert ended is not None
        left_out = verdict.label in (None, Label.ENVIRONMENT_ERROR)
        left_out = left_out or ended.ending.value == "format_error"
        return {
            "task": self._cases[number].task["id"],
            "reward": None if left_out else float(verdict.label is Label.COMPLETED),
            "why": f"{ended.ending.value}: {ended.error}",
            "findings": {one.name: one.passed for one in verdict.findings},
            "tools": texts,
            "changes": {key: value for key, value in ends.items() if value != starts[key]},
        }

    def _number_of(self, trajectory: Trajectory) -> int:
        return int(re.findall(r"\d+$", trajectory.started.task)[0])


def _tasks(source: Path) -> list[JsonObject]:
    base = set(json.loads((source / "split_tasks.json").read_text())["base"])
    return [one for one in json.loads((source / "tasks.json").read_text()) if one["id"] in base]


def _banking_tasks(source: Path) -> list[JsonObject]:
    return [json.loads(path.read_text()) for path in sorted(source.glob("tasks/task_*.json"))]


def _numbered(task: JsonObject, number: int, behaviour: str) -> JsonObject:
    """The task as a case: its number in its id and in the customer's scenario."""
    task = json.loads(json.dumps(task))
    task["id"] = f"{task['id']} {behaviour} case_{number}"
    scenario, more = task["user_scenario"], f" Say that this is case number {number}."
    if isinstance(scenario["instructions"], str):
        scenario["instructions"] += more
    else:
        scenario["instructions"]["task_instructions"] += more
    return task


def _differences(theirs: JsonObject, ours: JsonObject) -> list[tuple[str, str]]:
    found = []
    if theirs["reward"] != ours["reward"]:
        why = f"{theirs['reward']} ({theirs['why']}), here {ours['reward']} ({ours['why']})"
        found.append(("reward", f"{why} {theirs.get('parts')} {ours.get('findings')}"))
    if theirs["reward"] is None:
        return found
    texts = [_untimed(side.get("tools") or []) for side in (theirs, ours)]
    if texts[0] != texts[1]:
        found.append(("tools", _first(*texts)))
    if theirs["changes"] != ours.get("changes"):
        found.append(("state", f"{theirs['changes']} != {ours.get('changes')}"[:400]))
    return found


def _body_differences(models: Models, number: int) -> list[tuple[str, str]]:
    found = []
    for who in ("agent", "customer", "judge"):
        theirs, ours = (_once(models.bodies.get((side, number, who), [])) for side in _SIDES)
        if theirs != ours:
            found.append((f"requests of {who}", _first(theirs, ours)))
    return found


def _once(bodies: Sequence[JsonObject]) -> list[JsonObject]:
    """The bodies, each once: a request is sent again after an interruption, and by a retry."""
    plain = [_plain(body) for body in bodies]
    return [one for at, one in enumerate(plain) if one not in plain[:at]]


def _untimed(value: Any) -> Any:
    """Without the time that a search took, which the table in docs/suites/tau2.md names."""
    return json.loads(_TIME.sub("ms", json.dumps(value)))


def _plain(body: JsonObject) -> JsonObject:
    """A body without what the table in docs/suites/tau2.md names: seed, name of the judge's
    model, the second `name` of a call, and a content that is null."""
    body = {name: value for name, value in body.items() if name != "seed"}
    if body["model"] not in ("agent", "customer"):
        body["model"] = "judge"
    messages = []
    for message in body["messages"]:
        if calls := message.get("tool_calls"):
            calls = [{k: v for k, v in call.items() if k != "name"} for call in calls]
            message = {**message, "tool_calls": calls}
            if message.get("content") is None:
                message.pop("content", None)
        messages.append(message)
    found: JsonObject = _untimed({**body, "messages": messages})
    return found


def _first(theirs: Any, ours: Any, path: str = "") -> str:
    """Where two values differ first."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in [*theirs, *(key for key in ours if key not in theirs)]:
            if theirs.get(key, _ABSENT) != ours.get(key, _ABSENT):
                return _first(theirs.get(key, _ABSENT), ours.get(key, _ABSENT), f"{path}.{key}")
    if isinstance(theirs, list) and isinstance(ours, list):
        for at in range(max(len(theirs), len(ours))):
            one, other = (side[at] if at < len(side) else _ABSENT for side in (theirs, ours))
            if one != other:
                return _first(one, other, f"{path}[{at}]")
    if isinstance(theirs, str) and isinstance(ours, str) and len(theirs) > 80:
        pairs = enumerate(zip(theirs, ours, strict=False))
        at = next((n for n, (one, two) in pairs if one != two), min(len(theirs), len(ours)))
        theirs, ours = theirs[max(0, at - 30) : at + 60], ours[max(0, at - 30) : at + 60]
    return f"at {path}: {theirs!r:.200}, here {ours!r:.200}"


_ABSENT = "(absent)"
_TIME = re.compile(r"(?<=[=])\d+ms(?=[,\]])")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
