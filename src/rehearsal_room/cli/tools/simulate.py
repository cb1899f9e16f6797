"""The command `simulate`, which is a recipe of the repository now."""

import click

from rehearsal_room.harness.core.errors import SettingsError


@click.command("simulate", hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def simulate_command(words: tuple[str, ...]) -> None:
    """Moved: `just simulate` in a checkout of the repository."""
    asked = " ".join(("just simulate", *words))
    raise SettingsError(f"simulate is a recipe of the repository now: run {asked!r} in a checkout")
