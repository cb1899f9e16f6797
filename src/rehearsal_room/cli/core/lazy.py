"""Groups of commands that are imported when they run.

A group knows its commands by name, short text and place, so that `--help` and the completion of
names import none of them. The table of the command line is `rehearsal_room.cli.verbs`.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import IO, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from rehearsal_room.cli.core.help import SectionedCommand

_HOME = "rehearsal_room.cli"


class Verb(NamedTuple):
    """A command by its name in a table.

    Verb("play.run:run_command", "Run episodes and log them.")   one command
    Verb("", "Worlds.", {"check": Verb(…)})                      a group
    Verb("trust.judge:judge_command", "…", {"label": Verb(…)})   both: see CommandFamily
    """

    place: str  # "module:attribute" below rehearsal_room.cli
    help: str  # one sentence
    below: Mapping[str, "Verb"] = {}


class LazyCommands(MutableMapping[str, click.Command]):
    """The commands of a table; each is imported when it is first looked up."""

    def __init__(self, verbs: Mapping[str, Verb]) -> None:
        self._verbs = verbs
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            self._loaded[name] = loaded(name, self._verbs[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        raise TypeError(f"{name}: commands are added to the table")

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"{name}: commands are removed from the table")

    def __contains__(self, name: object) -> bool:
        return name in self._verbs

    def __iter__(self) -> Iterator[str]:
        return iter(self._verbs)

    def __len__(self) -> int:
        return len(self._verbs)


class LazyGroup(click.Group):
    """A group whose commands stand in a table: title of a section -> name -> command.

    `hidden` are further commands, which help does not show. `moved` are old names, with the new
    one: "generate" -> "worlds generate". An old name works, and standard error says the new one.
    """

    def __init__(
        self,
        name: str,
        *,
        sections: Mapping[str, Mapping[str, Verb]],
        hidden: Mapping[str, Verb] | None = None,
        moved: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        verbs = {key: verb for section in sections.values() for key, verb in section.items()}
        super().__init__(name, commands=LazyCommands({**verbs, **(hidden or {})}), **options)
        self._sections = sections
        self._moved = moved or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the table."""
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name; None: there is none. What its import raises is raised."""
        if cmd_name not in self.commands:
            return None
        return self.commands[cmd_name]  # `get` would take a KeyError of the import for an absence

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the words begin with, by its present name or an old one."""
        for count in (2, 1):
            old = " ".join(args[:count])
            if (new := self._moved.get(old)) is not None:
                if not ctx.resilient_parsing:
                    path = ctx.command_path
                    click.echo(f"{path} {old} is now {path} {new}", err=True)
                args = [*new.split(), *args[count:]]
                break
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section with the short texts of its commands."""
        width = max(len(name) for verbs in self._sections.values() for name in verbs)
        for title, verbs in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), verb.help) for name, verb in verbs.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names that begin so, and the group's flags."""
        names = [
            CompletionItem(name, help=verb.help)
            for verbs in self._sections.values()
            for name, verb in verbs.items()
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


class CommandFamily(SectionedCommand, LazyGroup):
    """A command with more commands below it: `judge RUN`, and `judge label RUN`.

    The first word decides: where it is the name of a command below, that one runs, else the
    command itself. A folder of such a name is given as ./label.
    """

    allow_extra_args = False
    allow_interspersed_args = True

    def __init__(self, own: click.Command, below: Mapping[str, Verb]) -> None:
        super().__init__(
            own.name,
            sections={"Commands": below},
            params=own.params,
            callback=own.callback,
            help=own.help,
            usual=own.usual if isinstance(own, SectionedCommand) else (),
            invoke_without_command=True,
        )
        self._below = below

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """The context of the command itself, or of a mere group where the first word names a
        command below it."""
        if args and args[0] in self._below:
            group = LazyGroup(self.name or "", sections={"Commands": self._below})
            return group.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters of the command itself; in the path of a command below it there are
        none: `judge label`, not `judge RUN label`."""
        return super().get_params(ctx) if ctx.command is self else []

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of the command itself."""
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command itself."""
        return click.Command.invoke(self, ctx)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage of the command itself."""
        return click.Command.collect_usage_pieces(self, ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags of the command itself, and the commands below it."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


class CannotStartError(click.ClickException):
    """A dependency is missing or too old: one sentence instead of a traceback."""

    def __init__(self, command: str | None, exc: Exception) -> None:
        super().__init__(
            f"error: rehearsal-room cannot start: {exc}: install rehearsal-room in a clean virtual "
            "environment"
        )
        self.status = 1 if command == "doctor" else 2  # for doctor that is the answer

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence."""
        click.echo(self.message, err=True, file=file)


def loaded(name: str, verb: Verb) -> click.Command:
    """The command of a table, imported now. Raises CannotStartError."""
    if not verb.place:
        return LazyGroup(name, sections={"Commands": verb.below}, help=verb.help)
    module, _, attribute = verb.place.partition(":")
    try:
        own: click.Command = getattr(import_module(f"{_HOME}.{module}"), attribute)
    except (ImportError, AttributeError) as exc:
        raise CannotStartError(name, exc) from exc
    return CommandFamily(own, verb.below) if verb.below else own
