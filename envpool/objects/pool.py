"""A pool of object worlds: worlds whose state is Python objects, in the process of their suite.

Each world has a mirror in our own store: the table `records`, into which every call's changed
records are written. So the worlds have digests, row changes, stored states and diffs like any
other, and the log and the viewers need to know nothing of them. A fork repeats the calls of its
origin before its own first call.

Where the suite's process ends, the worlds that it held break (WorldError), and the next lease
starts another one.
"""

import itertools
import math
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    suppress,
)
from typing import Any, Self

import anyio
import msgspec
from anyio import AsyncContextManagerMixin
from anyio.abc import TaskGroup

from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.remote_states import Verified
from rehearsal_room.envpool.core.types import Env, SentCall, StoredState, ToolResult, ToolSpec
from rehearsal_room.envpool.inprocess.toolset import Tool
from rehearsal_room.envpool.inprocess.world import HostedScenario, Lease
from rehearsal_room.envpool.objects.process import ProgramSettings, SuiteProcess
from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.envpool.store.pool_protocol import VerifierKind
from rehearsal_room.envpool.store.states import States
from rehearsal_room.scenarios.api import Db
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.core.suite_record import RECORDS_SQL
from rehearsal_room.scenarios.format import Scenario, Task

_MIRROR = "write"
_NO_CLOCK = "2000-01-01T00:00:00Z"  # of a database that nobody asks for the time
_REMEMBERED = 8  # call ids whose results a lease remembers
_INSERT = (
    "INSERT INTO records (kind, key, value) VALUES (?, ?, ?)"
    " ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value"
)
_DELETE = "DELETE FROM records WHERE kind = ? AND key = ?"
TalkMessages = list[dict[str, Any]]  # of an episode: its turns as JSON (see judge.suites.talk)


Question = list[dict[str, str]]  # to a model: messages, each with role and content


class _Writes(msgspec.Struct):
    writes: list[tuple[str, str, str | None]]


def _write(db: Db, writes: list[tuple[str, str, str | None]]) -> str:
    for kind, key, value in writes:
        if value is None:
            db.run(_DELETE, kind, key)
        else:
            db.run(_INSERT, kind, key, value)
    return ""


_WRITE = Tool(_write, ToolSpec(_MIRROR, "", {"type": "object"}), _Writes)


class ObjectStates(HostedScenario):
    """The mirror of a suite's world: the states of a hosted scenario."""

    def __init__(self, scenario: Scenario, tools: Sequence[ToolSpec], data_sql: str) -> None:
        mirrored = msgspec.structs.replace(
            scenario, schema_sql=RECORDS_SQL, data_sql=data_sql, clock=scenario.clock or _NO_CLOCK
        )
        super().__init__(mirrored, tools={_MIRROR: _WRITE})
        self.scenario = scenario
        self.tools = tuple(tools)
        suite = scenario.suite
        unlisted = () if suite is None else (*suite.unlisted, *suite.users_unlisted)
        self.names = frozenset([*(tool.name for tool in tools), *unlisted])

    def has(self, name: str) -> bool:
        """Whether the suite answers calls of a tool of this name."""
        return name in self.names or bool(spec_of(self.scenario).get("any_name"))


