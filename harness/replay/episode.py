"""One logged episode, executed again on a fresh world: its windows, results, row changes, digests
and final state are compared with those of the log."""

from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import msgspec

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import (
    Env,
    Recalls,
    StoredState,
    TakesTogether,
    ToolResult,
)
from rehearsal_room.envpool.mcp.asks import AsksBack, LoggedAnswers
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.continuation.beginning import KeptTurnsDiffer, go_to
from rehearsal_room.harness.core.briefings import logged_briefing
from rehearsal_room.harness.core.errors import LogError, SettingsError
from rehearsal_room.harness.core.events import (
    EpisodeEnded,
    EpisodeStarted,
    HistorySummarized,
    Origin,
    StepTaken,
)
from rehearsal_room.harness.core.messages import AgentCall, Window
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.base import Dialect, call_id, local_result
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.history.windows import HistoryFold, parse_history, windows_of
from rehearsal_room.harness.replay.differences import changes_text, differing_rows, excerpts
from rehearsal_room.harness.rollout.episode import rules_of, user_of

DifferenceKind = Literal[
    "start",  # the digest of the state in which the episode began
    "window",  # which turns were shown, and whether a summary was asked for
    "step",  # a turn is missing, duplicated, or out of order
    "results",  # how many results a step has
    "text",  # the text that the agent got from a call
    "error",  # why a call failed
    "changes",  # the rows that a call changed
    "digest",  # the digest of the state after a call
    "state",  # the final state: its pages, or its digest
]

_MAX_VERIFIED_STATES = 65_536  # final states that are remembered as verified


class LoggedCall(msgspec.Struct, frozen=True):
    """A call as the agent made it."""

    name: str
    arguments: Any


class ReplayDifference(msgspec.Struct, frozen=True):
    """The first difference between a replay and its log. Long texts are shortened around it."""

    what: DifferenceKind
    step: int | None  # from 0; None: before the first step, or after the last
    call_index: int | None  # of the step's calls, from 0; None: it does not concern one call
    call: LoggedCall | None
    expected: str  # as logged
    found: str  # in the replay


class FormatCache:
    """The dialects and history windows of a log's episodes, each made once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._dialects: dict[str, Dialect] = {}
        self._histories: dict[tuple[str, str], HistoryWindow | None] = {}

    def dialect(self, trajectory: Trajectory) -> Dialect:
        """The episode's dialect. Raises LogError when this program does not have it."""
        name = trajectory.started.dialect
        dialect = self._dialects.get(name)
        if dialect is None:
            try:
                dialect = self._dialects[name] = dialect_of(name)
            except SettingsError as exc:
                raise LogError(f"{self._path}: episode {trajectory.episode}: {exc}") from exc
        return dialect

    def history(self, started: EpisodeStarted) -> HistoryWindow | None:
        """The episode's history window; None when this program does not have it."""
        key = (started.history, started.fingerprint)
        if key not in self._histories:
            try:
                policy = parse_history(started.history)
            except SettingsError:
                self._histories[key] = None
            else:
                same = policy.fingerprint == started.fingerprint
                self._histories[key] = policy if same else None
        return self._histories[key]


