"""One verifier in a process of its own, which ends after it or is ended at a deadline.

    verified, seconds = await verified_beside(request, deadline=30.0)

The process is a new interpreter, with this one's environment and search path: it does for trusted
code what workers do for all other code, without their sandbox. It takes about half a second to
start, so it is for verifiers that have taken too long in the loop's process.
"""

import os
import sys
import time
from contextlib import suppress

import anyio
import msgspec
from anyio.lowlevel import RunVar

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.remote_states import Verified
from rehearsal_room.envpool.inprocess.verifiers import VerifierFault, Verifiers
from rehearsal_room.envpool.store.overlay import Overlay
from rehearsal_room.envpool.store.states import states_of_image
from rehearsal_room.envpool.workers.messages.codec import frame, reply_of, request_of
from rehearsal_room.envpool.workers.messages.wire import Verify, WorkerReply
from rehearsal_room.scenarios.errors import PackageError

_LENGTH = 4  # bytes in front of a frame
# At most so many processes at a time, in one event loop.
_LIMITER = RunVar[anyio.CapacityLimiter]("verdict_processes")


async def verified_beside(request: Verify, *, deadline: float) -> tuple[Verified, float]:
    """What the verifier returns, and the seconds that it took there. A process that fails is the
    verifier's `fault`. Cancelling ends the process.

    Raises TimeoutError after `deadline` seconds, the interpreter's start included.
    """
    async with _limiter():
        with anyio.fail_after(deadline):
            process = await anyio.run_process(
                [sys.executable, "-P", "-m", "rehearsal_room.judge.code.verdict_process"],
                input=frame(request),
                stderr=None,
                check=False,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
    reply: WorkerReply | None = None
    with suppress(PoolError):
        reply = reply_of(process.stdout[_LENGTH:])
    if not isinstance(reply, Verified):
        return Verified(0, fault=f"it ended its process, with status {process.returncode}"), 0.0
    return reply, float(reply.detail)


def _limiter() -> anyio.CapacityLimiter:
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(len(os.sched_getaffinity(0)))
        _LIMITER.set(limiter)
        return limiter


def _verified(request: Verify) -> Verified:
    state, scenario = request.state, request.scenario
    end = Overlay(dict(state.pages), state.num_pages, int(state.digest, 16))
    states = states_of_image(scenario, request.image)
    try:
        before, after = states.states(states.stored(end))
        task = scenario.task(request.task)
        findings = Verifiers(scenario, request.source).run(task, before, after, request.answer)
    except (VerifierFault, PackageError) as exc:
        return Verified(0, fault=str(exc))
    finally:
        states.close()
    return Verified(0, findings=findings)


def main() -> None:
    """Answer the request on standard input. What the verifier prints goes to standard error."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    request = request_of(sys.stdin.buffer.read()[_LENGTH:])
    assert isinstance(request, Verify)
    began = time.monotonic()
    verified = _verified(request)
    with output:
        took = time.monotonic() - began
        output.write(frame(msgspec.structs.replace(verified, detail=took)))


if __name__ == "__main__":
    main()
