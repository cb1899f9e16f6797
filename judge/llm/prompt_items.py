"""The evidence items of a case: what of it is shown to a model.

    P the world's policy   T task   C the criterion that is asked about
    S1.. steps   B1.. tools of which a call failed
    E ending   A final answer   M format record
    D1.. rows that differ   F1.. findings   V what an AWM verifier of kind `sql` observed

Judges of mode `llm` see the trajectory only: no rows, no findings, no observations.

The texts of this module are part of every prompt: a change of one byte must raise
judge.llm.rubric.RENDERING.
"""

from collections import Counter
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import msgspec

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.dialects.base import without_thoughts
from rehearsal_room.harness.log.schema import make_storable
from rehearsal_room.judge.core.case import Case
from rehearsal_room.judge.core.evidence import CallFact, Evidence, Turn, ended_of
from rehearsal_room.judge.llm.rubric import Mode
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import OPEN, Finding

_NUM_LAST = 3  # steps at the end that matter more than those before
CAUSES = {  # of envpool.core.types
    "unknown_tool": "bad call, no such tool",
    "arguments": "bad call, arguments",
    "refused": "refused",
    "timeout": "broken world, timeout",
    "internal": "broken world, internal",
}
_ENDINGS = {
    Ending.ANSWERED: "the agent gave its final answer",
    Ending.FORMAT_ERROR: "the agent broke the rules of form and was stopped",
    Ending.STEP_LIMIT: "the agent ran out of steps",
    Ending.TOKEN_LIMIT: "the agent ran out of tokens",
    Ending.TIME_LIMIT: "the agent ran out of time",
    Ending.POLICY_ERROR: "the agent's model could not be reached",
    Ending.AGENT_FAILED: "the agent's own program failed",
    Ending.MODEL_REFUSED: "the provider of the agent's model withheld a reply",
    Ending.WORLD_ERROR: "the world failed and the episode was stopped",
    Ending.CANCELLED: "the run was cancelled",
}
_VERIFIERS = {
    "package": "by the verifier that the world's author wrote",
    "awm": "by a verifier that a model wrote; it says complete only where it is sure, and anything"
    " else of it proves nothing",
    "tool_calls": "by tool calls at the episode's end",
    "suite": "by the checks of the benchmark that the task is from",
}


class ItemKind(IntEnum):
    """The kinds of items, the most important first: under a budget the last are left out first."""

    TASK = 0
    ENDING = 1
    ANSWER = 2
    FAILED_FINDING = 3
    CHANGE = 4
    PASSED_FINDING = 5
    OBSERVED = 6
    FORMAT = 7
    FAILED_CALL = 8
    WRITING_CALL = 9
    POLICY = 10
    TOOL = 11
    LAST_CALL = 12
    READ = 13
    MESSAGE = 14
    THOUGHT = 15


class EvidenceItem(msgspec.Struct, frozen=True, gc=False):
    """The smallest part of the prompt that is shown or left out. Items may share an id, as those of
    one step do."""

    kind: ItemKind
    evidence_id: str
    texts: tuple[tuple[str, str], ...]  # our words about a text, and the untrusted text itself


class ItemGroup(msgspec.Struct, frozen=True):
    """Items that are quoted in one section, in order."""

    title: str
    items: tuple[EvidenceItem, ...]


def groups_of(case: Case, mode: Mode, criterion: Finding | None = None) -> tuple[ItemGroup, ...]:
    """All that may be shown, in the order in which it is shown, without empty groups."""
    evidence = case.evidence
    by_code = mode == "hybrid"
    groups = [
        ItemGroup("the world", tuple(_policy(evidence))),
        ItemGroup("the task", (*_task(evidence), *_criterion(criterion))),
        ItemGroup("the steps", tuple(_steps(evidence, by_code))),
        ItemGroup("what the agent knew of the tools", tuple(_tools(evidence))),
        ItemGroup("how it ended", tuple(_end(evidence))),
    ]
    if by_code:
        groups += [
            ItemGroup("rows that differ, end against start", tuple(_changes(case))),
            ItemGroup(f"findings, {_VERIFIERS[case.verifier]}", tuple(_findings(case))),
        ]
    return tuple(group for group in groups if group.items)


def _task(evidence: Evidence) -> Iterator[EvidenceItem]:
    info = evidence.info
    texts = (("acting user", info.user), ("time", info.now), ("task", evidence.instruction))
    yield EvidenceItem(
        ItemKind.TASK, "T", tuple(pair for pair in texts if pair[1] or pair[0] == "task")
    )


