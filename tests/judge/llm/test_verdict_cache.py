import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from harness.core.events import Label, ModelJudgement
from judge.core.errors import JudgeError
from judge.llm.verdict_cache import VerdictCache

KEY = ("d1", "awm-12345678", "m", "hybrid")
SAID = ModelJudgement(
    "m",
    Label.AGENT_ERROR,
    reasoning="F2 failed – 日本.",
    confidence=0.75,
    leaned_on=("F2",),
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
    leaned_on=("F2",),
    is_cached=True,
)
# Puts as many opinions as it can under names of its own, and says so after each.
WRITER = """
import sys
from pathlib import Path
import anyio
from harness.core.events import Label, ModelJudgement
from judge.llm.verdict_cache import VerdictCache

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


async def test_an_opinion_comes_back_for_nothing(path: Path) -> None:
    """What was said is kept, in a new process, too; what it cost is not told again."""
    async with VerdictCache(path) as cache:
        assert await cache.get(*KEY) is None
        await cache.put(*KEY, SAID)
        assert await cache.get(*KEY) == FREE
    async with VerdictCache(path) as cache:
        assert await cache.get(*KEY) == FREE


@pytest.mark.parametrize("part", range(4))
async def test_another_question_has_no_opinion(path: Path, part: int) -> None:
    """Episode, rubric, model and mode must all be the same."""
    other = [*KEY]
    other[part] += "x"
    async with VerdictCache(path) as cache:
        await cache.put(*KEY, SAID)
        assert await cache.get(*other) is None


async def test_the_last_opinion_counts(path: Path) -> None:
    """An opinion that was had anew replaces the earlier one."""
    async with VerdictCache(path) as cache:
        await cache.put(*KEY, SAID)
        await cache.put(*KEY, msgspec.structs.replace(SAID, label=Label.COMPLETED))
        assert await cache.get(*KEY) == msgspec.structs.replace(FREE, label=Label.COMPLETED)


async def test_faults_are_not_kept(path: Path) -> None:
    """Without a label there is nothing to keep: the model is asked again."""
    async with VerdictCache(path) as cache:
        await cache.put(*KEY, ModelJudgement("m", None, fault="status 503"))
        assert await cache.get(*KEY) is None


async def test_an_opinion_of_another_version_is_none(path: Path) -> None:
    """What cannot be read is asked again and replaced."""
    async with VerdictCache(path) as cache:
        await cache.put(*KEY, SAID)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE opinions SET data = x'c1'")
    database.close()
    async with VerdictCache(path) as cache:
        assert await cache.get(*KEY) is None
        await cache.put(*KEY, SAID)
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
async def test_what_is_no_cache_is_refused_and_left_alone(
    path: Path, made: Callable[[Path], Path]
) -> None:
    """Entering names the file, and does not touch it."""
    place = made(path)
    before = content(place)
    with pytest.raises(JudgeError) as caught:
        async with VerdictCache(place):
            pass
    assert str(caught.value).startswith(f"{place}: the ")
    assert content(place) == before


async def test_a_cache_that_fails_later_costs_questions_only(path: Path) -> None:
    """When the file breaks under a judge, there are no opinions in it, and no exception."""
    async with VerdictCache(path) as cache:
        await cache.put(*KEY, SAID)
        database = sqlite3.connect(path)
        database.execute("DROP TABLE opinions")
        database.close()
        assert await cache.get(*KEY) is None
        await cache.put(*KEY, SAID)


async def test_two_processes_share_a_file(path: Path) -> None:
    """Both make the file at once and write into it; every opinion of both is there."""
    writers = [writer(path, name, 50) for name in ("a", "b", "c")]
    for process in writers:
        out, _ = process.communicate(timeout=30)
        assert (process.returncode, out.split()) == (0, [str(number) for number in range(50)])
    async with VerdictCache(path) as cache:
        for name in ("a", "b", "c"):
            kept = [await cache.get(f"{name}-{n}", "r", "m", "llm") for n in range(50)]
            assert kept == [ModelJudgement("m", Label.COMPLETED, is_cached=True)] * 50


async def test_what_was_put_survives_a_kill(path: Path) -> None:
    """After kill -9 in the midst of writing, all that was said to be kept is kept."""
    process = writer(path, "a", 1_000_000)
    assert process.stdout is not None
    while (line := process.stdout.readline()) != "40\n":
        assert line
    process.send_signal(signal.SIGKILL)
    process.communicate()
    async with VerdictCache(path) as cache:
        kept = [await cache.get(f"a-{number}", "r", "m", "llm") for number in range(41)]
    assert kept == [ModelJudgement("m", Label.COMPLETED, is_cached=True)] * 41
