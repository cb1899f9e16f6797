"""The command `scenarios check` with few mutants and probes, for tests of what surrounds the gate.

`just gate` and `just test-long` try all of them. Worlds that are checked in several processes are
tried in the same way.
"""

from functools import partial

import pytest

from rehearsal_room.cli.worlds import gate
from rehearsal_room.judge.gate.core.task_runner import GateSettings
from tests.support.budgets import IS_LONG

FEW = GateSettings(max_mutants=4, probes=4)


@pytest.fixture
def quick_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command tries FEW mutants of each task and probes of each tool."""
    if not IS_LONG:
        monkeypatch.setattr(gate, "JobSettings", partial(gate.JobSettings, gate=FEW))
        monkeypatch.setattr(gate, "check_record", partial(gate.check_record, settings=FEW))
