"""The verb that serves a checkpoint: serve-policy."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec

from envpool.server.settings import ServeSettings
from harness.commands.worlds import address
from harness.core.distribution import missing_package
from harness.core.errors import SettingsError
from harness.rollout.process import run

_PORT = 8000  # where chat clients look for a model


@click.command("serve-policy")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option(
    "--backend", type=click.Choice(("local", "vllm")), default="local", help="What samples."
)
@click.option("--http", metavar="HOST:PORT", help=f"Default: 127.0.0.1:{_PORT}.")
@click.option("--name", help="Under which clients ask for it; default: the folder's.")
@click.option("--history", default="", help="Other windows than it was trained in (warns).")
@click.option("--dialect", default="", help="Another dialect than it was trained in (warns).")
@click.option("--temperature", type=float, help="Where a request says none; default: as trained.")
@click.option("--top-p", type=float, help="Where a request says none; default 1.")
@click.option("--max-tokens", type=int, help="Of a reply, where a request says none.")
@click.option("--base-url", help="A vLLM server that runs already; default: one of our own.")
@click.option("--vllm-python", metavar="FILE", help="An interpreter that has vLLM; default: this.")
@click.option("--vllm-arg", "vllm_args", multiple=True, help="One more of vLLM's own.")
@click.option("--token", envvar="REHEARSE_TOKEN", default="", help="Clients must present it.")
@click.option("--allow-host", multiple=True, help="A name under which clients may come.")
def serve_policy_command(
    checkpoint: Path,
    http: str | None,
    token: str,
    allow_host: tuple[str, ...],
    **options: Any,
) -> None:
    """Serve a checkpoint over the chat API, under the history policy and the dialect that it was
    trained in."""
    host, port = address(http)
    try:
        settings = ServeSettings(
            host=host or "127.0.0.1",
            port=_PORT if port is None else port,
            token=token,
            allow_hosts=allow_host,
        )
        serving = import_module("learner.inference.serving")
        wanted = msgspec.convert({"folder": str(checkpoint), **options}, serving.ServePolicy)
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("serve-policy", exc, "train", "serve")) from exc
    except ValueError as exc:
        raise SettingsError(str(exc)) from exc
    run(serving.serve_policy, wanted, settings, lambda line: click.echo(line, err=True))