def _criterion(criterion: Finding | None) -> Iterator[EvidenceItem]:
    if criterion is not None:
        texts = (("criterion", criterion.name), ("is met where", criterion.expected))
        yield EvidenceItem(ItemKind.TASK, "C", texts)


def _policy(evidence: Evidence) -> Iterator[EvidenceItem]:
    if rules := evidence.info.rules:
        yield EvidenceItem(ItemKind.POLICY, "P", (("policy of the world", rules),))


def _tools(evidence: Evidence) -> Iterator[EvidenceItem]:
    """The descriptions of the tools of which a call failed: whose fault that is depends on them."""
    failed = {call.name: None for turn in evidence.turns for call in turn.calls if call.error}
    known = [(name, evidence.info.tools[name]) for name in failed if name in evidence.info.tools]
    for number, (name, description) in enumerate(known, 1):
        yield EvidenceItem(ItemKind.TOOL, f"B{number}", (("tool", f"{name}: {description}"),))


def _end(evidence: Evidence) -> Iterator[EvidenceItem]:
    num_steps = len(evidence.turns)
    steps = f"after {num_steps} step{'' if num_steps == 1 else 's'}"
    ending = f"{evidence.ending}: {_ENDINGS[evidence.ending]}, {steps}"
    texts = [("ending", ending)]
    if evidence.error:
        texts.append(("why", evidence.error))
    yield EvidenceItem(ItemKind.ENDING, "E", tuple(texts))
    answered = evidence.ending is Ending.ANSWERED or evidence.answer
    about = "final answer" if answered else "no answer was given"
    if answered and not evidence.answer.strip():
        about = "final answer, which is empty"
    yield EvidenceItem(ItemKind.ANSWER, "A", ((about, evidence.answer),))
    for fault in evidence.format_faults:
        yield EvidenceItem(
            ItemKind.FORMAT, "M", ((f"format error in step {fault.step + 1}", fault.reason),)
        )


def _steps(evidence: Evidence, by_code: bool) -> Iterator[EvidenceItem]:
    faulty = {fault.step for fault in evidence.format_faults}
    last = len(evidence.turns) - 1
    for index, turn in enumerate(evidence.turns):
        evidence_id = f"S{index + 1}"
        thought, message = _thought_and_message(turn)
        if thought:
            yield EvidenceItem(ItemKind.THOUGHT, evidence_id, (("thought", thought),))
        is_answer = index == last and not turn.calls and message == evidence.answer.strip()
        if message and not is_answer:
            kind = ItemKind.FORMAT if index in faulty else ItemKind.MESSAGE
            yield EvidenceItem(kind, evidence_id, (("said", message),))
        if turn.user:
            yield EvidenceItem(ItemKind.MESSAGE, evidence_id, (("the user said", turn.user),))
        for number, call in enumerate(turn.calls, 1):
            of = f" {number}" if len(turn.calls) > 1 else ""
            kind = _call_kind(call, index > last - _NUM_LAST, by_code)
            yield EvidenceItem(kind, evidence_id, _call(call, of, by_code))


def _thought_and_message(turn: Turn) -> tuple[str, str]:
    """What the agent thought, and the rest of its text. Calls that it wrote into its text are
    removed, because they are shown as calls."""
    message = turn.text.strip()
    thought = ""
    if "think>" in message:
        message, whole = without_thoughts(message), message
        thought = "\n".join(_inside(whole, "think"))
    if turn.calls and message.count("<tool_call>") == len(turn.calls):
        message = _without(message, "tool_call").strip()
    return thought, message


def _inside(text: str, tag: str) -> Iterator[str]:
    """The texts between the tags. An opening tag may be missing at the start, a closing one at the
    end."""
    opened, closed = f"<{tag}>", f"</{tag}>"
    first = text.partition(closed)[0]
    if closed in text and opened not in first:
        text = opened + text
    for part in text.split(opened)[1:]:
        if inner := part.partition(closed)[0].strip():
            yield inner


def _without(text: str, tag: str) -> str:
    """The text without what is between the tags."""
    first, *rest = text.split(f"<{tag}>")
    return first + "".join(part.partition(f"</{tag}>")[2] for part in rest)


def _call_kind(call: CallFact, late: bool, by_code: bool) -> ItemKind:
    if call.error is not None:
        return ItemKind.FAILED_CALL
    if by_code and call.changes:
        return ItemKind.WRITING_CALL
    return ItemKind.LAST_CALL if late else ItemKind.READ


