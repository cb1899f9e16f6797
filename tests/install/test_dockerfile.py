"""The Dockerfile and .dockerignore, without Docker (`just test-install docker` runs the steps)."""

import re
import tomllib

from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.scenarios.catalogue import bundled_names
from tests.install.check_files import PACKAGES, TO_BUILD
from tests.install.dockerfile import (
    PORT,
    arguments_of,
    command_of,
    copied_of,
    stages_of,
    steps_of,
)
from tests.support.paths import ROOT

STAGES = stages_of((ROOT / "Dockerfile").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
IGNORED = (ROOT / ".dockerignore").read_text().splitlines()


def test_a_build_gets_what_it_needs_and_nothing_else() -> None:
    """The first stage copies all that the sdist has; .dockerignore lets exactly this through."""
    copied = set(copied_of(STAGES[0]))
    assert copied == TO_BUILD | {"src", *PACKAGES}
    allowed = {line[1:] for line in IGNORED if line.startswith("!")}
    assert allowed == copied
    assert IGNORED[1] == "*"
    assert all((ROOT / name).exists() for name in copied)
    assert list(copied_of(STAGES[-1])) == []


def test_links_lead_to_what_is_copied() -> None:
    """COPY keeps links: those in src lead to the five folders, which are copied beside it."""
    links = [path for path in (ROOT / "src").rglob("*") if path.is_symlink()]
    assert {path.readlink().as_posix() for path in links} == {f"../../{name}" for name in PACKAGES}
    assert {path.parent for path in links} == {ROOT / "src" / "rehearsal_room"}


def test_the_image_is_slim_and_runs_as_an_ordinary_user() -> None:
    """A slim base of a Python that we support; the last USER, before the command, is not root."""
    arguments = arguments_of(steps_of((ROOT / "Dockerfile").read_text()))
    assert all(stage[0].text.startswith("python:${PYTHON}-slim") for stage in STAGES)
    assert (
        f"Programming Language :: Python :: {arguments['PYTHON']}"
        in (PROJECT["project"]["classifiers"])
    )
    names = [step.name for step in STAGES[-1]]
    user = next(step.text for step in STAGES[-1] if step.name == "USER")
    assert int(user) > 1000  # a number, so that an orchestrator sees that it is not root
    assert names.index("USER") < names.index("CMD")
    assert f"useradd --uid {user}" in " ".join(step.text for step in STAGES[-1])
    for step in STAGES[-1]:
        if "apt-get install" in step.text:
            assert "--no-install-recommends" in step.text
            assert "rm -rf /var/lib/apt/lists" in step.text


def test_the_extras_exist() -> None:
    """Each extra that the image installs is in pyproject.toml, and brings packages."""
    extras = arguments_of(STAGES[-1])["EXTRAS"].split(",")
    assert all(PROJECT["project"]["optional-dependencies"][name] for name in extras)


def test_the_default_command_serves_the_bundled_worlds() -> None:
    """On the port that is exposed and that the health check asks."""
    assert command_of(STAGES[-1], "ENTRYPOINT") == list(PROJECT["project"]["scripts"])
    command = command_of(STAGES[-1], "CMD")
    assert command[0] == "serve"
    assert sorted(command[1:-2]) == bundled_names()
    assert command[-2:] == ["--http", f"0.0.0.0:{PORT}"]
    assert next(step.text for step in STAGES[-1] if step.name == "EXPOSE") == PORT
    assert f":{PORT}/health" in command_of(STAGES[-1], "HEALTHCHECK")[-1]
    assert WorldServerSettings().port == int(PORT)


def test_a_dockerfile_is_read_as_docker_reads_it() -> None:
    """Comments are left out and continued lines joined."""
    text = '# a\nARG X=1\nFROM a AS b\nRUN one \\\n    && two\n# c\nFROM d\nCMD ["x"]\n'
    assert [[step.name for step in stage] for stage in stages_of(text)] == [
        ["FROM", "RUN"],
        ["FROM", "CMD"],
    ]
    assert steps_of(text)[2].text == "one && two"
    assert command_of(stages_of(text)[1], "CMD") == ["x"]


def test_every_extra_is_installed_and_used_somewhere() -> None:
    """tests/install/run.sh has a part for each extra that users install and that has packages."""
    script = (ROOT / "tests" / "install" / "run.sh").read_text()
    parts = set(re.findall(r"^part_(\w+)\(\)", script, re.MULTILINE))
    extras = PROJECT["project"]["optional-dependencies"].keys() - {"dev", "docs"}
    filled = {name for name in extras if PROJECT["project"]["optional-dependencies"][name]}
    assert extras - filled == {"serve"}  # part of the core, where `part_core` tries it
    assert parts - {"core", "sdist", "beside", "docker", "verifiers"} == filled  # not extras
    listed = re.findall(r"^(?:light|heavy)=\(([^)]*)\)", script, re.MULTILINE)
    assert sorted(" ".join(listed).split()) == sorted({*filled, "verifiers"})
