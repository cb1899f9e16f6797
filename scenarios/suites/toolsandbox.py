"""ToolSandbox from a checkout: a phone with settings, contacts, messages and reminders, and a user
whom a model plays (arXiv:2408.04682).

Its 1,032 scenarios are code, so a program in the user's interpreter lists them: 129, each as it is,
with three, ten or all tools to choose among, and with names, descriptions or types that say less. A
category is such a variant. 38 of the 129 need a paid service, which nobody asks: their categories
begin with `service_`, and are played where they are named. An episode counts by its similarity with
the milestones of its scenario, which is a share from 0 to 1.
"""

import sys
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.scenarios.core.dialogue import EarlierWords, ModelUserWithTool
from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites import checkouts
from rehearsal_room.scenarios.suites.entries import entry_scenario, entry_task

NAME = "toolsandbox"
_TITLE, _PACKAGE = "ToolSandbox", "tool_sandbox"
_REPOSITORY = "https://github.com/apple/ToolSandbox"
VERSION = "0.0.1"
NEEDS = (
    "a checkout of apple/ToolSandbox (--suite-path), and an interpreter with its packages "
    "(--suite-python): Python 3.11, the versions of its pyproject.toml, and httpx<0.28"
)
VARIANTS = (
    *("no_distraction_tools", "three_distraction_tools", "ten_distraction_tools"),
    *("all_tools_available", "tool_name_scrambled", "tool_description_scrambled"),
    *("arg_description_scrambled", "arg_type_scrambled"),
)
PAID = tuple([f"service_{name}" for name in VARIANTS])
CATEGORIES = (*VARIANTS, *PAID)
MAX_MESSAGES = 30
# Upstream tries all orders of the calls of a reply: 5,040 of seven, which takes minutes.
MAX_CALLS = 6
_PAID_TOOLS = frozenset(
    {
        *("convert_currency", "search_lat_lon", "search_location_around_lat_lon"),
        *("search_stock", "search_weather_around_lat_lon"),
    }
)
_END = "end_conversation"
_DIGEST = "b9d673155f5f26ac98408f8ed4462df8"  # of the code of the snapshot of 2025-11-06
_LISTING = Path(__file__).parent / "listings" / "toolsandbox_tasks.py"


class ToolSandboxData:
    """The scenarios of a checkout. Nothing is started before the first category is read; that
    raises PackageError, as does another checkout than the one whose rules are played here."""

    def __init__(self, folder: str, python: str) -> None:
        self._root = checkouts.checkout_at(folder, NAME, _TITLE, _REPOSITORY, _PACKAGE)
        self._python = python or sys.executable
        checkouts.require_release(
            *(self._root, _TITLE, VERSION, VERSION),  # the code alone says which it is
            lambda: digest_of(self._root / _PACKAGE) == _DIGEST,
            f"check out the state of 2025-11-06 of {_REPOSITORY}",
        )

    @property
    def version(self) -> str:
        """The version of the checkout."""
        return f"{VERSION}+{_DIGEST[:8]}"

    def options(self) -> dict[str, Any]:
        """What the suite's adapter needs."""
        return {"folder": str(self._root), "listing": str(_LISTING), "version": self.version}

    @cached_property
    def _listed(self) -> list[dict[str, Any]]:
        what, advice = "list ToolSandbox's scenarios", f"it needs {NEEDS}"
        listed: list[dict[str, Any]] = checkouts.printed_by(
            self._python, _LISTING, str(self._root), what=what, advice=advice
        )
        return listed

    def scenarios(self, category: str) -> list[Scenario]:
        """The scenarios of a category. Raises PackageError."""
        tools = {one["name"]: set(one["tools"]) for one in self._listed}
        return [
            self._scenario(category, one)
            for one in self._listed
            if category.removeprefix("service_") in one["categories"]
            and bool(tools[one["base"]] & _PAID_TOOLS) is (category in PAID)
        ]

    def _scenario(self, category: str, listed: dict[str, Any]) -> Scenario:
        name = listed["name"]
        user = ModelUserWithTool(
            prompt=listed["prompt"],
            tools=(_END,),
            ends_by=_END,
            earlier=tuple(msgspec.convert(listed["earlier"], list[EarlierWords])),
        )
        task = entry_task(name, listed["instruction"], user=user)
        record = SuiteRecord(
            NAME,
            self.version,
            category,
            {"scenario": name, "together": True},
            {name: {"categories": listed["categories"]}},
            ends_on_unknown_tool=True,
        )
        return entry_scenario(record, task, title=name, path=_LISTING, rules=listed["rules"])


def digest_of(package: Path) -> str:
    """The digest of a checkout's code."""
    return checkouts.digest_of_files(package, sorted(package.rglob("*.py")))
