"""The command `serve-policy`: a checkpoint behind the chat API."""

from pathlib import Path
from typing import Any

import click

from rehearsal_room.cli.core.addresses import address
from rehearsal_room.cli.core.flags import flags_of, settings_from
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.learner.config.serving import ServePolicy
from rehearsal_room.scenarios.distribution import missing_package

_PORT = 8000  # where chat clients look for a model


@click.command("serve-policy")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option(
    "--http", metavar="HOST:PORT", help=f"Address to listen on (default: 127.0.0.1:{_PORT})."
)
@flags_of(ServePolicy)
@flags_of(WorldServerSettings, only=("token", "allow_hosts"))
def serve_policy_command(checkpoint: Path, http: str | None, **flags: Any) -> None:
    """Serve a checkpoint over the chat API, under the history window and the dialect that it was
    trained in."""
    host, port = address(http)
    settings = settings_from(
        WorldServerSettings, {"host": host, "port": _PORT if port is None else port, **flags}
    )
    policy = settings_from(ServePolicy, {"folder": str(checkpoint), **flags})
    try:
        from rehearsal_room.learner.inference.serving import serve_policy
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("serve-policy", exc, "train")) from exc
    run(serve_policy, policy, settings, lambda line: click.echo(line, err=True))
