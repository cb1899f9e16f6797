"""python -m tests.suites.parity mcp_universe [--python PYTHON] [--files PROGRAM] [--tasks N]
                                               [--behaviour NAME] [--seed N]

MCP-Universe's own runner and `rehearse eval` play ten tasks of our own with the same fake model
(the package has no tasks). PYTHON has mcpuniverse 1.1.3 and mcp-server-calculator; PROGRAM is that
of @modelcontextprotocol/server-filesystem, without which the tasks on files are left out. Each case
is compared in what each evaluator says, in the answer that they got, and in the requests. The exit
status is 1 where a case differs.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from rehearsal_room.harness.log.reader import open_reader
from tests.suites.parity.mcp_universe.cases import (
    BEHAVIOURS,
    KNOWN,
    MAX_STEPS,
    Behaviour,
    JsonObject,
    OwnTask,
    own_tasks,
)

_RUNNER = Path(__file__).with_name("runner.py")
_INSTALL = "pip install mcpuniverse==1.1.3 mcp-server-calculator"
_CATEGORY = "multi_server"
_WITHOUT_BOUNDS = """
import sys
from rehearsal_room.cli.main import main
from rehearsal_room.cli.play import suites
from rehearsal_room.judge.suites.scores import SuiteScores
suites._bound = lambda *given: SuiteScores(scores={}, overall=None)
sys.exit(main())
"""
_BENCHMARK = f"""kind: llm
spec:
  name: llm-1
  type: openai
  config:
    model_name: parity
---
kind: agent
spec:
  name: agent-1
  type: function_call
  config:
    llm: llm-1
    instruction: You are an agent for small questions.
    max_iterations: {MAX_STEPS}
