"""τ²-bench from a checkout: retail, airline and telecom (arXiv:2406.12045, arXiv:2506.07982).

The agent talks with a customer, whom a second model plays; in telecom the customer acts, too, with
tools of its own. Tasks, policies and the customer's guidelines are read here; tools, databases and
scoring are the checkout's own code in an interpreter of the user's. The base split is played.

As in upstream, the talk begins with a fixed greeting in the agent's name, for which no model is
asked; the customer answers it.
"""

import ast
import textwrap
from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import groupby
from typing import Any

import msgspec

from rehearsal_room.scenarios.core.dialogue import ModelUser, ScriptedTurn, UserCall
from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.format import Call, Scenario, Task, Utterance
from rehearsal_room.scenarios.suites.checkouts import (
    checkout_at,
    file_code,
    file_json,
    file_text,
    project_version,
    require_release,
)
from rehearsal_room.scenarios.suites.entries import (
    ANSWER,
    entry_scenario,
    entry_task,
    task_content,
)

DOMAINS = ("retail", "airline", "telecom")
VERSION = "1.0.1"  # whose rules these are; other versions grade otherwise
GREETING = "Hi! How can I help you today?"  # upstream's
INSTRUCTION = "A customer has joined the chat. Help the customer by the rules."
STOPS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
NO_TOOL = "Error: Tool '{name}' not found."  # these two are upstream's
_NO_USER_TOOLS = "Error: User tools not available"
_HELLO = "Hello, I need your help."
_PLEASE = "Please do the next steps on your side now."
_DID = "I have done that."
_TAB = "\t"
_POLICIES = {  # domains with several: what upstream calls each, and its file
    "telecom": {"main_policy": "main_policy.md", "tech_support_policy": "tech_support_manual.md"},
}


class Tau2Data:
    """One domain of a checkout. Nothing is read before it is asked for; a file that is missing
    raises PackageError."""

    def __init__(self, folder: str, domain: str, *, suite: str = "") -> None:
        """`suite` is named in messages and records; default: after the domain."""
        self.suite = suite or f"tau2_{domain}"
        named = (folder, self.suite, "τ²-bench", "https://github.com/sierra-research/tau2-bench")
        self._root = checkout_at(*named, "src/tau2", flag="--tau2")
        self._domain = domain
        self._data = self._root / "data" / "tau2" / "domains" / domain
        advice = f"check out the tag v{VERSION}"
        number = project_version(self._root)
        require_release(self._root, "τ²-bench", number, VERSION, lambda: True, advice)

    @cached_property
    def version(self) -> str:
        """The checkout's version, and a digest of the domain's tasks."""
        digest = blake2b(file_text(self._data / "tasks.json").encode(), digest_size=4).hexdigest()
        return f"{VERSION}+{digest}"

    def options(self) -> dict[str, Any]:
        """What the suite's adapter needs."""
        return {"folder": str(self._root), "domain": self._domain, "version": self.version}

    def scenarios(self, category: str) -> list[Scenario]:
        """The tasks of the base split: one scenario for all tasks that begin with the domain's
        database, and one for each that begins otherwise. Raises PackageError."""
        tasks = self._tasks()
        shared = [task for task in tasks if task.get("initial_state") is None]
        found = [self._scenario(category, shared, None)] if shared else []
        for number, task in enumerate(task for task in tasks if task.get("initial_state")):
            found.append(self._scenario(f"{category}_{number:03d}", [task], task["initial_state"]))
        return found

    def _tasks(self) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = file_json(self._data / "tasks.json")
        base = set(file_json(self._data / "split_tasks.json")["base"])
        return [task for task in tasks if task["id"] in base]

    def _scenario(
        self, name: str, tasks: Sequence[dict[str, Any]], initial: dict[str, Any] | None
    ) -> Scenario:
        names = [name] if initial else [f"{name}_{task['id']}" for task in tasks]
        refusal = NO_TOOL if self._user_tools else _NO_USER_TOOLS
        made = [
            self._task(*both, self._user_tools, no_user_tool=refusal)
            for both in zip(names, tasks, strict=True)
        ]
        scoring = {name: {"task": task} for name, task in zip(names, tasks, strict=True)}
        record = SuiteRecord(
            self.suite, self.version, self._domain, {"initial": initial}, scoring, no_tool=NO_TOOL
        )
        title = f"τ²-bench {self._domain}" if initial is None else str(tasks[0]["id"])
        one = entry_scenario(record, made[0], title=title, path=self._data, rules=self._rules)
        content = msgspec.json.encode([one.digest, list(map(task_content, made))])
        digest = blake2b(content, digest_size=16).hexdigest()
        return msgspec.structs.replace(one, name=name, tasks=tuple(made), digest=digest)

    def _task(
        self, name: str, task: dict[str, Any], user_tools: tuple[str, ...], *, no_user_tool: str
    ) -> Task:
        criteria = task.get("evaluation_criteria") or {}
        calls, utterances, turns = _solution(criteria.get("actions") or [])
        return entry_task(
            *(name, INSTRUCTION, " ".join(criteria.get("communicate_info") or []) or ANSWER),
            oracle=tuple(calls),
            utterances=tuple(utterances),
            user=ModelUser(
                prompt=f"{self._guidelines(bool(user_tools))}\n\n<scenario>\n"
                f"{_scenario_text(task['user_scenario'])}\n</scenario>",
                tools=user_tools,
                no_tool=no_user_tool,
                stops=STOPS,
                solution=(ScriptedTurn(_HELLO), *turns),
                opening=GREETING,
            ),
        )

    @cached_property
    def _rules(self) -> str:
        if self._domain not in _POLICIES:
            return file_text(self._data / "policy.md")
        named = _POLICIES[self._domain].items()
        return "\n".join(
            f"<{tag}>\n{file_text(self._data / name)}\n</{tag}>" for tag, name in named
        )

    def _guidelines(self, has_tools: bool) -> str:
        name = "simulation_guidelines_tools.md" if has_tools else "simulation_guidelines.md"
        text = file_text(self._root / "data" / "tau2" / "user_simulator" / name)
        return text.replace("<PERSONA_GUIDELINES>", "")

    @cached_property
    def _user_tools(self) -> tuple[str, ...]:
        """The names of the customer's own tools, read without executing the file."""
        path = self._root / "src" / "tau2" / "domains" / self._domain / "user_tools.py"
        if not path.is_file():
            return ()
        return tuple(tools_in(file_code(path), "is_tool"))


