"""A world from its plan: setting, texts, tasks, verifiers. Pure but for the trial that it is
given; the same plan and version give the same texts."""

import msgspec

from scenarios.generate.content.drawn_world import Setting, setting_of
from scenarios.generate.content.package_texts import package_of, tools_of, with_called
from scenarios.generate.core.errors import ModuleError
from scenarios.generate.core.package import Package
from scenarios.generate.core.world_host import Trial
from scenarios.generate.plan.plan import WorldPlan, sized
from scenarios.generate.tasks.derived_verifiers import Columns, verify_py
from scenarios.generate.tasks.features import Features
from scenarios.generate.tasks.task_maker import Drafting

_MORE_TOOLS = 1.03  # for the worlds whose modules have fewer than is drawn


class Made(msgspec.Struct, frozen=True):
    """A world, made and measured."""

    package: Package
    tables: int
    rows: int
    tools: int
    tasks: tuple[Features, ...]
    dropped: dict[str, int]  # drafts in vain, "module.draft: why" -> how often


def generate(plan: WorldPlan, trial: Trial) -> Made:
    """Make a world. Raises ModuleError when its modules give no task at all, and what the trial
    raises when a package cannot be hosted."""
    setting = setting_of(plan)
    bare = package_of(setting)
    with trial(bare) as stage:
        tools = sized(_MORE_TOOLS * plan.knobs.tools, setting.maker.rng)
        drafting = Drafting(setting, stage, tools)
        made = drafting.tasks()
    if not made:
        raise ModuleError(f"world {plan.name!r}: none of its modules gives a sound task")
    kept = [
        name
        for one in setting.modules
        for name in one.tools
        if setting.dressers[one.name].name(name) not in drafting.left_out
    ]
    kept = with_called(setting, kept)
    package = msgspec.structs.replace(
        bare,
        tools=tools_of(setting, kept),
        tasks=tuple(one.task for one in made),
        verify=verify_py([one.wanted for one in made], _columns(setting)),
    )
    return Made(
        package=package,
        tables=len(setting.tables),
        rows=setting.maker.num_rows,
        tools=len(kept),
        tasks=tuple(one.features for one in made),
        dropped=dict(sorted(drafting.dropped.items())),
    )


def _columns(setting: Setting) -> dict[str, Columns]:
    found = {}
    for dressed, (owner, table) in setting.tables.items():
        dresser = setting.dressers[owner]
        refers = {
            dresser.name(name): dresser.name(column.refers)
            for name, column in table.columns.items()
            if column.refers
        }
        ignored = tuple(map(dresser.name, setting.noise.get(table.name, ())))
        found[dressed] = Columns(table.has_id, refers, ignored)
    return found
