"""Which episode a conversation becomes: its name, its plan, and the session that it belongs to."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rehearsal_room.harness.core.events import ForkedFrom
from rehearsal_room.harness.logged_runs.unknown_world import unknown_scenario
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.interop.imports.conversation_pool import ConversationTask, unknown_task
from rehearsal_room.interop.imports.conversations import ImportedConversation
from rehearsal_room.scenarios.format import Scenario, Task


class Planned(NamedTuple):
    """A conversation as an episode."""

    plan: EpisodePlan
    conversation: ImportedConversation
    why: str  # why its world is unknown; empty: it is known


class SessionKind(NamedTuple):
    """What the episodes of one session share."""

    is_known: bool
    dialect: str
    agent: str
    history: str
    forked_from: ForkedFrom | None


def kind_of(one: Planned) -> SessionKind:
    """The session of an episode."""
    conversation, is_known = one.conversation, not one.why
    dialect = conversation.dialect or "native"
    if dialect == "verbatim" or (dialect == "native" and not is_known):
        dialect = "native" if is_known else "verbatim"
    return SessionKind(
        is_known, dialect, conversation.agent, conversation.history, conversation.forked_from
    )


def episode_names(conversations: Sequence[ImportedConversation]) -> list[str]:
    """A name for each episode: the file's, where it is the only one of that name."""
    counts = Counter(one.episode for one in conversations)
    names, taken = [], {one.episode for one in conversations}
    for index, one in enumerate(conversations):
        name = one.episode
        if not name or counts[name] > 1 or not name.replace("-", "").replace("_", "").isalnum():
            name = f"e{index:06d}"
            if name in taken:
                name = f"i{index:06d}"
        names.append(name)
    return names


def imported_plan(
    conversation: ImportedConversation, name: str, index: int, scenario: Scenario, task: Task
) -> EpisodePlan:
    """The plan of a conversation in a world."""
    return EpisodePlan(
        episode=name,
        scenario=scenario,
        task=task,
        group=conversation.group or f"g{index:06d}",
        member=conversation.member,
        group_size=conversation.group_size,
        seed=conversation.seed or index,
    )


def with_distinct_seeds(planned: Sequence[Planned]) -> list[Planned]:
    """Episodes of one task have different seeds: they identify its user."""
    seen: set[tuple[str, str, int]] = set()
    found = []
    for one in planned:
        plan = one.plan
        while (key := (plan.scenario.digest, plan.task.id, plan.seed)) in seen:
            plan = msgspec.structs.replace(plan, seed=plan.seed + 1)
        seen.add(key)
        found.append(one._replace(plan=plan))
    return found


def _once(members: Sequence[tuple[int, ConversationTask]]) -> list[Task]:
    """Each task once, without its conversation."""
    found = {task.id: task for _, task in members}
    return [Task(one.id, one.instruction, one.difficulty, one.kind, "") for one in found.values()]


def unknown_plans(
    conversations: Sequence[ImportedConversation],
    names: Sequence[str],
    unknown: Sequence[tuple[int, str]],
) -> list[Planned]:
    """Episodes of unknown worlds: conversations with the same tools and system prompt share one.
    Those of one world, one task's name and one instruction are tries of one task; it is called as
    in the file, where no other task has that name, else also after its first episode."""
    worlds: dict[bytes, list[tuple[int, ConversationTask]]] = defaultdict(list)
    first_of: dict[tuple[bytes, str, str], int] = {}  # the first episode of each task
    keys = {}
    for index, _ in unknown:
        one = conversations[index]
        world = msgspec.msgpack.encode((one.scenario, one.system, one.tools))
        keys[index] = (world, one.task, one.instruction)
        first_of.setdefault(keys[index], index)
    tasks = Counter(name for _, name, _ in first_of)
    for index, _ in unknown:
        world, name, _ = keys[index]
        is_only = bool(name) and tasks[name] == 1
        task_id = name if is_only else f"{name or 'task'}-{names[first_of[keys[index]]]}"
        worlds[world].append((index, unknown_task(conversations[index], task_id)))
    reasons = dict(unknown)
    planned = {}
    for members in worlds.values():
        first = conversations[members[0][0]]
        scenario = unknown_scenario(
            first.scenario or "imported", first.system, first.tools, _once(members)
        )
        for index, task in members:
            one = conversations[index]
            plan = imported_plan(one, names[index], index, scenario, task)
            planned[index] = Planned(plan, one, reasons[index])
    return [planned[index] for index, _ in unknown]
