"""The command `watch`: a run while it is played."""

from functools import partial
from pathlib import Path

import click
import msgspec

from rehearsal_room.cli.core.interruption import continued_by, same_command
from rehearsal_room.cli.look.spans import CONTENT, log_id, send_spans
from rehearsal_room.harness.bus.log_follower import LogFollower
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.bus.mqtt_wire import START, RunState, RunStatus
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.terminal import Terminal
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.writer import has_writer
from rehearsal_room.harness.logged_runs.logged_run import is_complete, log_folder, num_planned
from rehearsal_room.harness.reports.live_view import watch as watch_run
from rehearsal_room.harness.rollout.process import run


@click.command("watch")
@click.argument("name", metavar="[RUN]", required=False)
@click.option(
    "--bus",
    metavar="URL",
    help="URL of the MQTT broker on which the run is published: mqtt[s]://user@host:port "
    "(default: RUN is a folder).",
)
@click.option("--events", is_flag=True, help="Print a line for each event, and no summary.")
@click.option(
    "--otlp",
    metavar="URL",
    help="Send the run as OpenTelemetry spans to this collector, for example "
    "http://localhost:4318.",
)
@CONTENT
def watch_command(
    name: str | None, bus: str | None, events: bool, otlp: str | None, content: bool
) -> None:
    """Follow a run from its beginning until it ends: on its log, or over a broker.

    RUN is the run's folder; with --bus its name (default: the run that is on the broker).
    """
    if otlp is not None:
        if events:
            raise SettingsError("--events: prints events, and --otlp prints none; leave one out")
        send_spans(name, bus, otlp, content=content)
        return
    if content:
        raise SettingsError("--content: is for spans; name their collector, too (--otlp URL)")
    if bus is not None:
        with continued_by(partial(same_command, bus)):
            run(_watch_published, name, MqttSettings(url=bus), events)
    elif name is not None:
        with continued_by(same_command):
            run(_watch, log_folder(Path(name)), events)
    else:
        raise SettingsError("RUN: name the folder of a run, or the broker that it is on (--bus)")


async def _watch(folder: Path, events: bool) -> None:
    began = RunStatus(folder.name, "live", log_id(folder), START, episodes=num_planned(folder))
    with open_reader(folder) as reader:
        follower = LogFollower(folder, reader)

        def status() -> RunStatus:
            if has_writer(folder):
                return began
            state: RunState = "ended" if is_complete(folder, reader) else "lost"
            return msgspec.structs.replace(began, state=state)

        await watch_run(follower, Terminal(), events=events, status=status)


async def _watch_published(name: str | None, settings: MqttSettings, events: bool) -> None:
    # Imported here: aiomqtt takes long to import.
    from rehearsal_room.harness.bus.mqtt_bus import MqttBus
    from rehearsal_room.harness.bus.mqtt_runs import status_of

    if name is None:
        name = (await status_of(settings)).run
        click.echo(f"watching {name}", err=True)
    async with MqttBus(settings, name) as bus, bus.subscribe() as follower:
        await watch_run(follower, Terminal(), events=events, status=lambda: follower.status)
