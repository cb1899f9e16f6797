"""The limits at which an episode is stopped."""

from typing import Annotated

import msgspec
from msgspec import Meta

_Count = Annotated[int, Meta(ge=1)]
_Seconds = Annotated[float, Meta(gt=0)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits at which an episode is stopped. None, and infinity for seconds: no limit."""

    max_steps: Annotated[_Count, Meta(description="Maximum number of steps in an episode.")] = 20
    max_calls: Annotated[
        _Count,
        Meta(
            description="Maximum number of tool calls in one reply; a reply with more is malformed."
        ),
    ] = 128
    turn_steps: Annotated[
        _Count | None,
        Meta(
            description="Maximum number of replies of the model between two turns of the user, in "
            "a dialogue.",
            extra={"default": "no limit"},
        ),
    ] = None
    token_limit: Annotated[
        _Count | None,
        Meta(
            description="Maximum number of tokens that the model generates in an episode; where "
            "its server reports none, 4 bytes count as one.",
            extra={"default": "no limit"},
        ),
    ] = None
    time_limit: Annotated[
        _Seconds | None,
        Meta(
            description="Maximum duration of an episode, in seconds.", extra={"default": "no limit"}
        ),
    ] = None
    reply_timeout: Annotated[
        _Seconds | None,
        Meta(description="Seconds to wait for one reply of the model, retries included."),
    ] = 300.0
    call_timeout: Annotated[
        _Seconds | None,
        Meta(
            description="Maximum duration of one tool call, in seconds, where the pool can stop a "
            "call."
        ),
    ] = 60.0
    # Otherwise the agent reads the world's error and continues. AWM ends the episode with
    # `world_error`, too (arXiv:2602.10090).
    world_stop: Annotated[
        bool | None,
        Meta(
            description="Whether a tool call that breaks or times out ends the episode.",
            extra={"default": "yes, except for policy 'scripted', which plays its file to the end"},
        ),
    ] = None

    @property
    def stops_with_world(self) -> bool:
        """Whether a call that broke, or took too long, ends the episode; None means yes."""
        return self.world_stop is not False
