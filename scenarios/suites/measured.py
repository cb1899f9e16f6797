"""What was measured of whole suites without a model: floors, ceilings and lazy agents, by the
command that stands beside each.

    rehearse eval SUITE --lazy

plays them again. `seconds` are of two cores; `tokens` are those of all requests that the reference
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


_AIRLINE, _RETAIL, _TELECOM = (
    f"rehearse eval tau2_{name} --tau2 DIR -p oracle" for name in ("airline", "retail", "telecom")
)
_BFCL, _DOJO = "rehearse eval bfcl_v3 -p oracle", "rehearse eval agentdojo -p oracle"
_SANDBOX = "rehearse eval toolsandbox --suite-path DIR -p noop"
_BANKING = "rehearse eval tau2_banking_bm25_grep --tau2 DIR -p oracle"
MEASURED: dict[str, tuple[Measured, ...]] = {
    "bfcl_v3": (
        Measured("noop", 0.1976, "rehearse eval bfcl_v3 -p noop"),
        Measured("oracle", 0.9987, _BFCL, tokens=51_400_000),
        *(Measured(name, 0.1976, f"{_BFCL} --lazy") for name in ("recites", "pastes", "lists")),
    ),
    "agentdojo": (
        Measured("noop", 0.0781, _DOJO),
        Measured("oracle", 1.0, _DOJO),
        Measured("recites", 0.0781, f"{_DOJO} --lazy"),
        Measured("pastes", 0.1063, f"{_DOJO} --lazy"),
        Measured("lists", 0.3906, f"{_DOJO} --lazy"),
    ),
    "toolsandbox": (
        Measured("noop", 0.1758, _SANDBOX),
        Measured("recites", 0.2610, f"{_SANDBOX} --lazy"),
        *(Measured(name, 0.1758, f"{_SANDBOX} --lazy") for name in ("pastes", "lists")),
    ),
    "bfcl_v4": (
        Measured("noop", 0.10, "rehearse eval bfcl_v4 -p noop"),
        Measured("oracle", 0.7328, "rehearse eval bfcl_v4 -p oracle"),
    ),
    "tau2_retail": (Measured("noop", 11 / 114, _RETAIL), Measured("oracle", 1.0, _RETAIL)),
    "tau2_airline": (Measured("noop", 23 / 50, _AIRLINE), Measured("oracle", 1.0, _AIRLINE)),
    "tau2_banking_bm25_grep": (Measured("noop", 0.0, _BANKING), Measured("oracle", 1.0, _BANKING)),
    "tau2_telecom": (Measured("noop", 0.0, _TELECOM), Measured("oracle", 1.0, _TELECOM)),
}
