"""python -m tests.suites.parity enterpriseops --gym DIR [--python FILE] [--behaviour NAME]

EnterpriseOps-Gym's own runner and `rehearse eval` play twenty tasks on a stub gym with the same
fake model, once with each behaviour. Compared are the result of each verifier, success, share,
requests of the agent and of the judge, and what calls returned. The exit status is 1 where
something differs that the table in docs/suites/enterpriseops.md does not name.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.scenarios.suites.enterpriseops import AUDIT
from tests.suites.parity.behaviours import CRASH
from tests.suites.parity.enterprise.stub_gym import StubGym
from tests.suites.parity.enterprise.tasks import Made, tasks, write
from tests.suites.parity.fake_model import FakeModel, plain_body

_SIDES = ("upstream", "ours")
_RUNNER = Path(__file__).with_name("upstream.py")
Calls = list[tuple[str, dict[str, Any]]]
Message = dict[str, Any]
BEHAVIOURS = (
    *("right", "silent", "leaves out the last call", "one value is wrong"),
    *("changes more than it was asked", "talks beside its calls", "goes on for ever"),
    *("calls what it was not shown", "half of its calls cannot be read", "all in one reply"),
)
# The rows of the table in docs/suites/enterpriseops.md.
KNOWN = (
    *("calls what there is not", "sends a list of arguments", "the model fails at first"),
    *("repeats an id", "is played twice"),
)
_NUM_FAILING = 8  # tasks whose model fails: two of each mode, and some with more calls


def reply_of(made: Made, behaviour: str, step: int) -> Message:
    """What the fake model says to a task after this number of replies."""
    calls: Calls = list(made.calls)
    match behaviour:
        case "silent":
            calls = []
        case "leaves out the last call":
            calls = calls[:-1]
        case "one value is wrong":
            calls = [(name, _wrong(given)) for name, given in calls]
        case "changes more than it was asked":
            calls += [("update_case", {"case_id": 3, "priority": 1})]
        case "goes on for ever":
            calls += [("find_case", {"case_id": 1})] * 60
        case "calls what it was not shown":
            calls = [("whoami", {}), *calls]
        case "calls what there is not":
            calls = [*calls, ("drop_all", {})]
    if behaviour == "the model fails at first" and int(made.name[1:]) < _NUM_FAILING:
        return CRASH
    if behaviour == "repeats an id" and step == 0 and calls:
        twice = _message(step, [calls[0], ("find_case", {"case_id": 1})])
        return {**twice, "tool_calls": [{**one, "id": "call"} for one in twice["tool_calls"]]}
    if behaviour == "all in one reply":
        return _message(step, calls) if step == 0 and calls else {"content": made.answer}
    if behaviour == "half of its calls cannot be read" and step == 0:
        half = _message(step, calls or [("find_case", {"case_id": 1})])
        broken = {"id": "call_x", "type": "function"}
        broken["function"] = {"name": "find_case", "arguments": '{"case_id": '}  # type: ignore[assignment]
        return {**half, "tool_calls": [*half["tool_calls"], broken]}
    if behaviour == "sends a list of arguments" and step == 0:
        return {"content": None, "tool_calls": [_sent("0", "find_case", "[1]")]}
    if step < len(calls):
        text = "I do it now." if behaviour == "talks beside its calls" else None
        return _message(step, calls[step : step + 1], text)
    return {"content": made.answer}


def _wrong(given: dict[str, Any]) -> dict[str, Any]:
    return {name: one + 1 if isinstance(one, int) else f"{one}x" for name, one in given.items()}


def _message(step: int, calls: Calls, text: str | None = None) -> Message:
    sent = [_sent(f"{step}_{at}", name, json.dumps(one)) for at, (name, one) in enumerate(calls)]
    return {"content": text, "tool_calls": sent}


def _sent(number: str, name: str, arguments: str) -> Message:
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}


def main(arguments: Sequence[str]) -> int:
    """Compare; returns the exit status."""
    parser = argparse.ArgumentParser(prog="enterpriseops")
    parser.add_argument("--gym", required=True, type=Path, metavar="DIR", help="the checkout")
    parser.add_argument("--python", required=True, metavar="FILE", help="what has its packages")
    parser.add_argument("--behaviour", choices=(*BEHAVIOURS, *KNOWN), action="append")
    given = parser.parse_args(arguments)
    differing = 0
    for behaviour in given.behaviour or BEHAVIOURS:
        found, theirs, ours = compare(given.gym.absolute(), given.python, behaviour)
        solved = sum(one["success"] for one in theirs.values())
        unasked = sum(one["unasked"] for one in ours.values())
        _say(
            f"{behaviour}: {len(theirs)} tasks, success {solved}, mean share "
            f"{sum(one['share'] for one in theirs.values()) / len(theirs):.4f}, changes that no "
            f"verifier asks about {unasked}, differences {len(found)}"
        )
        for line in found[:6]:
            _say(f"  {line}")
        differing += len(found) * (behaviour not in KNOWN)
    return int(differing > 0)


def compare(
    checkout: Path, python: str, behaviour: str
) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """The differences, and what either side made of the tasks."""
    judged: dict[str, list[Any]] = defaultdict(list)  # what a judge was asked, by side
    made: list[Made] = []

    def answers(side: str, body: dict[str, Any]) -> tuple[str, Message] | None:
        first = body["messages"][0]["content"]
        if first.startswith("You are an AI judge"):
            judged[side].append(body["messages"])
            # By the state, so that a constant judge would differ.
            score = 9 if "closed" in body["messages"][1]["content"].split("Response:")[0] else 2
            text = json.dumps({"score": score, "reasoning": "state"})
            return "judge", {"content": f"```json\n{text}\n```"}
        number = int(body["messages"][1]["content"].split()[1].rstrip(":"))
        step = sum(one["role"] == "assistant" for one in body["messages"])
        return made[number].name, reply_of(made[number], behaviour, step)

    with (
        StubGym().served() as gym,
        StubGym().served() as second,
        FakeModel(answers, canonical=_compared).served() as model,
        tempfile.TemporaryDirectory(prefix="rehearse-parity-") as name,
    ):
        made += tasks(gym.url, second.url)
        for one in made if behaviour == "is played twice" else ():
            one.config["number_of_runs"] = 2
        folder, results = Path(name) / "tasks", Path(name) / "results"
        results.mkdir()
        write(folder, made)
        _run(
            [
                python,
                str(_RUNNER),
                str(checkout),
                str(folder),
                str(results),
                f"{model.url}/upstream/upstream/v1",
            ]
        )
        theirs = {one.name: _theirs(results, one) for one in made}
        run = Path(name) / "run"
        command = [sys.executable, "-m", "rehearsal_room", "eval", "enterpriseops"]
        command += ["--suite-path", str(checkout), "--suite-tasks", str(folder)]
        command += ["--suite-python", python, "-m", "parity", "-c", "2", "--no-preflight"]
        command += ["--base-url", f"{model.url}/ours/ours/v1", "-p", "openai", "-o", str(run)]
        command += ["--judge", "hybrid", "--judge-model", "judge"]
        command += ["--judge-base-url", f"{model.url}/ours/ours/v1"]
        command += ["--json", str(Path(name) / "report.json")]
        _run(command)
        ours = _ours(run)
        left = len(gym.databases) + len(second.databases)
        report = json.loads((Path(name) / "report.json").read_text())
    found = list(_differences(made, theirs, ours, model))
    if left:
        found.append(f"{left} databases were left behind")
    # Ours plays the floor, too, whose agent says nothing.
    asked = [
        sorted(
            json.dumps(one, sort_keys=True)
            for one in judged[side]
            if "Response:\n\n\nComparison" not in one[1]["content"]
        )
        for side in _SIDES
    ]
    if asked[0] != asked[1]:
        found.append(f"judge: {asked[0]}, here {asked[1]}")
    shares = sum(one["share"] for one in theirs.values()) / len(theirs)
    if abs(report["groups"]["verifiers passed"] - shares) > 1e-9:
        found.append(f"second column: {shares}, here {report['groups']['verifiers passed']}")
    for mode in {one.mode for one in made}:
        values = [theirs[one.name]["success"] for one in made if one.mode == mode]
        score = report["scores"].get(mode, -1.0)
        if abs(score - sum(values) / len(values)) > 1e-9:
            found.append(f"{mode}: {sum(values) / len(values)}, here {score}")
    return found, theirs, ours


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[:4]} failed:\n{done.stdout[-500:]}{done.stderr[-3000:]}")


def _compared(body: dict[str, Any]) -> Any:
    """A body as it is compared: that of a judge by its messages alone; `stream: false`, which is
    the API's default, is left out."""
    body = {name: value for name, value in body.items() if (name, value) != ("stream", False)}
    if not body.get("tools"):
        return {"messages": body["messages"]}
    return plain_body(body)


