"""Trajectories of Harbor's Agent Trajectory Interchange Format (ATIF v1.0 to v1.8).

What `rehearse export --to atif` put into `extra` is read back, so such a document is the episode
that it was. Of other documents the agent's steps, their calls and results are read.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.errors import ConversationError
from rehearsal_room.harness.core.events import Ending, ForkedFrom, Judged
from rehearsal_room.harness.core.messages import (
    Act,
    AgentCall,
    Answer,
    Decision,
    FormatError,
    Reply,
    Usage,
    UserTurn,
)
from rehearsal_room.harness.core.token_bytes import encode_ids, encode_logprobs
from rehearsal_room.harness.dialects.base import call_id, without_thoughts
from rehearsal_room.interop.imports.atif_documents import (
    AtifFacts,
    AtifMetrics,
    AtifResult,
    AtifStep,
    AtifText,
    Document,
    ResultFacts,
)
from rehearsal_room.interop.imports.conversations import (
    ImportedConversation,
    ImportedTurn,
    bytes_of,
    decode,
)

_VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))
_ERROR = "Error: "  # before the text of a failed call, as the agent reads it


def read_atif(path: Path) -> Iterator[ImportedConversation]:
    """The conversations of a document (.json), of a file with one a line (.jsonl), or of a folder
    of such files, subfolders included. Raises ConversationError."""
    for file in _files(path):
        if file.suffix == ".jsonl":
            for number, line in enumerate(bytes_of(file).splitlines(), start=1):
                if line.strip():
                    yield _conversation(f"{file}: line {number}", line)
        else:
            yield _conversation(str(file), bytes_of(file))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.rglob("*") if one.suffix in (".json", ".jsonl"))
    if not found:
        raise ConversationError(f"{path}: the folder has no .json and no .jsonl file")
    return found


def _conversation(source: str, data: bytes) -> ImportedConversation:
    document: Document = decode(source, data, Document)
    if document.schema_version not in _VERSIONS:
        raise ConversationError(
            f"{source}: schema_version: expected {_VERSIONS[0]} to {_VERSIONS[-1]}, found"
            f" {document.schema_version!r}"
        )
    facts = document.extra.rehearsal if document.extra else AtifFacts()
    head, body = _split(source, document.steps, may_be_empty=facts.ending is not None)
    system = "\n\n".join(_text(step.message) for step in head if step.source == "system")
    task = "\n\n".join(_text(step.message) for step in head if step.source == "user")
    turns = tuple(_turns(source, body, facts.dialect))
    ending, error = _ending(facts, turns)
    return ImportedConversation(
        source=source,
        instruction=facts.instruction or task,
        turns=turns,
        tools=tuple(_tools(source, document.agent.tool_definitions or [])),
        system=system,
        agent=_agent(document),
        episode=facts.episode,
        scenario=facts.scenario,
        task=facts.task,
        dialect=facts.dialect,
        history=facts.history,
        group=facts.group,
        member=facts.member,
        group_size=facts.group_size,
        seed=facts.seed,
        hidden=tuple(facts.hidden),
        tags=tuple(facts.tags),
        ending=ending,
        error=error,
        forked_from=_fork(document, facts, turns),
        verdict=_verdict(facts),
    )


def _agent(document: Document) -> str:
    agent = document.agent
    if agent.model_name and agent.model_name not in agent.name:
        return f"{agent.name}:{agent.model_name}"
    return agent.name


def _split(
    source: str, steps: Sequence[AtifStep], *, may_be_empty: bool
) -> tuple[Sequence[AtifStep], Sequence[AtifStep]]:
    """The steps before the agent's first one, and the rest: none where an exported episode ended
    before the first reply."""
    for index, step in enumerate(steps):
        if step.source not in ("system", "user", "agent"):
            raise ConversationError(
                f"{source}: steps[{index}].source: expected system, user or agent, found"
                f" {step.source!r}"
            )
    first = next((n for n, step in enumerate(steps) if step.source == "agent"), None)
    if first is None and not may_be_empty:
        raise ConversationError(f"{source}: steps: no step is the agent's")
    return steps[:first], [] if first is None else steps[first:]


def _turns(source: str, steps: Sequence[AtifStep], dialect: str) -> Iterator[ImportedTurn]:
    first_prompt: list[int] = []
    turn = 0
    for index, step in enumerate(steps):
        if step.source != "agent":
            continue
        ids = step.metrics.prompt_token_ids if step.metrics else None
        first_prompt = first_prompt or ids or []
        reply = _reply(step, turn, first_prompt, dialect)
        decision = _decision(step, turn)
        facts = step.facts
        yield ImportedTurn(
            reply=reply,
            decision=decision,
            results=tuple(_results(step)) if isinstance(decision, Act) else (),
            user=_user(source, step, steps[index + 1 :], turn)
            if isinstance(decision, Answer)
            else None,
            first_turn=facts.first_turn,
            recalled=tuple(facts.recalled),
            reward=facts.reward,
            is_context=step.is_copied_context is True,
        )
        turn += decision is not None


def _reply(step: AtifStep, turn: int, first_prompt: list[int], dialect: str) -> Reply:
    metrics = step.metrics or AtifMetrics()
    text = _text(step.message)
    if step.reasoning_content:
        text = f"<think>{step.reasoning_content}</think>{text}"
    calls = tuple(AgentCall(one.name, one.arguments, one.id) for one in step.facts.sent_calls)
    if not calls and dialect in ("", "native"):
        calls = _calls(step, turn)
    prompt = metrics.prompt_token_ids or []
    shared = _shared(first_prompt, prompt) if prompt is not first_prompt else 0
    return Reply(
        text=text,
        calls=calls,
        finish=step.facts.finish or ("tool_calls" if calls else "stop"),
        usage=Usage(
            metrics.prompt_tokens or 0, metrics.completion_tokens or 0, metrics.cached_tokens or 0
        ),
        prompt_ids=encode_ids(prompt[shared:]),
        prompt_shared=shared,
        token_ids=encode_ids(metrics.completion_token_ids or ()),
        logprobs=encode_logprobs(metrics.logprobs or ()),
        weights=str((metrics.extra or {}).get("weights", "")),
    )


def _shared(first: list[int], prompt: list[int]) -> int:
    """How many tokens both prompts begin with."""
    count = 0
    for one, other in zip(first, prompt, strict=False):
        if one != other:
            break
        count += 1
    return count


def _calls(step: AtifStep, turn: int) -> tuple[AgentCall, ...]:
    calls = []
    for index, call in enumerate(step.tool_calls or ()):
        kept = call.extra.rehearsal.arguments if call.extra else None
        arguments = call.arguments if kept is None else kept
        calls.append(AgentCall(call.function_name, arguments, call_id(turn, index)))
    return tuple(calls)


def _decision(step: AtifStep, turn: int) -> Decision | None:
    facts = step.facts
    if facts.summary:
        return None
    if facts.format_error is not None:
        return FormatError(facts.format_error)
    if step.tool_calls:
        return Act(_calls(step, turn))
    return Answer(without_thoughts(_text(step.message)))


def _results(step: AtifStep) -> Iterator[ToolResult | None]:
    """The result of each call; what belongs to no call follows the last result."""
    found, left = _matched(step)
    *first, last = found or [None]
    for result in first:
        yield None if result is None else _result(result)
    if step.tool_calls:
        kept = ToolResult("") if last is None else _result(last)
        text = "\n".join([kept.text, *left] if kept.text else left)
        yield None if last is None and not left else replace(kept, text=text)


def _matched(step: AtifStep) -> tuple[list[AtifResult | None], list[str]]:
    """The result of each call (that which names it; where none does, the next), and the texts of
    the results that belong to no call."""
    found = step.observation.results if step.observation else []
    left = {id(one): one for one in found}
    named = {one.source_call_id: one for one in found if one.source_call_id}
    unnamed = iter([one for one in found if not one.source_call_id])
    matched = [
        named.get(call.tool_call_id) or next(unnamed, None) for call in step.tool_calls or ()
    ]
    for result in matched:
        left.pop(id(result), None)
    return matched, [_text(one.content) for one in left.values()]


def _result(result: AtifResult) -> ToolResult:
    facts = result.extra.rehearsal if result.extra else ResultFacts()
    text = _text(result.content)
    if facts.error is not None:
        text = text.removeprefix(_ERROR)
    return ToolResult(text, facts.error, injected=facts.injected, asked=facts.asked)


def _user(source: str, step: AtifStep, later: Sequence[AtifStep], turn: int) -> UserTurn | None:
    """What is said to a reply: what the environment showed without a call (terminal agents write
    their commands as text), and the user's steps up to the agent's next one."""
    shown = [] if step.tool_calls else _matched(step)[1]
    spoken = []
    for step in later:
        if step.source == "agent":
            break
        if step.source == "user":
            spoken.append(step)
    if not spoken:
        return UserTurn("\n\n".join(shown)) if shown else None
    facts = spoken[0].facts
    return UserTurn(
        text="\n\n".join([*shown, *(_text(one.message) for one in spoken)]),
        ended=facts.ended,
        calls=tuple(
            AgentCall(call.name, call.arguments, call_id(turn, number))
            for number, call in enumerate(facts.calls)
        ),
        results=tuple(ToolResult(one.text, one.error) for one in facts.results),
        tools=tuple(_tools(source, facts.tools)),
    )


def _tools(source: str, definitions: Sequence[dict[str, Any]]) -> Iterator[ToolSpec]:
    yield from tool_specs(f"{source}: agent.tool_definitions", definitions)


def tool_specs(source: str, definitions: Sequence[Any]) -> Iterator[ToolSpec]:
    """Tools in the form of the chat API's requests, or without the outer `function`. Raises
    ConversationError."""
    for index, one in enumerate(definitions):
        function = one.get("function", one) if isinstance(one, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise ConversationError(f"{source}[{index}]: expected a function with a name")
        schema = function.get("parameters")
        yield ToolSpec(
            function["name"],
            str(function.get("description") or ""),
            schema if isinstance(schema, dict) else {"type": "object", "properties": {}},
        )


def _ending(facts: AtifFacts, turns: Sequence[ImportedTurn]) -> tuple[Ending, str | None]:
    if facts.ending is not None:
        return facts.ending, facts.error
    return ending_of(turns)


def ending_of(turns: Sequence[ImportedTurn]) -> tuple[Ending, str | None]:
    """How a conversation of another program ended: with an answer, or cut off."""
    if turns and isinstance(turns[-1].decision, Answer):
        return Ending.ANSWERED, None
    return Ending.STEP_LIMIT, "the conversation ends without an answer"


def _fork(document: Document, facts: AtifFacts, turns: Sequence[ImportedTurn]) -> ForkedFrom | None:
    """Where its copied turns come from; None: it has none."""
    if (found := facts.forked_from) is not None:
        return ForkedFrom(found.run, found.episode, found.turn)
    copied = sum(turn.is_context and turn.decision is not None for turn in turns)
    name = document.trajectory_id or ""
    return ForkedFrom("imported", name, copied) if copied else None


def _verdict(facts: AtifFacts) -> Judged | None:
    if facts.label is None:
        return None
    return Judged(
        judge=f"imported:{facts.judge or ''}".rstrip(":"),
        label=facts.label,
        reward=facts.reward,
        step_rewards=tuple(facts.step_rewards),
        findings=tuple(facts.findings),
    )


def _text(content: AtifText) -> str:
    """The text of a message; of another part its kind, as in `[image]`."""
    if isinstance(content, list):
        return "\n".join(part.text or f"[{part.type}]" for part in content)
    return content or ""