class ObjectEnv:
    """A leased object world. It implements envpool.core.types.Env, and TakesTogether: a world whose
    `spec` has `together` makes all calls of a reply with its first."""

    awaits = True

    def __init__(self, process: SuiteProcess, lease: Lease, numbers: "_Numbers") -> None:
        self._process = process
        self._lease = lease
        self._numbers = numbers
        self._world = numbers.next()
        # Requests of calls so far, as the program gets them: its operation, and the fields.
        self._calls: list[tuple[str, dict[str, Any]]] = []
        self._announced: tuple[SentCall, ...] = ()
        self._is_open = False  # whether the suite has the world, in the state after `_calls`
        self._answered: OrderedDict[str, ToolResult] = OrderedDict()

    def __repr__(self) -> str:
        return f"<ObjectEnv {self._world} {self._lease!r}>"

    @property
    def _states(self) -> ObjectStates:
        states = self._lease.world
        assert isinstance(states, ObjectStates)
        return states

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return self._states.tools

    @property
    def start_digest(self) -> str:
        return self._lease.start_digest

    @property
    def digest(self) -> str:
        return self._lease.digest

    def announce(self, calls: Sequence[SentCall]) -> None:
        is_usable = spec_of(self._states.scenario).get("together") and all(
            one.name in self._states.names and isinstance(one.arguments, dict) for one in calls
        )
        self._announced = tuple(calls) if is_usable else ()

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        if call_id and call_id in self._answered:
            return self._answered[call_id]
        announced, self._announced = self._announced, ()
        if announced and announced[0].call_id == call_id:
            return await self._call_together(announced)
        if not self._states.has(name):
            suite = self._states.scenario.suite
            known = ", ".join(tool.name for tool in self.tools)
            text = f"There is no tool {name!r}. Tools: {known}."
            if suite is not None and suite.no_tool:
                text = suite.no_tool.format(name=name)
            return ToolResult(text, "unknown_tool", (), self.digest)
        if not isinstance(arguments, dict):
            text = f"{name}: the arguments must be a JSON object."
            return ToolResult(text, "arguments", (), self.digest)
        result = self._mirrored(await self._called("call", name=name, arguments=arguments))
        if call_id:
            self._remember(call_id, result)
        return result

    async def _call_together(self, calls: Sequence[SentCall]) -> ToolResult:
        """Make all calls of a reply; the result of the first. What they changed belongs to the
        first that succeeded: the order in which they were made may be another."""
        sent = [{"name": one.name, "arguments": one.arguments, "id": one.sent_id} for one in calls]
        answer = await self._called("calls", calls=sent)
        answers: list[dict[str, Any]] = answer["answers"]
        swapped = [one["place"] for one in answers] != [*range(len(answers))]
        wrote = next((at for at, one in enumerate(answers) if one["error"] is None), 0)
        results = []
        for at, one in enumerate(answers):
            result = self._mirrored({**one, "writes": answer["writes"] if at == wrote else []})
            place = one["place"] if swapped else None
            results.append(msgspec.structs.replace(result, place=place))
        for call, result in zip(calls, results, strict=True):
            self._remember(call.call_id, result, most=max(_REMEMBERED, len(calls)))
        return results[0]

    def _remember(self, call_id: str, result: ToolResult, *, most: int = _REMEMBERED) -> None:
        self._answered[call_id] = result
        while len(self._answered) > most:
            self._answered.popitem(last=False)

    async def _called(self, op: str, **fields: Any) -> dict[str, Any]:
        try:
            if not self._is_open:
                await self._open()
            return await self._process.request(op, world=self._world, **fields)
        except PoolError as exc:
            raise WorldError(str(exc)) from exc
        finally:
            self._calls.append((op, fields))

    async def _open(self) -> None:
        """Make the suite's world, and repeat the calls so far."""
        spec = spec_of(self._states.scenario)
        await self._process.request("open", world=self._world, spec=spec)
        for op, fields in self._calls:
            await self._process.request(op, world=self._world, **fields)
        self._is_open = True

    def _mirrored(self, answer: dict[str, Any]) -> ToolResult:
        """The result of a call, whose changed records are written into the mirror."""
        text, error = answer["text"], answer["error"]
        if not answer["writes"]:
            return ToolResult(text, error, (), self.digest)
        written = self._lease.call(_MIRROR, {"writes": answer["writes"]})
        assert written.error is None, written.text
        return msgspec.structs.replace(written, text=text, error=error)

    async def rules(self, task: Task) -> str:
        """The rules of a task, which the suite writes from the world's state now."""
        scenario = self._states.scenario
        assert scenario.suite is not None
        scoring = scenario.suite.scoring.get(task.id, {})
        try:
            if not self._is_open:
                await self._open()
            answer = await self._process.request("rules", world=self._world, scoring=scoring)
        except PoolError as exc:
            raise WorldError(str(exc)) from exc
        return str(answer["rules"])

    async def check(self, task: Task, answer: str) -> tuple[Finding, ...]:
        """The findings that the suite makes in the world itself; none where its score is made from
        the log. Raises WorldError."""
        spec = spec_of(self._states.scenario)
        if not spec.get("checked_live"):
            return ()
        try:
            if not self._is_open and self._calls:
                await self._open()
            self._is_open = True
            found = await self._process.request("check", world=self._world, spec=spec)
            return _findings_in(found)
        except PoolError as exc:
            raise WorldError(f"the task could not be checked: {exc}") from exc

    def state(self) -> StoredState:
        return self._lease.state()

    def fork(self) -> "ObjectEnv":
        """A second world in the state that this one has now."""
        second = ObjectEnv(self._process, self._lease.fork(), self._numbers)
        second._calls = list(self._calls)
        return second

    def reset(self) -> None:
        self._lease.reset()
        self._answered.clear()
        self._announced = ()
        self._calls.clear()
        self._is_open = False


class _Numbers:
    """The numbers of the suite's worlds that one lease uses: its own, and those of forks."""

    def __init__(self, source: Iterator[int]) -> None:
        self._source = source
        self.used: list[int] = []

    def next(self) -> int:
        self.used.append(next(self._source))
        return self.used[-1]


def spec_of(scenario: Scenario) -> dict[str, Any]:
    """From what the suite's program makes the scenario's world."""
    assert scenario.suite is not None
    return scenario.suite.world


