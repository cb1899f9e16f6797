"""`--from RUN/EPISODE@TURN`: episodes that begin with the first turns of a logged episode.

The resumed turns are copied into the new run's log, so nothing reads the old folder later; a forked
run that is resumed takes them from its own log where that has them.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec

from rehearsal_room.harness.continuation.beginning import Beginning, WrittenTurn
from rehearsal_room.harness.continuation.edits import Edit, read_edit, written_turns
from rehearsal_room.harness.continuation.outcomes import fault_of, outcome_of
from rehearsal_room.harness.core.errors import LogError, SettingsError
from rehearsal_room.harness.core.events import (
    EpisodeStarted,
    ForkedFrom,
    ForkEdit,
    HistorySummarized,
    StepTaken,
)
from rehearsal_room.harness.core.messages import Answer, Decision, FormatError
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.format_rules import make_rules
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.settings.run import Settings, saved, stops_with_world
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.format import Scenario, Task

_NO_STATE = (
    "from: the worlds of an MCP server do not reveal their state, so no episode can begin in the "
    "middle of another one; leave --from out"
)


def parse_fork(text: str) -> ForkedFrom:
    """The run, the episode and the number of resumed turns in `RUN/EPISODE@TURN`. Raises
    SettingsError.

    Example: "runs/mine/e000003@5" -> ForkedFrom("runs/mine", "e000003", 5)
    """
    run, slash, rest = text.rpartition("/")
    episode, _, turn = rest.rpartition("@")
    if not slash or not episode or not (turn.isascii() and turn.isdigit()):
        raise SettingsError(
            f"from: {text!r} is not an episode and a turn (expected RUN/EPISODE@TURN, for example "
            "runs/mine/e000003@5 for the state after five turns)"
        )
    return ForkedFrom(run or "/", episode, int(turn))


def seed_of(settings: Settings) -> int:
    """The seed from which the episodes' seeds follow: a fork draws otherwise than its source."""
    if not settings.forked_from:
        return settings.seed
    source = parse_fork(settings.forked_from)
    words = f"{settings.seed} {source.episode}@{source.turn}{settings.edit}"
    drawn = blake2b(words.encode(), digest_size=6)
    return int.from_bytes(drawn.digest())


def with_its_task(
    settings: Settings, find: Callable[[str], Scenario], *, episodes: int | None
) -> Settings:
    """The settings of a forked run: those given, with the scenario and the task of the episode that
    is forked. `find` finds a scenario by name or path. Raises SettingsError and LogError."""
    source = parse_fork(settings.forked_from)
    with open_reader(Path(source.run)) as reader:
        started = reader.trajectory(source.episode).started
        snapshot = reader.scenarios().get(started.scenario_digest)
    names = [name.partition(":")[0] for name in settings.scenarios]
    if snapshot is not None:
        names.append(snapshot.source_path)
    name = _package_of(started, [*names, started.scenario], find)
    return msgspec.structs.replace(
        settings, scenarios=(f"{name}:{started.task}",), episodes=episodes
    )


def beginning_of(
    settings: Settings, folder: Path, tasks: Sequence[tuple[Scenario, Task]]
) -> Beginning | None:
    """The turns that every episode of a run keeps; None: the run is not a fork. `folder` is that of
    the run itself. Raises SettingsError and LogError."""
    if not settings.forked_from:
        return None
    source = parse_fork(settings.forked_from)
    own = _in_own_log(folder, source)
    has_same_tokens = own is not None or shares_tokens(settings, source)
    return beginning_after(
        own or _in_source(source), settings, tasks, has_same_tokens=has_same_tokens
    )


def beginning_after(
    trajectory: Trajectory,
    settings: Settings,
    tasks: Sequence[tuple[Scenario, Task]],
    *,
    has_same_tokens: bool,
) -> Beginning:
    """The turns that an episode of these settings, which are a fork's, keeps of this one, and those
    that were written for it. `has_same_tokens`: its policy shares the tokens of the kept replies.
    Raises SettingsError."""
    source, edit = parse_fork(settings.forked_from), read_edit(settings.edit)
    written = check_fork(trajectory, settings, tasks)
    kept = tuple(
        event
        for event in trajectory.replies()
        if not isinstance(event, HistorySummarized) or event.turn < source.turn
    )
    num_summaries = sum(isinstance(event, HistorySummarized) for event in kept)
    kept = kept[: source.turn + num_summaries]
    if not has_same_tokens:
        kept = tuple(map(without_tokens, kept))
    instruction = _instruction_of(edit, trajectory.started)
    own_instruction = tasks[0][1].instruction if instruction and tasks else None
    changed = ForkEdit(len(written), own_instruction) if written or instruction else None
    return Beginning(
        kept,
        trajectory.started.start_digest,
        source,
        edit=changed,
        written=written,
        instruction=instruction,
        origin=trajectory.started.origin,
        rules=trajectory.started.rules,
    )


def _instruction_of(edit: Edit, started: EpisodeStarted) -> str:
    """What the agent gets instead of the task's instruction; empty: it gets that."""
    if edit.instruction is not None:
        return edit.instruction
    return started.instruction if started.edit and started.edit.instruction is not None else ""


def _package_of(
    started: EpisodeStarted, names: Sequence[str], find: Callable[[str], Scenario]
) -> str:
    """The first of these names whose scenario is the one that was logged."""
    found = ""
    for name in dict.fromkeys(names):
        try:
            scenario = find(name)
        except ScenarioError:
            continue
        if scenario.digest == started.scenario_digest:
            return name
        if scenario.name == started.scenario:
            found = f": its digest was {started.scenario_digest} and is {scenario.digest} now"
    raise SettingsError(
        f"from: the package of scenario {started.scenario!r} "
        f"{'has changed since the run' if found else 'was not found'}{found}"
    )


