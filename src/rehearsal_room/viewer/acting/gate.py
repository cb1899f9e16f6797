"""The quality gate on one world, as `rehearse worlds check` runs it."""

from typing import NoReturn

from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.gate.core.report import GateFailure
from rehearsal_room.judge.gate.job_pool import JobSettings, check_worlds
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Scenario


def gate_failures(source: str) -> list[GateFailure]:
    """What the gate finds in the world of this name or path. Raises ScenarioError."""
    outcomes = check_worlds([source], find, JobSettings(jobs=1), _no_record)
    return [failure for outcome in outcomes for failure in outcome.report.failures]


def _no_record(scenario: Scenario) -> NoReturn:
    raise JudgeError(f"{scenario.name}: an AWM record is checked by `rehearse worlds check`")
