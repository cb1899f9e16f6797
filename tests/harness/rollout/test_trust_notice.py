"""Who is trusted: what runs in the event loop's process, and the line that names it."""

import json
import shutil
import tomllib
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.workers.pool import WorkerSettings
from rehearsal_room.harness.setup.trust_notice import (
    forget_named,
    name_trusted,
    set_own,
    trust_line,
)
from rehearsal_room.scenarios.catalogue import find, is_bundled, is_trusted
from rehearsal_room.scenarios.format import BUNDLED, Scenario, read
from tests.support import ledger_world
from tests.support.cli import Rehearse

LINE = "trusted like rehearse itself, in this process: "


def _copy(folder: Path, name: str = "shop_support") -> Path:
    shutil.copytree(BUNDLED / name, folder)
    return folder


def _written_by_model(folder: Path) -> Scenario:
    head = folder / "scenario.toml"
    head.write_text(
        head.read_text("utf-8").replace("version =", 'written_by = "model"\nversion =', 1)
    )
    return read(folder)


def test_a_package_is_bundled_by_path_and_contents(tmp_path: Path) -> None:
    """A copy elsewhere is not bundled, whatever its name; nor is one whose files were others when
    it was read."""
    bundled = find("shop_support")
    assert is_bundled(bundled)
    assert not is_bundled(read(_copy(tmp_path / "shop_support")))
    (tmp_path / "link").symlink_to(BUNDLED / "shop_support")
    assert is_bundled(read(tmp_path / "link"))
    other = read(_copy(tmp_path / "other", "claims_desk"))
    assert not is_bundled(msgspec.structs.replace(other, path=bundled.path))
    assert not is_bundled(msgspec.structs.replace(bundled, path=BUNDLED / "not_there"))


def test_an_author_only_takes_rights_away(tmp_path: Path) -> None:
    """`written_by = "people"` gives no right under `required`; `"model"` isolates everywhere."""
    people = read(_copy(tmp_path / "people"))
    model = _written_by_model(_copy(tmp_path / "model"))
    assert (is_trusted(people), is_trusted(people, strict=True)) == (True, False)
    assert (is_trusted(model), is_trusted(model, strict=True)) == (False, False)
    assert is_trusted(find("shop_support"), strict=True)


@pytest.mark.parametrize(
    ("sandbox", "isolate", "isolated"),
    [
        ("best", False, {"model"}),
        ("required", False, {"model", "people"}),
        ("best", True, {"model", "people", "bundled"}),
        ("required", True, {"model", "people", "bundled"}),
    ],
)
def test_what_is_isolated(tmp_path: Path, sandbox: str, isolate: bool, isolated: set[str]) -> None:
    """`required` isolates every package but the bundled ones, and `isolate` those too; what is
    reported is the rest that is not bundled."""
    reported: list[str] = []
    packages = {
        "bundled": find("shop_support"),
        "people": ledger_world.ledger(tmp_path / "ledger"),
        "model": _written_by_model(_copy(tmp_path / "model")),
    }
    pool = RoutingPool(
        WorkerSettings(sandbox=sandbox),
        isolate=isolate,
        report_trusted=lambda found: reported.extend(each.name for each in found),
    )
    assert {name for name, each in packages.items() if pool.isolates(each)} == isolated
    pool.announce(packages.values())
    pool.announce(packages.values())
    assert reported == ([] if "people" in isolated else ["ledger"])


def test_the_line_names_each_package_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One command names a package once; one that this process made itself is not named."""
    package = ledger_world.ledger(tmp_path / "ledger")
    forget_named()
    name_trusted([package])
    name_trusted([package])
    forget_named()
    set_own([package.digest])
    name_trusted([package])
    forget_named()
    out, err = capsys.readouterr()
    assert (out, err) == ("", trust_line(["ledger"]) + "\n")
    assert err.startswith(LINE + "ledger (")


def test_the_line_is_one_line() -> None:
    """Many packages are counted, and a name cannot break the line or steer the terminal."""
    line = trust_line(["a\x1b[2J", "b\nc", *"defghij"])
    assert line.startswith(LINE + "a\\x1b[2J, b\\x0ac, d, e, f and 4 packages more (")
    assert "\n" not in line


@pytest.mark.slow
def test_commands_name_what_runs_here(tmp_path: Path, rehearse: Rehearse) -> None:
    """A run and its replay name the package on standard error, before anything else and apart from
    the JSON; bundled packages are not named."""
    package = _copy(tmp_path / "mine")
    run = tmp_path / "run"
    status, _, err = rehearse("run", f"{package}:address-to-parents", "-p", "oracle", "-o", run)
    assert (status, err.count(LINE)) == (0, 1), err
    assert err.splitlines()[0].startswith(LINE + "shop_support (")
    status, out, err = rehearse("replay", run, "--json", "-")
    assert (status, err.count(LINE), json.loads(out)["divergences"]) == (0, 1, [])
    _, _, err = rehearse(
        "run", "shop_support", "-p", "oracle", "-o", tmp_path / "second", "-n", "1"
    )
    assert LINE not in err


@pytest.mark.slow
def test_required_isolates_what_is_not_bundled(tmp_path: Path, rehearse: Rehearse) -> None:
    """With `--sandbox required` the code of any other package runs in workers: nothing is named,
    and run.toml has the level with Landlock's version."""
    package = _copy(tmp_path / "mine")
    run, task = tmp_path / "run", f"{package}:address-to-parents"
    flags = ("-p", "oracle", "--sandbox", "required", "--workers", "1")
    status, _, err = rehearse("run", task, *flags, "-o", run)
    if status == 2 and "sandbox 'required' is not available here" in err:
        pytest.skip(err)
    assert (status, LINE in err) == (0, False), err
    assert "sandbox for untrusted code: " in err
    assert tomllib.loads((run / "run.toml").read_text("utf-8"))["environment"]["sandbox"] in err
