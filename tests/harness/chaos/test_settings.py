"""The file of `--chaos`: what it may have, and what is wrong with it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.harness.bus.mqtt_settings import BusSettings
from rehearsal_room.harness.chaos.settings import DiskFull, Fault, Storm, read_chaos
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.cluster import ClusterSettings
from rehearsal_room.harness.settings.run import Settings
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY


def settings_with(path: Path, **more: Any) -> Settings:
    return msgspec.structs.replace(Settings(scenarios=("x",), chaos=str(path)), **more)


def test_a_file_gives_its_faults_by_table_and_key(tmp_path: Path) -> None:
    """Each table is one fault, with the defaults of its kind."""
    path = tmp_path / "chaos.toml"
    path.write_text(
        "seed = 3\n[policy.rate_limit]\nevery = 10\n[tools.lost_reply]\nshare = 0.01\n"
        "[disk.full]\nat = [5, 2]\nseconds = 0.5\n"
    )
    file = read_chaos(settings_with(path))
    assert file is not None and file.seed == 3
    assert file.faults() == {
        "policy.rate_limit": Storm(every=10.0),
        "tools.lost_reply": Fault(share=0.01),
        "disk.full": DiskFull(at=(5.0, 2.0), seconds=0.5),
    }
    assert read_chaos(Settings(scenarios=("x",))) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no fault is set; add a table, for example [tools.delay] with share = 0.01"),
        ("[tools.delay]", "tools.delay: set exactly one of share, every, at; found none"),
        (
            "[tools.delay]\nshare = 0.1\nevery = 2",
            "tools.delay: set exactly one of share, every, at; found share and every",
        ),
        (
            "[tools.delay]\nshare = 2",
            "tools.delay.share: must be more than 0 and at most 1, found 2",
        ),
        ("[tools.dely]\nshare = 1", "tools.dely: unknown key; did you mean 'delay'?"),
        (
            "[tools.delay]\nshare = 0.5\nmost = 2",
            "tools.delay: most: it limits `every`, which is not set; leave it out",
        ),
        (
            "[processes.kill]\nshare = 0.5",
            "processes.kill: share: this fault comes by the clock; "
            "set every = SECONDS or at = [SECONDS]",
        ),
        (
            "[processes.kill]\nevery = 5",
            "processes.kill: the run has one process; add --processes 2 or more, or leave the "
            "table out",
        ),
        (
            "[bus.duplicate]\nshare = 0.5",
            "bus.duplicate: the run has no broker; add --bus mqtt://HOST, or leave the table out",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    """The message names the file, the key, what was found and what to do."""
    path = tmp_path / "chaos.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        read_chaos(settings_with(path))
    assert str(caught.value) == f"{path}: {message}"


def test_an_encrypted_way_to_the_broker_cannot_be_hit(tmp_path: Path) -> None:
    """The proxy reads MQTT, not TLS."""
    path = tmp_path / "chaos.toml"
    path.write_text("[bus.reorder]\nshare = 0.5\n")
    with pytest.raises(SettingsError, match=r"bus.reorder: .*use mqtt:// instead of mqtts://"):
        read_chaos(settings_with(path, bus=BusSettings(url="mqtts://host")))


def test_actors_on_other_machines_are_not_killed(tmp_path: Path) -> None:
    """The signals of these faults reach processes of this machine only."""
    path = tmp_path / "chaos.toml"
    path.write_text("[processes.hang]\nevery = 5\n")
    settings = settings_with(path, processes=2, cluster=ClusterSettings(engine="ray"))
    with pytest.raises(SettingsError, match=r"processes.hang: .*actors on other machines; leave"):
        read_chaos(settings)


def test_a_missing_file_ends_the_command_before_anything_is_written(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """Exit status 2, one sentence, and no run folder; with --dry-run, too."""
    for flags in ((), ("--dry-run",)):
        folder = tmp_path / "run"
        status, _, err = rehearse("run", LIBRARY, "-o", folder, "--chaos", "no.toml", *flags)
        assert (status, err.splitlines()[-1]) == (2, "error: no.toml: the file is missing")
        assert not folder.exists()
