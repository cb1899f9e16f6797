"""python -m tests.suites.parity awm --awm-code DIR [--python PYTHON] [--tasks N] [--seed N] …

Agent World Model's released code and `rehearse run --profile awm-release` play the same tasks with
the same models.

Deterministic models on loopback play the agent and the judge, once asked by the released agent and
judge (awm_runner), once by us. For each case these are compared: request bodies of both models,
with the texts of tools in them, the class and the reward. The data is ours (tests/fixtures/awm);
the code is a checkout of github.com/Snowflake-Labs/agent-world-model, and its rewards those of a
checkout of OpenEnv (--openenv DIR), without which they are not compared with anything.

What is not alike by nature is masked: ids of calls (there the time), dates of today's year, which
the seed of the world takes from its clock, and uuids.
"""

import argparse
import ast
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from rehearsal_room.harness.core.events import ProfileVerdict
from rehearsal_room.harness.log.reader import open_reader
from tests.suites.parity.awm_behaviours import BEHAVIOURS, JUDGES, Plan, Reference, reply_of
from tests.suites.parity.behaviours import CRASH, Message
from tests.suites.parity.fake_model import FakeModel
from tests.support.paths import AWM, ROOT

SCENARIO = "e_commerce_lab_1"
_RUNNER = Path(__file__).with_name("awm_runner.py")
_NUMBER = re.compile(r"\[case (\d+)\]")
_NO_SERVER = "http://127.0.0.1:9/v1"
_MASKS = (
    (re.compile(r"call_\d{1,13}_(\d+)"), r"call_#_\1"),
    (re.compile(r"20(?:2[5-9])-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?"), "<ts>"),
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uuid>"),
)
_CLASSES = tuple(JUDGES)[:4]
# Behaviours after which the released program has no result at all, by an error of its own.
_STOPS = ("name_is_none", "name_is_none_later", "tool_is_number", "model_fails", "fails_at_once")
# What differs, and where the table in docs/awm.md says so.
KNOWN = ("big_numbers",)


class Case(NamedTuple):
    """One task, played in one way and judged in one way."""

    number: int
    behaviour: str
    judge: str
    task: int  # of the fixture
    plan: Plan
    is_local: bool  # the URL of the agent's model is one of a local server

    @property
    def group(self) -> tuple[bool, bool]:
        """Which cases one run plays: those of the same URLs."""
        return self.is_local, self.judge == "missing"


def main(arguments: Sequence[str]) -> int:
    """Compare; returns the exit status."""
    parser = argparse.ArgumentParser(prog="parity awm")
    parser.add_argument("--awm-code", required=True, type=Path, metavar="DIR")
    parser.add_argument("--openenv", type=Path, metavar="DIR")
    parser.add_argument(
        "--python", help="interpreter with what that code needs (default: DIR/.venv/bin/python)"
    )
    parser.add_argument("--tasks", type=int, default=1, help="tasks for each behaviour")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--behaviour", choices=BEHAVIOURS, action="append")
    parser.add_argument("--judge", choices=JUDGES, action="append")
    parser.add_argument("--jobs", type=int, default=2, help="released programs at a time")
    given = parser.parse_args(arguments)
    given.python = given.python or str(given.awm_code / ".venv" / "bin" / "python")
    cases = _cases(given)
    with tempfile.TemporaryDirectory(prefix="rehearse-parity-") as name:
        return int(_compare(given, cases, Path(name)) > 0)


