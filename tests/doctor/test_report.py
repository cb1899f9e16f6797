"""What `rehearse doctor` finds, on this machine and on others."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from rehearsal_room.doctor import programs, report
from rehearsal_room.doctor.extras import DEVELOPMENT, EXTRAS
from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.workers import confine
from rehearsal_room.envpool.workers.sandbox import AT_MOST, why_no_bubblewrap
from rehearsal_room.scenarios import distribution
from tests.support.cli import Rehearse, json_of
from tests.support.paths import ROOT

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="sandboxed workers need Linux")


def test_the_report_of_this_machine(rehearse: Rehearse) -> None:
    """Versions are those that Python has loaded; nothing is wrong with the core."""
    found = json_of(rehearse, "doctor")
    assert found["faults"] == []
    assert found["python"] == sys.version.split()[0]
    assert found["packages"]["msgspec"] == __import__("msgspec").__version__
    assert found["extras"]["awm"]["faults"] == []
    assert all(each.keys() == {"what", "for", "how"} for each in found["missing"])


def test_people_read_the_same(rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch) -> None:
    """The level, the acts that were tried, and the command for each missing part."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(
        report,
        "examine_sandbox",
        lambda: report.SandboxReport(
            "seccomp", False, ("bubblewrap: bwrap is not installed",), {"read": False, "talk": True}
        ),
    )
    monkeypatch.setattr(
        programs, "PROGRAMS", (programs.Program("abacus", ("no-such-program",), "counting"),)
    )
    monkeypatch.setattr(
        programs.shutil, "which", lambda name, path=None: "/bin/dnf" if name == "dnf" else None
    )
    status, out, err = rehearse("doctor")
    assert (status, err) == (0, "")
    lines = [re.sub(r" {2,}", "  ", line).strip() for line in out.splitlines()]
    start = lines.index("sandbox  seccomp; --sandbox required refuses to start here")
    assert lines[start : start + 4] == [
        "sandbox  seccomp; --sandbox required refuses to start here",
        "tried and refused: talk",
        "tried and NOT refused: read",
        "not better because bubblewrap: bwrap is not installed",
    ]
    assert "- abacus: counting" in lines
    assert "sudo dnf install -y abacus" in lines


@LINUX
def test_the_level_is_the_one_that_workers_get() -> None:
    """What doctor reports is what the pool's fork server would use, and acts are really tried."""
    found = report.examine_sandbox()
    inner, _ = confine.available_layers("best")
    outer = "" if why_no_bubblewrap() else "bubblewrap+"
    assert found.level == f"{outer}{inner}"
    assert set(found.refused.values()) == {True}


@LINUX
def test_why_the_level_is_not_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limited level is tried as such: what it does not refuse is reported."""
    monkeypatch.setenv(AT_MOST, "seccomp")
    found = report.examine_sandbox()
    assert found.level == "seccomp"
    assert not found.keeps_every_promise
    assert any("the level is limited to seccomp" in reason for reason in found.why_not_more)
    assert found.refused["open a network socket"]
    assert not found.refused["read a file outside"]


def test_a_level_that_cannot_be_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a reason, and no promise is kept."""

    def fail(level: str) -> dict[str, bool]:
        raise PoolError("it does not work")

    monkeypatch.setattr(report.sys, "platform", "linux")
    monkeypatch.setattr(report, "try_acts", fail)
    found = report.examine_sandbox()
    assert (found.keeps_every_promise, found.refused) == (False, {})
    assert found.why_not_more[-1] == "it does not work"


def test_another_system_has_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sandboxed workers need Linux, and the report states it."""
    monkeypatch.setattr(report.sys, "platform", "darwin")
    assert report.examine_sandbox() == report.SandboxReport(
        "", False, ("sandboxed workers need Linux",), {}
    )


def test_a_broken_core_is_status_1(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A requirement of the core that is not met, and a distribution that wrote into our folders."""
    needed = ["msgspec>=999", "no-such-package"]
    monkeypatch.setattr(report.metadata, "requires", lambda name: needed)
    monkeypatch.setattr(
        report.metadata,
        "packages_distributions",
        lambda: {"rehearsal_room": [distribution.NAME, "guest"], "other": ["other"]},
    )
    path = tmp_path / "doctor.json"
    status, out, _ = rehearse("doctor", "--json", path)
    faults = json.loads(path.read_text())["faults"]
    assert status == 1
    assert faults[0].startswith("msgspec is ")
    assert faults[1:] == [
        "no-such-package is not installed",
        "the distribution 'guest' has installed files in the folder of our package "
        "'rehearsal_room': install rehearsal-room in a clean virtual environment",
    ]
    assert "incomplete: msgspec is " in out
    assert "pip install --upgrade rehearsal-room" in out


def test_code_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs, so the core is not broken; what is missing is the installation."""

    def fail(name: str) -> list[str]:
        raise report.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(report, "requirements_of", fail)
    found = report.examine()
    assert (found.faults, found.packages) == ((), {})
    assert found.missing[0].how == "pip install -e ."


def test_every_extra_has_a_line() -> None:
    """src/rehearsal_room/doctor/extras.py has what each extra of pyproject.toml is for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert EXTRAS.keys() == project["optional-dependencies"].keys() - set(DEVELOPMENT)


@pytest.mark.parametrize(
    ("installer", "command"),
    [
        ("apt-get", "sudo apt-get install -y libseccomp2"),
        ("brew", "brew install libseccomp"),
        ("", "install libseccomp with your system's packages"),
    ],
)
def test_the_command_is_that_of_the_system(
    monkeypatch: pytest.MonkeyPatch, installer: str, command: str
) -> None:
    """Each installer has its command and its name of the package."""
    monkeypatch.setattr(
        programs.shutil, "which", lambda name: "/bin/x" if name == installer else None
    )
    seccomp = next(each for each in programs.PROGRAMS if each.name == "libseccomp")
    assert programs.how_to_install(seccomp) == command


def test_tools_of_tests_are_missing_in_a_checkout_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of the wheel does not need a browser; on macOS there is no bubblewrap."""
    monkeypatch.setattr(programs.shutil, "which", lambda name, path: None)
    monkeypatch.setattr(programs.ctypes.util, "find_library", lambda name: None)
    monkeypatch.setattr(programs.sys, "platform", "linux")
    everything = [each.name for each in programs.missing_programs(in_checkout=True)]
    assert everything == ["bubblewrap", "libseccomp", "mosquitto", "chromium"]
    monkeypatch.setattr(programs.sys, "platform", "darwin")
    assert [each.name for each in programs.missing_programs(in_checkout=False)] == ["mosquitto"]
