"""The gate's check of the rules that a world states as data (`row_rules` in scenario.toml).

A rule is a query for the rows that break it. At the start there are none: otherwise the world
breaks its own limits. After an oracle there are none either: otherwise the task demands what the
rules forbid. What `never_touch` and `irreversible` name must exist; that no oracle writes such
records is a part of its verdict (judge.code.untouchable).
"""

from collections.abc import Iterator, Mapping

import apsw

from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.judge.playback.playback import Played
from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import RowRule, Task

_SHOWN = 3  # rows


def broken_rules(
    world: BlockingWorld, oracles: Mapping[str, Played]
) -> Iterator[tuple[str, Task | None]]:
    """A sentence for each rule that is broken, and the task whose oracle breaks it; None: it is
    broken at the start, or its query fails."""
    yield from ((fault, None) for fault in _unknown_names(world))
    start, _ = world.states(world.start)
    at_start: dict[RowRule, list[Row]] = {}
    for rule in world.scenario.row_rules:
        try:
            at_start[rule] = start.all(rule.broken_by)
        except apsw.Error as exc:
            yield f"the query of rule {rule.rule!r} fails: {exc}", None
            continue
        if at_start[rule]:
            yield f"the start breaks its rule {rule.rule!r}: {_shown(at_start[rule])}", None
    for task in world.scenario.tasks:
        played = oracles[task.id]
        if not at_start or not played.changes:
            continue
        _, after = world.states(played.state, played.changes)
        for rule, before in at_start.items():
            new = [row for row in after.all(rule.broken_by) if row not in before]
            if new:
                yield f"its oracle breaks the rule {rule.rule!r}: {_shown(new)}", task


def _unknown_names(world: BlockingWorld) -> Iterator[str]:
    """Tables and columns of `never_touch`, `irreversible` and `act_logs` that the world has not."""
    tables = world.template.tables
    for table in world.scenario.act_logs or ():
        if table not in tables:
            yield f"act_logs names the table {table!r}, which does not exist"
    for table in world.scenario.irreversible:
        if table not in tables:
            yield f"irreversible names the table {table!r}, which does not exist"
    for rule in world.scenario.never_touch:
        if rule.table not in tables:
            yield f"never_touch names the table {rule.table!r}, which does not exist"
            continue
        for column in (*rule.where, *rule.columns):
            if column not in tables[rule.table].columns:
                yield f"never_touch names the column {column!r}, which {rule.table} has not"


def _shown(rows: list[Row]) -> str:
    texts = [", ".join(f"{name}={value!r}" for name, value in row.items()) for row in rows[:_SHOWN]]
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return "; ".join(texts) + more
