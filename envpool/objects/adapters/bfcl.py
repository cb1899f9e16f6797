"""The worlds and the scoring of the BFCL (see scenarios.suites.bfcl_entries), in its own process.

The state classes and the checks of answers are those of the package `bfcl_eval`, unchanged. Three
things of the package are not used: the function that executes what a model wrote by `eval`, the
instances that it keeps in module globals from one run to the next, and the list of its models, for
whose import it would need a hundred packages.
"""

import ast
import copy
import importlib
import inspect
import json
import re
import sys
import types
from typing import Any

from .shared import Json, Talk, finding

_LONGEST = 2000  # characters of what a finding shows
_MOST_REPLIES = 21  # with calls, to one turn of the user
_BEFORE_BRACKET = re.compile(r"\b([a-zA-Z_]\w*)\s*(?=\()")
_FORBIDDEN = ("kill", "exit", "quit", "remove", "unlink", "popen", "Popen", "run")  # as upstream


class Bfcl:
    """The suite."""

    def __init__(self, package: str, version: str) -> None:
        self.version = version
        folder = package.rstrip("/").rpartition("/")[0]
        sys.path.insert(0, folder)
        # The checks ask the list of models only whether a model's API allows dots in names.
        models = types.ModuleType("bfcl_eval.constants.model_config")
        models.MODEL_CONFIG_MAPPING = _NoDots()  # type: ignore[attr-defined]
        sys.modules[models.__name__] = models
        config = importlib.import_module("bfcl_eval.constants.executable_backend_config")
        self.paths: dict[str, str] = config.CLASS_FILE_PATH_MAPPING
        self.stateless: list[str] = config.STATELESS_CLASSES

    def world(self, spec: dict[str, Any]) -> dict[str, Any]:
        """A world at its start: new instances of an entry's classes, by name."""
        made = {}
        for name in spec["classes"]:
            made[name] = getattr(importlib.import_module(self.paths[name]), name)()
            if name not in self.stateless and spec["config"] is not None:
                made[name]._load_scenario(
                    copy.deepcopy(spec["config"].get(name, {})), long_context=spec["long_context"]
                )
        return made

    def tools(self, spec: dict[str, Any]) -> list[Any]:
        """The tools as they are described."""
        tools: list[Any] = spec["tools"]
        return tools

    def call(self, world: Json, name: str, arguments: Json) -> tuple[str, str | None]:
        """Execute a call: its text, and `refused` where it raised."""
        return execute(world, name, arguments) if world else ("The call is noted.", None)

    def records(self, world: dict[str, Any]) -> Any:
        """The public attributes of each instance, and the files of a file system one by one."""
        for name, instance in world.items():
            for attribute, value in vars(instance).items():
                if attribute.startswith("_") or attribute == "snapshot_folder":
                    continue
                if attribute in ("core_memory", "archival_memory"):
                    yield from ((f"{name}.{attribute}", key, one) for key, one in value.items())
                    continue
                if hasattr(value, "contents"):
                    yield from _files(f"{name}.{attribute}", "", value)
                else:
                    yield name, attribute, value

    def score(self, spec: Json, scoring: Json, talk: Talk) -> list[Json]:
        """The official verdict on an episode, as one finding for each turn or one for all."""
        category = scoring["category"]
        if category.startswith(("memory", "web_search")):
            return self._agentic(scoring["truth"], talk)
        if category.startswith("multi_turn"):
            return self._multi_turn(spec, scoring["truth"], talk)
        calls = [{one["name"]: one["arguments"]} for one in talk[0]["calls"]] if talk else []
        if category.endswith("relevance"):  # irrelevance, too
            wanted = "no call" if category.endswith("irrelevance") else "a call"
            passed = bool(calls) == (wanted == "a call")
            return [finding("relevance", passed, wanted, f"{len(calls)} calls")]
        return [self._single_turn(category, spec["functions"], calls, scoring["truth"])]

    def rules(self, world: dict[str, Any], scoring: dict[str, Any]) -> str:
        """The system prompt of an entry about memory: what is remembered stands in it."""
        prompts = importlib.import_module("bfcl_eval.constants.default_prompts")
        ((name, memory),) = world.items()
        text = prompts.MEMORY_BACKEND_INSTRUCTION_CORE_ARCHIVAL
        if name.endswith("rec_sum"):
            text = prompts.MEMORY_BACKEND_INSTRUCTION_UNIFIED
        written: str = text.format(
            scenario_setting=prompts.MEMORY_AGENT_SETTINGS[scoring["memory"]],
            memory_content=memory._dump_core_memory_to_context(),
        )
        return f"{written}\n\n{scoring['format']}" if scoring.get("format") else written

    def _agentic(self, truth: list[str], talk: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The verdict on the last message of the only turn, as it was sent."""
        said = [_message_of(step["sent"]) for step in talk if step["sent"] is not None]
        wanted = "one of: " + ", ".join(truth)
        if not said or not said[-1]:
            return [finding("the answer is right", False, wanted, "no text")]
        checker = importlib.import_module("bfcl_eval.eval_checker.agentic_eval.agentic_checker")
        passed = checker.agentic_checker(said[-1], truth)["valid"]
        return [finding("the answer is right", passed, wanted, str(said[-1])[:_LONGEST])]

    def _single_turn(self, category: str, functions: Talk, calls: Talk, truth: Any) -> Json:
        checker = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")
        language = importlib.import_module("bfcl_eval.constants.enums").Language
        kind = {"simple_java": language.JAVA, "simple_javascript": language.JAVASCRIPT}
        verdict = checker.ast_checker(
            functions, calls, truth, kind.get(category, language.PYTHON), category, "any"
        )
        passed = verdict["valid"]
        why = "they do" if passed else json.dumps(verdict.get("error"), default=str)[:_LONGEST]
        return finding("calls match the possible answers", passed, "", why)

    def _multi_turn(self, spec: Json, truth: list[list[str]], talk: Talk) -> list[Json]:
        """The verdict on a talk with several turns, by the same steps as upstream's checker: after
        each turn with reference calls the state must be that of the reference, and what these
        returned must be among what the model's calls have returned so far. A turn without reference
        calls is not checked: upstream has not called its check of such turns since November 2024.
        """
        checker = importlib.import_module(
            "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker"
        )
        turns = _turns(talk)
        if len(turns) != len(truth):
            found = f"{len(turns)} turns"
            return [finding("all turns were played", False, f"{len(truth)} turns", found)]
        model, reference = self.world(spec), self.world(spec)
        heard: list[str] = []
        findings = []
        for number, (calls, wanted) in enumerate(zip(turns, truth, strict=True), 1):
            heard += [execute(model, one["name"], one["arguments"])[0] for one in calls]
            results = [_execute_text(reference, text) for text in wanted]
            if not wanted:
                continue
            name = f"the user's turn {number}"
            if not calls:
                findings.append(finding(name, False, "calls", "no call"))
                continue
            verdict = checker.state_checker(model, reference)
            if verdict["valid"]:
                verdict = checker.response_checker(heard, results, number - 1)
            passed = verdict["valid"]
            why = "equal" if passed else str(verdict["error_message"])[:_LONGEST]
            findings.append(finding(name, passed, "state and results", why))
        return findings


def _message_of(sent: dict[str, Any]) -> Any:
    """A message without calls as upstream's handler has it: where there is a list of calls, that is
    the message, and not the text beside it."""
    if sent["calls"] is None:
        return sent["content"]
    return [
        {one["name"]: args if isinstance(args := one["arguments"], str) else json.dumps(args)}
        for one in sent["calls"]
    ]


class _NoDots:
    """Says of each model that its API allows no dots in names."""

    def __getitem__(self, name: str) -> Any:
        return types.SimpleNamespace(underscore_to_dot=True)


def _files(kind: str, path: str, directory: Any) -> Any:
    for name, item in directory.contents.items():
        inner = f"{path}/{name}"
        if hasattr(item, "contents"):
            yield kind, f"{inner}/", None
            yield from _files(kind, inner, item)
        else:
            yield kind, inner, item.content


def execute(instances: Json, name: str, arguments: Json) -> tuple[str, str | None]:
    """Call the method of this name: its text, which is upstream's, and what kind of failure it is.

    Upstream writes the call as Python and evaluates it. The text is compiled here, too, so that a
    name of an argument that Python does not take fails with the same words.
    """
    written = ",".join(f"{key}={value!r}" for key, value in arguments.items())
    try:
        if name in _FORBIDDEN:
            raise Exception(f"Function call {name} is not allowed.")
        compile(f"{name}({written})", "<string>", "eval")
        method = _method(instances, name)
    except Exception as exc:
        return f"Error during execution: {exc}", "unknown_tool"
    try:
        return _text(method(**{key: _as_evaluated(one) for key, one in arguments.items()})), None
    except Exception as exc:
        return f"Error during execution: {exc}", "refused"


def _as_evaluated(value: Any) -> Any:
    """An argument as upstream's method gets it: on the way from text to call, blanks between a word
    and a bracket are lost, those in texts too.

    Example: "our PI (the boss)" -> "our PI(the boss)"
    """
    written = repr(value)
    return ast.literal_eval(_BEFORE_BRACKET.sub(r"\1", written)) if "(" in written else value


def _execute_text(instances: dict[str, Any], text: str) -> str:
    """Make a reference call, which is Python text with literal arguments."""
    call = ast.parse(text.strip(), mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    try:
        method = _method(instances, call.func.id)
        positional = [ast.literal_eval(one) for one in call.args]
        named = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
        return _text(method(*positional, **named))
    except Exception as exc:
        return f"Error during execution: {exc}"


def _method(instances: dict[str, Any], name: str) -> Any:
    for instance in instances.values():
        method = getattr(instance, name, None)
        if not name.startswith("_") and inspect.ismethod(method):
            return method
    raise NameError(f"name {name.partition('.')[0]!r} is not defined")


def _text(value: Any) -> str:
    """A result as text, by upstream's rules."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            return str(value)
    return str(value)


def _turns(talk: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The calls of each turn of the user. Upstream stops a model that makes calls in 21 replies to
    one turn, and scores such a talk if that turn was the last; a talk that ended otherwise, before
    the user ended it, has no last turn."""
    turns: list[list[dict[str, Any]]] = [[]]
    replies = 0
    for step in talk:
        turns[-1] += step["calls"]
        replies += 1
        if (user := step["user"]) is not None:
            if user["ended"]:
                return turns
            turns.append([])
            replies = 0
    return turns if replies == _MOST_REPLIES else []


adapter = Bfcl
