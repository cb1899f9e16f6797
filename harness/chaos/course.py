"""Which episode a task plays: what requests, calls and leases have in common.

A lease does not know its episode, and a request to a model server knows neither. All of them are
made by the task that plays the episode, so its context has them in one object: the lease begins it,
and the policy's agent, which knows the episode, completes it.
"""

from contextvars import ContextVar

from rehearsal_room.harness.core.events import FaultInjected


class ReplyAttempts:
    """The attempts at one reply, and the faults that hit them."""

    def __init__(self, course: "Course", number: int) -> None:
        self.course = course
        self.number = number  # of the reply in its episode, from 0
        self.num_attempts = 0
        self.faults: list[tuple[str, int, float]] = []  # name, attempt (from 1), seconds

    def events(self) -> list[FaultInjected]:
        """What came of the faults."""
        course = self.course
        return [
            FaultInjected(
                fault,
                retried=self.num_attempts > attempt,
                episode=course.episode,
                attempt=course.attempt,
                turn=course.turn,
                seconds=seconds,
            )
            for fault, attempt, seconds in self.faults
        ]


class Course:
    """One lease, and the episode that is played in it."""

    __slots__ = ("attempt", "episode", "request", "turn")

    def __init__(self) -> None:
        self.episode = ""  # empty: the episode has not begun, or its resumed turns are made again
        self.attempt = 0
        self.turn = 0  # of the reply that was asked for last
        self.request: ReplyAttempts | None = None  # None: no reply is waited for


CURRENT: ContextVar[Course | None] = ContextVar("chaos_course", default=None)
