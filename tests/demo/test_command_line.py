"""The demonstration's command line."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from rehearsal_room.demo import __main__ as command_line
from rehearsal_room.demo.stages import Demonstration


@pytest.mark.parametrize(
    ("arguments", "seeds"),
    [
        ([], (0,)),
        (["--seeds", "0", "1", "2"], (0, 1, 2)),
        (["--seeds", "3"], (3,)),
        (["--seeds", "4", "--seeds", "5", "6"], (4, 5, 6)),
    ],
)
def test_seeds_take_several_values(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], seeds: tuple[int, ...]
) -> None:
    """`--seeds 0 1 2` runs three seeds, wherever other options are; without it seed 0 runs."""
    found: list[int] = []
    monkeypatch.setattr(command_line, "read_recipe", lambda path: None)
    monkeypatch.setattr(command_line, "draw", lambda folder, reports: None)

    def demonstrate(demo: Demonstration) -> Demonstration:
        found.append(demo.seed)
        return demo

    monkeypatch.setattr(command_line, "demonstrate", demonstrate)
    monkeypatch.setattr(Demonstration, "text", lambda demo: "", raising=False)
    for call in (["r.toml", "-o", "out", *arguments], [*arguments, "-o", "out", "r.toml"]):
        done = CliRunner().invoke(command_line.main, call)
        assert done.exit_code == 0, done.output
    assert found == [*seeds, *seeds]


def test_an_error_is_one_line_and_status_2(tmp_path: Path) -> None:
    """A recipe that cannot be read is an error of the user, without a traceback."""
    done = CliRunner().invoke(
        command_line.main, [str(tmp_path / "none.toml"), "-o", str(tmp_path / "out")]
    )
    assert done.exit_code == 2
    assert done.exception is None or isinstance(done.exception, SystemExit)
