"""The faults of `--chaos` in a simulation: the choices decide what they hit."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from unittest.mock import patch

from rehearsal_room.harness.chaos import chaos as chaos_module
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.settings import (
    ChaosFile,
    Delay,
    DiskFaults,
    DiskFull,
    Fault,
    PolicyFaults,
    Stall,
    Storm,
    ToolFaults,
)
from rehearsal_room.harness.core.events import FAULTS_EPISODE
from rehearsal_room.harness.log import writer
from tests.devtools.simulation.parts.choices import Choices

PATIENCE_S = writer._FULL_PATIENCE_S  # for which a full disk is waited for
LONG_FULL_S = PATIENCE_S + 2.0  # the run does not wait so long for a disk that is full


def faults_of(seed: int) -> ChaosFile:
    """The faults that this seed's runs may have. None of them changes what the agent sees."""
    full_s = LONG_FULL_S if seed % 7 == 3 else 3.0
    return ChaosFile(
        policy=PolicyFaults(
            rate_limit=Storm(share=0.02, retry_after=0.5),
            stall=Stall(share=0.01, seconds=20.0),
            cut=Fault(share=0.02),
            garbage=Fault(share=0.01),
        ),
        tools=ToolFaults(delay=Delay(share=0.03, seconds=2.0), lost_reply=Fault(share=0.05)),
        disk=DiskFaults(
            full=DiskFull(share=0.003, seconds=full_s), slow=Delay(share=0.01, seconds=1.0)
        ),
    )


class DrawnInjector(Injector):
    """An Injector whose faults are choices of the simulation, so that they can be taken back."""

    def __init__(self, choices: Choices, numbers: Iterator[int], file: ChaosFile, *args: object):
        super().__init__(file, *args)  # type: ignore[arg-type]
        self._choices = choices
        self._episode = f"{FAULTS_EPISODE}-{next(numbers)}"

    def hits(self, name: str, *key: object) -> bool:
        fault = self._faults.get(name)
        if fault is None or self._recorder is None:
            return False
        return self._choices.option(f"fault {name}", 2, rate=fault.share or 0.0) > 0


@contextmanager
def drawn_faults(choices: Choices) -> Iterator[None]:
    """A block in which `Chaos` has the faults that the choices give."""
    numbers = count(1)

    def injector(file: ChaosFile, *args: object) -> DrawnInjector:
        return DrawnInjector(choices, numbers, file, *args)

    with patch.object(chaos_module, "Injector", injector):
        yield
