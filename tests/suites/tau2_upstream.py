"""PYTHON tests/suites/tau2_upstream.py CHECKOUT DOMAIN: our scoring and upstream's evaluators.

Both judge the reference actions of each task of τ²-bench: whole, without the last write, with one
argument changed, and none.

It runs in the interpreter that has the packages of the checkout, so it imports nothing of this
project but the adapter. Prints a table; the exit status is 1 where a verdict differs.
"""

import copy
import importlib
import json
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ADAPTERS = Path(__file__).parents[2] / "envpool" / "objects" / "adapters"
Actions = list[dict[str, Any]]


def main(checkout: str, domain: str) -> int:
    """Compare; returns the exit status."""
    sys.path.insert(0, str(ADAPTERS))
    suite = importlib.import_module("tau").adapter(checkout, domain, "")
    data = Path(checkout) / "data" / "tau2" / "domains" / domain
    base = set(json.loads((data / "split_tasks.json").read_text())["base"])
    tasks = [task for task in json.loads((data / "tasks.json").read_text()) if task["id"] in base]
    variants: dict[str, Callable[[Actions], Actions]] = {
        "reference": lambda actions: actions,
        "last write left out": lambda actions: _without_last(suite, actions),
        "one argument changed": lambda actions: _changed(suite, actions),
        "nothing": lambda actions: [],
    }
    differing = 0
    for name, variant in variants.items():
        solved = 0
        for task in tasks:
            talk = _talk(task, variant((task["evaluation_criteria"] or {}).get("actions") or []))
            spec = {"initial": task.get("initial_state")}
            ours = all(one["passed"] for one in suite.score(spec, {"task": task}, talk))
            solved += ours
            differing += ours != _upstream(suite, task, talk)
        _say(f"{domain}, {name}: {solved} of {len(tasks)} solved")
    _say(f"{domain}: verdicts that differ from upstream's: {differing}")
    _resets(suite, tasks)
    return int(differing > 0)


def _writes(suite: Any, actions: Actions) -> list[int]:
    return [at for at, one in enumerate(actions) if suite._types[one["name"]].value == "write"]


def _without_last(suite: Any, actions: Actions) -> Actions:
    writes = _writes(suite, actions)
    return [one for at, one in enumerate(actions) if not writes or at != writes[-1]]


def _changed(suite: Any, actions: Actions) -> Actions:
    """The same with the first argument of the last write changed that can be."""
    changed = copy.deepcopy(actions)
    for at in reversed(_writes(suite, actions)):
        for name, value in changed[at]["arguments"].items():
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                other = value + 1 if not isinstance(value, str) else f"{value}x"
                changed[at]["arguments"][name] = other
                return changed
    return changed


def _talk(task: dict[str, Any], actions: Actions) -> list[dict[str, Any]]:
    """An episode in which these calls are made, and everything is said that should be."""
    talk: list[dict[str, Any]] = []
    for action in actions:
        call = {**action, "text": "", "error": None}
        if action.get("requestor", "assistant") == "user":
            user = {"text": "Done.", "calls": [call]}
            talk.append({"calls": [], "text": "Please.", "user": user})
        else:
            talk.append({"calls": [call], "text": None, "user": None})
    text = " ".join(task["evaluation_criteria"].get("communicate_info") or []) or "Done."
    talk.append({"calls": [], "text": text, "user": {"text": "", "calls": []}})
    return talk


def _upstream(suite: Any, task: dict[str, Any], talk: list[dict[str, Any]]) -> bool:
    """Whether the product of upstream's own evaluators is 1; the assertions that a model judges are
    left out on both sides."""
    model = suite._tasks.Task.model_validate(task)
    messages = list(suite._conversation(talk))
    evaluator = importlib.import_module("tau2.evaluator.evaluator_env").EnvironmentEvaluator
    reward = evaluator.calculate_reward(suite._make, model, messages, strict_replay=False).reward
    basis = [str(one.value) for one in model.evaluation_criteria.reward_basis]
    if "COMMUNICATE" in basis:
        reward *= suite._texts.CommunicateEvaluator.calculate_reward(model, messages).reward
    if "ACTION" in basis:
        found = suite._actions.ActionEvaluator.calculate_reward(model, messages, suite._types)
        reward *= found.reward
    return bool(reward == 1)


def _resets(suite: Any, tasks: list[dict[str, Any]]) -> None:
    """The time to make a world again, against loading the database as upstream does."""
    start = pickle.dumps(suite.world({"initial": tasks[0].get("initial_state")}))
    ours = min(_seconds(lambda: pickle.loads(start)) for _ in _times(200))
    theirs = min(_seconds(suite._make) for _ in _times(7))
    times = f"reset {1000 * ours:.3f} ms, upstream's load {1000 * theirs:.1f} ms"
    _say(f"{times}, 1/{theirs / ours:.0f}")


def _times(count: int) -> Iterator[int]:
    return iter(range(count))


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
