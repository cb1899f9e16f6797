"""CI's recipes: which run, what runs beside what, and how their output reads."""

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support import changed_parts, ci_recipes, failed_again
from tests.support.changed_parts import OWN, ROOTS, can_break, changed_files, used_by
from tests.support.ci_recipes import (
    CI,
    PARTS,
    RECIPES,
    Done,
    Runner,
    installations,
    main,
    side_by_side,
    whole,
)
from tests.support.paths import ROOT

JUSTFILE = (ROOT / "justfile").read_text()
# Stands in for `just`: a recipe's program is the file of its name.
JUST = [sys.executable, "-c", "import runpy, sys; runpy.run_path(sys.argv[1])"]


def dependencies_of(recipe: str) -> list[str]:
    """The recipes that a recipe of the justfile needs."""
    found = re.search(rf"^{recipe}(?: [^:]*)?:(?!=)(.*)$", JUSTFILE, re.MULTILINE)
    assert found is not None, recipe
    return found[1].split()


def test_ci_runs_the_recipes_of_just_ci() -> None:
    """.ci/run without arguments runs exactly what `just ci` does; `check` is its three parts."""
    assert list(CI) == dependencies_of("ci")
    assert {name: {*dependencies_of(name)} for name in PARTS} == {
        name: {*parts} for name, parts in PARTS.items()
    }
    assert all(dependencies_of(name) is not None for name in RECIPES)


def test_just_prepare_installs_what_the_recipes_need() -> None:
    """The commands are the same, so that a prepared machine installs nothing more."""
    lines = re.search(r"^prepare: (.*)\n((?:    .*\n)*)", JUSTFILE, re.MULTILINE)
    assert lines is not None
    prepared = [f"just {name}" for name in lines[1].split()]
    prepared += [line.strip() for line in lines[2].splitlines()]
    assert sorted(installations(whole(CI))) == sorted(prepared)


def test_what_a_change_breaks_most_often_runs_first() -> None:
    """Types and style, then the tests, then what needs clusters, browsers and other packages."""
    names = whole(CI)
    assert names[:3] == ["types", "style", "layers"]
    assert names.index("test-all") < min(map(names.index, ROOTS))
    assert whole(["gate", "check", "bench"]) == ["types", "style", "layers", "gate", "bench"]


def test_recipes_run_side_by_side_as_far_as_there_are_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On two cores two recipes of one core run at once, and one of all cores alone; they start in
    their order."""
    together, started = list[set[str]](), list[str]()
    running, lock, both = set[str](), threading.Lock(), threading.Barrier(2)

    class Noting(Runner):
        def run(self, name: str) -> Done:
            with lock:
                running.add(name)
                started.append(name)
                together.append({*running})
            if name in ("types", "style"):
                both.wait(10)  # they do run at once
            with lock:
                running.discard(name)
            return Done(name, True, 1.0, "")

    names = ["types", "style", "test-all", "test-vllm"]
    done = list(side_by_side(names, 2, Noting()))
    assert sorted(each.name for each in done) == sorted(names)
    assert set(started[:2]) == {"types", "style"}
    assert started[2:] == names[2:]
    assert {"types", "style"} in together
    assert together[2:] == [{"test-all"}, {"test-vllm"}]


def test_after_a_failure_no_recipe_begins() -> None:
    """What runs ends; what has not begun does not."""

    class Failing(Runner):
        def run(self, name: str) -> Done:
            return Done(name, name != "test-all", 1.0, "")

    names = ["types", "style", "test-all", "test-vllm", "test-ray"]
    assert [done.name for done in side_by_side(names, 1, Failing())] == names[:3]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files stand in for recipes."""
    monkeypatch.setattr(ci_recipes, "ROOT", tmp_path)
    return tmp_path


COUNTED = "from pathlib import Path\nran = Path('ran'); n = ran.exists(); ran.touch()\n"


def test_a_failure_of_pytest_is_a_failure(programs: Path) -> None:
    """Exit status 5, no test was run, fails a recipe; its output is whole."""
    (programs / "gate").write_text("import sys\nprint('no tests ran in 0.01s')\nsys.exit(5)\n")
    done = Runner(JUST).run("gate")
    assert (done.passed, done.output) == (False, "no tests ran in 0.01s\n")


def test_a_recipe_with_a_model_server_is_tried_twice(programs: Path) -> None:
    """It passes the second time, is named, and the output of both is there."""
    (programs / "test-vllm").write_text(COUNTED + "print('time', 1 + n)\nexit(not n)\n")
    done = Runner(JUST).run("test-vllm")
    assert done.passed
    assert done.output.splitlines() == [
        *("time 1", "time 2", "flaky: test-vllm failed once, and passed the second time")
    ]


def test_tests_that_failed_are_run_again(programs: Path) -> None:
    """What `just test-again` says is part of the recipe's output, and decides."""
    (programs / "test-all").write_text("print('2 failed'); exit(1)\n")
    (programs / "test-again").write_text("print('flaky: x')\n")
    assert Runner(JUST).run("test-all")[1:2] == (True,)
    (programs / "test-again").write_text("exit(1)\n")
    assert Runner(JUST).run("test-all").passed is False


def test_tests_of_a_browser_are_run_again_in_its_environment(programs: Path) -> None:
    """Those that failed, not all, which takes minutes; by the Python that has Playwright."""
    (programs / "test-viewer").write_text("exit(1)\n")
    (programs / "test-again").write_text("import sys\nprint(sys.argv[2:])\n")
    done = Runner(JUST).run("test-viewer")
    assert done.passed
    assert done.output == "['.venv-viewer/bin/python', 'tests/viewer_web']\n"


