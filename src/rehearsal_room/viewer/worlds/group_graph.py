"""The episodes of one task as a graph: states are nodes, merged by digest; calls lead from one to
the next.

A node's success is the share of the judged episodes that came through it and were completed. Turns
that change nothing stay in their node.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.core.messages import Act
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.outcomes.scores import score_of
from rehearsal_room.scenarios.core.short_text import shortened
from rehearsal_room.viewer.reading.lines import EpisodeTableLine
from rehearsal_room.viewer.reading.plain import plain

_MAX_ARGUMENTS = 200  # characters of a call's arguments


class Node(msgspec.Struct):
    """A state of the world."""

    digest: str
    depth: int  # the fewest changes of state on the way here
    episodes: list[str] = []
    turns: int = 0  # that stayed here, in all episodes
    judged: int = 0
    completed: int = 0
    success: float | None = None  # None: no episode that came here has a label
    is_start: bool = False
    is_end: bool = False
    ends: dict[str, int] = {}  # episodes that ended here, by label


class EdgeCall(msgspec.Struct, frozen=True):
    """A call, its arguments as short text."""

    name: str
    arguments: str


class Edge(msgspec.Struct):
    """A turn that changed the state, and the episodes that took it."""

    source: str
    target: str
    calls: list[EdgeCall]
    episodes: list[str]


class GroupGraph(msgspec.Struct, frozen=True):
    """The tries of a task as their page shows them."""

    scenario: str
    task: str
    instruction: str
    members: Sequence[EpisodeTableLine]
    nodes: list[Node]
    edges: list[dict[str, Any]]
    total: int  # tries; `members` are the first of them


def group_graph(
    lines: Sequence[EpisodeTableLine], trajectories: Sequence[Trajectory], total: int
) -> GroupGraph:
    """The graph of tries of a task, given by their lines and trajectories; there are `total` tries
    of it. The worlds of an MCP server have no digests; then there are no nodes."""
    nodes: dict[str, Node] = {}
    edges: dict[tuple[str, str, str], Edge] = {}
    for line, trajectory in zip(lines, trajectories, strict=True):
        if trajectory.started.start_digest:
            _add(nodes, edges, line, trajectory)
    for node in nodes.values():
        node.success = node.completed / node.judged if node.judged else None
    started = trajectories[0].started
    return GroupGraph(
        started.scenario,
        started.task,
        started.instruction,
        lines,
        sorted(nodes.values(), key=lambda node: (node.depth, -len(node.episodes))),
        [
            {"from": edge.source, "to": edge.target, "calls": edge.calls, "episodes": edge.episodes}
            for edge in edges.values()
        ],
        total,
    )


def _add(
    nodes: dict[str, Node],
    edges: dict[tuple[str, str, str], Edge],
    line: EpisodeTableLine,
    trajectory: Trajectory,
) -> None:
    here, depth = trajectory.started.start_digest, 0
    _visit(nodes, here, depth, line).is_start = True
    for step in trajectory.steps:
        before = here
        for result in step.executed_results:
            here = result.digest or here
        if here == before:
            nodes[here].turns += 1
            continue
        depth += 1
        _visit(nodes, here, depth, line)
        calls = [
            EdgeCall(call.name, _short(call.arguments))
            for call, result in zip(step.executed_calls, step.executed_results, strict=False)
            if result.changes or isinstance(step.decision, Act)
        ]
        key = before, here, repr(calls)
        edge = edges.setdefault(key, Edge(before, here, calls, []))
        if line.episode not in edge.episodes:
            edge.episodes.append(line.episode)
    if line.ending is not None:
        node = nodes[here]
        node.is_end = True
        label = line.label or "unjudged"
        node.ends[label] = node.ends.get(label, 0) + 1


def _visit(nodes: dict[str, Node], digest: str, depth: int, line: EpisodeTableLine) -> Node:
    node = nodes.get(digest)
    if node is None:
        node = nodes[digest] = Node(digest, depth, [], ends={})
    node.depth = min(node.depth, depth)
    if line.episode not in node.episodes:
        node.episodes.append(line.episode)
        ending = None if line.ending is None else Ending(line.ending)
        if (score := score_of(ending, line.label)) is not None:
            node.judged += 1
            node.completed += score == 1
    return node


def _short(arguments: Any) -> str:
    return shortened(msgspec.json.encode(plain(arguments)).decode(), _MAX_ARGUMENTS)
