"""PYTHON tests/suites/parity/tau2_runner.py DATA DOMAIN BASE_URL JUDGE_URL [RETRIEVAL]
                                           < ids > results:
τ²-bench's own runner and evaluators.

It runs in the interpreter that has the checkout's packages, with the checkout's `src` on the path,
and imports nothing of this project. Each task is played by upstream's `run_single_task`, as its
command line does, without its retries. A result is a line of JSON.
"""

import json
import os
import pickle
import sys
from typing import Any


def main(data: str, domain: str, base_url: str, judge_url: str, retrieval: str = "") -> None:
    """Play the tasks whose ids come in, one a line."""
    os.environ |= {"TAU2_DATA_DIR": data, "OPENAI_API_BASE": judge_url, "OPENAI_API_KEY": "none"}
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # the network is not asked
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from loguru import logger

    logger.remove()
    from tau2.data_model.simulation import TextRunConfig
    from tau2.environment.db import DB
    from tau2.orchestrator.orchestrator import Orchestrator
    from tau2.runner.batch import run_single_task
    from tau2.runner.helpers import get_tasks

    _keep_databases(DB)
    if retrieval:
        _keep_documents()
    seen: list[tuple[Any, dict[str, Any]]] = []  # the environment, and its records at the start
    begin = Orchestrator.initialize

    def initialize(self: Any) -> None:
        begin(self)
        seen.append((self.environment, _all_records(self.environment)))

    Orchestrator.initialize = initialize
    arguments = {"temperature": 0.0, "api_base": base_url, "api_key": "none"}
    config = TextRunConfig(
        domain=domain,
        agent="llm_agent",
        user="user_simulator",
        llm_agent="openai/agent",
        llm_user="openai/customer",
        llm_args_agent=arguments,
        llm_args_user=arguments,
        retrieval_config=retrieval or None,
    )
    tasks = {task.id: task for task in get_tasks(domain)}
    for line in sys.stdin:
        task = tasks[line.strip()]
        seen.clear()
        try:
            result = run_single_task(config, task, seed=300)
            found = _found(result)
        except Exception as exc:  # upstream: an infrastructure error, which no score counts
            found = {"reward": None, "why": f"{type(exc).__name__}: {exc}"[:300]}
        found |= {"task": task.id, "changes": _changes(*seen[0]) if seen else {}}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


def _found(result: Any) -> dict[str, Any]:
    info = result.reward_info
    breakdown = info.reward_breakdown or {}
    return {
        "reward": info.reward,
        "why": result.termination_reason.value,
        "parts": {str(getattr(k, "value", k)): v for k, v in breakdown.items()},
        "tools": [m.content for m in result.messages if m.role == "tool"],
    }


def _keep_databases(base: Any) -> None:
    """Load each file once: reading 6 MB of JSON takes longer than an episode."""
    load, kept = base.load.__func__, {}

    def loaded(cls: Any, path: Any) -> Any:
        if path not in kept:
            kept[path] = pickle.dumps(load(cls, path))
        return pickle.loads(kept[path])

    base.load = classmethod(loaded)


def _keep_documents() -> None:
    """Read and index the documents once: neither changes."""
    from tau2.domains.banking_knowledge import retrieval
    from tau2.domains.banking_knowledge.data_model import KnowledgeBase

    load, kept, make = KnowledgeBase.load, {}, retrieval.create_bm25_retrieval_pipeline

    def once(key: Any, made: Any) -> Any:
        if key not in kept:
            kept[key] = made()
        return kept[key]

    KnowledgeBase.load = classmethod(lambda cls, path: once(path, lambda: load(path)))
    retrieval.create_bm25_retrieval_pipeline = lambda **given: once("", lambda: make(**given))


def _all_records(environment: Any) -> dict[str, str]:
    """Every record of the agent's and the customer's database, as JSON."""
    agents = environment.tools.db
    users = environment.user_tools.db if environment.user_tools is not None else None
    found = _records("", agents)
    return found if users is None or users is agents else found | _records("user.", users)


def _records(prefix: str, database: Any) -> dict[str, str]:
    found = {}
    for table, value in database.model_dump().items():
        rows: Any = value.items() if isinstance(value, dict) else [("", value)]
        if isinstance(value, dict) and value.keys() == {"data", "notes"}:
            notes = [("(notes)", value["notes"])] if value["notes"] else []
            rows = [*value["data"].items(), *notes]
        if isinstance(value, list):
            rows = [(str(at), one) for at, one in enumerate(value)]
        for key, row in rows:
            found[f"{prefix}{table} {key}"] = json.dumps(row, sort_keys=True, default=str)
    return found


def _changes(environment: Any, start: dict[str, str]) -> dict[str, str | None]:
    """The records that are not as at the start; null: it was removed."""
    end = _all_records(environment)
    keys = sorted(start.keys() | end.keys())
    return {key: end.get(key) for key in keys if start.get(key) != end.get(key)}


if __name__ == "__main__":
    main(*sys.argv[1:])
