"""τ²-bench's `banking_knowledge` from a checkout (arXiv:2506.07982, version 1.0.1).

It is a suite for each way in which the agent finds what the bank's 698 documents say.

Tasks are the files `tasks/task_*.json`, as upstream reads them; `tasks.json` beside them is stale
and is not read. Each task is a scenario of its own: the customer's tools, the start of the database
and the reads that the score asks for are the task's.

Most of the agent's tools are not shown to it: the documents name them. Upstream executes a call of
such a tool by its own name, too, though it was not unlocked, and so is it here.
"""

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.suites.checkouts import file_code, file_json, file_text
from rehearsal_room.scenarios.suites.entries import entry_scenario, identifier
from rehearsal_room.scenarios.suites.tau2 import NO_TOOL, VERSION, Tau2Data, tools_in

CATEGORY = "banking"
_PREFIX = "tau2_banking_"
_TEMPLATES = {  # what needs neither network nor key, and its prompt
    "no_knowledge": "no_knowledge",
    "full_kb": "full_kb",
    "golden_retrieval": "required_docs",
    "grep_only": "grep_only",
    "bm25": "classic_rag_bm25_no_grep",
    "bm25_grep": "classic_rag_bm25",
}
VARIANTS = tuple(_TEMPLATES)
SUITES = tuple(f"{_PREFIX}{name}" for name in VARIANTS)
_SHELL = "the programs srt, rg, bwrap and socat"
_NEEDS = (  # a part of a variant's name, and what upstream needs for it
    ("alltools-qwen", f"embeddings from OpenRouter (OPENROUTER_API_KEY) and {_SHELL}"),
    ("alltools", f"embeddings from OpenAI (OPENAI_API_KEY) and {_SHELL}"),
    ("qwen_embeddings", "embeddings from OpenRouter (OPENROUTER_API_KEY)"),
    ("openai_embeddings", "embeddings from OpenAI (OPENAI_API_KEY)"),
    ("terminal_use", _SHELL),
    ("reranker", "a model of OpenAI that ranks the documents (OPENAI_API_KEY)"),
)
_COMPONENT = re.compile(r"\{\{component:(\w+)\}\}")
_ALL_DOCUMENTS = re.compile(r"\{\{full_knowledge_base\}\}")
_REQUIRED = "{{required_documents}}"
_BETWEEN = "\n\n---\n\n"
_READS = "call_discoverable_agent_tool"


def refusal(suite: str) -> str:
    """Why one of the retrievals is refused; empty for any other name."""
    if suite in ("tau2_banking", "tau2_banking_knowledge"):
        return (
            f"suite {suite!r}: scores of different retrievals do not compare, so it is a part of "
            f"the name: {', '.join(SUITES)}"
        )
    variant = suite.removeprefix(_PREFIX)
    needs = [needed for part, needed in _NEEDS if part in variant.lower()]
    if variant == suite or not needs:
        return ""
    needed = needs[0] if "alltools" in variant.lower() else " and ".join(needs)
    return (
        f"suite {suite!r} is not played here: its retrieval needs {needed}; those that need "
        f"nothing: {', '.join(SUITES)}"
    )


