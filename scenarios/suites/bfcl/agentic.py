"""The agentic categories of the BFCL's fourth version: memory, and the web.

Memory is talks and questions. The talks of a subject make a chain: each is a new talk with the
memory of the one before. A question begins with the memory that the last one left, and changes
nothing for the others. What is remembered stands in the system prompt, so the world writes it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import msgspec

from rehearsal_room.scenarios.core.dialogue import ScriptedTurn, UserScript
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Task, Utterance

USUAL = ("memory_kv", "memory_rec_sum")  # they need neither a model nor the network
VECTOR = "memory_vector"
WEB = ("web_search_base", "web_search_no_snippet")
CATEGORIES = (*USUAL, VECTOR, *WEB)
PRELUDES = tuple([f"{name}_prereq" for name in (*USUAL, VECTOR)])  # the talks
KEYS = ("SERPAPI_API_KEY",)
LEFT_OUT = "format_sensitivity"
SUBJECTS = ("student", "customer", "finance", "healthcare", "notetaker")  # in upstream's order
NEEDS = (
    "pip install --no-deps bfcl-eval==2026.3.23 mpmath==1.3.0 filelock overrides rank_bm25 numpy; "
    "web_search_* also the packages google-search-results, html2text, requests and beautifulsoup4, "
    "the network, and a key of SerpAPI (--mcp-env SERPAPI_API_KEY). memory_vector and "
    f"{LEFT_OUT} are not played"
)
# The last sentences of the system prompt of all agentic entries that are scored.
FORMAT = (
    "For your final answer to the user, you must respond in this format: {'answer': A short and "
    "precise answer to the question, 'context': A brief explanation of how you arrived at this "
    "answer or why it is correct}. If you do not know the answer, respond with {'answer': 'I do "
    "not know', 'context': 'I do not know'}. If you think the question cannot be properly "
    "answered, response with {'answer': 'I cannot answer this question', 'context': A short reason "
    "explaining why this question cannot be answered}.\n"
)
# What the scores of these categories depend on beside those of v3.
FILES = (
    *("data/BFCL_v4_memory.json", "data/BFCL_v4_web_search.json"),
    *("data/possible_answer/BFCL_v4_memory.json", "data/possible_answer/BFCL_v4_web_search.json"),
    *[f"data/memory_prereq_conversation/memory_{name}.json" for name in SUBJECTS],
    "constants/default_prompts.py",
)
_DONE = "Done."
_Read = Callable[[str], Iterable[dict[str, Any]]]  # the entries of a file of the data


class AgenticEntry(msgspec.Struct, frozen=True):
    """An entry of the data, as far as its category makes it."""

    id: str
    task: Task  # with ids of the data: its own, and in `follows` that of another entry
    world: dict[str, Any]
    scoring: dict[str, Any]
    functions: str  # file of their descriptions
    rules: str = ""
    renders_rules: bool = False


def require(category: str, keys: Collection[str]) -> None:
    """Raise PackageError for a category that cannot be played here. `keys`: variables that are
    named and set."""
    if category.startswith(VECTOR):
        raise PackageError(
            f"{VECTOR} is not played: its embedding model (all-MiniLM-L6-v2) is loaded from a hub "
            "when the package is imported; its share of the overall score is 0"
        )
    if category in WEB and not all(key in keys for key in KEYS):
        raise PackageError(
            f"{category} searches the web with a key of SerpAPI: set {KEYS[0]} and name it with "
            f"--mcp-env {KEYS[0]}, or choose other categories with --category"
        )


def entries_of(category: str, read: _Read) -> Iterator[AgenticEntry]:
    """The entries of one of `CATEGORIES` or `PRELUDES`, in upstream's order."""
    if category in WEB:
        yield from _web(category, read)
    elif category in PRELUDES:
        for subject in SUBJECTS:
            yield from _talks(category.removesuffix("_prereq"), subject, read)
    else:
        answers = list(read("possible_answer/BFCL_v4_memory.json"))
        questions = list(zip(read("BFCL_v4_memory.json"), answers, strict=True))
        last = {one: list(_talks(category, one, read))[-1].task.id for one in SUBJECTS}
        for subject in SUBJECTS:
            for entry, answer in questions:
                if entry["scenario"] == subject:
                    yield _question(category, entry, answer["ground_truth"], last[subject])


def _talks(category: str, subject: str, read: _Read) -> Iterator[AgenticEntry]:
    """The talks of a subject, each of which follows the one before."""
    follows = ""
    for entry in read(f"memory_prereq_conversation/memory_{subject}.json"):
        id = entry["id"].replace("memory", category)
        first, *later = [turn[0]["content"] for turn in entry["question"]]
        task = Task(
            id=id,
            instruction=first,
            difficulty="unrated",
            kind="open",
            answer=_DONE,
            user=UserScript(tuple(map(ScriptedTurn, later)), ends_at_limit=True),
            utterances=tuple([Utterance(0, _DONE) for _ in later]),
            follows=follows,
        )
        yield _memory(category, id, task, {"memory": subject})
        follows = task.id


def _question(category: str, entry: dict[str, Any], truth: list[str], follows: str) -> AgenticEntry:
    id = entry["id"].replace("memory", category)
    task = _asked(id, entry, truth, follows)
    scoring = {"memory": entry["scenario"], "truth": truth, "format": FORMAT}
    return _memory(category, id, task, scoring)


def _memory(category: str, id: str, task: Task, scoring: dict[str, Any]) -> AgenticEntry:
    backend = category.removeprefix("memory_")
    world = {"classes": [f"MemoryAPI_{backend}"], "config": None, "long_context": False}
    return AgenticEntry(id, task, world, scoring, f"memory_{backend}.json", renders_rules=True)


def _web(category: str, read: _Read) -> Iterator[AgenticEntry]:
    answers = read("possible_answer/BFCL_v4_web_search.json")
    for entry, answer in zip(read("BFCL_v4_web_search.json"), answers, strict=True):
        id = entry["id"].replace("web_search", category)
        config = {"WebSearchAPI": {"show_snippet": "no_snippet" not in id}}
        world = {"classes": ["WebSearchAPI"], "config": config, "long_context": False}
        truth = answer["ground_truth"]
        task = _asked(id, entry, truth)
        yield AgenticEntry(id, task, world, {"truth": truth}, "web_search.json", rules=FORMAT)


def _asked(id: str, entry: dict[str, Any], truth: list[str], follows: str = "") -> Task:
    """The task of a question, which the agent answers in one turn of a talk."""
    return Task(
        id=id,
        instruction=entry["question"][0][-1]["content"],
        difficulty="unrated",
        kind="question",
        answer=truth[0],
        user=UserScript(ends_at_limit=True),
        follows=follows,
    )
