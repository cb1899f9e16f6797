"""The command `completion`: what a shell needs to complete words."""

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion", hidden=True)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the script with which a shell completes commands, flags and their values.

    \b
        eval "$(rehearse completion bash)"           (in ~/.bashrc)
        eval "$(rehearse completion zsh)"            (in ~/.zshrc)
        rehearse completion fish | source            (in ~/.config/fish/config.fish)
    """
    kind = get_completion_class(shell)
    assert kind is not None
    command = context.find_root().command
    click.echo(kind(command, {}, "rehearse", "_REHEARSE_COMPLETE").source())
