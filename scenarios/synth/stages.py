"""The stages between a scenario and its code: what each asks, and how it tries the answers."""

import keyword
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from scenarios.format import NAME, TASK_ID, AwmSample, AwmTable
from scenarios.similar import cosine, embed
from scenarios.synth.drafts import (
    Actor,
    Brief,
    Draft,
    Idea,
    Kind,
    Parameter,
    TaskDraft,
    ToolDraft,
    slug,
)
from scenarios.synth.package import CLOCK
from scenarios.synth.parts import Bench, Purpose, Turn, Unhostable
from scenarios.synth.prompts import Prompts
from scenarios.synth.reading import Unread, json_of
from scenarios.synth.seeding import StatementFault, statement_faults
from scenarios.synth.trying import Checked, listed

_MIN_INSTRUCTION = 15  # characters
_SAME_TASK = 0.92  # cosine from which on two instructions are one
_SECRETS = re.compile(  # a column's name and the beginning of its type
    r"(?:^|[(,])\s*[\"`\[]?(\w*passw(?:or)?d\w*|salt|(?:session|auth|access)_token)[\"`\]]?\s+[a-z]",
    re.I | re.M,
)
_SCHEMA = re.compile(r"\s*create\s+(unique\s+)?(table|index|trigger)\b", re.I)
_TYPES = ("string", "integer", "number", "boolean", "array", "null")
_NAMES = "a lower-case identifier and no keyword of Python"
_json = msgspec.json.Encoder(order="deterministic").encode


class Sizes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for; the defaults are AWM's medians."""

    tasks: int = 10
    tables: int = 18
    rows: int = 120
    tools: int = 35


class Stage:
    """What the stages share. `name` is the prompt's, too."""

    name = ""

    def __init__(self, idea: Idea, prompts: Prompts) -> None:
        self._idea = idea
        self._prompts = prompts
        self.purpose = Purpose(self.name, idea.key)

    def opening(self) -> tuple[Turn, ...]:
        """The question."""
        return self._prompts.turns(self.name, **self._fields())

    def again(self, problems: str) -> tuple[Turn, ...]:
        """What is said when an answer did not hold."""
        return self._prompts.turns("feedback", problems=problems)

    def _fields(self) -> Mapping[str, object]:
        return {"name": self._idea.name, "description": self._idea.description}


class _TaskAnswer(msgspec.Struct):
    instruction: str
    id: str = ""
    kind: Kind = "change"


class _BriefAnswer(msgspec.Struct):
    tasks: list[_TaskAnswer | str]
    user: Actor = Actor()
    policy: str | list[str] = ""


class TasksStage(Stage):
    """The user, the rules and the tasks."""

    name = "tasks"

    def __init__(self, idea: Idea, prompts: Prompts, count: int) -> None:
        super().__init__(idea, prompts)
        self._count = count

    def _fields(self) -> Mapping[str, object]:
        return {**super()._fields(), "count": self._count}

    async def check(self, text: str) -> Checked[Brief]:
        """There are enough of them, each a task, none twice."""
        try:
            answer = json_of(text, _BriefAnswer)
        except Unread as exc:
            return Checked(None, (str(exc),))
        policy = answer.policy
        if not isinstance(policy, str):
            policy = "\n".join(f"- {rule.removeprefix('- ')}" for rule in policy)
        tasks, faults = _tasks(answer.tasks)
        if len(tasks) < self._count:
            faults.append(f"expected {self._count} tasks, found {len(tasks)} that can be used")
        value = Brief(answer.user, policy, tuple(tasks[: self._count]))
        return Checked(value if tasks else None, tuple(faults))


def _tasks(given: Sequence[_TaskAnswer | str]) -> tuple[list[TaskDraft], list[str]]:
    """The tasks that can be used, and what is wrong with the others."""
    tasks: list[TaskDraft] = []
    faults = []
    vectors = embed(each if isinstance(each, str) else each.instruction for each in given)
    kept: list[int] = []
    for place, each in enumerate(given):
        task = _TaskAnswer(each) if isinstance(each, str) else each
        instruction = " ".join(task.instruction.split())
        if len(instruction) < _MIN_INSTRUCTION:
            faults.append(f"task {place + 1}: its instruction is no task: {instruction!r}")
            continue
        if any(cosine(vectors[place], vectors[other]) > _SAME_TASK for other in kept):
            faults.append(f"task {place + 1} is another one in other words: {instruction[:80]!r}")
            continue
        kept.append(place)
        taken = {known.id for known in tasks} | {"none"}
        tasks.append(TaskDraft(_task_id(task.id or instruction, taken), task.kind, instruction))
    return tasks, faults


