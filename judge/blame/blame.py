"""Which turn of a failed episode is to blame: what can still be won after each turn.

    S(0) -turn 0-> S(1) -turn 1-> … S(T-1) -turn T-1-> the verdict

From each state S(t) episodes are forked: by a policy, for the chance of success; by an oracle that
goes on as if each call that was tried were done; and, where that fails, by one that also puts right
what was done wrong (judge.blame.search). A state from which any of them completes the task is not
lost, nor is one before it. The steps that are left are a part of the state.

`lost_at` is the turn after the last state that is known not to be lost. It is to blame, unless it
did nothing wrong itself (it made the solution's own calls, or it only ended the episode) while a
mistake of an earlier turn stood: then that earlier turn is, `wrong_since`.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.harness.continuation.beginning import Beginning, KeptTurnsDiffer, rebuild
from rehearsal_room.harness.core.briefings import logged_briefing
from rehearsal_room.harness.core.errors import LogError
from rehearsal_room.harness.core.events import WITH_ERRORS, HistorySummarized, Label, StepTaken
from rehearsal_room.harness.core.messages import Act, Answer
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.policies.oracle import made_in
from rehearsal_room.harness.policies.solution_left import calls_left
from rehearsal_room.harness.rollout.episode import user_of
from rehearsal_room.judge.blame.forks import Fork, ForkPlayer, Origin, Outcome
from rehearsal_room.judge.blame.report import Blame, OracleWord, TurnState
from rehearsal_room.judge.blame.rescue import Candidate, candidates_at, rescue_of
from rehearsal_room.judge.blame.search import Changes, Search
from rehearsal_room.judge.core.put_right import logs_of
from rehearsal_room.judge.failures.calls import call_text, enumerated_arguments
from rehearsal_room.judge.failures.reference import Reference, reference_of, tables_in
from rehearsal_room.judge.statistics.intervals import exact_interval
from rehearsal_room.scenarios.core.short_text import one_line
from rehearsal_room.scenarios.format import Call, Scenario, Task

_LONGEST = 160  # characters of an action
_NOTHING = Outcome(0, 0, 0, "", ())


class Plan(NamedTuple):
    """Calls from a state, as they fit into the steps that are left."""

    calls: tuple[Call, ...]
    at_once: bool = False


class _Case:
    """One episode, and what is known of its states."""

    def __init__(self, origin: Origin, reference: Reference | None, max_steps: int) -> None:
        self.origin, self.reference, self.max_steps = origin, reference, max_steps
        self.turns = min(origin.turns, max_steps)
        self.own = [_NOTHING] * self.turns
        self.going_on: dict[int, Outcome] = {}  # by the turns that are kept
        self.righting: dict[int, Outcome] = {}
        self.plans: dict[int, Plan] = {}  # by which a state was tried last
        self.tried: list[tuple[Candidate, Outcome]] = []
        self.notes: list[str] = []
        self.faults: dict[int, str] = {}  # why no fork begins there, by the turns that are kept

    @property
    def writes(self) -> list[bool]:
        """Which calls of the solution change rows."""
        assert self.reference is not None
        return [bool(result.changes) for result in self.reference.results]

    def left_after(self, turn: int, *, tried_counts: bool) -> list[int]:
        """The solution's calls that are left after so many turns."""
        assert self.reference is not None
        made = made_in(self.origin.trajectory.steps[:turn])
        return calls_left(self.reference.calls, made, self.writes, tried_counts=tried_counts)

    @property
    def states(self) -> list[int]:
        """The states in which forks begin, by the turns that are kept."""
        return [turn for turn in range(self.turns) if turn not in self.faults]

    @property
    def last_going_on(self) -> int | None:
        """The last state from which the oracle goes on to complete the task."""
        return max((turn for turn, one in self.going_on.items() if one.succeeds), default=None)

    @property
    def last_open(self) -> int | None:
        """The last state that is known not to be lost."""
        known = [turn for turn, one in enumerate(self.own) if one.succeeds]
        for found in (self.going_on, self.righting):
            known += [turn for turn, one in found.items() if one.succeeds]
        return max(known, default=None)

    @property
    def has_oracle(self) -> bool:
        """Whether the solution, played from the start, completes the task."""
        return self.reference is not None and self.going_on.get(0, _NOTHING).succeeds

    def why_unknown(self, turn: int) -> str:
        """Why it is not known whether a state is lost: no fork begins there, or the oracle's has no
        verdict; empty: it is known."""
        if turn in self.faults:
            return self.faults[turn]
        found = [one[turn] for one in (self.righting, self.going_on) if turn in one]
        return (
            "" if any(one.succeeds for one in found) else next((o.why for o in found if o.why), "")
        )

    def changes_before(self, turn: int) -> list[Changes]:
        """The rows that each call of the first turns changed."""
        steps = self.origin.trajectory.steps[:turn]
        return [result.changes for step in steps for result in step.executed_results]