def tools_in(tree: ast.AST, *decorators: str) -> Iterator[str]:
    """The names of the functions that have one of these decorators."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            made = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
            if any(isinstance(one, ast.Name) and one.id in decorators for one in made):
                yield node.name


def _solution(
    actions: Sequence[dict[str, Any]],
) -> tuple[list[Call], list[Utterance], list[ScriptedTurn]]:
    """The reference actions as the agent's calls, what it says before the customer acts, and the
    customer's turns."""
    calls: list[Call] = []
    utterances: list[Utterance] = []
    turns: list[ScriptedTurn] = []
    for who, group in groupby(actions, lambda one: one.get("requestor", "assistant")):
        made = [(action["name"], action["arguments"]) for action in group]
        if who == "user":
            utterances.append(Utterance(len(calls), _PLEASE))
            turns.append(ScriptedTurn(_DID, calls=tuple(UserCall(*one) for one in made)))
        else:
            calls += [Call(*one) for one in made]
    return calls, utterances, turns


def _scenario_text(scenario: dict[str, Any]) -> str:
    """What the customer wants and knows, laid out as upstream does it."""
    persona, given = scenario.get("persona"), scenario["instructions"]
    head = "" if persona is None else f"Persona:\n{textwrap.indent(persona, _TAB)}\n"
    text = given if isinstance(given, str) else _facts(given)
    return f"{head}Instructions:\n{textwrap.indent(text, _TAB)}"


def _facts(given: dict[str, Any]) -> str:
    lines = [f"Domain: {given['domain']}"]
    for name, title in (
        ("reason_for_call", "Reason for call"),
        ("known_info", "Known info"),
        ("unknown_info", "Unknown info"),
        ("task_instructions", "Task instructions"),
    ):
        if given.get(name) is not None:
            lines.append(f"{title}:\n{textwrap.indent(given[name], _TAB)}")
    return "\n".join(lines)