def _theirs(results: Path, one: Made) -> dict[str, Any]:
    path = results / f"results_{one.mode}__desk__{one.name}.json"
    found = json.loads(path.read_text())
    run, statistics = found["runs"][0], found["statistics"]
    return {
        "success": statistics["overall_success_rate"] == 1.0,
        "share": statistics["verifier_level_pass_rate"],
        "verifiers": {
            name: bool(each["passed"]) for name, each in run.get("verification_results", {}).items()
        },
        "error": run.get("error"),
        "texts": [
            json.dumps(each["result"].get("result", {})) for each in run.get("tool_results", [])
        ],
    }


def _ours(run: Path) -> dict[str, dict[str, Any]]:
    with open_reader(run) as reader:
        verdicts = {
            record.episode: record.event
            for record in reader.milestones()
            if isinstance(record.event, Judged)
        }
        found = {}
        for trajectory in reader.trajectories():
            verdict = verdicts[trajectory.episode]
            audits = [one.found for one in verdict.findings if one.name == AUDIT]
            counted = {one.name: one.passed for one in verdict.findings if one.share is not None}
            found[trajectory.started.task[-3:]] = {
                "success": verdict.label is Label.COMPLETED,
                "share": verdict.share or 0.0,
                "unjudged": verdict.unjudged or "",
                "verifiers": counted,
                "unasked": bool(audits) and not audits[0].startswith("none of"),
                "texts": [
                    result.text for step in trajectory.steps for result in step.executed_results
                ],
                "why": verdict.reasoning,
            }
    return found


def _differences(made: list[Made], theirs: Any, ours: Any, model: FakeModel) -> Any:
    for one in made:
        left, right = theirs[one.name], ours[one.name]
        names = (
            ("success", "share") if left["error"] else ("success", "share", "verifiers", "texts")
        )
        for name in names:
            if left[name] != right[name]:
                yield (
                    f"{one.name} {name}: {left[name]} ({left['error']}), here {right[name]} "
                    f"({right['why']})"
                )[:700]
        sent = (model.bodies[side][one.name] for side in ("upstream", "ours"))
        first, second = sent
        if first != second:
            bodies = [model.body(digest) for digest in (*(first - second), *(second - first))]
            yield f"{one.name} requests: {first.total()}, here {second.total()}: {_apart(bodies)}"


def _apart(bodies: list[Any]) -> str:
    if len(bodies) < 2:
        return json.dumps(bodies)[:400]
    one, two = bodies[0], bodies[-1]
    return "; ".join(
        f"{name}: {one.get(name)!r:.250} / {two.get(name)!r:.250}"
        for name in sorted(one.keys() | two.keys())
        if one.get(name) != two.get(name)
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
