"""The credit microscope: what actions are worth, from many forks of the same states.

1. Every task is played many times, as training would sample it.
2. States are drawn from these episodes: an episode before one of its turns, each state once.
3. From each state many forks go on; their first replies are the policy's actions there.
4. The most frequent actions are made again by forks with a written turn (`--from`, `--edit`), until
   each has so many courses that its value is known.

All of it is ordinary runs with ordinary logs. Those of the forks are removed when they have been
read, since they need gigabytes; states/*.json has what is left of them. A measurement that was
interrupted goes on with the next state.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rehearsal_room.harness.continuation.forks import with_its_task
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.schema import write_atomically
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.worlds import world_source
from rehearsal_room.learner.credit.erring_oracle import Errors
from rehearsal_room.learner.credit.facts import (
    ActionFacts,
    Course,
    MeasuredTask,
    StateFacts,
    anchors_of,
    course_of,
)

Play = Callable[[Settings, Path], None]  # plays and judges a run, or what is missing of it
_Count = Annotated[int, Meta(ge=1)]
_Several = Annotated[int, Meta(ge=2)]


class CreditSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [credit] of an experiment."""

    states: _Count = 100  # that are measured
    actions: _Several = 4  # of a state; one with fewer is not measured
    continuations: _Several = 270  # of each action: intervals of ± 0.06 or less
    samples: _Several = 400  # forks of each state that find its actions
    episodes: _Several = 200  # of each task, from its start
    group_size: _Several = 8  # of the estimators that compare whole episodes
    widths: tuple[_Count, ...] = (1, 2, 4, 8)  # K of `vine` and `tree`
    discount: Annotated[float, Meta(ge=0, le=1)] = 0.95  # of GiGPO
    draws: _Several = 300  # of each estimator, for each action
    errors: Errors | None = None  # of the erring oracle; None: the policy of [run] plays
    seed: int = 0  # of the states' choice, the forks and the draws


class CreditFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An experiment.toml that measures credit."""

    name: Annotated[str, Meta(min_length=1)]
    credit: CreditSettings
    run: dict[str, Any]
    question: str = ""


class Measured(msgspec.Struct, frozen=True):
    """What was measured."""

    tasks: tuple[MeasuredTask, ...]
    states: tuple[StateFacts, ...]


class _Place(msgspec.Struct, frozen=True):
    """A state in the log of the tasks' episodes."""

    episode: str
    turn: int
    anchor: int


