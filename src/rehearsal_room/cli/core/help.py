"""How a command shows its flags: in sections, and the usual ones alone where it has many."""

from collections.abc import Collection
from typing import Any

import click

_SHOWS_ALL = f"{__name__}.shows_all"  # a key of click's Context.meta


class SettingOption(click.Option):
    """A flag of a setting, which help shows under the name of its section. `once` is why it may be
    given once only; empty: the last one counts, so that a recipe's flag can be overridden."""

    def __init__(self, *arguments: Any, section: str = "", once: str = "", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.section = section
        self.once = once


class SectionedCommand(click.Command):
    """A command whose help groups flags by section.

    `usual` are the names of the parameters that `--help` shows, in this order; `--help-all` then
    shows all of them. Empty: `--help` shows all, and there is no `--help-all`.
    """

    def __init__(self, *arguments: Any, usual: Collection[str] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.usual = tuple(usual)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a flag that was given twice where one of the two would be ignored silently."""
        own = args[: args.index("--")] if "--" in args else args
        for option in self.params:
            if not isinstance(option, SettingOption) or not option.once:
                continue
            flags = tuple(option.opts)
            given = [one for one in own if one.partition("=")[0] in flags]
            if len(given) > 1:
                raise click.UsageError(f"{flags[0]} was given {len(given)} times: {option.once}")
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, with --help and --help-all."""
        params = super().get_params(ctx)
        if self.usual:
            shown = sum(isinstance(one, click.Option) and not one.hidden for one in self.params)
            params.append(_help_all(f"Show all {shown} flags and exit."))
        return params

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags without a section first, then each section; or the usual flags only."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        if self.usual and not ctx.meta.get(_SHOWS_ALL):
            by_name = {one.name: one for one in options}
            own = {one.name for one in self.params}
            last = [one for one in options if one.name not in own]  # --help, --help-all
            _write(ctx, formatter, "Options", [*(by_name[name] for name in self.usual), *last])
            return
        sections: dict[str, list[click.Option]] = {"": []}
        for option in options:
            section = option.section if isinstance(option, SettingOption) else ""
            sections.setdefault(section, []).append(option)
        for section, shown in sections.items():
            _write(ctx, formatter, section or "Options", shown)


def _write(
    ctx: click.Context, formatter: click.HelpFormatter, title: str, options: list[click.Option]
) -> None:
    records = [record for one in options if (record := one.get_help_record(ctx)) is not None]
    with formatter.section(title):
        formatter.write_dl(records)


def _help_all(text: str) -> click.Option:
    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_all,
        help=text,
    )


def _show_all(ctx: click.Context, _option: click.Parameter, is_given: bool) -> None:
    if is_given and not ctx.resilient_parsing:
        ctx.meta[_SHOWS_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()