class StateVerifier:
    """Recomputes digests from stored pages, once for each distinct content: that reads every row
    (about 1 ms in a bundled world), while a hash of the pages takes some 20 µs."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def difference(self, world: States, state: StoredState) -> tuple[str, str] | None:
        """Expected and found text where the pages do not have the digest; None where they do."""
        content = _content(state)
        if content in self._known:
            return None
        try:
            recounted = world.verify_digest(world.restored(state))
        except Exception as exc:  # SQLite raises many types for damaged pages
            return f"pages of a state with digest {state.digest}", f"{type(exc).__name__}: {exc}"
        if recounted != state.digest:
            return f"digest {state.digest}", f"its pages hold a state with digest {recounted}"
        if len(self._known) >= _MAX_VERIFIED_STATES:
            self._known.clear()
        self._known.add(content)
        return None


def _content(state: StoredState) -> bytes:
    total = blake2b(f"{state.template} {state.digest} {state.num_pages}".encode(), digest_size=16)
    for number in sorted(state.pages):
        page = state.pages[number]
        total.update(b"%d %d " % (number, len(page)))
        total.update(page)
    return total.digest()


class EpisodeReplay:
    """Executes one logged episode again, in a fresh world."""

    __slots__ = ("_briefing", "_dialect", "_env", "_trajectory", "_world", "fold", "num_calls")

    def __init__(
        self, trajectory: Trajectory, world: States, env: Env, formats: FormatCache
    ) -> None:
        started, scenario = trajectory.started, world.scenario
        self._trajectory = trajectory
        self._world = world
        self._env = env
        self._dialect = formats.dialect(trajectory)
        self._briefing = logged_briefing(
            started,
            rules=scenario.rules,
            tools=world.tools,
            user=user_of(scenario),
            now=scenario.clock,
        )
        history = formats.history(started)
        self.fold = None if history is None else HistoryFold(history, self._dialect, self._briefing)
        self.num_calls = 0

    @property
    def num_own_ids(self) -> int:
        """The ids and times that the world's server made by itself, and that stood for logged
        ones."""
        return self._env.num_own_ids if isinstance(self._env, Recalls) else 0

    async def compare(
        self, ended: EpisodeEnded, verifier: StateVerifier
    ) -> ReplayDifference | None:
        """The first difference from the log; None where everything is equal."""
        steps = self._trajectory.steps
        if (difference := await self._begin()) is not None:
            return difference
        replies = self._trajectory.replies()
        windows = None if self.fold is None else windows_of(self.fold, replies)
        index = 0
        for number, event in enumerate(replies):
            # The fold applies an event when the next window is requested: after the comparison.
            window = None if windows is None else next(windows)
            if number < self._trajectory.num_context:
                window = None  # it was shown in another episode, maybe under another policy
            if isinstance(event, HistorySummarized):
                difference = _window_difference(index, event, window)
            else:
                difference = (
                    _order_difference(index, event)
                    or _window_difference(index, event, window)
                    or await self._compare_results(index, event)
                )
                index += 1
            if difference is not None:
                return difference
        if ended.num_steps != len(steps):
            return ReplayDifference(
                "step", len(steps), None, None, f"{ended.num_steps} steps", f"{len(steps)} steps"
            )
        return None if ended.state is None else self._compare_state(ended.state, verifier)

    async def _begin(self) -> ReplayDifference | None:
        """Bring the world into the state in which the episode began, and compare what it says of
        that state."""
        started, env = self._trajectory.started, self._env
        found = env.start_digest
        try:
            if started.origin is not None:
                found = await self._go_to_origin(started.origin)
            if started.start_digest != found:
                return _episode_difference("start", started.start_digest, found)
            if started.rules is not None:
                rules = await rules_of(env, self._world.scenario.task(started.task))
                if rules != started.rules:
                    return _episode_difference("start", *excerpts(started.rules, rules))
        except (KeptTurnsDiffer, WorldError) as exc:
            return _episode_difference("start", started.start_digest, str(exc))
        return None

    async def _go_to_origin(self, origin: Origin) -> str:
        """The digest of the final state of another episode, into which the world is brought."""
        self.num_calls += len(origin.calls)
        return await go_to(
            origin,
            self._env.start_digest,
            self._env.call,
            dialect=self._dialect,
            briefing=self._briefing,
        )

    async def _compare_results(self, index: int, step: StepTaken) -> ReplayDifference | None:
        calls = step.executed_calls
        results = step.executed_results
        if len(calls) != len(results):
            expected, found = f"{len(results)} results", f"{len(calls)} calls"
            return ReplayDifference("results", index, None, None, expected, found)
        self._announce(step)
        for position, (call, logged) in enumerate(zip(calls, results, strict=True)):
            if logged.injected or step.was_refused(call, logged, self._hidden):
                continue
            difference = await self._compare_call(index, position, call, logged)
            if difference is not None:
                return difference
        return None

    def _announce(self, step: StepTaken) -> None:
        if isinstance(self._env, TakesTogether):
            self._env.announce(step.calls_of_world(self._hidden))

    async def _compare_call(
        self, index: int, position: int, call: AgentCall, logged: ToolResult
    ) -> ReplayDifference | None:
        try:
            result = await self._call(call, logged)
        except WorldError as exc:
            expected = f"{logged.error or 'success'}: {logged.text}"
            texts = excerpts(expected, f"the world broke: {exc}")
            return _call_difference("error", index, position, call, *texts)
        difference = _difference(index, position, call, logged, result)
        if difference is None and result.digest != logged.digest:
            return _call_difference("digest", index, position, call, logged.digest, result.digest)
        return difference

    async def _call(self, call: AgentCall, logged: ToolResult | None) -> ToolResult:
        """Make a call; what the world's server asks is answered as it was."""
        local = local_result(self._dialect, call, self._briefing)
        if local is not None:
            return local
        self.num_calls += 1
        if isinstance(self._env, AsksBack):
            self._env.answer_with(LoggedAnswers(() if logged is None else logged.asked))
        if isinstance(self._env, Recalls):
            self._env.expect(logged)
        return await self._env.call(call.name, call.arguments, call.id)

    def _compare_state(
        self, state: StoredState, verifier: StateVerifier
    ) -> ReplayDifference | None:
        """Compare final states by their pages: the pool writes equal bytes for equal work."""
        world, env = self._world, self._env
        if state.template != world.template.digest:
            expected, found = f"template {state.template}", f"template {world.template.digest}"
            return _episode_difference("state", expected, found)
        if (broken := verifier.difference(world, state)) is not None:
            return _episode_difference("state", *broken)
        replayed = env.state()
        if state.digest != replayed.digest:
            rows = world.diff(world.restored(state), world.restored(replayed))
            return _episode_difference("state", *differing_rows(rows))
        if state.pages == replayed.pages and state.num_pages == replayed.num_pages:
            return None
        numbers = state.pages.keys() | replayed.pages.keys()
        differing = [n for n in numbers if state.pages.get(n) != replayed.pages.get(n)]
        pages = ", ".join(map(str, sorted(differing))) or "none"
        expected = f"{state.num_pages} pages with digest {state.digest}"
        found = f"equal rows in {replayed.num_pages} pages; other bytes in pages: {pages}"
        return _episode_difference("state", expected, found)

    async def rerun(self, ended: EpisodeEnded) -> tuple[Trajectory, ReplayDifference | None]:
        """The episode as it would have been recorded in this world, and the first call that
        returned another result (None: no call did)."""
        first: ReplayDifference | None = None
        steps = []
        origin, start_digest = self._trajectory.started.origin, self._world.start_digest
        if origin is not None:
            here = msgspec.structs.replace(origin, start_digest=start_digest)
            start_digest = await self._go_to_origin(here)
        for index, step in enumerate(self._trajectory.steps):
            calls = step.executed_calls
            results = await self._results(step)
            if first is None:
                first = _first_difference(index, calls, step.executed_results, results)
            steps.append(_with_results(step, results))
        state = None if ended.state is None else self._env.state()
        world = self._world
        started = msgspec.structs.replace(
            self._trajectory.started,
            scenario_digest=world.scenario.digest,
            start_digest=start_digest,
        )
        trajectory = msgspec.structs.replace(
            self._trajectory,
            started=started,
            steps=tuple(steps),
            ended=msgspec.structs.replace(ended, state=state),
        )
        return trajectory, first

    @property
    def _hidden(self) -> tuple[str, ...]:
        suite = self._world.scenario.suite
        users = () if suite is None else suite.users_unlisted
        return (*self._trajectory.started.hidden, *users)

    async def _results(self, step: StepTaken) -> tuple[ToolResult, ...]:
        """What a step's calls return in this world; results that the world did not give stay."""
        calls = step.executed_calls
        results = []
        self._announce(step)
        for call, one in zip_longest(calls, step.executed_results[: len(calls)]):
            stays = one is not None and (one.injected or step.was_refused(call, one, self._hidden))
            results.append(one if stays else await self._call(call, one))
        return tuple(results)


