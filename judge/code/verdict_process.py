"""The process in which verifiers run that may not, or cannot, be stopped in the run's own.

It answers questions on its standard input, which is a socket, one after the other, until that is
closed (see judge.code.kept_processes). It does for trusted code what workers do for all other code,
without their sandbox. A world is sent with the first question on it, and kept for later ones.
"""

import os
import signal
import socket
import time
from collections import OrderedDict
from typing import Any

import msgspec

from rehearsal_room.envpool.core.remote_states import Snapshot, Verified
from rehearsal_room.envpool.inprocess.verifiers import VerifierFault, Verifiers
from rehearsal_room.envpool.store.overlay import Overlay
from rehearsal_room.envpool.store.states import states_of_image
from rehearsal_room.envpool.workers.messages.codec import frame, request_of
from rehearsal_room.envpool.workers.messages.wire import Load
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.errors import PackageError

DEADLINE = 30.0  # seconds that a verifier may take
MAX_WORLDS = 128  # that a process keeps; those that were asked for longest ago go first
_ORPHANED = 2 * DEADLINE  # seconds until a verifier ends its process, if nobody else does
_LENGTH = 4  # bytes in front of a question, big-endian


class Question(msgspec.Struct, frozen=True):
    """What does the verifier of a task find? Answer: a frame with Verified, whose `detail` is the
    seconds that it took."""

    id: int
    world: int  # its number
    load: bytes  # the body of its Load, whose `source` is the text of verify.py; empty: sent before
    task: str
    state: Snapshot  # at the episode's end
    answer: str
    changes: tuple[RowChange, ...] | None  # the episode's net changes; None: found by comparing

    def encoded(self) -> bytes:
        """As it is sent."""
        body = msgspec.msgpack.encode(self)
        return len(body).to_bytes(_LENGTH, "big") + body


def used(worlds: OrderedDict[int, Any], number: int) -> None:
    """Note that a world was asked for, in the process and, equally, in the one that asks it."""
    worlds.move_to_end(number)
    if len(worlds) > MAX_WORLDS:
        worlds.popitem(last=False)


class _World:
    """What is kept of a world."""

    def __init__(self, load: bytes) -> None:
        request = request_of(load)
        assert isinstance(request, Load)
        self.scenario = request.scenario
        self._source = request.source
        self._states = states_of_image(request.scenario, request.image)
        self._verifiers: Verifiers | None = None

    def verified(self, question: Question) -> Verified:
        """The answer. An error of the verifier is its `fault`."""
        began = time.monotonic()
        state = question.state
        end = Overlay(dict(state.pages), state.num_pages, int(state.digest, 16))
        try:
            verifiers = self._verifiers = self._verifiers or Verifiers(self.scenario, self._source)
            before, after = self._states.states(self._states.stored(end), question.changes)
            task = self.scenario.task(question.task)
            findings = verifiers.run(task, before, after, question.answer)
        except (VerifierFault, PackageError) as exc:
            return Verified(question.id, fault=str(exc), detail=time.monotonic() - began)
        return Verified(question.id, findings=findings, detail=time.monotonic() - began)


def _answer_all(requests: socket.socket) -> None:
    worlds = OrderedDict[int, _World]()
    decode = msgspec.msgpack.Decoder(Question).decode
    while length := int.from_bytes(_received(requests, _LENGTH), "big"):
        question = decode(_received(requests, length))
        if question.load:
            worlds[question.world] = _World(question.load)
        used(worlds, question.world)
        signal.setitimer(signal.ITIMER_REAL, _ORPHANED)  # its signal ends the process
        verified = worlds[question.world].verified(question)
        signal.setitimer(signal.ITIMER_REAL, 0)
        requests.sendall(frame(verified))


def _received(sock: socket.socket, size: int) -> bytes:
    """So many bytes; none when the other end was closed."""
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        if not (num := sock.recv_into(rest)):
            return b""
        rest = rest[num:]
    return bytes(data)


def main() -> None:
    """Answer questions. What a verifier prints goes to standard error."""
    requests = socket.socket(fileno=os.dup(0))
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    with requests:
        _answer_all(requests)


if __name__ == "__main__":
    main()
