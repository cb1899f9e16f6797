"""A process in which worlds are checked (see judge.gate.job_pool): `python -m judge.gate.worker`.

Orders come on standard input, pickled, for they are our own; replies go out as MessagePack with
their length in front, so that what a world says is decoded as data and never executed. What the
worlds' code prints goes to standard error. A confined process (`--confine SCRATCH`) raises the
walls of envpool.workers.confine once it has imported all it needs, before the first order.
"""

import argparse
import os
import pickle
import resource
import signal
import sys
from typing import BinaryIO

import msgspec

from envpool.workers.confine import available_layers, confine
from envpool.workers.sandbox import LIBRARIES_MB, LOWEST, Limits, require
from judge.gate.wire import answer


def serve(orders: BinaryIO, replies: BinaryIO) -> None:
    """Answer until the orders end."""
    encode = msgspec.msgpack.Encoder().encode
    while True:
        try:
            order = pickle.load(orders)
        except EOFError:
            return
        body = encode(answer(order))
        replies.write(len(body).to_bytes(8, "big") + body)
        replies.flush()


def main() -> None:
    """Serve the process that started this one."""
    flags = argparse.ArgumentParser()
    flags.add_argument("--memory-mb", type=int, required=True)
    flags.add_argument("--confine", metavar="SCRATCH")
    flags.add_argument("--sandbox", default="best")
    given = flags.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this process decides
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if given.confine:
        walls, missing = available_layers(given.sandbox)
        require(given.sandbox, walls or LOWEST, missing)
        confine(walls or LOWEST, given.confine, Limits(memory_mb=given.memory_mb))
    else:
        most = (LIBRARIES_MB + given.memory_mb) * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