def label_of(trajectory: Trajectory) -> Label | None:
    """The label of the last verdict, without an error that was planted in it; None: it has none."""
    if not trajectory.judged:
        return None
    judged = trajectory.judged[-1]
    return judged.code if WITH_ERRORS in judged.judge else judged.label


async def blame_episodes(
    origins: Sequence[Origin], player: ForkPlayer, *, tries: int
) -> list[Blame]:
    """What is said of each of these failed episodes. `tries` forks of each state are played by the
    policy `own` (0: none). Raises what ForkPlayer.play raises."""
    references = await _references(origins, player)
    cases = [_Case(one, references.get(_key(one)), player.steps_for(one.task)) for one in origins]
    for case in cases:
        for turn in range(case.turns):
            if fault := player.fault_of(Fork(case.origin, turn)):
                case.faults[turn] = fault
    await _try_own(cases, player, tries)
    await _go_on(cases, player)
    await _put_right(cases, player)
    await _rescue(cases, player)
    policy = player.own_name if tries else ""
    return [_blame_of(case, policy) for case in cases]


def _key(origin: Origin) -> tuple[str, str]:
    return origin.scenario.digest, origin.task.id


async def _references(
    origins: Iterable[Origin], player: ForkPlayer
) -> dict[tuple[str, str], Reference]:
    """The tasks' solutions with their effects, each played once."""
    found: dict[tuple[str, str], Reference] = {}
    for origin in origins:
        if _key(origin) not in found and has_solution(origin.task):
            found[_key(origin)] = await _reference(origin.scenario, origin.task, player)
    return found


def has_solution(task: Task) -> bool:
    """Whether a task has an author's solution."""
    return bool(task.oracle) or task.kind != "open"


async def _reference(scenario: Scenario, task: Task, player: ForkPlayer) -> Reference:
    async with player.pool.lease(scenario, task) as env:
        results = [
            await env.call(call.name, call.arguments, f"c{index}-0")
            for index, call in enumerate(task.oracle)
        ]
        tables = tables_in(player.pool.hosted(scenario).template.image)
        return reference_of(task, results, tables, enumerated_arguments(env.tools))


async def _try_own(cases: Sequence[_Case], player: ForkPlayer, tries: int) -> None:
    places = [(case, turn) for case in cases for turn in case.states] if tries else []
    forks = [Fork(case.origin, turn, tries=tries) for case, turn in places]
    for (case, turn), outcome in zip(places, await player.play(forks, "own"), strict=True):
        case.own[turn] = outcome
    for case in cases:
        if why := next((one.why for one in case.own if one.why), ""):
            count = sum(one.ungraded for one in case.own)
            case.notes.append(
                f"{plural(count, 'fork')} of the policy have no verdict and are not counted: "
                f"{one_line(why, 300)}"
            )


async def _go_on(cases: Sequence[_Case], player: ForkPlayer) -> None:
    """Let the oracle go on from each state as if each call that was tried were done."""
    places: list[tuple[_Case, int]] = []
    for case in cases:
        for turn in case.states if case.reference is not None else ():
            left = case.left_after(turn, tried_counts=True)
            plan = _fitting(case, player, turn, left)
            if plan is not None:
                case.plans[turn] = plan
                places.append((case, turn))
    await _play_plans(places, player, "going_on")
    for case in cases:
        if case.reference is None:
            case.notes.append(
                "the task has no solution that an oracle could play: only the forks of the policy "
                "show from which states it can be completed"
            )
        elif not case.has_oracle:
            case.notes.append(
                "the task's solution does not complete the task when it is played from the start, "
                "so the oracle says nothing about the turns"
            )


async def _play_plans(places: Sequence[tuple[_Case, int]], player: ForkPlayer, which: str) -> None:
    forks = [
        Fork(case.origin, turn, plan=case.plans[turn].calls, at_once=case.plans[turn].at_once)
        for case, turn in places
    ]
    for (case, turn), one in zip(places, await player.play(forks, "solution"), strict=True):
        getattr(case, which)[turn] = one


