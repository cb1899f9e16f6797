"""A run as OpenTelemetry spans: what `export --to otlp` and `watch --otlp` do."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import click

from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.bus.log_follower import LogFollower
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.harness.logged_runs.logged_run import log_folder
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.settings.run import log_id_of
from rehearsal_room.interop.otlp.spans import SpanMaker
from rehearsal_room.scenarios.distribution import missing_package

CONTENT = click.option(
    "--content",
    is_flag=True,
    help="Put texts into the spans, too: instructions, replies, arguments and results of calls "
    "(with otlp).",
)


def write_spans(
    folder: Path, reader: LogReader, path: Path, rows: Sequence[EpisodeRow], *, content: bool
) -> int:
    """Write the spans of these episodes; return their number. Raises LogError and SettingsError."""
    _require_package()
    maker = SpanMaker(log_id(folder), folder.absolute().name, content=content)
    from rehearsal_room.interop.otlp.export import export_spans

    export_spans(reader, path, maker, [row.episode for row in rows])
    return len(rows)


def send_spans(name: str | None, bus: str | None, url: str, *, content: bool) -> None:
    """Send the spans of a run to a collector until the run ends: of the run with this name on a
    broker, or without `bus` in this folder. Raises HarnessError."""
    if bus is None and name is None:
        raise SettingsError("RUN: name the folder of a run, or the broker that it is on (--bus)")
    run(_send, name, bus, url, content)


async def _send(name: str | None, bus: str | None, url: str, content: bool) -> None:
    _require_package()
    from rehearsal_room.interop.otlp.follower import send_run
    from rehearsal_room.interop.otlp.sender import OtlpSender

    async with OtlpSender(url) as collector, _followed(name, bus) as (log, run_name, source):
        maker = SpanMaker(log, run_name, content=content)
        sent = await send_run(source, collector, maker)
    episodes = plural(sent.episodes, "episode")
    click.echo(f"{plural(sent.spans, 'span')} of {episodes} sent to {collector.url}")


@asynccontextmanager
async def _followed(
    name: str | None, bus: str | None
) -> AsyncIterator[tuple[str, str, Subscription]]:
    """The id of the run's log, the run's name, and a subscription to it."""
    if bus is None:
        assert name is not None
        folder = log_folder(Path(name))
        with open_reader(folder) as reader:
            yield log_id(folder), folder.absolute().name, LogFollower(folder, reader)
        return
    settings = MqttSettings(url=bus)
    # Imported here: aiomqtt takes long to import.
    from rehearsal_room.harness.bus.mqtt_bus import MqttBus
    from rehearsal_room.harness.bus.mqtt_runs import status_of

    status = await status_of(settings, name)
    click.echo(f"following {status.run}", err=True)
    async with MqttBus(settings, status.run) as client, client.subscribe() as subscription:
        yield status.log, status.run, subscription


def log_id(folder: Path) -> str:
    """The id of a run's log; its folder's name, where the run has no run.toml."""
    settings = folder / "run.toml"
    return log_id_of(settings) if settings.is_file() else folder.absolute().name


def _require_package() -> None:
    """Raise SettingsError where the package of OTLP's messages is not installed."""
    try:
        import rehearsal_room.interop.otlp.encoding  # noqa: F401
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("otlp", exc, "otlp")) from exc