def _task_id(written: str, taken: set[str]) -> str:
    """An id that is a function's name with `_` for `-`, and not taken yet."""
    base = slug(written.replace("_", "-"))
    if not TASK_ID.fullmatch(base) or not base[0].isalpha() or keyword.iskeyword(base):
        base = f"task-{base}".rstrip("-")
    number, found = 2, base
    while found in taken:
        number, found = number + 1, f"{base}-{number}"
    return found


class _TableAnswer(msgspec.Struct):
    ddl: str
    name: str = ""
    indexes: list[str] = []


class _SchemaAnswer(msgspec.Struct):
    tables: list[_TableAnswer]


class DraftStage(Stage):
    """A stage that goes on with a draft. `folder` is where its packages are tried out."""

    def __init__(
        self, draft: Draft, prompts: Prompts, sizes: Sizes, bench: Bench, folder: Path
    ) -> None:
        super().__init__(draft.idea, prompts)
        self._draft = draft
        self._sizes = sizes
        self._bench = bench
        self._folder = folder

    def _fields(self) -> Mapping[str, object]:
        brief = self._draft.brief
        return {
            **super()._fields(),
            "user": f"{brief.user.name}, {brief.user.role}, known as {brief.user.id}",
            "policy": brief.policy or "none",
            "tasks": listed(
                [f"{each.id} ({each.kind}): {each.instruction}" for each in brief.tasks]
            ),
            "clock": CLOCK,
            "schema": "\n".join(f"{statement};" for statement in self._draft.schema),
        }


class SchemaStage(DraftStage):
    """The tables."""

    name = "schema"

    def _fields(self) -> Mapping[str, object]:
        return {**super()._fields(), "tables": self._sizes.tables}

    async def check(self, text: str) -> Checked[tuple[AwmTable, ...]]:
        """Every statement is executed, and may create tables, indexes and triggers only."""
        try:
            answer = json_of(text, _SchemaAnswer)
        except Unread as exc:
            return Checked(None, (str(exc),))
        tables = tuple(
            AwmTable(table.name, table.ddl, tuple(table.indexes)) for table in answer.tables
        )
        faults = _schema_faults(tables)
        if not tables:
            return Checked(None, ("there is no table",))
        draft = msgspec.structs.replace(self._draft, tables=tables)
        try:
            failing = await statement_faults(self._bench, draft, self._folder)
        except Unhostable as exc:
            return Checked(None, (exc.reason,))
        return Checked(tables, (*faults, *(fault.told() for fault in failing)))


def _schema_faults(tables: Sequence[AwmTable]) -> list[str]:
    faults = []
    counts = Counter(table.name for table in tables)
    for table in tables:
        for statement in (table.ddl, *table.indexes):
            if not _SCHEMA.match(statement):
                shown = " ".join(statement.split())[:60]
                faults.append(f"table {table.name}: only CREATE TABLE, INDEX, TRIGGER: {shown}")
        if counts[table.name] > 1:
            faults.append(f"table {table.name} is there {counts[table.name]} times")
        secrets = [found[1].lower() for found in _SECRETS.finditer(table.ddl)]
        faults += [f"table {table.name}: no column for a {secret}" for secret in secrets]
    return faults


class _SampleAnswer(msgspec.Struct):
    insert_statements: list[str]
    table_name: str = ""


class _DataAnswer(msgspec.Struct):
    tables: list[_SampleAnswer]


class _Repair(msgspec.Struct):
    statement: int
    sql: str


class _Repairs(msgspec.Struct):
    repairs: list[_Repair]


