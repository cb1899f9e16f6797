"""Settings of the process: where logs go, the limit of open files, the event loop."""

import logging
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import anyio
import structlog


def configure_logging(verbose: int) -> None:
    """Log to standard error: warnings and worse; with 1 (-v) also information, with 2 (-vv) also
    debug messages."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


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


def run(function: Any, *arguments: Any) -> Any:
    """Run an async function on asyncio, with uvloop where it is installed."""
    options = {"use_uvloop": find_spec("uvloop") is not None}
    return anyio.run(function, *arguments, backend="asyncio", backend_options=options)
