"""The gate's checks of what makes a world's tools hard to use without a reason.

a list is cut and nothing says so             an agent takes the rows that it sees for all
a write's result does not show the change     it cannot tell what it did
every argument is optional, but one is needed a schema that is wrong
a record's status is not in its events        two records contradict each other by accident
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.judge.playback.playback import Played, format_call
from rehearsal_room.scenarios.api import Row, RowChange
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.format import Call

_LIMITS = ("limit", "page_size", "max_results", "top")
_EVENTS = re.compile(r"(.+?)_(?:events?|history|log|status_changes)$")


def cut_lists(world: BlockingWorld, calls: Iterable[Call]) -> Iterator[str]:
    """A sentence for each tool that returns fewer rows than there are without saying so.

    `calls` are calls of the oracles; each tool with a limit is called again with a limit of one.
    """
    seen: set[str] = set()
    limits = {tool.name: _limit_of(tool) for tool in world.tools}
    for call in calls:
        name = limits.get(call.name, "")
        if not name or call.name in seen:
            continue
        whole = _called(world, call)
        cut = _called(world, Call(call.name, {**call.arguments, name: 1}))
        if isinstance(whole, list) and isinstance(cut, list) and len(cut) < len(whole):
            seen.add(call.name)
            yield (
                f"{call.name} cuts its list at {name!r} and says nothing of the rest; return an "
                "object with the rows and `total` or `truncated`"
            )


def _limit_of(tool: ToolSpec) -> str:
    return next((name for name in tool.schema.get("properties", ()) if name in _LIMITS), "")


def _called(world: BlockingWorld, call: Call) -> Any:
    result = world.lease().call(call.name, call.arguments)
    return _decoded(result) if result.error is None else None


def _decoded(result: ToolResult) -> Any:
    try:
        return msgspec.json.decode(result.text)
    except UNREADABLE:
        return result.text


def silent_writes(oracles: Iterable[Played]) -> Iterator[str]:
    """A sentence for each tool whose result shows nothing of the rows that it changed: neither a
    new value nor a key. A plain text is taken as it is."""
    seen: set[str] = set()
    for played in oracles:
        for call, result in zip(played.calls, played.results, strict=True):
            if result.changes and call.name not in seen and not _shows(result):
                seen.add(call.name)
                yield (
                    f"the result of {format_call(call)} shows nothing of what it changed: "
                    f"{result.text[:100]}"
                )


def _shows(result: ToolResult) -> bool:
    """Whether a result has a value that a changed row did not have before."""
    found = _decoded(result)
    shown = set(_leaves(found))
    return isinstance(found, str) or any(
        value in shown for change in result.changes for value in _news(change)
    )


def _news(change: RowChange) -> Iterator[str]:
    if change.after is None:
        yield from map(str, change.key)
        return
    before = change.before or {}
    for name, value in change.after.items():
        if value is not None and before.get(name) != value:
            yield str(value)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield str(value)


def needy_tools(world: BlockingWorld) -> Iterator[str]:
    """A sentence for each tool that declares every argument optional and refuses a call without
    any."""
    for tool in world.tools:
        if tool.schema.get("properties") and not tool.schema.get("required"):
            result = world.lease().call(tool.name, {})
            if result.error is not None:
                yield (
                    f"{tool.name} declares every argument optional, and refuses a call without "
                    f"any: {result.text[:100]}"
                )


def contradicting_events(tables: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """A sentence for each table whose rows have a status that their events deny: they have events
    of other statuses, and none of their own."""
    for name, events in tables.items():
        if (found := _EVENTS.match(name)) is None or not events:
            continue
        for owner in (f"{found[1]}s", f"{found[1]}es", found[1]):
            kind = next((one for one in ("kind", "status", "new_status") if one in events[0]), "")
            if kind and owner in tables and (key := _key_to(owner, events[0])):
                yield from _denied(owner, tables[owner], name, events, key, kind)


def _key_to(owner: str, event: Row) -> str:
    """The column of an event that refers to its record."""
    singular = owner.rstrip("s")
    names = (f"{singular}_id", f"{owner}_id", f"{singular}e_id", "record_id")
    return next((name for name in names if name in event), "")


def _denied(
    owner: str, rows: Sequence[Row], name: str, events: Sequence[Row], key: str, kind: str
) -> Iterator[str]:
    statuses = {row.get("status") for row in rows}
    last: dict[object, object] = {}
    had: set[tuple[object, object]] = set()
    for event in events:  # in the order in which they were written
        if event[kind] in statuses:
            last[event[key]] = event[kind]
            had.add((event[key], event[kind]))
    wrong = [
        row for row in rows if row.get("id") in last and (row["id"], row.get("status")) not in had
    ]
    if wrong:
        row = wrong[0]
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        yield (
            f"{owner} {row['id']} is {row['status']!r}, but its last event in {name} is "
            f"{last[row['id']]!r}{more}"
        )
