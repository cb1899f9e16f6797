"""Loads ToolSandbox's scenarios with a clock and ids that stand still, and prints them as JSON, in
the interpreter that has the checkout's packages.

    python toolsandbox_tasks.py CHECKOUT

A checkout's scenarios are code: start states, targets and results take the time from the clock and
ids from chance. Here it is always noon of one day, and the ids of a world are counted in it, so an
episode that is played again is equal. Output: [{"name", "base", "categories", "rules",
"instruction", "prompt", "earlier", "tools"}]; `tools` are the names that the scenario allows, and
`earlier` are what the user's model is shown before the agent's first words, after its `prompt`.
"""

import datetime
import importlib
import json
import os
import random
import sys
import time
import types
import uuid
from typing import Any

NOON = (2025, 11, 6, 12)  # of the day of the checkout that is supported, in UTC
_SUFFIXES = ("_3_distraction_tools", "_10_distraction_tools", "_all_tools")


class Standing(datetime.datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: Any = None) -> "Standing":
        """Noon."""
        return cls(*NOON, tzinfo=tz)


def load(folder: str) -> dict[str, Any]:
    """All scenarios by name, as upstream's command line makes them."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    os.environ.pop("RAPID_API_KEY", None)  # no paid service is asked
    sys.path.insert(0, folder)
    scenarios = importlib.import_module("tool_sandbox.scenarios")
    importlib.import_module("tool_sandbox.roles.execution_environment")
    freeze()
    random.seed(42)
    found: dict[str, Any] = scenarios.named_scenarios(preferred_tool_backend="DEFAULT")
    return found


def freeze() -> None:
    """Give every module of the checkout that is loaded the clock and the ids."""
    clock = types.ModuleType("datetime")
    vars(clock).update(vars(datetime), datetime=Standing)
    contexts = importlib.import_module("tool_sandbox.common.execution_context")

    def counted() -> uuid.UUID:
        context = contexts.get_current_context()
        context.num_ids = getattr(context, "num_ids", 0) + 1
        return uuid.uuid5(uuid.NAMESPACE_OID, f"tool_sandbox {context.num_ids}")

    for name, module in list(sys.modules.items()):
        if name.startswith("tool_sandbox."):
            if getattr(module, "datetime", None) is datetime:
                module.datetime = clock  # type: ignore[attr-defined]
            if hasattr(module, "uuid4"):
                vars(module)["uuid4"] = counted


def base_of(name: str) -> str:
    """The scenario of which this one is a variant.

    Example: "wifi_off_3_distraction_tools_arg_type_scrambled" -> "wifi_off"
    """
    for suffix in _SUFFIXES:
        name = name.partition(suffix)[0]
    return name


def _listed(name: str, scenario: Any) -> dict[str, Any]:
    context = scenario.starting_context
    rows = context.get_database("SANDBOX", get_all_history_snapshots=True).to_dicts()
    *_, last = rows
    assert last["sender"] == "USER" and last["recipient"] == "AGENT", name
    seen = [row for row in rows if row["visible_to"] is None or "AGENT" in row["visible_to"]]
    (rules,) = (row["content"] for row in seen if _way(row) == ("SYSTEM", "AGENT"))
    assert sum("AGENT" in _way(row) for row in seen) == 2, name
    roles = {"SYSTEM": "system", "AGENT": "user", "USER": "assistant"}
    talk = [
        {"role": roles[row["sender"]], "text": row["content"]}
        for row in rows
        if _way(row) in (("SYSTEM", "USER"), ("AGENT", "USER"), ("USER", "AGENT"))
    ]
    tags = [str(one).lower() for one in scenario.categories]
    if any(tag.endswith("_scrambled") for tag in tags):
        tags.remove("three_distraction_tools")  # upstream counts them apart
    return {
        "name": name,
        "base": base_of(name),
        "categories": tags,
        "rules": rules,
        "instruction": last["content"],
        "prompt": talk[0]["text"],
        "earlier": talk[1:],
        "tools": sorted(context.tool_allow_list),
        "max_messages": scenario.max_messages,
    }


def _way(row: dict[str, Any]) -> tuple[str, str]:
    return row["sender"], row["recipient"]


if __name__ == "__main__":
    json.dump([_listed(*one) for one in load(sys.argv[1]).items()], sys.stdout)
