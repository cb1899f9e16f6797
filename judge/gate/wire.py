"""What a process that checks worlds is asked, and what it answers (see judge.gate.worker)."""

import msgspec

from judge.gate.context import GateSettings
from judge.gate.package import Checked, facts_of, inspect
from judge.playback.playback import Fact
from scenarios.format import Scenario


class Order(msgspec.Struct, frozen=True):
    """A world to be checked, or (without `settings`) to be played only."""

    scenario: Scenario
    sources: dict[str, str]
    settings: GateSettings | None


class Answer(msgspec.Struct, frozen=True):
    """What came of an order."""

    checked: Checked | None = None
    facts: dict[str, list[Fact]] = {}
    fault: str = ""  # why there is nothing; empty: there is


def answer(order: Order) -> Answer:
    """Obey one order. What the gate itself does wrong is a fault, too."""
    try:
        if order.settings is None:
            return Answer(facts=facts_of(order.scenario, order.sources))
        return Answer(inspect(order.scenario, order.settings, order.sources))
    except Exception as exc:
        return Answer(fault=f"{type(exc).__name__}: {exc}")