def _fitting(case: _Case, player: ForkPlayer, turn: int, left: Sequence[int]) -> Plan | None:
    """The calls that are left, as they fit into the steps: without look-ups where all do not fit,
    and in one turn where one a turn does not; None: they do not fit."""
    assert case.reference is not None
    calls = [case.reference.calls[index] for index in left]
    writes = [case.reference.calls[index] for index in left if case.writes[index]]
    return _fit(player, calls, case.max_steps - turn) or _fit(
        player, writes, case.max_steps - turn, packs=True
    )


def _fit(
    player: ForkPlayer, calls: Sequence[Call], steps: int, *, packs: bool = False
) -> Plan | None:
    if len(calls) < steps:
        return Plan(tuple(calls))
    if not packs or steps < 2 or not player.packs(calls):
        return None
    return Plan(tuple(calls), at_once=True)


async def _put_right(cases: Sequence[_Case], player: ForkPlayer) -> None:
    """Search ways from the states after the last one that is known not to be lost."""
    places: list[tuple[_Case, int]] = []
    for case in cases:
        if not case.has_oracle:
            continue
        assert case.reference is not None
        search = Search(case.reference, logs_of(case.origin.scenario))
        ways: dict[str, tuple[Call, ...]] = {}  # by the digest of the state
        for turn in case.states:
            if turn <= (case.last_open or 0):
                continue
            digest = _digest_after(case, turn)
            if digest not in ways:
                ways[digest] = await _way(case, turn, search, player)
            plan = _fit(player, ways[digest], case.max_steps - turn, packs=True)
            if plan is not None and plan != case.plans.get(turn):
                case.plans[turn] = plan
                places.append((case, turn))
        if search.broken:
            calls = plural(search.broken, "call")
            case.notes.append(f"the world broke in {calls} of the search for a way")
    await _play_plans(places, player, "righting")


def _digest_after(case: _Case, turn: int) -> str:
    """The key by which states are compared. A call that changed nothing leaves it as it was."""
    steps = case.origin.trajectory.steps[:turn]
    return next(
        (
            result.digest
            for step in reversed(steps)
            for result in reversed(step.executed_results)
            if result.digest
        ),
        "",
    )


async def _way(case: _Case, turn: int, search: Search, player: ForkPlayer) -> tuple[Call, ...]:
    """The calls that lead best to the solution's rows; none where the world breaks."""
    origin = case.origin
    started = origin.trajectory.started
    async with player.pool.lease(origin.scenario, origin.task) as env:
        briefing = logged_briefing(
            started,
            rules=origin.scenario.rules,
            tools=env.tools,
            user=user_of(origin.scenario),
            now=origin.scenario.clock,
        )
        beginning = Beginning(
            _kept(origin, turn), started.start_digest, origin=started.origin, rules=started.rules
        )
        try:
            await rebuild(
                beginning,
                env.start_digest,
                env.call,
                env=env,
                dialect=player.dialect,
                briefing=briefing,
            )
            return (await search.way(env, case.changes_before(turn))).calls
        except WorldError as exc:
            case.notes.append(f"the world broke in the search after {plural(turn, 'turn')}: {exc}")
            return ()
        except KeptTurnsDiffer as exc:
            raise LogError(f"{origin.name}: its turns cannot be repeated: {exc}") from exc


def _kept(origin: Origin, turn: int) -> tuple[StepTaken | HistorySummarized, ...]:
    return origin.trajectory.steps[:turn]


class _Verdict(NamedTuple):
    blamed: int | None
    lost_at: int | None
    wrong_since: int | None
    why: str


def _verdict(case: _Case) -> _Verdict:
    """The turn that is to blame."""
    if label_of(case.origin.trajectory) is Label.COMPLETED:
        return _Verdict(None, None, None, "the episode completed its task")
    lost = case.last_open
    if lost is None:
        return _Verdict(None, None, None, "no fork of any state completed the task")
    if not case.has_oracle:
        return _Verdict(
            lost, lost, None, "it is the last turn before which a fork completed the task"
        )
    if why := case.why_unknown(lost + 1):
        return _Verdict(None, lost, None, f"what is left after turn {lost + 1} is not known: {why}")
    since = case.last_going_on
    assert since is not None  # the oracle completes the task from the start
    if since >= lost:
        return _Verdict(lost, lost, since, _why_lost(case, lost))
    if _did_wrong(case, lost):
        why = f"{_why_lost(case, lost)}; what stood wrong since turn {since + 1} could be put right"
        return _Verdict(lost, lost, since, why)
    how = (
        "the episode ended"
        if lost == case.turns - 1
        else "a turn that was not wrong itself made it final"
    )
    results = case.origin.trajectory.steps[since].executed_results
    if any(result.changes for result in results):
        stood = "what it did stood wrong, and was not put right"
    else:
        stood = "what it tried changed nothing, and was not done rightly"
    why = f"{stood} before {how} at turn {lost + 1}"
    return _Verdict(since, lost, since, why)


