"""The frame that all benchmark commands share: their help, usual options and output.

    @benchmark(__doc__)
    @count_option("--episodes", 1024, "Episodes of each run.")
    @runs_option(5)
    def main(episodes: int, runs: int) -> list[Figure]:
        return figures(Shape(episodes, runs))

The command prints the figures that the function returns as a table. With `--json FILE` it writes
them to a file, too. Standard output has nothing else: log lines below warnings are dropped.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from benchmarks.figures import Figure, quiet, report

F = TypeVar("F", bound=Callable[..., Any])

SETTINGS: dict[str, Any] = {"show_default": True, "max_content_width": 100}  # of a click command


def count_option(flag: str, default: int, help: str, *, least: int = 1) -> Callable[[F], F]:
    """An option that takes a whole number of at least `least`."""
    return click.option(flag, type=click.IntRange(min=least), default=default, help=help)


def runs_option(default: int) -> Callable[[F], F]:
    """The option `--runs`: every figure is the median of that many runs."""
    return count_option("--runs", default, "Measured runs; a figure is their median.")


def benchmark(doc: str | None) -> Callable[[Callable[..., list[Figure] | None]], click.Command]:
    """Make a command of a function that returns figures (None: it has printed its own result).

    `doc` is the module's docstring and becomes the help text; indented paragraphs keep their lines.
    """

    def decorate(function: Callable[..., list[Figure] | None]) -> click.Command:
        @functools.wraps(function)
        def run(*, json_file: Path | None, **options: Any) -> None:
            quiet()
            figures = function(**options)
            if figures is not None:
                report(figures, json_file)

        command = click.command(help=help_text(doc), context_settings=SETTINGS)(run)
        command.params.append(
            click.Option(
                ["--json", "json_file"],
                type=click.Path(dir_okay=False, path_type=Path),
                help="Write the figures to this file as JSON.",
            )
        )
        return command

    return decorate


def help_text(doc: str | None) -> str:
    """A docstring as click's help: prose is wrapped, indented paragraphs keep their lines.

    Example: "Title.\\n\\n    a  b\\n" -> "Title.\\n\\n\\b\\n    a  b" (`\\b` is click's mark)
    """
    paragraphs = (doc or "").strip().split("\n\n")
    return "\n\n".join(f"\b\n{one}" if one.startswith(" ") else one for one in paragraphs)
