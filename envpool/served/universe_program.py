"""Runs MCP-Universe's own evaluators, or its cleanups, in an interpreter of the user's.

Reads one request from standard input and writes one answer:

    {"root": "…", "config": {…}, "op": "check", "answer": "…"}  -> {"findings": [{"name": …}]}
    {"root": "…", "config": {…}, "op": "load"}                  -> {}
    {"root": "…", "config": {…}, "op": "clean", "calls": […]}   -> {}

An answer {"fault": "…"} says why it could not. It uses the standard library and the checkout. The
package's evaluator/__init__.py imports the code of all services, and with it everything that they
need; here only the services that the task's evaluators name are imported.
"""

import asyncio
import importlib
import json
import os
import sys
import types
from typing import Any

_PACKAGE = "mcpuniverse.evaluator"


def main() -> None:
    """Answer the request."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the checkout's code prints goes to standard error
    request = json.load(sys.stdin)
    root = request["root"]
    if root not in sys.path:
        sys.path.insert(0, root)
    try:
        carry_out = {"check": check, "load": load, "clean": clean}[request["op"]]
        answer = asyncio.run(carry_out(request))
    except Exception as exc:
        answer = {"fault": f"{type(exc).__name__}: {exc}"}
    answers.write(json.dumps(answer))
    answers.flush()


async def load(request: dict[str, Any]) -> dict[str, Any]:
    """Import what the evaluators need, to see that it is there."""
    loaded(request["config"]["evaluators"])
    return {}


async def check(request: dict[str, Any]) -> dict[str, Any]:
    """The findings of the task's evaluators on the final answer."""
    config = request["config"]
    evaluator = loaded(config["evaluators"])
    context = importlib.import_module("mcpuniverse.common.context").Context()
    found = []
    for number, one in enumerate(config["evaluators"], 1):
        result = await evaluator.Evaluator(dict(one), context=context).evaluate(request["answer"])
        text = " ".join(part for part in (result.reason, result.error) if part)
        found.append(
            {
                "name": f"{number}. {one.get('desc') or one['func']} {one.get('op', '')}".strip(),
                "passed": bool(result.passed),
                "expected": json.dumps(one.get("value"))[:200],
                "found": text or ("passed" if result.passed else "not passed"),
            }
        )
    return {"findings": found}


def loaded(evaluators: list[dict[str, Any]]) -> Any:
    """The module of class Evaluator, with the functions of the services that are named."""
    package = types.ModuleType(_PACKAGE)
    path = os.path.join(
        os.path.dirname(importlib.import_module("mcpuniverse").__file__ or ""), "evaluator"
    )
    package.__path__ = [path]
    sys.modules[_PACKAGE] = package
    functions = importlib.import_module(f"{_PACKAGE}.functions")
    known = (functions.EVALUATION_FUNCTIONS, functions.COMPARISON_FUNCTIONS)
    needed = set(names_in(evaluators))
    for service in sorted({name.partition(".")[0] for name in needed if "." in name}):
        if os.path.isdir(os.path.join(path, service)):
            importlib.import_module(f"{_PACKAGE}.{service}.functions")
    if any(all(name not in one for one in known) for name in needed):
        for service in sorted(os.listdir(path)):  # one whose functions have another prefix
            if os.path.isfile(os.path.join(path, service, "functions.py")):
                try:
                    importlib.import_module(f"{_PACKAGE}.{service}.functions")
                except ImportError as exc:
                    sys.stderr.write(f"{service}: {exc}\n")
    for name in sorted(needed):
        if all(name not in one for one in known):
            raise LookupError(f"the checkout has no function {name!r} for evaluators")
    return importlib.import_module(f"{_PACKAGE}.evaluator")


def names_in(evaluators: list[dict[str, Any]]) -> list[str]:
    """The names of functions and comparisons.

    Example: [{"func": "json -> get(city)", "op": "="}] -> ["json", "get", "="]
    """
    names = []
    for one in evaluators:
        names += [step.partition("(")[0].strip() for step in one["func"].split("->")]
        names.append(one.get("op", ""))
    return [name for name in names if name]


async def clean(request: dict[str, Any]) -> dict[str, Any]:
    """Undo what the calls did, by the task's cleanups."""
    task = importlib.import_module("mcpuniverse.benchmark.task").Task(request["config"])
    records = [
        types.SimpleNamespace(
            timestamp=number,
            data={
                "type": "tool",
                "server": call["server"],
                "tool_name": call["tool"],
                "arguments": call["arguments"],
                "response": {"content": [{"type": "text", "text": call["text"]}]},
            },
        )
        for number, call in enumerate(request["calls"])
    ]
    await task.reset([types.SimpleNamespace(records=records)])
    await task.cleanup()
    return {}


if __name__ == "__main__":
    main()
