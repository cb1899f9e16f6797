"""Settings of the process: where logs go, the limit of open files, the event loop."""

import asyncio
import logging
import resource
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar, TypeVarTuple

import anyio
import structlog

from rehearsal_room.harness.core.terminal import unescaped
from rehearsal_room.harness.core.terminal_text import printable

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def configure_logging(verbose: int) -> None:
    """Log to standard error: warnings and worse; with 1 (-v) also information, with 2 (-vv) also
    debug messages."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.StackInfoRenderer(),
            structlog.dev.set_exc_info,
            structlog.processors.format_exc_info,
            structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
            _escaped,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(unescaped(sys.stderr)),
    )


def _escaped(_logger: Any, _method: str, event: structlog.typing.EventDict) -> Any:
    """A structlog processor: values on one line and tracebacks on several, without anything that a
    terminal would act on. The colours come after it."""
    return {
        name: printable(value, one_line=name != "exception") if isinstance(value, str) else value
        for name, value in event.items()
    }


@contextmanager
def warnings_only() -> Iterator[None]:
    """A block in which warnings and worse are logged, unless structlog is configured already."""
    if structlog.is_configured():
        yield
        return
    configure_logging(0)
    try:
        yield
    finally:
        structlog.reset_defaults()


def raise_file_limit(num_files: int) -> None:
    """Raise the soft limit of open files to `num_files`, or as far as the hard limit permits, so
    that each episode can hold a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        num_files = min(num_files, hard)
    if soft != resource.RLIM_INFINITY and soft < num_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (num_files, hard))


def run(function: Callable[[*Ts], Awaitable[T]], *arguments: *Ts) -> T:
    """Run an async function on asyncio, with uvloop where it is installed. SIGTERM (Slurm,
    Kubernetes, `docker stop`) ends it as Ctrl-C does: with KeyboardInterrupt, once all of its tasks
    have been cancelled."""
    options = {"use_uvloop": find_spec("uvloop") is not None}
    terminated = False

    async def main() -> T:
        nonlocal terminated
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def terminate() -> None:
            nonlocal terminated
            if not terminated:  # a second signal must not cut off what the first one saves
                terminated = True
                task.cancel()

        before = signal.getsignal(signal.SIGTERM)
        is_free = before in (signal.SIG_DFL, signal.default_int_handler)
        if not is_free or threading.current_thread() is not threading.main_thread():
            return await function(*arguments)
        loop.add_signal_handler(signal.SIGTERM, terminate)
        try:
            return await function(*arguments)
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
            signal.signal(signal.SIGTERM, before)

    try:
        return anyio.run(main, backend="asyncio", backend_options=options)
    except asyncio.CancelledError:
        if terminated:
            raise KeyboardInterrupt from None
        raise
