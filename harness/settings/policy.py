"""Which policy acts in the episodes, and the files that it needs."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rehearsal_room.harness.core.errors import SettingsError

PolicyName = Literal[
    "oracle",
    "mutant",
    "random",
    "noop",
    "recites",
    "pastes",
    "lists",
    "scripted",
    "openai",
    "vllm",
    "local",
    "replay",
    "human",
    "agent",  # that of --agent alone: no model is behind it
]


MODEL_POLICIES: tuple[PolicyName, ...] = ("openai", "vllm", "local")  # a model acts


class PolicySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The policy that acts, and the files that it needs."""

    name: Annotated[
        PolicyName, Meta(description="Policy that acts in each episode.", extra={"short": "-p"})
    ] = "oracle"
    script: Annotated[
        str,
        Meta(
            description="File of calls that policy 'scripted' plays, one episode per JSON line.",
            extra={"metavar": "FILE"},
        ),
    ] = ""
    replay: Annotated[
        str,
        Meta(
            description="Run folder whose replies policy 'replay' repeats.",
            extra={"metavar": "RUN"},
        ),
    ] = ""
    tokens: Annotated[
        str,
        Meta(
            description="Hugging Face model folder whose tokenizer supplies the logged token ids, "
            "for policies that do not report their own.",
            extra={"metavar": "DIR"},
        ),
    ] = ""
    think: Annotated[
        str,
        Meta(
            description="Range of seconds to wait before each reply, as LOW:HIGH; drawn from the "
            "seed.",
            extra={"metavar": "LOW:HIGH", "default": "no wait"},
        ),
    ] = ""


def think_range(text: str) -> tuple[float, float]:
    """The bounds of a think time, in seconds. Raises SettingsError.

    Example: "1:5" -> (1.0, 5.0)
    Example: "2" -> (2.0, 2.0)
    """
    low, _, high = text.partition(":")
    try:
        bounds = float(low), float(high or low)
    except ValueError:
        raise _not_a_range(text) from None
    if not 0 <= bounds[0] <= bounds[1] < float("inf"):
        raise _not_a_range(text)
    return bounds


def _not_a_range(text: str) -> SettingsError:
    return SettingsError(
        f"think: {text!r} is not a range of seconds (expected LOW:HIGH, for example 1:5)"
    )
