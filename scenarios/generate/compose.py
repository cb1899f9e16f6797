"""Generating a world from its plan: words and rows, texts, tasks, verifiers.

Apart from the host that executes the calls this is pure: the same plan and version of the
generator give the same texts.
"""

import msgspec

from rehearsal_room.scenarios.generate.content.drawn_world import DrawnWorld, draw_world
from rehearsal_room.scenarios.generate.content.package_texts import (
    never_touch_of,
    package_of,
    policy_of,
    row_rules_of,
    tools_of,
    with_called_tools,
    with_promised_tools,
)
from rehearsal_room.scenarios.generate.content.shown_ids import with_usable
from rehearsal_room.scenarios.generate.core.errors import ModuleError
from rehearsal_room.scenarios.generate.core.package import Package
from rehearsal_room.scenarios.generate.core.world_host import WorldHost
from rehearsal_room.scenarios.generate.plan.world_plans import WorldPlan, draw_size
from rehearsal_room.scenarios.generate.tasks.derived_verifiers import TableColumns, verify_py
from rehearsal_room.scenarios.generate.tasks.features import TaskFeatures
from rehearsal_room.scenarios.generate.tasks.task_maker import TaskMaker, surplus_tools
from rehearsal_room.scenarios.generate.tasks.world_rules import WorldRules

_SPARES = (0, 3, 8)  # situations beyond the number of tasks, where some drafts cannot be used
_ATTEMPTS = 12  # draws of situations, where they break a rule of the world together
_REDRAWN = 4  # draws of the whole world, where no situations suit its limits
_MORE_TOOLS = 1.03  # makes up for the worlds whose modules have fewer tools than were drawn


class GeneratedWorld(msgspec.Struct, frozen=True):
    """A generated package and its measures."""

    package: Package
    tables: int
    rows: int
    tools: int
    tasks: tuple[TaskFeatures, ...]
    dropped: dict[str, int]  # unusable drafts: "situation: why" -> how often
    words: dict[str, str]  # the trade's words -> the modules' own


def generate(plan: WorldPlan, host: WorldHost) -> GeneratedWorld:
    """Make a world. Where its situations together break one of its own rules, it is drawn again
    with others, and then as another world of the same plan.

    Raises ModuleError when its modules give no task at all or each world breaks its rules, and the
    host's exceptions when a package cannot be hosted.
    """
    for again in range(1 + _REDRAWN):
        seed = f"{plan.seed} again {again}" if again else plan.seed
        for attempt in range(1 if again else _ATTEMPTS):
            made = _generate_once(msgspec.structs.replace(plan, seed=seed), host, attempt)
            broken = made.package.broken_rules()
            if not broken:
                return made
    raise ModuleError(f"world {plan.name!r}: its rows always break its rule {broken[0]!r}")


def _generate_once(plan: WorldPlan, host: WorldHost, attempt: int) -> GeneratedWorld:
    """The world of one attempt. Where a draft cannot be used, the world is drawn again with spare
    situations, whose rows it has then, too."""
    best: GeneratedWorld | None = None
    for spare in _SPARES:
        made = _generate(plan, host, spare, attempt)
        if made is not None and (best is None or len(made.tasks) > len(best.tasks)):
            best = made
        if best is not None and len(best.tasks) == plan.knobs.tasks:
            break
    if best is None:
        raise ModuleError(f"world {plan.name!r}: no situation gives a valid task")
    return best


def _generate(plan: WorldPlan, host: WorldHost, spare: int, attempt: int) -> GeneratedWorld | None:
    """The world with so many spare situations; None: it has no task."""
    world = draw_world(plan, spare, attempt)
    bare = package_of(world)
    with host(bare) as seeded:
        num_tools = draw_size(_MORE_TOOLS * plan.knobs.tools, world.maker.rng)
        with WorldRules(bare) as rules:
            task_maker = TaskMaker(world, seeded, rules)
            tasks = task_maker.make_tasks()
    if not tasks:
        return None
    left_out = surplus_tools(world, tasks, num_tools)
    tools = [name for one in world.modules for name in one.tools if name not in left_out]
    needed = with_called_tools(world, sorted(set().union(*(one.tools for one in tasks))))
    tools = with_called_tools(world, with_promised_tools(world, tools))
    tools = with_promised_tools(world, with_usable(world, tools, needed))
    package = msgspec.structs.replace(
        bare,
        tools=tools_of(world, tools),
        policy=policy_of(world, bare.user, tools),
        tasks=tuple(one.task for one in tasks),
        verify=verify_py([one.demands for one in tasks], _columns(world)),
        row_rules=row_rules_of(world, tools),
        never_touch=never_touch_of(world, tools),
    )
    return GeneratedWorld(
        package=package,
        tables=len(world.tables),
        rows=world.maker.num_rows,
        tools=len(tools),
        tasks=tuple(one.features for one in tasks),
        dropped=dict(sorted(task_maker.dropped.items())),
        words={new: old for old, new in sorted(world.words.items())},
    )


def _columns(world: DrawnWorld) -> dict[str, TableColumns]:
    found = {}
    for dressed, (owner, table) in world.tables.items():
        dresser = world.dressers[owner]
        refers = {
            dresser.name(name): dresser.name(column.refers)
            for name, column in table.columns.items()
            if column.refers
        }
        ignored = tuple(map(dresser.name, world.noise.get(table.name, ())))
        found[dressed] = TableColumns(table.has_id, refers, ignored)
    return found