def measure(
    settings: Settings,
    credit: CreditSettings,
    folder: Path,
    play: Play,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> Measured:
    """Play what is missing in the folder, and return the facts. `say` gets a line for each state.

    Raises SettingsError where the tasks have too few states, and what `play` raises.
    """
    if settings.group_size != 1 or settings.episodes is not None or settings.branch.roots:
        raise SettingsError("[run] group_size, episodes and branch: [credit] determines them")
    source = folder / "episodes"
    play(msgspec.structs.replace(settings, group_size=credit.episodes), source)
    with open_reader(source) as reader:
        tasks, places = _tasks_of(reader), _places_of(reader, settings)
    Random(credit.seed).shuffle(places)
    states: list[StateFacts] = []
    for number, place in enumerate(places):
        if len(states) == credit.states:
            break
        found = _state(settings, credit, source, place, folder / "states", play)
        if found is not None:
            states.append(found)
            say(f"state {len(states)} of {credit.states}: {found.task}, turn {found.turn + 1}")
        elif number > 20 * credit.states:
            break
    if len(states) < credit.states:
        raise SettingsError(
            f"[credit] states: the episodes pass through {len(states)} states with at least "
            f"{credit.actions} actions each, not {credit.states}: give more tasks or episodes"
        )
    return Measured(tuple(tasks.values()), tuple(states))


def _tasks_of(reader: LogReader) -> dict[str, MeasuredTask]:
    """The courses of all episodes, by task."""
    courses: dict[str, list[Course]] = {}
    scenarios = reader.scenarios()
    for one in reader.trajectories():
        course = course_of(one, scenarios[one.started.scenario_digest], first=0)
        if course is not None:
            courses.setdefault(_task_of(one), []).append(course)
    return {task: MeasuredTask(task, tuple(found)) for task, found in courses.items()}


def _places_of(reader: LogReader, settings: Settings) -> list[_Place]:
    """The states that the episodes pass through and a fork can begin in, each once for a task."""
    scenarios = reader.scenarios()
    places: dict[tuple[str, int], _Place] = {}
    for one in reader.trajectories():
        if not one.started.start_digest:
            raise SettingsError(
                f"{one.started.scenario}: its worlds do not reveal their state, so no episode can "
                "begin in the middle of another one"
            )
        anchors = anchors_of(one, scenarios[one.started.scenario_digest])
        most = settings.limits.max_steps or len(anchors) + 2
        for turn, anchor in enumerate(anchors):
            if turn + 1 < most:  # a written turn must leave one to play
                places.setdefault((_task_of(one), anchor), _Place(one.episode, turn, anchor))
    return sorted(places.values(), key=lambda place: (place.episode, place.turn))


def _task_of(trajectory: Trajectory) -> str:
    return f"{trajectory.started.scenario}:{trajectory.started.task}"


def _state(
    settings: Settings,
    credit: CreditSettings,
    source: Path,
    place: _Place,
    folder: Path,
    play: Play,
) -> StateFacts | None:
    """The facts of a state; None: the policy has too few actions there."""
    stored = folder / f"{place.episode}-{place.turn}.json"
    if stored.exists():
        return msgspec.json.decode(stored.read_bytes(), type=StateFacts | None)
    forks = folder / "forks"
    shutil.rmtree(forks, ignore_errors=True)
    at = with_its_task(
        msgspec.structs.replace(
            settings, forked_from=f"{source}/{place.episode}@{place.turn}", seed=credit.seed
        ),
        world_source(settings.worlds).find,
        episodes=credit.samples,
    )
    play(at, forks / "sampled")
    found = _actions_of(forks / "sampled", place.turn)
    frequent = sorted(found, key=lambda one: -len(found[one]))[: credit.actions]
    facts: StateFacts | None = None
    if len(frequent) == credit.actions:
        total = sum(map(len, found.values()))
        shares = {action: len(courses) / total for action, courses in found.items()}
        for number, action in enumerate(frequent):
            missing = credit.continuations - len(found[action])
            if missing <= 0 or not any(one.anchors for one in found[action]):
                continue  # an action that ends the episode has one reward
            forced = msgspec.structs.replace(at, edit=action, episodes=missing)
            play(forced, forks / str(number))
            found[action] += _courses_of(forks / str(number), place.turn)
        with open_reader(source) as reader:
            one = reader.trajectory(place.episode)
            anchors = anchors_of(one, reader.scenarios()[one.started.scenario_digest])
        actions = [_facts_of(action, shares[action], found[action]) for action in found]
        facts = StateFacts(
            _task_of(one),
            place.turn,
            tuple(anchors[: place.turn + 1]),
            tuple(one for one in actions if one.name in frequent),
            tuple(one for one in actions if one.name not in frequent),
        )
    shutil.rmtree(forks, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(stored, msgspec.json.encode(facts))
    return facts


def _facts_of(action: str, share: float, courses: Sequence[Course]) -> ActionFacts:
    return ActionFacts(action, share, not any(one.anchors for one in courses), tuple(courses))


def _actions_of(run: Path, turn: int) -> dict[str, list[Course]]:
    """The courses after each reply to a turn; a reply is named as the edit that makes it again."""
    found: dict[str, list[Course]] = {}
    for trajectory, course in _courses_in(run, turn):
        found.setdefault(_edit_of(trajectory.steps[turn].reply), []).append(course)
    return found


def _courses_of(run: Path, turn: int) -> list[Course]:
    return [course for _, course in _courses_in(run, turn)]


def _courses_in(run: Path, turn: int) -> Iterator[tuple[Trajectory, Course]]:
    with open_reader(run) as reader:
        scenarios = reader.scenarios()
        for one in reader.trajectories():
            course = course_of(one, scenarios[one.started.scenario_digest], first=turn + 1)
            if course is not None and len(one.steps) > turn:
                yield one, course


def _edit_of(reply: Reply) -> str:
    """The edit of a fork that gives this reply in the agent's name (harness.continuation.edits)."""
    calls = [{"name": call.name, "arguments": call.arguments} for call in reply.calls]
    turn: dict[str, Any] = {"text": reply.text} if reply.text else {}
    return msgspec.json.encode({"turns": [{**turn, "calls": calls}]}).decode()
