"""What MCP-Universe's own agent sends first, for each task of a category.

It runs in the interpreter that has the checkout's packages, and uses the checkout's code. Reads one
request from standard input and writes one answer:

    {"root": "…", "benchmark": "….yaml", "questions": [["How many …?", {"count": "…"}], …]}
    -> {"max_iterations": 20, "prompts": ["You are …", …]}
"""

import importlib
import json
import os
import sys
from typing import Any


def main() -> None:
    """Answer the request."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the checkout's code prints goes to standard error
    json.dump(prompts_of(json.load(sys.stdin)), answers)
    answers.flush()


def prompts_of(request: dict[str, Any]) -> dict[str, Any]:
    """The limit of iterations that a benchmark's file names, and the prompts of its agent."""
    sys.path.insert(0, request["root"])
    yaml: Any = importlib.import_module("yaml")
    agents: Any = importlib.import_module("mcpuniverse.agent.function_call")
    with open(request["benchmark"], encoding="utf-8") as file:
        parts = [part for part in yaml.safe_load_all(file) if part]
    named = [part["spec"]["agent"] for part in parts if part["kind"].lower() == "benchmark"]
    (spec,) = [
        part["spec"]
        for part in parts
        if part["kind"].lower() == "agent" and part["spec"]["name"] in named
    ]
    config = {
        name: value
        for name, value in (spec.get("config") or {}).items()
        if name in ("instruction", "max_iterations", "context_examples", "template_vars")
    }
    agent = agents.FunctionCall(None, None, config=config)
    prompts = []
    for question, form in request["questions"]:
        if form:  # as its `_execute` puts them together
            question += f"\n            {agent._get_output_format_prompt(form)}"
        prompts.append(agent._build_prompt(question))
    return {"max_iterations": agent._config.max_iterations, "prompts": prompts}


if __name__ == "__main__":
    main()