class ObjectPool(AsyncContextManagerMixin):
    """Leases the worlds of one suite. It implements envpool.store.pool_protocol.Pool.

    To be used in `async with`. Raises PoolError where the suite's program cannot be started.
    """

    _tasks: TaskGroup  # while the block is open

    def __init__(self, settings: ProgramSettings) -> None:
        self._settings = settings
        self._starting = anyio.Lock()
        self._process: SuiteProcess | None = None
        self._states: dict[str, ObjectStates] = {}  # scenario digest -> its mirror
        self._numbers = itertools.count()
        self.num_live = 0
        self.max_live = 0
        self._num_starts = 0

    def __repr__(self) -> str:
        return f"<ObjectPool {self._settings.adapter} [{self.num_live} live]>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        try:
            async with OwnedTasks() as self._tasks:
                yield self
        finally:
            for states in self._states.values():
                states.close()

    async def _running(self) -> SuiteProcess:
        """The suite's process, which is started where none runs."""
        async with self._starting:
            if self._process is None or self._process.why_ended:
                process = SuiteProcess(self._settings)
                await self._tasks.start(process.run)
                self._process = process
                self._num_starts += 1
            return self._process

    async def host(self, scenario: Scenario) -> States:
        """Ask the suite for the world's tools and records. Raises PoolError."""
        if scenario.digest not in self._states:
            process = await self._running()
            described = await process.request("describe", spec=spec_of(scenario))
            tools = msgspec.convert(described["tools"], list[ToolSpec])
            data_sql = "".join(map(_row_sql, described["records"]))
            self._states[scenario.digest] = ObjectStates(scenario, tools, data_sql)
        return self._states[scenario.digest]

    def hosted(self, scenario: Scenario) -> States:
        """The mirror of a scenario that is hosted already."""
        return self._states[scenario.digest]

    def isolates(self, scenario: Scenario) -> bool:
        """Always False: the suite's code is not in the workers."""
        return False

    def lease(
        self, scenario: Scenario, task: Task | None = None
    ) -> AbstractAsyncContextManager[Env]:
        return self._lease(scenario)

    @asynccontextmanager
    async def _lease(self, scenario: Scenario) -> AsyncIterator[Env]:
        await self.host(scenario)
        process, numbers = await self._running(), _Numbers(self._numbers)
        self.num_live += 1
        self.max_live = max(self.max_live, self.num_live)
        try:
            yield ObjectEnv(process, self._states[scenario.digest].lease(), numbers)
        finally:
            self.num_live -= 1
            with anyio.CancelScope(shield=True), suppress(PoolError):
                await process.request("close", worlds=numbers.used)

    async def verify(
        self,
        scenario: Scenario,
        task: Task,
        state: StoredState,
        answer: str,
        which: VerifierKind = "code",
    ) -> Verified:
        """A suite scores whole episodes: `score`."""
        raise PoolError(
            f"scenario {scenario.name!r} is scored by its suite, from the whole episode"
        )

    async def questions(
        self, scenario: Scenario, task: Task, talk: TalkMessages, answers: Sequence[str] = ()
    ) -> list[Question]:
        """What the suite's own scoring of an episode asks a model after these answers; none: it
        asks nothing more. Raises PoolError."""
        assert scenario.suite is not None
        process = await self._running()
        scoring = {**scenario.suite.scoring.get(task.id, {}), "answers": list(answers)}
        answer = await process.request(
            "questions", spec=spec_of(scenario), scoring=scoring, talk=talk
        )
        return msgspec.convert(answer["questions"], list[Question])

    async def score(
        self,
        scenario: Scenario,
        task: Task,
        talk: TalkMessages,
        answers: Sequence[str] | None = None,
        *,
        broken_off: bool = False,
    ) -> tuple[Finding, ...]:
        """The suite's own scoring of an episode, as findings. `answers` of a model to `questions`;
        None: no model was asked. `broken_off`: the episode did not end by its talk. Raises
        PoolError."""
        assert scenario.suite is not None
        process = await self._running()
        scoring = scenario.suite.scoring.get(task.id, {})
        if answers is not None:
            scoring = {**scoring, "answers": list(answers)}
        if broken_off:
            scoring = {**scoring, "broken_off": True}
        answer = await process.request("score", spec=spec_of(scenario), scoring=scoring, talk=talk)
        return _findings_in(answer)

    def statistics(self) -> dict[str, int]:
        return {
            "worlds": len(self._states),
            "live": self.num_live,
            "max_live": self.max_live,
            "leases": sum(states.num_leases for states in self._states.values()),
            "calls": sum(states.num_calls for states in self._states.values()),
            "starts": self._num_starts,
        }


def _findings_in(answer: dict[str, Any]) -> tuple[Finding, ...]:
    """The findings in an answer of the suite's program. Raises PoolError for one whose share is not
    from 0 to 1, or whose weight is negative or infinite."""
    try:
        findings = msgspec.convert(tuple(answer["findings"]), tuple[Finding, ...])
    except msgspec.ValidationError as exc:
        raise PoolError(f"the suite's program made no findings: {exc}") from exc
    for one in findings:
        at = f"finding {one.name!r}"
        if not (one.share is None or 0 <= one.share <= 1):
            raise PoolError(f"{at}: expected a share from 0 to 1, found {one.share:g}")
        if not 0 <= one.weight < math.inf:
            raise PoolError(f"{at}: expected a weight of 0 or more, found {one.weight:g}")
    return findings


def _row_sql(record: Sequence[str]) -> str:
    """The statement that adds a record to the start.

    Example: ["Bank", "name", '"Ada"'] -> INSERT INTO records VALUES ('Bank', 'name', '"Ada"');
    """
    values = ", ".join("'" + text.replace("'", "''") + "'" for text in record)
    return f"INSERT INTO records VALUES ({values});\n"
