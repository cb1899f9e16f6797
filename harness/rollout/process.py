"""What the roof asks of the process: where logs go, how many files, which event loop."""

import logging
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import anyio
import structlog


def quiet_logs(verbose: int) -> None:
    """Log to standard error, from warnings on; -v adds the run's steps, -vv everything."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


@contextmanager
def warnings_only() -> Iterator[None]:
    """A block that logs warnings and worse, unless somebody has configured structlog."""
    if structlog.is_configured():
        yield
        return
    quiet_logs(0)
    try:
        yield
    finally:
        structlog.reset_defaults()


def allow_many_files(wanted: int) -> None:
    """Raise the soft limit of open files, so that each episode may hold a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run(function: Any, *arguments: Any) -> Any:
    """Run an async function on asyncio, with uvloop where there is one."""
    options = {"use_uvloop": find_spec("uvloop") is not None}
    return anyio.run(function, *arguments, backend="asyncio", backend_options=options)