def _why_lost(case: _Case, turn: int) -> str:
    step = case.origin.trajectory.steps[turn]
    if isinstance(step.decision, Answer):
        return "it gave the answer, and until then a solution was left"
    if turn + 1 >= case.max_steps or turn == case.origin.turns - 1:
        return "it ended the episode, and until then a solution was left"
    if turn + 1 not in case.plans:
        return "after it, the steps that are left are too few for what is left to do"
    return "after it no solution was found"


def _did_wrong(case: _Case, turn: int) -> bool:
    """Whether a turn changed rows by calls that are not the solution's."""
    assert case.reference is not None
    step = case.origin.trajectory.steps[turn]
    if not any(result.changes for result in step.executed_results):
        return False
    before = case.left_after(turn, tried_counts=False)
    after = case.left_after(turn + 1, tried_counts=False)
    changing = sum(bool(result.changes) for result in step.executed_results)
    done = sum(case.writes[index] for index in set(before) - set(after))
    return done < changing


async def _rescue(cases: Sequence[_Case], player: ForkPlayer) -> None:
    """Play the edits of each blamed turn."""
    places: list[tuple[_Case, Candidate]] = []
    for case in cases:
        blamed = _verdict(case).blamed
        if blamed is None or case.reference is None:
            continue
        plan = case.plans.get(blamed)
        way = plan.calls if plan is not None and _is_open(case, blamed) else ()
        left = [
            case.reference.calls[index] for index in case.left_after(blamed, tried_counts=False)
        ]
        places += [
            (case, one)
            for one in candidates_at(case.origin, blamed, left=left, way=way)
            if not player.fault_of(one.fork)
        ]
    outcomes = await player.play([one.fork for _, one in places], "oracle")
    for (case, candidate), outcome in zip(places, outcomes, strict=True):
        case.tried.append((candidate, outcome))


def _is_open(case: _Case, turn: int) -> bool:
    return any(found[turn].succeeds for found in (case.going_on, case.righting) if turn in found)


def _blame_of(case: _Case, policy: str) -> Blame:
    trajectory = case.origin.trajectory
    verdict = _verdict(case)
    label = label_of(trajectory)
    assert trajectory.ended is not None
    return Blame(
        run=case.origin.run,
        episode=trajectory.episode,
        scenario=trajectory.started.scenario,
        task=trajectory.started.task,
        policy=policy,
        label="" if label is None else str(label),
        ending=str(trajectory.ended.ending),
        actions=tuple(action_text(step) for step in trajectory.steps),
        states=tuple(_state(case, turn) for turn in range(case.turns)),
        blamed=verdict.blamed,
        lost_at=verdict.lost_at,
        wrong_since=verdict.wrong_since,
        why=verdict.why,
        rescue=rescue_of(case.tried),
        notes=tuple(dict.fromkeys(case.notes)),
    )


def _state(case: _Case, turn: int) -> TurnState:
    own = case.own[turn]
    scores = [1.0] * own.completed + [0.0] * (own.graded - own.completed)
    word: OracleWord = "lost"
    if not case.has_oracle:
        word = "unknown"
    elif case.going_on.get(turn, _NOTHING).succeeds:
        word = "goes_on"
    elif _is_open(case, turn) or turn <= (case.last_open or 0):
        word = "puts_right"
    elif case.why_unknown(turn):
        word = "unknown"
    plan = case.plans.get(turn)
    return TurnState(
        turns=turn,
        chance=exact_interval(scores),
        completed=own.completed,
        graded=own.graded,
        ungraded=own.ungraded,
        oracle=word,
        calls_left=len(plan.calls) if plan is not None and _is_open(case, turn) else None,
    )


def action_text(step: StepTaken) -> str:
    """What a turn did, in one line.

    Example: "cancel_order(order_id=4105)", "answer: Done."
    """
    decision = step.decision
    if isinstance(decision, Act):
        return one_line("; ".join(call_text(c.name, c.arguments) for c in decision.calls), _LONGEST)
    if isinstance(decision, Answer):
        return one_line(f"answer: {decision.text}", _LONGEST)
    return one_line(f"malformed reply: {decision.reason}", _LONGEST)
