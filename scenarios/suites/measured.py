"""What was measured of whole suites without a model: floors, ceilings and lazy agents, by the
command that stands beside each.

    rehearse eval SUITE --lazy

plays them anew. `seconds` are of two cores; `tokens` are those of all requests that the reference
solution makes, at 4 bytes each, where somebody has counted them.
"""

import msgspec


class Measured(msgspec.Struct, frozen=True):
    """The score of an agent that does no work, or of the reference solutions."""

    agent: str  # noop (silent), oracle (reference), recites, pastes, lists
    score: float  # the overall score by the suite's own formula; a share from 0 to 1
    command: str
    seconds: float | None = None  # of its run; None: not measured
    tokens: int | None = None  # prompt tokens of its run, about; None: not counted


MEASURED: dict[str, tuple[Measured, ...]] = {}
