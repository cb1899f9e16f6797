"""A socket between the coordinator and an actor on the same machine.

Where there is one, messages take it, as between the coordinator and a rollout process: Ray takes
2 to 4 ms of CPU for each. Ray still starts the actor, ends it and says why it died. An actor of
another machine finds no server behind the path, and its messages travel through Ray.
"""

import os
import shutil
import socket
import tempfile
from contextlib import suppress

_CONNECT_S = 1.0


class NearSocket:
    """The coordinator's end, for one actor. Its folder is open to this user alone."""

    def __init__(self) -> None:
        """Raises OSError where no folder can be made."""
        self._folder = tempfile.mkdtemp(prefix="rehearse-")
        self.path = os.path.join(self._folder, "s")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        with suppress(OSError):  # a path that is too long for a socket: nobody can connect
            self._listener.bind(self.path)
            self._listener.listen(1)

    def accept(self) -> socket.socket:
        """The socket to the actor, which has connected. Raises OSError where it has not."""
        return self._listener.accept()[0]

    def close(self) -> None:
        """Nobody can connect any more."""
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def connected_to(path: str) -> socket.socket | None:
    """The actor's end; None: the coordinator is on another machine, or of another user."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(_CONNECT_S)
    with suppress(OSError):
        sock.connect(path)
        return sock
    sock.close()
    return None