def _with_results(step: StepTaken, results: tuple[ToolResult, ...]) -> StepTaken:
    if step.user is None:
        return msgspec.structs.replace(step, results=results)
    user = msgspec.structs.replace(step.user, results=results)
    return msgspec.structs.replace(step, user=user)


def _order_difference(index: int, step: StepTaken) -> ReplayDifference | None:
    """The difference where the step's calls have ids of another turn: a step is missing or
    duplicated. None where the ids are right."""
    for position, call in enumerate(step.executed_calls):
        if call.id != (own := call_id(index, position)):
            return _call_difference("step", index, position, call, f"call {call.id}", f"call {own}")
    return None


def _window_difference(
    index: int, event: StepTaken | HistorySummarized, window: Window | None
) -> ReplayDifference | None:
    """The difference where another window was shown for a reply; None where the windows are equal
    or `window` is not known."""
    if window is None:
        return None
    if isinstance(event, HistorySummarized):
        logged = Window((), (), event.first_turn, asks_for_summary=True)
    else:
        logged = Window((), (), event.first_turn, event.recalled)
    expected, found = _describe_window(logged), _describe_window(window)
    return (
        None
        if expected == found
        else ReplayDifference("window", index, None, None, expected, found)
    )


def _describe_window(window: Window) -> str:
    """The turns that a window shows, as text.

    Example: a window of turns 1, 4 and from 7 on -> "turns 1, 4 and from turn 7"
    """
    text = f"from turn {window.first_turn}"
    if window.recalled:
        text = f"turns {', '.join(map(str, window.recalled))} and {text}"
    return f"{text}, to be summed up" if window.asks_for_summary else text


def _first_difference(
    index: int,
    calls: tuple[AgentCall, ...],
    logged: tuple[ToolResult, ...],
    results: tuple[ToolResult, ...],
) -> ReplayDifference | None:
    for position, (call, before, after) in enumerate(zip(calls, logged, results, strict=False)):
        difference = _difference(index, position, call, before, after)
        if difference is not None:
            return difference
    return None


def _difference(
    index: int, position: int, call: AgentCall, logged: ToolResult, result: ToolResult
) -> ReplayDifference | None:
    """The difference of two results of one call; digests are not compared."""
    if result.error != logged.error:
        expected, found = (
            f"{one.error or 'success'}: {excerpts(one.text, one.text)[0]}"
            for one in (logged, result)
        )
        return _call_difference("error", index, position, call, expected, found)
    if result.text != logged.text:
        return _call_difference("text", index, position, call, *excerpts(logged.text, result.text))
    if result.changes != logged.changes:
        texts = (changes_text(one.changes) for one in (logged, result))
        return _call_difference("changes", index, position, call, *excerpts(*texts))
    return None


def _call_difference(
    what: DifferenceKind, index: int, position: int, call: AgentCall, expected: str, found: str
) -> ReplayDifference:
    return ReplayDifference(
        what, index, position, LoggedCall(call.name, call.arguments), expected, found
    )


def _episode_difference(what: DifferenceKind, expected: str, found: str) -> ReplayDifference:
    """A difference that does not belong to a step."""
    return ReplayDifference(what, None, None, None, expected, found)