def test_failures_of_another_folder_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest's record also has those of earlier recipes, whose packages are elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(failed_again, "TIMES", 1)
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "one" / "test_it.py").write_text("def test_passes(): pass\n")
    (tmp_path / "other" / "test_it.py").write_text("def test_fails(): assert False\n")
    record = tmp_path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    record.parent.mkdir(parents=True)
    names = ("one/test_it.py::test_passes", "other/test_it.py::test_fails")
    record.write_text(json.dumps(dict.fromkeys(names, True)))
    assert failed_again.main("one/") == 0
    assert failed_again.main() == 1


def test_the_output_is_one_block_for_each_recipe(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks come as recipes end; the last lines have all times, what was flaky and what failed."""
    (programs / "gate").write_text("print('proved'); print('3 passed in 1.00s')\n")
    (programs / "docs").write_text("print('a broken link'); exit(1)\n")
    monkeypatch.setattr(ci_recipes, "Runner", lambda: Runner(JUST))
    monkeypatch.setattr(ci_recipes, "installations", lambda _: [])
    monkeypatch.delenv("CI_BASE", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert main(["gate", "docs"]) == 1
    text = re.sub(r"\d+ s", "N s", capsys.readouterr().out)
    assert "=== gate: passed, N s\nproved\n3 passed in 1.00s\n" in text
    assert "=== docs: FAILED, N s\na broken link\n" in text
    assert text.endswith("N s without installing\nfailed: docs\n")
    assert re.search(r"^ +N s  gate$", text, re.MULTILINE)


# Which recipes a change can break


@pytest.mark.slow  # reads the imports of all files
@pytest.mark.parametrize(
    ("changed", "recipes"),
    [
        ("tests/ray/test_ray.py", {"test-ray"}),
        ("tests/vllm/conftest.py", {"test-vllm"}),
        ("src/rehearsal_room/viewer/web/src/main.ts", {"test-viewer"}),
        ("tests/vllm/anything.json", {"test-vllm"}),
        ("tests/support/promises.py", {"sandbox-table"}),
        ("envpool/store/overlay.py", set(ROOTS)),
        ("docs/runs.md", set()),
        ("README.md", set()),
        ("pyproject.toml", set(ROOTS)),
        ("constraints.txt", set(ROOTS)),
        ("tests/conftest.py", set(ROOTS)),
        ("scenarios/bundled/shop_support/data.sql", set(ROOTS)),
    ],
)
def test_a_change_runs_what_it_can_break(changed: str, recipes: set[str]) -> None:
    """Through imports for Python files; documents break nothing of these; other files anything."""
    assert {name for name in ROOTS if can_break(name, [changed])} == recipes


@pytest.mark.slow  # reads the imports of all files
@pytest.mark.parametrize(
    ("changed", "runs", "left_out"),
    [
        ("harness/cluster/actor.py", {"test-ray"}, {"test-vllm", "test-suites", "sandbox-table"}),
        ("harness/vllm/server.py", {"test-vllm"}, {"test-suites", "sandbox-table"}),
        ("src/rehearsal_room/viewer/server/app.py", {"test-viewer"}, {*ROOTS} - {"test-viewer"}),
        ("judge/promotion/decision.py", set[str](), {*ROOTS} - {"test-viewer"}),
    ],
)
def test_a_module_runs_what_imports_it(changed: str, runs: set[str], left_out: set[str]) -> None:
    """Recipes whose files reach a module run when it changes; others do not."""
    assert (ROOT / changed).exists()
    found = {name for name in ROOTS if can_break(name, [changed])}
    assert runs <= found
    assert not found & left_out


def test_other_recipes_always_run() -> None:
    """Tests and checks are not left out, and nothing is where nothing is known of the change."""
    always = set(whole(CI)) - set(ROOTS)
    assert {"test-all", "types", "gate", "test-install"} <= always
    assert all(can_break(name, ["README.md"]) for name in always)


def test_the_table_names_what_exists() -> None:
    """Each pattern matches files, and each folder of one recipe is there."""
    assert set(ROOTS) <= set(CI)
    assert all(list(ROOT.glob(each)) for patterns in ROOTS.values() for each in patterns)
    assert all((ROOT / folder).is_dir() and owner in ROOTS for folder, owner in OWN.items())


@pytest.mark.slow  # reads the imports of all files
def test_imports_are_followed_in_whatever_form() -> None:
    """At the top, inside a function, by a text, and the packages around a module; the command
    line's own imports are not followed."""
    used = used_by(("tests/ray/*.py",))
    assert {"harness/cluster/actor.py", "harness/__init__.py", "harness/core/events.py"} <= used
    by_text = used_by(("judge/gate/job_pool.py",))
    assert "judge/gate/worker.py" in by_text
    line = used_by(("src/rehearsal_room/cli/main.py",))
    assert line == {"src/rehearsal_room/cli/main.py"}


def test_the_changed_files_are_those_of_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed since, not yet committed, new and removed; an unknown commit is an error."""
    monkeypatch.setattr(changed_parts, "ROOT", tmp_path)

    def git(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    for name in ("same", "edited", "removed", "committed"):
        (tmp_path / name).write_text(name)
    git("add", ".")
    git("commit", "-qm", "first")
    base = git("rev-parse", "HEAD")
    (tmp_path / "committed").write_text("more")
    git("commit", "-qam", "second")
    (tmp_path / "edited").write_text("more")
    (tmp_path / "removed").unlink()
    (tmp_path / "new name").write_text("")
    assert changed_files(base) == ["committed", "edited", "new name", "removed"]
    with pytest.raises(subprocess.CalledProcessError):
        changed_files("0" * 40)
