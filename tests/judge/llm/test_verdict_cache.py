import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rehearsal_room.harness.core.events import Label, ModelJudgement
from rehearsal_room.judge.core.errors import JudgeError
from rehearsal_room.judge.llm.verdict_cache import VerdictCache

KEY = ("d1", "awm-12345678", "m", "hybrid")
JUDGEMENT = ModelJudgement(
    "m",
    Label.AGENT_ERROR,
    reasoning="F2 failed – 日本.",
    confidence=0.75,
    cited=("F2",),
    requests=3,
    prompt_tokens=100,
    cached_tokens=60,
    completion_tokens=7,
    cost_usd=0.5,
    seconds=1.5,
)
FREE = ModelJudgement(
    "m",
    Label.AGENT_ERROR,
    reasoning="F2 failed – 日本.",
    confidence=0.75,
    cited=("F2",),
    is_cached=True,
)
# Stores as many judgements as it can, under names of its own, and reports each one.
WRITER = """
import sys
from pathlib import Path
import anyio
from rehearsal_room.harness.core.events import Label, ModelJudgement
from rehearsal_room.judge.llm.verdict_cache import VerdictCache

async def main(path, name, count):
    async with VerdictCache(Path(path)) as cache:
        for number in range(int(count)):
            judgement = ModelJudgement("m", Label.COMPLETED)
            await cache.put(f"{name}-{number}", "r", "m", "llm", judgement)
            print(number, flush=True)

anyio.run(main, *sys.argv[1:])
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "verdicts.sqlite"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_stored_judgement_costs_nothing(path: Path) -> None:
    """A judgement is stored, also for a new process; its cost is not counted again."""
    async with VerdictCache(path) as cache:
        assert await cache.get(*KEY) is None
        await cache.put(*KEY, JUDGEMENT)
        assert await cache.get(*KEY) == FREE
    async with VerdictCache(path) as cache:
        assert await cache.get(*KEY) == FREE


@pytest.mark.parametrize("part", range(4))
async def test_another_key_has_no_judgement(path: Path, part: int) -> None:
    """Episode, rubric, model and mode must all be the same."""
    other = [*KEY]
    other[part] += "x"
    async with VerdictCache(path) as cache:
        await cache.put(*KEY, JUDGEMENT)
        assert await cache.get(*other) is None


async def test_the_last_judgement_counts(path: Path) -> None:
    """A new judgement replaces the earlier one."""
    async with VerdictCache(path) as cache:
        await cache.put(*KEY, JUDGEMENT)
        await cache.put(*KEY, msgspec.structs.replace(JUDGEMENT, label=Label.COMPLETED))
        assert await cache.get(*KEY) == msgspec.structs.replace(FREE, label=Label.COMPLETED)


async def test_faults_are_not_stored(path: Path) -> None:
    """Without a label nothing is stored: the model is asked again."""
    async with VerdictCache(path) as cache:
        await cache.put(*KEY, ModelJudgement("m", None, fault="status 503"))
        assert await cache.get(*KEY) is None


async def test_a_judgement_of_another_version_is_ignored(path: Path) -> None:
    """A row that cannot be decoded counts as missing and is replaced."""
    async with VerdictCache(path) as cache:
        await cache.put(*KEY, JUDGEMENT)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE judgements SET data = x'c1'")
    database.close()
    async with VerdictCache(path) as cache:
        assert await cache.get(*KEY) is None
        await cache.put(*KEY, JUDGEMENT)
        assert await cache.get(*KEY) == FREE


def text(path: Path) -> Path:
    path.write_bytes(b"a label is what a judge says of an episode\n" * 100)
    return path


def other_database(path: Path) -> Path:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE meta (key TEXT)")
    database.close()
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def nowhere(path: Path) -> Path:
    return path / "verdicts.sqlite"


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


@pytest.mark.parametrize("made", [text, other_database, folder, nowhere])
async def test_another_kind_of_file_is_refused_and_not_changed(
    path: Path, made: Callable[[Path], Path]
) -> None:
    """The error names the file."""
    file = made(path)
    before = content(file)
    with pytest.raises(JudgeError) as caught:
        async with VerdictCache(file):
            pass
    assert str(caught.value).startswith(f"{file}: the ")
    assert content(file) == before


async def test_a_cache_that_fails_later_costs_requests_only(path: Path) -> None:
    """When the file breaks while it is used, it has no judgements, and nothing raises."""
    async with VerdictCache(path) as cache:
        await cache.put(*KEY, JUDGEMENT)
        database = sqlite3.connect(path)
        database.execute("DROP TABLE judgements")
        database.close()
        assert await cache.get(*KEY) is None
        await cache.put(*KEY, JUDGEMENT)


@pytest.mark.slow
async def test_two_processes_share_a_file(path: Path) -> None:
    """Both create the file at once and write into it; every judgement of both is stored."""
    writers = [writer(path, name, 50) for name in ("a", "b", "c")]
    for process in writers:
        out, _ = process.communicate(timeout=30)
        assert (process.returncode, out.split()) == (0, [str(number) for number in range(50)])
    async with VerdictCache(path) as cache:
        for name in ("a", "b", "c"):
            stored = [await cache.get(f"{name}-{n}", "r", "m", "llm") for n in range(50)]
            assert stored == [ModelJudgement("m", Label.COMPLETED, is_cached=True)] * 50


async def test_stored_judgements_survive_a_kill(path: Path) -> None:
    """After kill -9 during a write, every judgement that was reported as stored is there."""
    process = writer(path, "a", 1_000_000)
    assert process.stdout is not None
    while (line := process.stdout.readline()) != "40\n":
        assert line
    process.send_signal(signal.SIGKILL)
    process.communicate()
    async with VerdictCache(path) as cache:
        stored = [await cache.get(f"a-{number}", "r", "m", "llm") for number in range(41)]
    assert stored == [ModelJudgement("m", Label.COMPLETED, is_cached=True)] * 41