class DataStage(DraftStage):
    """The rows. A statement that fails is repaired, never skipped: data of which one statement
    fails does not hold."""

    name = "data"

    def __init__(
        self, draft: Draft, prompts: Prompts, sizes: Sizes, bench: Bench, folder: Path
    ) -> None:
        super().__init__(draft, prompts, sizes, bench, folder)
        self._last: tuple[AwmSample, ...] = ()  # what repairs are applied to
        self._failing: list[StatementFault] = []

    def _fields(self) -> Mapping[str, object]:
        return {**super()._fields(), "rows": self._sizes.rows}

    def again(self, problems: str) -> tuple[Turn, ...]:
        """With the statements that failed, to be repaired one by one."""
        if not self._failing:
            return super().again(problems)
        statements = [text for sample in self._last for text in sample.insert_statements]
        told = [
            f"{fault.told()}\n  {statements[fault.number - 1]}" if fault.number else fault.told()
            for fault in self._failing
        ]
        return self._prompts.turns("repair", problems=listed(told))

    async def check(self, text: str) -> Checked[tuple[AwmSample, ...]]:
        """Every statement is executed, foreign keys are checked, and there are rows."""
        try:
            samples = self._read(text)
        except Unread as exc:
            return Checked(None, (str(exc),))
        statements = [statement for sample in samples for statement in sample.insert_statements]
        if not any(statement.strip() for statement in statements):
            return Checked(None, ("there is no INSERT",))
        faults = [
            f"data statement {number}: only INSERT is for data: {' '.join(statement.split())[:60]}"
            for number, statement in enumerate(statements, 1)
            if statement.strip() and not re.match(r"\s*insert\b", statement, re.I)
        ]
        draft = msgspec.structs.replace(self._draft, samples=samples)
        try:
            self._failing = await statement_faults(self._bench, draft, self._folder)
        except Unhostable as exc:
            return Checked(None, (exc.reason,))
        self._last = samples
        return Checked(samples, (*faults, *(fault.told() for fault in self._failing)))

    def _read(self, text: str) -> tuple[AwmSample, ...]:
        """All of the data, or repairs of what was there. Raises Unread."""
        if self._last:
            try:
                return self._repaired(json_of(text, _Repairs).repairs)
            except Unread:
                pass  # all of it anew
        return tuple(
            AwmSample(table.table_name, tuple(table.insert_statements))
            for table in json_of(text, _DataAnswer).tables
        )

    def _repaired(self, repairs: Sequence[_Repair]) -> tuple[AwmSample, ...]:
        by_number = {repair.statement: repair.sql for repair in repairs}
        number = 0
        samples = []
        for sample in self._last:
            statements = []
            for statement in sample.insert_statements:
                number += 1
                statements.append(by_number.pop(number, statement))
            samples.append(AwmSample(sample.table_name, tuple(statements)))
        more = tuple(by_number[key] for key in sorted(by_number))  # beyond the last: more rows
        return (*samples, AwmSample("", more)) if more else tuple(samples)


class _ToolAnswer(msgspec.Struct):
    name: str
    description: str = ""
    parameters: dict[str, Parameter] = {}
    reads: list[str] = []
    writes: list[str] = []


class _ToolsAnswer(msgspec.Struct):
    tools: list[_ToolAnswer]


class ToolsStage(DraftStage):
    """What the tools are."""

    name = "tools"

    def _fields(self) -> Mapping[str, object]:
        return {**super()._fields(), "tools": self._sizes.tools}

    async def check(self, text: str) -> Checked[tuple[ToolDraft, ...]]:
        """Names are names and none is there twice; types are known, and so are the tables."""
        try:
            answer = json_of(text, _ToolsAnswer)
        except Unread as exc:
            return Checked(None, (str(exc),))
        tools = tuple(
            ToolDraft(
                tool.name, tool.description, tool.parameters, tuple(tool.reads), tuple(tool.writes)
            )
            for tool in answer.tools
        )
        if not tools:
            return Checked(None, ("there is no tool",))
        tables = {table.name for table in self._draft.tables}
        counts = Counter(tool.name for tool in tools)
        faults = [f"tool {name} is there {n} times" for name, n in counts.items() if n > 1]
        faults += [fault for tool in tools for fault in _tool_faults(tool, tables)]
        named = {name for tool in tools for name in (*tool.reads, *tool.writes)}
        notes = tuple(f"no tool uses table {name}" for name in sorted(tables - named))
        return Checked(tools, tuple(faults), notes)


def _tool_faults(tool: ToolDraft, tables: set[str]) -> list[str]:
    faults = []
    if not _is_name(tool.name):
        faults.append(f"tool {tool.name!r}: its name must be {_NAMES}")
    if not tool.description.strip():
        faults.append(f"tool {tool.name}: it has no description")
    for name, parameter in tool.parameters.items():
        words = parameter.type if isinstance(parameter.type, list) else [parameter.type]
        if not _is_name(name):
            faults.append(f"tool {tool.name}: parameter {name!r} must be {_NAMES}")
        for word in words:
            kind = word.get("type") if isinstance(word, dict) else word
            if kind not in _TYPES:
                faults.append(f"tool {tool.name}: parameter {name}: {kind!r} is no type")
    unknown = [table for table in (*tool.reads, *tool.writes) if table not in tables]
    return [*faults, *(f"tool {tool.name}: there is no table {table!r}" for table in unknown)]


def _is_name(text: str) -> bool:
    """Whether Python takes it as the name of a function or a parameter."""
    return NAME.fullmatch(text) is not None and not keyword.iskeyword(text)


def tools_json(tools: Sequence[ToolDraft]) -> str:
    """The tools as models are shown them."""
    shown: list[Any] = [msgspec.to_builtins(tool) for tool in tools]
    return msgspec.json.format(_json(shown), indent=1).decode()