class BankingData(Tau2Data):
    """The tasks of a checkout, with one retrieval. A file that is missing raises PackageError."""

    def __init__(self, folder: str, variant: str) -> None:
        super().__init__(folder, "banking_knowledge", suite=f"{_PREFIX}{variant}")
        self._variant = variant

    @cached_property
    def version(self) -> str:
        """The checkout's version, and a digest of the tasks."""
        content = "\n".join(map(file_text, self._files)).encode()
        return f"{VERSION}+{blake2b(content, digest_size=4).hexdigest()}"

    def options(self) -> dict[str, Any]:
        """What the suite's adapter needs."""
        return {**super().options(), "variant": self._variant}

    def scenarios(self, category: str) -> list[Scenario]:
        """A scenario for each task. Raises PackageError."""
        stale = self._stale
        return [self._entry(category, task, is_stale=task["id"] in stale) for task in self._tasks()]

    def _tasks(self) -> list[dict[str, Any]]:
        return [file_json(path) for path in self._files]

    @cached_property
    def _files(self) -> list[Path]:
        found = sorted((self._data / "tasks").glob("task_*.json"))
        if not found:
            raise PackageError(
                f"{self._data}/tasks: there is no task_*.json here, and tasks.json beside it is "
                f"stale: check out the tag v{VERSION} as a whole"
            )
        return found

    @cached_property
    def _stale(self) -> set[str]:
        """Ids of the tasks that `tasks.json` has otherwise, or not at all; nothing where the file
        is missing, for upstream does not read it."""
        path = self._data / "tasks.json"
        if not path.is_file():
            return set()
        old = {task["id"]: task for task in file_json(path)}
        return {task["id"] for task in self._tasks() if old.get(task["id"]) != task}

    def _entry(self, category: str, task: dict[str, Any], *, is_stale: bool) -> Scenario:
        name = f"{category}_{identifier(task['id'])}"
        own = task.get("user_tools")
        tools = self._users_tools if own is None else tuple(own)
        actions = (task.get("evaluation_criteria") or {}).get("actions") or []
        reads = {
            action["arguments"].get("agent_tool_name")
            for action in actions
            if action["name"] == _READS and action.get("arguments")
        }
        world = {
            "initial": task.get("initial_state"),
            "reads": sorted(filter(None, reads)),
            "user_tools": list(tools),
        }
        record = SuiteRecord(
            self.suite,
            self.version,
            category,
            world,
            {name: {"task": task}},
            no_tool=NO_TOOL,
            unlisted=self._agents_tools,
            users_unlisted=self._users_tools,
        )
        made = self._task(name, task, tools, no_user_tool=NO_TOOL)
        rules = self._rules_of(task)
        one = entry_scenario(record, made, title=task["id"], path=self._data, rules=rules)
        return msgspec.structs.replace(one, description=one.description + _STALE * is_stale)

    def _rules_of(self, task: dict[str, Any]) -> str:
        if _REQUIRED not in self._prompt:
            return self._prompt
        # By title or else by id, as upstream; a document that is not there is left out.
        found = [
            self._titles.get(name) or self._documents.get(name)
            for name in task.get("required_documents") or []
        ]
        texts = _BETWEEN.join(_as_text(one) for one in found if one is not None)
        return self._prompt.replace(_REQUIRED, texts or "(No documents provided)")

    @cached_property
    def _prompt(self) -> str:
        """The variant's prompt with its parts and, where it asks for them, all documents."""
        folder = self._data / "prompts"
        template = file_text(folder / f"{_TEMPLATES[self._variant]}.md")
        text = _COMPONENT.sub(
            lambda found: file_text(folder / "components" / f"{found[1]}.md"), template
        )
        if not _ALL_DOCUMENTS.search(text):
            return text
        everything = _BETWEEN.join(map(_as_text, self._documents.values()))
        return _ALL_DOCUMENTS.sub(everything, text)  # escapes are read, as upstream does

    @cached_property
    def _documents(self) -> dict[str, dict[str, Any]]:
        """Every document by its id, in the order of the folder, which is upstream's."""
        found = [file_json(path) for path in (self._data / "documents").glob("*.json")]
        return {one["id"]: one for one in found}

    @cached_property
    def _titles(self) -> dict[str, dict[str, Any]]:
        return {one["title"]: one for one in self._documents.values()}

    @cached_property
    def _agents_tools(self) -> tuple[str, ...]:
        return tuple(self._tools_of("KnowledgeTools"))

    @cached_property
    def _users_tools(self) -> tuple[str, ...]:
        return tuple(self._tools_of("KnowledgeUserTools"))

    def _tools_of(self, name: str) -> Iterator[str]:
        """The tools of a class, those that are not shown included; its file is not executed."""
        source = self._root / "src" / "tau2" / "domains" / "banking_knowledge" / "tools.py"
        for node in ast.walk(file_code(source)):
            if isinstance(node, ast.ClassDef) and node.name == name:
                yield from tools_in(node, "is_tool", "is_discoverable_tool")


_STALE = " (tasks.json has another text of it, which is stale and is not played)"


def _as_text(document: dict[str, Any]) -> str:
    return f"## {document['title']}\n\n{document['content']}"
