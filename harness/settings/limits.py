"""The limits at which an episode is stopped."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rehearsal_room.scenarios.format import Task

_Count = Annotated[int, Meta(ge=1)]
_Seconds = Annotated[float, Meta(gt=0)]
MIN_STEPS = 20  # of an episode, where the limit comes from its task


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits at which an episode is stopped. None, and infinity for seconds: no limit."""

    max_steps: Annotated[
        _Count | None,
        Meta(
            description="Maximum number of steps in an episode.",
            extra={"default": "2.5 times the steps of the task's solution, at least 20"},
        ),
    ] = None
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
    max_messages: Annotated[
        _Count | None,
        Meta(
            description="Maximum number of messages in a dialogue: each reply of the model, each "
            "message of the user, and the results of the calls of each.",
            extra={"default": "no limit"},
        ),
    ] = None
    single_messages: Annotated[
        bool,
        Meta(
            description="Whether each tool call, and each result, counts as a message of its own. "
            "Then calls that reach `max_messages` are not made.",
            extra={"flag": ""},
        ),
    ] = False
    max_errors: Annotated[
        _Count | None,
        Meta(
            description="Number of failed tool calls, the user's included, that ends an episode.",
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

    def steps_for(self, task: Task) -> int:
        """The maximum number of steps in an episode of this task: the limit that was set, or 2.5
        times the task's solution (its calls, and what it says to the user), rounded up, at least
        MIN_STEPS.

        Example: an oracle of 19 calls -> 48; max_steps=30 -> 30
        """
        if self.max_steps is not None:
            return self.max_steps
        return max(MIN_STEPS, -(-5 * (len(task.oracle) + len(task.utterances)) // 2))

    @property
    def stops_with_world(self) -> bool:
        """Whether a call that broke, or took too long, ends the episode; None means yes."""
        return self.world_stop is not False