def _in_own_log(folder: Path, source: ForkedFrom) -> Trajectory | None:
    """An episode of the forked run itself that has all the resumed turns; None: there is none."""
    if not (folder / LOG_NAME).exists():
        return None
    with open_reader(folder) as reader:
        for row in reader.episodes():
            trajectory = reader.trajectory(row.episode)
            if trajectory.started.forked_from == source and _has_kept(trajectory, source.turn):
                return trajectory
    return None


def _has_kept(trajectory: Trajectory, turn: int) -> bool:
    replies = trajectory.replies()
    return len(trajectory.steps) >= turn and len(replies) >= trajectory.started.kept


def _in_source(source: ForkedFrom) -> Trajectory:
    try:
        with open_reader(Path(source.run)) as reader:
            return _whole(reader, source.episode)
    except LogError as exc:
        raise LogError(f"from: {exc}") from exc


def _whole(reader: LogReader, episode: str) -> Trajectory:
    """The latest attempt, or the one before where a crash cut it off while it began."""
    trajectory = reader.trajectory(episode)
    while len(trajectory.replies()) < trajectory.started.kept and trajectory.attempt > 1:
        trajectory = reader.trajectory(episode, attempt=trajectory.attempt - 1)
    return trajectory


def check_fork(
    trajectory: Trajectory, settings: Settings, tasks: Sequence[tuple[Scenario, Task]]
) -> tuple[WrittenTurn, ...]:
    """Refuse a source that an episode of these settings cannot go on from, and turns by hand that
    it cannot play. Returns these turns. Raises SettingsError."""
    source = parse_fork(settings.forked_from)
    started, turn = trajectory.started, source.turn
    where = f"from: {source.run}/{source.episode}"
    if not started.start_digest:
        raise SettingsError(_NO_STATE)
    for scenario, task in tasks:
        if (scenario.digest, task.id) != (started.scenario_digest, started.task):
            raise SettingsError(
                f"{where} is an episode of {started.scenario}:{started.task} (digest "
                f"{started.scenario_digest}), not of {scenario.name}:{task.id} (digest "
                f"{scenario.digest})"
            )
    if started.dialect != settings.dialect_name:
        raise SettingsError(
            f"{where} is in dialect {started.dialect}, not {settings.dialect_name}: its turns "
            f"cannot be shown in another one; pass --dialect {started.dialect}"
        )
    if turn > len(trajectory.steps):
        has = plural(len(trajectory.steps), "turn")
        raise SettingsError(f"{where} has {has}, so {turn} cannot be kept")
    turns = read_edit(settings.edit).turns
    most = min((settings.limits.steps_for(task) for _, task in tasks), default=turn + 1)
    if turn + len(turns) >= most:
        by_hand = f" and gets {plural(len(turns), 'turn')} by hand" if turns else ""
        raise SettingsError(
            f"max_steps: an episode has at most {most}, and the fork keeps "
            f"{plural(turn, 'turn')}{by_hand}, so none is left to play"
        )
    if turn and (ending := _ending_with(trajectory.steps[turn - 1], settings)):
        raise SettingsError(
            f"{where}: turn {turn} ends the episode ({ending}); keep {turn - 1} or fewer"
        )
    written = written_turns(turns, dialect_of(settings.dialect_name), first=turn)
    is_over = started.is_dialogue, any(task.single_turn for _, task in tasks)
    for number, one in enumerate(written, turn + 1):
        _check_written(number, one.step.decision, settings, *is_over)
    return written


def _check_written(
    number: int, decision: Decision, settings: Settings, is_dialogue: bool, is_single: bool
) -> None:
    """Refuse a turn by hand after which nothing is left to play; `number` counts from 1."""
    if is_single or (isinstance(decision, Answer) and not is_dialogue):
        raise SettingsError(
            f"edit: turn {number} ends the episode (answered), so none is left to play"
        )
    if isinstance(decision, FormatError) and settings.format.stop:
        raise SettingsError(
            f"edit: turn {number} ends the episode (format_error: {decision.reason})"
        )


def _ending_with(step: StepTaken, settings: Settings) -> str:
    """How an episode of these settings would end with a logged step; empty: it would go on."""
    rules = make_rules(settings.format, dialect_of(settings.dialect_name))
    limits = msgspec.structs.replace(settings.limits, world_stop=stops_with_world(settings))
    outcome = outcome_of(step, fault_of(step, rules), settings.format, limits)
    return "" if outcome is None else outcome[0].value


def shares_tokens(settings: Settings, source: ForkedFrom) -> bool:
    """Whether the replies of the source have the tokens of this run's policy."""
    began = Path(source.run) / "run.toml"
    if not began.is_file():
        return False
    before = saved(began)
    return (before.policy.name, before.policy.tokens, before.model.name) == (
        *(settings.policy.name, settings.policy.tokens, settings.model.name),
    )


def without_tokens(event: StepTaken | HistorySummarized) -> StepTaken | HistorySummarized:
    """A logged reply without token ids, which another model does not share: it reads the text."""
    reply = msgspec.structs.replace(
        event.reply, prompt_ids=b"", prompt_shared=0, token_ids=b"", logprobs=b""
    )
    return msgspec.structs.replace(event, reply=reply)
