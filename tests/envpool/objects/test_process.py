"""How long the program of a suite is waited for."""

import sys

import anyio
import anyio.lowlevel
import pytest

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.objects import process as module
from rehearsal_room.envpool.objects.process import ProgramSettings, SuiteProcess

_SPEND = """
import time

def spend(seconds):
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass

"""
_AWAKE = "for _ in range(20): spend(0.02); time.sleep(0.05)\nprint('{}', flush=True)\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import time; time.sleep(60)", "computed for 0 s"),
        ("while True: pass", "no answer came within 0.6 s"),
        (_SPEND + _AWAKE, ""),
    ],
)
async def test_a_program_that_computes_is_waited_for(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that neither answers nor computes is given up after its time, and one that computes
    for so long, too; one that has had little of the processor meanwhile is not."""
    monkeypatch.setattr(module, "_PATIENCE_S", 0.6)
    suite = SuiteProcess(ProgramSettings("tau"))
    monkeypatch.setattr(suite, "_greet", lambda lines: anyio.lowlevel.checkpoint())
    monkeypatch.setattr(suite, "_command", lambda: [sys.executable, "-c", program])
    async with anyio.create_task_group() as tasks:
        await tasks.start(suite.run)
        if said:
            with pytest.raises(PoolError, match=said):
                await suite.request("any")
        else:
            assert await suite.request("any") == {}
        tasks.cancel_scope.cancel()