def _call(call: CallFact, of: str, by_code: bool) -> tuple[tuple[str, str], ...]:
    if call.error is not None:
        outcome = CAUSES[call.error]
    elif by_code and (num_rows := len(call.changes)):
        outcome = f"result, {num_rows} row{'' if num_rows == 1 else 's'} changed"
    else:
        outcome = "result"
    return (
        (f"call{of}", f"{call.name} {json_text(call.arguments)}"),
        (f"{outcome}{of and ' of call'}{of}", call.text),
    )


def _changes(case: Case) -> Iterator[EvidenceItem]:
    changes = case.evidence.changes
    if ended_of(case.trajectory).state is None:
        yield EvidenceItem(
            ItemKind.CHANGE, "D", (("it is not known which rows differ beside those shown", ""),)
        )
    elif not changes:
        yield EvidenceItem(ItemKind.CHANGE, "D", (("no row differs", ""),))
    for number, change in enumerate(changes, 1):
        yield EvidenceItem(ItemKind.CHANGE, f"D{number}", tuple(_change(change)))


def _change(change: RowChange) -> Iterator[tuple[str, str]]:
    """The row's key and its columns: all of a new or a deleted row, else those that differ."""
    before, after = change.before, change.after
    what = "created" if before is None else "deleted" if after is None else "changed"
    yield f"row {what}", f"{change.table} {', '.join(map(json_text, change.key))}"
    if before is not None and after is not None:
        moved = [name for name in after if not _same(before.get(name), after[name])]
        before = {name: before.get(name) for name in moved}
        after = {name: after[name] for name in moved}
    for about, row in (("was", before), ("is", after)):
        if row is not None:
            plain = {name: _plain(value) for name, value in row.items()}
            yield about, json_text(plain)


def _same(one: Any, other: Any) -> bool:
    """Whether SQLite stores the same: 1 and 1.0 differ there, though Python calls them equal."""
    return type(one) is type(other) and bool(one == other)


def _findings(case: Case) -> Iterator[EvidenceItem]:
    """The findings, failed ones first; the ids are in the verifier's order."""
    evidence = case.evidence
    if evidence.unverified is not None:
        yield EvidenceItem(
            ItemKind.FAILED_FINDING, "F", (("no findings, because", evidence.unverified),)
        )
    idle = Counter(case.idle)
    passed: list[EvidenceItem] = []
    for number, finding in enumerate(evidence.findings, 1):
        evidence_id = f"F{number}"
        if not finding.passed:
            about = f"failed {finding.kind}"
            if finding.is_open:
                about = f"{finding.kind} that code cannot prove; decide on it by the trajectory"
            yield EvidenceItem(ItemKind.FAILED_FINDING, evidence_id, _finding(finding, about))
            continue
        about = f"passed {finding.kind}"
        texts = _in_one_line
        if finding.name.endswith(OPEN):
            about = f"{finding.kind} that code cannot check; decide on it by the trajectory"
            texts = _finding
        if finding.kind == "goal" and idle[finding.name]:
            idle[finding.name] -= 1
            about += ", which doing nothing meets"
        passed.append(EvidenceItem(ItemKind.PASSED_FINDING, evidence_id, texts(finding, about)))
    yield from passed
    if evidence.observed:
        yield EvidenceItem(ItemKind.OBSERVED, "V", (("observed by a verifier", evidence.observed),))


def _finding(finding: Finding, about: str) -> tuple[tuple[str, str], ...]:
    return ((about, finding.name), ("expected", finding.expected), ("found", finding.found))


def _in_one_line(finding: Finding, about: str) -> tuple[tuple[str, str], ...]:
    """A finding that passed: what was found is what was expected."""
    return ((about, f"{finding.name}: {finding.expected}" if finding.expected else finding.name),)


def json_text(value: Any) -> str:
    """A value as JSON on one line."""
    value = _plain(value)
    try:
        return msgspec.json.encode(value).decode()
    except (OverflowError, UnicodeEncodeError):  # values that no log can hold, as the log has them
        return msgspec.json.encode(make_storable(value)).decode()


def _plain(value: Any) -> Any:
    """Bytes as a text with their number and their beginning, in hexadecimal; else the value."""
    if not isinstance(value, bytes):
        return value
    return f"{len(value):,} bytes: {value[:32].hex()}{'…' if len(value) > 32 else ''}"