def _cases(given: argparse.Namespace) -> list[Case]:
    """Each behaviour with some tasks, and each judge's answer at least once."""
    tasks, names = _references(), given.behaviour or list(BEHAVIOURS)
    judges = given.judge or list(JUDGES)
    pairs = [(name, index) for index in range(given.tasks) for name in names]
    while len(pairs) < 2 * len(judges) and not given.behaviour:
        pairs.append(("right", len(pairs)))
    found = []
    for number, (name, index) in enumerate(pairs):
        task = (number + index * 3 + given.seed) % len(tasks)
        kinds = _CLASSES if number % 2 and not given.judge else judges
        judge = kinds[(number // 2 + given.seed * 7) % len(kinds)]
        plan = BEHAVIOURS[name](tasks[task])
        found.append(Case(number, name, judge, task, plan, number % 3 == 1))
    return found


def _references() -> list[Reference]:
    found = []
    for line in (AWM / "oracle.jsonl").read_text().splitlines():
        row = json.loads(line)
        done = row.get("oracle") or row["attempt"]
        wrong = row.get("near_miss") or done
        found.append(
            Reference(done["calls"], done["final_answer"], wrong["calls"], wrong["final_answer"])
        )
    return found


def _write_data(folder: Path, cases: Sequence[Case]) -> None:
    """The fixture with the cases as its tasks."""
    for name in ("gen_db", "gen_envs", "gen_sample", "gen_scenario", "gen_spec"):
        (folder / f"{name}.jsonl").write_bytes((AWM / f"{name}.jsonl").read_bytes())
    row = json.loads((AWM / "gen_tasks.jsonl").read_text().splitlines()[0])
    texts = [f"{row['tasks'][case.task]} [case {case.number}]" for case in cases]
    (folder / "gen_tasks.jsonl").write_text(json.dumps({**row, "tasks": texts}) + "\n")
    for name in ("gen_verifier.jsonl", "gen_verifier.pure_code.jsonl"):
        rows = [json.loads(line) for line in (AWM / name).read_text().splitlines()]
        first = {one["task_idx"]: one for one in reversed(rows)}
        lines = [
            json.dumps({**first[case.task], "task_idx": index, "task": text})
            for index, (case, text) in enumerate(zip(cases, texts, strict=True))
            if case.task in first
        ]
        (folder / name).write_text("\n".join(lines) + "\n")


def _compare(given: argparse.Namespace, cases: list[Case], folder: Path) -> int:
    by_number = {case.number: case for case in cases}

    def answer(category: str, body: dict[str, Any]) -> tuple[str, Message] | None:
        found = _NUMBER.search(body["messages"][-1 if category == "judge" else 1]["content"])
        if found is None:
            return None
        case = by_number[int(found.group(1))]
        number = sum(one["role"] == "assistant" for one in body["messages"])
        said = JUDGES[case.judge] if category == "judge" else reply_of(case.plan, number)
        message = CRASH if said is None else {"content": said} if isinstance(said, str) else said
        return f"{category} {case.number}", message

    data = folder / "data"
    data.mkdir()
    _write_data(data, cases)
    with FakeModel(answer, canonical=_canonical).served() as model:
        ours = _played_here(given, cases, data, folder, model.url)
        with ThreadPoolExecutor(given.jobs) as pool:
            theirs = list(
                pool.map(lambda case: _played_there(given, case, data, folder, model.url), cases)
            )
    rewards = None if given.openenv is None else _rewards(given.openenv)
    counts = Counter[str]()
    differing = 0
    for case, there in zip(cases, theirs, strict=True):
        found = list(_differences(case, there, ours.get(case.number), model, rewards))
        is_known = case.behaviour in KNOWN
        counts[f"class {_class_of(there) or 'none'}"] += 1
        counts["known to differ" if found and is_known else "differ" if found else "equal"] += 1
        differing += bool(found) and not is_known
        for why in found:
            _say(f"case {case.number} {case.behaviour}, judge {case.judge}: {why}")
    for text in model.strange:
        _say(f"belongs to no case: {text[:200]}")
    requests = sum(sum(one.values()) for one in model.bodies["upstream"].values())
    counted = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
    _say(f"{len(cases)} cases, {len({case.behaviour for case in cases})} behaviours, ")
    _say(f"  {requests} requests of the released code; {counted}")
    return differing + len(model.strange)


def _played_here(
    given: argparse.Namespace, cases: list[Case], data: Path, folder: Path, url: str
) -> dict[int, ProfileVerdict]:
    found = {}
    for number, group in enumerate(sorted({case.group for case in cases})):
        is_local, is_missing = group
        run = folder / f"run{number}"
        tasks = [f"{SCENARIO}:{case.number}" for case in cases if case.group == group]
        address = url.replace("127.0.0.1", "localhost") if is_local else url
        command = [
            *(sys.executable, "-m", "rehearsal_room", "run", "--awm", str(data), *tasks),
            *("--profile", "awm-release", "--awm-code", str(given.awm_code)),
            *("-p", "openai", "-m", "parity", "--base-url", f"{address}/ours/agent/v1"),
            *("--judge-model", "judge", "--max-attempts", "1"),
            *("--judge-base-url", _NO_SERVER if is_missing else f"{url}/ours/judge/v1"),
            *("--no-preflight", "-o", str(run)),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not run.exists():
            raise SystemExit(done.stderr)
        with open_reader(run) as reader:
            for trajectory in reader.trajectories():
                match = _NUMBER.search(trajectory.started.instruction)
                assert match is not None
                verdict = trajectory.judged[0].profile
                assert verdict is not None
                found[int(match.group(1))] = verdict
    return found


def _played_there(
    given: argparse.Namespace, case: Case, data: Path, folder: Path, url: str
) -> dict[str, Any]:
    address = url.replace("127.0.0.1", "localhost") if case.is_local else url
    job = {
        "data": str(data),
        "out": str(folder / f"there{case.number}"),
        "scenario": SCENARIO,
        "task": case.number,
        "model_url": f"{address}/upstream/agent/v1",
        "judge_url": _NO_SERVER if case.judge == "missing" else f"{url}/upstream/judge/v1",
        "judge_model": "judge",
    }
    process = subprocess.Popen(
        [given.python, str(_RUNNER), json.dumps(job)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(given.awm_code), "PYTHONHASHSEED": "0", "TZ": "UTC"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # its server is not ended by it
    )
    assert process.stdout is not None
    try:
        *_, line = process.stdout
        found: dict[str, Any] = json.loads(line)
        return found
    except ValueError:
        raise SystemExit(process.communicate()[1]) from None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _rewards(checkout: Path) -> dict[str, float]:
    """The rewards of OpenEnv's environment, which is by the same authors."""
    path = checkout / "envs" / "agent_world_model_env" / "server" / "config.py"
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "DEFAULT_REWARD_CONFIG":
            assert node.value is not None
            found: dict[str, float] = ast.literal_eval(node.value)
            return found
    raise SystemExit(f"{path}: no DEFAULT_REWARD_CONFIG")


def _class_of(there: dict[str, Any]) -> str:
    """The class that the released code gives; empty: it has no result."""
    verdict = there.get("verdict")
    if verdict is None:
        return ""
    judged: dict[str, str] = verdict.get("llm_judge") or {"classification": verdict["reward_type"]}
    return judged["classification"]


def _differences(
    case: Case,
    there: dict[str, Any],
    here: ProfileVerdict | None,
    model: FakeModel,
    rewards: dict[str, float] | None,
) -> Iterator[str]:
    if here is None:
        yield "we did not play it"
        return
    expected = _class_of(there)
    if ("crash" in there) != (case.behaviour in _STOPS):
        yield f"the released code stopped: {there.get('crash')}"
    if here.classification != expected:
        yield f"class {expected!r} there, {here.classification!r} here ({here.reason})"
    if rewards is not None and expected and here.reward != rewards.get(expected, 0.0):
        yield f"reward {rewards.get(expected, 0.0)} there, {here.reward} here"
    for category in ("agent", "judge"):
        name = f"{category} {case.number}"
        bodies = [model.bodies[side][name] for side in ("upstream", "ours")]
        if case.behaviour in _STOPS and category == "agent":
            bodies[1] &= bodies[0]  # ours goes on where that program is over
        if bodies[0] != bodies[1]:
            lacking, more = (list((bodies[i] - bodies[1 - i]).elements()) for i in (0, 1))
            yield f"{category}: {len(lacking)} requests there alone, {len(more)} here alone"
            if lacking and more:
                pair = (
                    json.dumps(model.body(one[0]), ensure_ascii=False) for one in (lacking, more)
                )
                yield "  " + "  ".join(_first_difference(*pair))


def _first_difference(one: str, other: str) -> tuple[str, str]:
    pairs = enumerate(zip(one, other, strict=False))
    at = next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
    begin = max(0, at - 120)
    return f"there …{one[begin : at + 160]}", f"here …{other[begin : at + 160]}"


def _canonical(body: dict[str, Any]) -> dict[str, Any]:
    """A body in the form in which two are compared."""
    messages = []
    for message in body["messages"]:
        kept = {**message, "content": _masked(message["content"])}
        messages.append({key: value for key, value in kept.items() if key != "tool_call_id"})
    return {**body, "model": "", "messages": messages}


def _masked(text: str) -> str:
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
