"""A process in which worlds are checked (see judge.gate.job_pool): `python -m
rehearsal_room.judge.gate.worker`.

Requests come on standard input, pickled, because they come from this program itself; replies go out
as MessagePack with their length in front, so that what a world's code returns is decoded as data
and never executed. What that code prints goes to standard error. A confined process (`--confine
SCRATCH`) enters the sandbox of envpool.workers.confine when it has imported everything that it
needs, before the first request.
"""

import gc
import os
import pickle
import resource
import signal
import sys
from typing import BinaryIO

import click
import msgspec

from rehearsal_room.envpool.workers.confine import available_layers, confine
from rehearsal_room.envpool.workers.sandbox import LIBRARIES_MB, LOWEST, WorkerLimits, require
from rehearsal_room.judge.gate.wire import handle

# Of the garbage collector. The syntax trees and results of a world are freed by reference counts;
# with Python's own thresholds the collector looked through them for 6 ms of a world's 280.
_THRESHOLDS = (100_000, 20, 50)


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Handle requests until they end."""
    encode = msgspec.msgpack.Encoder().encode
    while True:
        try:
            request = pickle.load(requests)  # nosec B301 # from our own parent process
        except EOFError:
            return
        body = encode(handle(request))
        replies.write(len(body).to_bytes(8, "big") + body)
        replies.flush()


@click.command()
@click.option("--memory-mb", type=int, required=True, help="Memory limit, beyond the libraries.")
@click.option("--confine", "scratch", metavar="SCRATCH", help="Folder of a confined process.")
@click.option("--sandbox", default="best", help="Sandbox level of a confined process.")
def main(memory_mb: int, scratch: str | None, sandbox: str) -> None:
    """Serve the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one decides
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if scratch:
        walls, missing = available_layers(sandbox)
        require(sandbox, walls or LOWEST, missing)
        confine(walls or LOWEST, scratch, WorkerLimits(memory_mb=memory_mb))
    else:
        limit = (LIBRARIES_MB + memory_mb) * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
