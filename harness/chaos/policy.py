"""Faults of the model server: refusals, stalls, answers that are cut or cannot be read.

They are made in the transport of the policy's client, so its own retries deal with them. A policy
that asks no server (`oracle`, for example) gets them as if its replies came from one: each is made
once, and its delivery is repeated by the same rules.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Protocol, Self, runtime_checkable

import anyio
import msgspec

from rehearsal_room.harness.chaos.course import CURRENT, Course, ReplyAttempts
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.settings import Stall, Storm
from rehearsal_room.harness.chat.completions import read_error
from rehearsal_room.harness.chat.http1 import BodyWatch
from rehearsal_room.harness.chat.retry import AttemptFailure, Backoff, wait_before_retry
from rehearsal_room.harness.chat.transport import HttpResponse, ModelTransport, TransportError
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Reply, Window
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.policies.base import Agent, Assignment, Policy
from rehearsal_room.harness.settings.model import ModelSettings

_GARBAGE = b'{"choices": [{"message": {"content": "\xff\xfe'
_DELIVERED = b"{}"  # the body of an answer whose reply is passed beside it


@runtime_checkable
class OverHttp(Protocol):
    """A policy whose requests go through a transport."""

    def wrap_transport(self, wrap: Callable[[ModelTransport], ModelTransport]) -> None:
        """Send all requests through what `wrap` makes of the transport; before it is open."""


class FaultyTransport(anyio.AsyncContextManagerMixin):
    """A Transport whose requests are hit by faults. `timeout_s` is the time limit of one request,
    in seconds."""

    def __init__(self, inner: ModelTransport, injector: Injector, *, timeout_s: float) -> None:
        self._inner = inner
        self._injector = injector
        self._timeout_s = timeout_s

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._inner:
            yield self

    async def post(self, body: bytes, watch: BodyWatch | None = None) -> HttpResponse:
        """Make one attempt. Raises TransportError."""
        course = CURRENT.get()
        request = None if course is None else course.request
        if request is None:  # it belongs to no turn of an episode
            return await self._inner.post(body, watch)
        return await faulty_attempt(
            lambda: self._inner.post(body, watch),
            request,
            self._injector,
            timeout_s=self._timeout_s,
        )


async def faulty_attempt(
    post: Callable[[], Awaitable[HttpResponse]],
    request: ReplyAttempts,
    injector: Injector,
    *,
    timeout_s: float,
) -> HttpResponse:
    """Make one attempt at a reply, which faults may hit. Raises TransportError."""
    request.num_attempts += 1
    storm, stall = injector.fault("policy.rate_limit"), injector.fault("policy.stall")

    def hits(name: str, seconds: float = 0.0) -> bool:
        course, attempt = request.course, request.num_attempts
        if not injector.hits(name, course.episode, course.attempt, request.number, attempt):
            return False
        request.faults.append((name, attempt, seconds))
        return True

    if isinstance(storm, Storm) and hits("policy.rate_limit"):
        headers = {"retry-after-ms": f"{storm.retry_after * 1000:g}"}
        return HttpResponse(429, headers, b'{"error": {"message": "too many requests"}}')
    if isinstance(stall, Stall) and hits("policy.stall", stall.seconds):
        await anyio.sleep(min(stall.seconds, timeout_s))
        if stall.seconds >= timeout_s:
            raise TransportError("timeout", f"no answer within {timeout_s:g} s")
    response = await post()
    if hits("policy.cut"):
        raise TransportError("connection", "the connection ended before the answer")
    if hits("policy.garbage"):
        return HttpResponse(200, response.headers, _GARBAGE)
    return response


class FaultyPolicy:
    """A policy whose agents are hit by faults. `is_over_http`: the faults come from its transport;
    else its replies are delivered as a server's would be, with the limits of `model`."""

    def __init__(
        self, inner: Policy, injector: Injector, model: ModelSettings, *, is_over_http: bool
    ) -> None:
        self._inner = inner
        self._injector = injector
        self._model = model
        self._delivers = not is_over_http and injector.has("policy")

    @property
    def name(self) -> str:
        """The inner policy's name."""
        return self._inner.name

    def agent(self, assignment: Assignment) -> Agent:
        """The inner policy's agent, with faults."""
        inner, course = self._inner.agent(assignment), CURRENT.get()
        if course is None:  # no world was leased by this task
            return inner
        course.episode, course.attempt = assignment.episode, assignment.attempt
        if self._delivers:
            inner = _DeliveredAgent(inner, course, self._injector, self._model)
        return _FaultyAgent(inner, course, self._injector, assignment)


class _FaultyAgent:
    """Has each reply's faults reported when it came, or did not."""

    def __init__(
        self, inner: Agent, course: Course, injector: Injector, assignment: Assignment
    ) -> None:
        self._inner = inner
        self._course = course
        self._injector = injector
        self._num_replies = len(assignment.kept)
        self._num_steps = sum(isinstance(kept, StepTaken) for kept in assignment.kept)
        self._turn = anyio.Lock()  # an agent of the user's own may ask several things at once

    async def reply(self, window: Window) -> Reply:
        async with self._turn:
            CURRENT.set(self._course)  # such an agent asks in tasks of its own
            return await self._reply(window)

    async def _reply(self, window: Window) -> Reply:
        course = self._course
        request = course.request = ReplyAttempts(course, self._num_replies)
        course.turn = self._num_steps
        self._num_replies += 1
        self._num_steps += not window.asks_for_summary
        try:
            return await self._inner.reply(window)
        finally:
            course.request = None
            for event in request.events():
                self._injector.report(event)


class _DeliveredAgent:
    """An agent whose replies come as if from a server."""

    def __init__(
        self, inner: Agent, course: Course, injector: Injector, model: ModelSettings
    ) -> None:
        self._inner = inner
        self._course = course
        self._injector = injector
        self._timeout_s = model.request_timeout
        self._backoff = Backoff(model.max_attempts)

    async def reply(self, window: Window) -> Reply:
        """The inner agent's reply, which is made once. Raises PolicyError when it is not delivered
        after as many attempts as a client makes."""
        request = self._course.request
        assert request is not None
        made: list[Reply] = []

        async def post() -> HttpResponse:
            if not made:
                made.append(await self._inner.reply(window))
            return HttpResponse(200, {}, _DELIVERED)

        rng = Random(f"{self._injector.seed} {self._course.episode} {request.number}")
        while (failure := await self._failure(post, request)) is not None:
            attempt = request.num_attempts
            wait = wait_before_retry(
                failure, attempt, backoff=self._backoff, rng=rng, now=time.time()
            )
            if wait is None:
                raise PolicyError(f"{failure.message} (after {plural(attempt, 'attempt')})")
            await anyio.sleep(wait)
        if request.num_attempts == 1:
            return made[0]
        return msgspec.structs.replace(made[0], attempts=request.num_attempts)

    async def _failure(
        self, post: Callable[[], Awaitable[HttpResponse]], request: ReplyAttempts
    ) -> AttemptFailure | None:
        """Why an attempt failed; None: the reply was delivered."""
        try:
            response = await faulty_attempt(
                post, request, self._injector, timeout_s=self._timeout_s
            )
        except TransportError as exc:
            return AttemptFailure(exc.kind, str(exc), was_sent=exc.was_sent)
        if response.status != 200:
            return read_error(response.status, response.headers, response.body)
        if response.body != _DELIVERED:
            return AttemptFailure("malformed", "the answer is not JSON")
        return None