---
kind: benchmark
spec:
  description: Tasks of our own.
  agent: agent-1
  tasks: """


class _Case(NamedTuple):
    task: OwnTask
    behaviour: str
    reply: Behaviour


def main(arguments: Sequence[str]) -> int:
    """Compare; returns the exit status."""
    parser = argparse.ArgumentParser(prog="mcp_universe")
    parser.add_argument("--python", default=".venv-suites/mcp_universe/bin/python")
    parser.add_argument(
        "--files", default=".venv-suites/node/node_modules/.bin/mcp-server-filesystem"
    )
    parser.add_argument("--tasks", type=int, default=10, help="that each behaviour plays")
    parser.add_argument("--behaviour", action="append", default=[], help="or `known`")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    if not Path(given.python).exists():
        parser.error(f"--python: there is no {given.python}; make an environment: {_INSTALL}")
    known = {**BEHAVIOURS, **KNOWN}
    names = list(KNOWN) if given.behaviour == ["known"] else given.behaviour or list(BEHAVIOURS)
    if wrong := [name for name in names if name not in known]:
        parser.error(f"--behaviour: no {wrong[0]!r}; known, or one of {', '.join(known)}")
    with tempfile.TemporaryDirectory(prefix="rehearse-parity-") as made:
        folder = Path(made).resolve()
        served = folder / "served"
        (served / "box").mkdir(parents=True)
        tasks = own_tasks(str(served))
        if not Path(given.files).exists():
            sys.stdout.write(f"no program {given.files}: the tasks on files are left out\n")
            tasks = [task for task in tasks if task.server != "filesystem"]
        cases = [
            _Case(task, name, known[name])
            for name in names
            for task in Random(f"{given.seed} {name}").sample(tasks, min(given.tasks, len(tasks)))
        ]
        return _Comparison(given.python, given.files, folder, cases).differing()


class _Comparison:
    """One comparison, in a folder of its own."""

    def __init__(self, python: str, files: str, folder: Path, cases: list[_Case]) -> None:
        self._python, self._folder, self._cases = os.path.abspath(python), folder, cases
        self._files = os.path.abspath(files)
        self._bodies: dict[tuple[str, int], list[JsonObject]] = defaultdict(list)

    def differing(self) -> int:
        """Play both and print what differs; 1 where a case does."""
        self._write_checkout()
        with self._served() as url:
            self._renew_files()
            theirs = self._played_upstream(f"{url}/upstream/v1")
            self._renew_files()
            ours = self._played_here(f"{url}/ours/v1")
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for number, case in enumerate(self._cases):
            there, here = theirs[number], ours.get(number, ((), "not played"))
            bodies = [self._bodies[side, number] for side in ("upstream", "ours")]
            count = counts[case.behaviour]
            count["cases"] += 1
            count["right"] += all(there[0])
            count["requests"] += len(bodies[0])
            found = [
                (what, one, two)
                for what, one, two in (
                    ("verdict", list(there[0]), list(here[0])),
                    ("answer", there[1], here[1]),
                    ("requests", *bodies),
                )
                if one != two
            ]
            count["differ"] += bool(found)
            for what, one, two in found:
                count[what] += 1
                if count[what] == 1:
                    where = _first(one, two)
                    sys.stdout.write(f"{case.behaviour}: {case.task.question} {what}: {where}\n")
        for name, count in counts.items():
            line = ", ".join(f"{what} {number}" for what, number in count.items())
            sys.stdout.write(f"{name}: {line}\n")
        total = sum(counts.values(), Counter[str]())
        sys.stdout.write(f"{total['cases']} cases, {total['requests']} requests on each side, ")
        sys.stdout.write(f"{total['verdict']} verdicts differ, {total['differ']} cases in all\n")
        return int(total["differ"] > 0)

    def _write_checkout(self) -> None:
        """A checkout: the package's code, with our tasks and servers."""
        find = "import importlib.util as u; print(u.find_spec('mcpuniverse').origin)"
        command = [self._python, "-c", find]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        package, ours = Path(found.stdout.strip()).parent, self._folder / "co" / "mcpuniverse"
        tasks = ours / "benchmark" / "configs" / "mcpuniverse"
        for source in package.iterdir():
            self._link(source, ours, ("benchmark", "mcp"))
        for name, inner in (("benchmark", "configs"), ("mcp", "configs")):
            for source in (package / name).iterdir():
                self._link(source, ours / name, (inner,))
        for source in (package / "benchmark" / "configs").iterdir():
            self._link(source, ours / "benchmark" / "configs", ())
        (tasks / _CATEGORY).mkdir(parents=True)
        self._servers = ours / "mcp" / "configs" / "server_list.json"
        self._servers.parent.mkdir(exist_ok=True)
        listed: JsonObject = {
            "calculator": _stdio(self._python, "-m", "mcp_server_calculator"),
            "date": _stdio(self._python, "-m", "mcpuniverse.mcp.servers.date"),
            "filesystem": _stdio(self._files, str(self._folder / "served")),
        }
        self._servers.write_text(json.dumps(listed))
        paths = []
        for number, (task, *_) in enumerate(self._cases):
            paths.append(tasks / _CATEGORY / f"case_{number:04d}.json")
            paths[-1].write_text(
                json.dumps(
                    {
                        "category": "general",
                        "question": f"{task.question} This is case {number}.",
                        "output_format": task.form,
                        "use_specified_server": True,
                        "mcp_servers": [{"name": task.server}],
                        "evaluators": task.evaluators,
                    }
                )
            )
        self._benchmark = tasks / f"{_CATEGORY}.yaml"
        self._benchmark.write_text(_BENCHMARK + json.dumps(list(map(str, paths))))

    def _link(self, source: Path, folder: Path, left_out: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if source.name not in (*left_out, "__pycache__"):
            (folder / source.name).symlink_to(source)

    def _renew_files(self) -> None:
        served = self._folder / "served"
        (served / "note.txt").unlink(missing_ok=True)
        (served / "list.txt").write_text("one\ntwo\nthree\n")
        for name in ("a", "b"):
            (served / "box" / name).write_text(name)

    def _played_upstream(self, url: str) -> dict[int, tuple[list[bool], str]]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "PYTHONPATH": str(self._folder / "co"),
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "none",
        }
        command = [self._python, str(_RUNNER), str(self._benchmark), str(self._servers)]
        done = subprocess.run(
            command, env=environment, cwd=self._folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"upstream's runner failed: {done.stderr[-3000:]}")
        lines = map(json.loads, done.stdout.splitlines())
        return {_number(one["task"]): (one["passed"], one["answer"]) for one in lines}

    def _played_here(self, url: str) -> dict[int, tuple[list[bool], str]]:
        run = self._folder / "run"
        command = [sys.executable, "-c", _WITHOUT_BOUNDS, "eval", "mcp_universe"]
        command += ["--suite-path", str(self._folder / "co"), "--suite-python", self._python]
        command += ["--category", _CATEGORY, "-m", "parity", "--base-url", url, "--no-preflight"]
        command += ["-o", str(run), "-c", "3", "--max-attempts", "1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"rehearse eval failed: {done.stdout} {done.stderr[-3000:]}")
        with open_reader(run) as reader:
            return {
                _number(trajectory.started.task): (
                    [one.passed for one in trajectory.ended.checked],
                    trajectory.ended.answer,
                )
                for trajectory in reader.trajectories()
                if trajectory.ended is not None
            }

    @contextmanager
    def _served(self) -> Iterator[str]:
        """The fake model, at URLs that name the side."""
        comparison = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                said = comparison._answer(self.path.split("/")[1], body)
                status = said.pop("status", 200)
                data = json.dumps(_completion(said) if status == 200 else {"error": {}}).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()

    def _answer(self, side: str, body: JsonObject) -> JsonObject:
        messages = body["messages"]
        found = re.search(r"This is case (\d+)\.", messages[0]["content"])
        assert found is not None
        number = int(found[1])
        self._bodies[side, number].append(_plain(body))
        at = sum(str(one.get("content")).startswith("You have ") for one in messages[1:])
        task, _, reply = self._cases[number]
        return dict(reply(task, at))


def _plain(body: JsonObject) -> JsonObject:
    """A body as it is compared: arguments of calls by their values, where they are JSON."""
    messages = []
    for message in body["messages"]:
        calls = [
            {**call, "function": {**call["function"], "arguments": _value(call)}}
            for call in message.get("tool_calls") or ()
        ]
        messages.append({**message, "tool_calls": calls} if calls else message)
    return {**body, "messages": messages}


def _value(call: JsonObject) -> Any:
    text = call["function"]["arguments"]
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _completion(message: JsonObject) -> JsonObject:
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "parity",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _stdio(command: str, *arguments: str) -> JsonObject:
    return {"stdio": {"command": command, "args": list(arguments)}}


def _number(name: str) -> int:
    """Example: "case_0007.json" -> 7"""
    return int(re.findall(r"\d+", name)[-1])


def _first(one: Any, two: Any, path: str = "") -> str:
    """Where two values differ first."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in dict.fromkeys([*one, *two]):
            if one.get(key) != two.get(key):
                return _first(one.get(key), two.get(key), f"{path}.{key}")
    if isinstance(one, list) and isinstance(two, list):
        for at, (left, right) in enumerate(zip(one, two, strict=False)):
            if left != right:
                return _first(left, right, f"{path}[{at}]")
        return f"{path}: {len(one)} items, here {len(two)}: {(one + two)[-1]!r:.300}"
    return f"{path}: {one!r:.300}, here {two!r:.300}"
