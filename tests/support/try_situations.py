"""Tries situations: small worlds with one of them, its oracle, the gate, and what it reads like.

    python -m tests.support.try_situations returns -n 2 --trade hotel     a file's, in a trade
    python -m tests.support.try_situations returns.late_but_promised      one

For each situation it prints every voice, the answer and the calls of one world, and the faults of
all worlds: why drafts were dropped, what the gate found, mutants that pass.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random

import msgspec

from rehearsal_room.authoring.world_host import host_in_process
from rehearsal_room.judge.gate.core.task_runner import GateSettings
from rehearsal_room.judge.gate.package import check_scenario
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.generate.compose import generate
from rehearsal_room.scenarios.generate.content.drawn_world import DrawnWorld, draw_world
from rehearsal_room.scenarios.generate.content.staged import StagedSituation
from rehearsal_room.scenarios.generate.core.situations import Situation
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.plan.situation_files import situations
from rehearsal_room.scenarios.generate.plan.world_plans import WorldPlan, plan_worlds
from rehearsal_room.scenarios.generate.tasks.dressed_drafts import instruction_of
from rehearsal_room.scenarios.generate.vocabulary.trades import trade, trade_names
from tests.support.generated_worlds import folder_of

_KNOBS = Knobs(tasks=2, rows=60, tools=120, forbidden=0, memory=0)
_GATE = GateSettings(max_mutants=40, probes=0)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def plans_of(one: Situation, count: int, trades: list[str]) -> list[WorldPlan]:
    """Plans of worlds with only this situation, in trades that can have it."""
    fit = [
        name
        for name in trades or trade_names()
        if (not one.trades or name in one.trades)
        and name not in one.without
        and set(one.modules) <= set(trade(name).modules)
    ]
    if not fit:
        return []
    return plan_worlds(
        *(count, 1, msgspec.structs.replace(_KNOBS, dialogue=float(one.dialogue))),
        trades=fit,
        modules=list(one.modules),
        among=(),
        situations=[one.id],
    )


def show(one: Situation, count: int, trades: list[str]) -> int:
    """Print a situation and its faults; return the number of faults."""
    _say(f"\n=== {one.id} [{one.kind}{', memory' if one.memory else ''}] {', '.join(one.modules)}")
    faults: list[str] = []
    plans = plans_of(one, count, trades)
    shown = False
    for plan in plans:
        world = draw_world(plan)
        if world.staged and not shown:
            _print_texts(world, world.staged[0], plan)
            shown = True
        if world.staged:
            faults += _faults(plan)
    if not shown:
        faults.append("no world suits it" if plans else "no trade has its modules")
    for fault in dict.fromkeys(faults):
        _say(f"  !! {fault}")
    return len(faults)


def _print_texts(world: DrawnWorld, staged: StagedSituation, plan: WorldPlan) -> None:
    draft = staged.draft
    _say(
        f"    {plan.trade}; me: {world.maker.me['name']} ({world.maker.me['role']}); {world.clock}"
    )
    for voice in draft.ask.__struct_fields__:
        text = getattr(draft.ask, voice)
        text = text if isinstance(text, str) else Random(1).choice(text)
        _say(f"  {voice:9} {instruction_of(world, draft, text)}")
    answer = draft.answer if isinstance(draft.answer, str) else draft.answer[0]
    _say(f"  {'answer':9} {instruction_of(world, draft, answer)}")
    for call in draft.calls:
        _say(f"    {call.name} {msgspec.json.encode(msgspec.to_builtins(call.arguments)).decode()}")
    if draft.tempts or draft.reasons:
        _say(f"    tempts {draft.tempts}  reasons {draft.reasons}")


def _faults(plan: WorldPlan) -> list[str]:
    try:
        made = generate(plan, host_in_process)
    except ScenarioError as exc:
        return [str(exc)]
    found = [f"{plan.name}: {why}" for why in made.dropped]
    found += [f"{task.task}: {task.purposes} purposes" for task in made.tasks if task.purposes > 2]
    with tempfile.TemporaryDirectory() as folder:
        report = check_scenario(folder_of(made, Path(folder)), _GATE)
    found += [f"{one.task}: {one.check}: {one.why}" for one in report.failures]
    if report.mutants_caught < 0.99 * report.mutants:
        found.append(f"{plan.name}: {report.mutants_caught} of {report.mutants} mutants are caught")
    return found


def main() -> None:
    """Show the situations that are named on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="a file's stem, or an id; none: all")
    parser.add_argument("-n", type=int, default=2, help="worlds for each situation")
    parser.add_argument("--trade", action="append", default=[])
    arguments = parser.parse_args()
    found = [
        one
        for one in situations().values()
        if not arguments.names
        or one.id in arguments.names
        or one.id.partition(".")[0] in arguments.names
    ]
    faults = sum(show(one, arguments.n, arguments.trade) for one in found)
    _say(f"\n{len(found)} situations, {faults} faults")
    sys.exit(1 if faults or not found else 0)


if __name__ == "__main__":
    main()
