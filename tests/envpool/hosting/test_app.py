"""Executing generated code as the script that it is, and the loop under it."""

import asyncio
import gc
import linecache
import os
import sys
import threading
import traceback
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio.to_thread
import pytest

from envpool.core.errors import ToolsetError
from envpool.hosting.app import ENVIRONMENT, HostedApp, execute
from envpool.hosting.determinism.loop import Runner, Stuck, VirtualAsyncio
from envpool.hosting.fastapi_compat import compat
from envpool.hosting.tool_listing import list_tools

PATH = Path("odd/server.py")
APP = "from fastapi import FastAPI\napp = FastAPI(title='the app')\n"


@contextmanager
def executed(code: str) -> Iterator[HostedApp]:
    with VirtualAsyncio(), compat():
        hosted = execute(code, "odd_app", PATH)
    try:
        yield hosted
    finally:
        with VirtualAsyncio():
            hosted.close()


def refusal(code: str) -> str:
    with pytest.raises(ToolsetError) as refused, executed(code) as hosted, VirtualAsyncio():
        hosted.startup(PATH)
    assert "odd_app" not in sys.modules
    return str(refused.value)


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "if __name__ == '__main__':\n    import uvicorn\n    uvicorn.run(app, host='x', port=1)\n",
        "import uvicorn\nuvicorn.run(app)\n",
        "import uvicorn\nuvicorn.run('server:app', reload=True)\n",
        "import uvicorn\nuvicorn.run(lambda: app, factory=True)\n",
        "import uvicorn\nuvicorn.Server(uvicorn.Config(app, port=1)).run()\n",
        "from uvicorn import run\nif '__main__' == __name__:\n    run(app=app)\n",
        "import asyncio, uvicorn\n"
        "async def main():\n    await uvicorn.Server(uvicorn.Config(app)).serve()\n"
        "asyncio.run(main())\n",
        "def main():\n    if __name__ != '__main__':\n        raise ValueError\n"
        "    import uvicorn\n    try:\n        uvicorn.run(app)\n    except Exception:\n"
        "        raise ValueError\nmain()\n",
        "import uvicorn\nuvicorn.run(app)\nraise ValueError('after the server')\n",
    ],
    ids=[
        *("none", "guard", "bare", "text", "factory", "server", "from", "async", "main", "after"),
    ],
)
def test_the_application_is_found_however_its_server_is_started(ending: str) -> None:
    """No server starts, and what stands after it is not executed."""
    with executed(APP + ending) as hosted:
        assert (hosted.app.title, hosted.module.__name__) == ("the app", "odd_app")


def test_the_application_that_is_run_goes_before_the_one_called_app() -> None:
    """Else `app` is taken, else the only one there is."""
    other = APP + "other = FastAPI(title='the other')\n"
    with executed(other + "import uvicorn\nuvicorn.run(other)\n") as hosted:
        assert hosted.app.title == "the other"
    with executed(other) as hosted:
        assert hosted.app.title == "the app"
    with executed("from fastapi import FastAPI\nserver = FastAPI(title='only')\n") as hosted:
        assert hosted.app.title == "only"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("", "odd/server.py: the code is empty"),
        ("x = (\n", "odd/server.py: line 1: '(' was never closed"),
        ("a\0b", "odd/server.py: source code string cannot contain null bytes"),
        ("x = 1\n", "odd/server.py: it has no FastAPI application"),
        (APP + "b = FastAPI()\nc = app\ndel app\n", "odd/server.py: it has 2 FastAPI applications, "
         "and none is called app or run by uvicorn"),
        ("\nimport no_such_module\n", "odd/server.py: line 2: ModuleNotFoundError: No module named "
         "'no_such_module'"),
        ("def f():\n    return 1 / 0\n\nf()\n", "odd/server.py: line 2: ZeroDivisionError: "
         "division by zero"),
        ("import json\njson.loads('{')\n", "odd/server.py: line 2: JSONDecodeError: Expecting "
         "property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("import sys\nsys.exit(3)\n", "odd/server.py: line 2: SystemExit: 3"),
        ("raise KeyboardInterrupt\n", "odd/server.py: line 1: KeyboardInterrupt"),
        ("class E(Exception):\n    def __str__(self): raise self\nraise E\n",
         "odd/server.py: line 3: E: (its text is not available)"),
        (APP + "@app.on_event('startup')\ndef up():\n    raise ValueError('no')\n",
         "odd/server.py: line 5: its startup fails: ValueError: no"),
        (APP + "@app.on_event('startup')\nasync def up():\n    import asyncio\n"
         "    await asyncio.Event().wait()\n",
         "odd/server.py: its startup fails: Stuck: it waits for something that never comes"),
    ],
)  # fmt: skip
def test_code_that_cannot_be_hosted_is_refused_with_line_and_reason(code: str, reason: str) -> None:
    """Nothing of it stays."""
    assert refusal(code) == reason


def test_startup_and_shutdown_run_once_as_on_a_server() -> None:
    """Startup handlers, however they are registered, and the lifespan."""
    code = (
        "from contextlib import asynccontextmanager\nfrom fastapi import FastAPI\nseen = []\n"
        "@asynccontextmanager\nasync def lifespan(app):\n    seen.append('up')\n    yield\n"
        "    seen.append('down')\napp = FastAPI(lifespan=lifespan)\n"
    )
    with executed(code) as hosted:
        seen = hosted.module.seen
        with VirtualAsyncio():
            hosted.startup(PATH)
        assert seen == ["up"]
    assert seen == ["up", "down"]
    code = APP + (
        "seen = []\napp.add_event_handler('startup', lambda: seen.append(1))\n"
        "@app.on_event('startup')\nasync def up(): seen.append(2)\n"
    )
    with executed(code) as hosted, VirtualAsyncio():
        hosted.startup(PATH)
        assert hosted.module.seen == [1, 2]


def test_the_code_finds_its_environment_and_leaves_none() -> None:
    """The variables that AWM sets are there while the code is executed, and gone after."""
    before = dict(os.environ)
    names = sorted(ENVIRONMENT)
    code = APP + f"import os\nseen = {{name: os.environ[name] for name in {names}}}\n"
    with executed(code) as hosted:
        assert hosted.module.seen == ENVIRONMENT
    assert dict(os.environ) == before


def test_tracebacks_show_the_code_and_the_module_goes_when_it_is_closed() -> None:
    """inspect and traceback find the text though there is no file."""
    with executed(APP + "def breaks():\n    raise ValueError('x')  # here\n") as hosted:
        with pytest.raises(ValueError) as raised:
            hosted.module.breaks()
        assert "# here" in "".join(traceback.format_exception(raised.value))
        assert sys.modules["odd_app"] is hosted.module
    assert "odd_app" not in sys.modules
    assert str(PATH) not in linecache.cache


def test_nothing_holds_an_application_that_is_closed() -> None:
    """Its memory is free again: workers load and drop scenarios by the hundred."""
    code = APP + (
        "from pydantic import BaseModel\nclass Item(BaseModel):\n    a: int\n"
        "@app.post('/x')\ndef post(item: Item) -> Item: ...\n"
    )
    with executed(code) as hosted, compat():
        list_tools(hosted.app, PATH)
        known = weakref.ref(hosted.app), weakref.ref(hosted.module.post)
    del hosted
    gc.collect()
    assert [reference() for reference in known] == [None, None]


# The loop ----------------------------------------------------------------------------------------


@pytest.fixture
def runner() -> Iterator[Runner]:
    with VirtualAsyncio():
        made = Runner()
        yield made
        made.close()


def test_waiting_takes_no_time(runner: Runner) -> None:
    """An hour of sleep, and a timeout that strikes first, pass at once, in the right order."""
    seen = []

    async def sleeps(seconds: float) -> float:
        await asyncio.sleep(seconds)
        seen.append(seconds)
        return asyncio.get_running_loop().time()

    async def main() -> list[float]:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sleeps(7200), timeout=60)
        return await asyncio.gather(sleeps(3600), sleeps(60))

    assert runner.run(main()) == [3660.0, 120.0]
    assert seen == [60, 3600]


def test_what_would_go_to_a_thread_runs_in_line(runner: Runner) -> None:
    """anyio's and asyncio's threads are this thread, and no loop runs, so that a new one may."""

    def work() -> tuple[int, str]:
        return threading.get_ident(), asyncio.run(asyncio.sleep(5, "inner"))

    async def main() -> list[tuple[int, str]]:
        loop = asyncio.get_running_loop()
        return [
            await anyio.to_thread.run_sync(work),
            await asyncio.to_thread(work),
            await loop.run_in_executor(None, work),
        ]

    assert runner.run(main()) == [(threading.get_ident(), "inner")] * 3


def test_an_exception_of_an_inline_thread_arrives(runner: Runner) -> None:
    """It is raised where the thread is awaited."""

    def breaks() -> None:
        raise KeyError("x")

    async def main() -> None:
        with pytest.raises(KeyError):
            await anyio.to_thread.run_sync(breaks)
        with pytest.raises(KeyError):
            await asyncio.to_thread(breaks)

    runner.run(main())


def test_a_loop_that_something_clings_to_is_given_up(runner: Runner) -> None:
    """A task that refuses to be cancelled does not run on in the next call."""
    turns = []

    async def clings() -> None:
        while True:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                turns.append("refused")
            turns.append("turn")

    async def main(number: int) -> int:
        if number == 1:
            main.task = asyncio.create_task(clings())  # type: ignore[attr-defined]
        return number

    assert runner.run(main(1)) == 1
    count = len(turns)
    assert "refused" in turns
    assert runner.run(main(2)) == 2
    assert len(turns) == count


def test_a_wait_without_an_end_is_told_and_the_runner_goes_on(runner: Runner) -> None:
    """Nobody can set the event any more."""

    async def never() -> None:
        await asyncio.Event().wait()

    async def once() -> int:
        return 1

    with pytest.raises(Stuck) as stuck:
        runner.run(never())
    assert str(stuck.value) == "it waits for something that never comes"
    assert runner.run(once()) == 1


def test_a_thread_of_the_code_may_wake_a_call(runner: Runner) -> None:
    """A thread is waited for in real time when nothing else can happen."""

    async def main() -> str:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        thread = threading.Thread(
            target=lambda: loop.call_soon_threadsafe(future.set_result, "woken")
        )
        thread.start()
        try:
            return await future
        finally:
            thread.join()

    assert runner.run(main()) == "woken"


def test_an_unfinished_generator_is_closed_with_its_call(runner: Runner) -> None:
    """Its `finally` runs before the next call."""
    seen = []

    async def numbers() -> object:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)
            seen.append("closed")

    kept = []

    async def main() -> None:
        generator = numbers()
        kept.append(generator)
        await anext(generator)  # type: ignore[call-overload]

    runner.run(main())
    assert seen == ["closed"]


def test_contained_leaves_everything_as_it_was() -> None:
    """Threads, policy and the caller's own loop."""

    async def main() -> str:
        async def inner() -> str:
            return await asyncio.sleep(100, "virtual")

        outer = asyncio.get_running_loop()
        with VirtualAsyncio():
            result = asyncio.run(inner())
        assert asyncio.get_running_loop() is outer
        return result

    before = anyio.to_thread.run_sync
    assert asyncio.run(main()) == "virtual"
    assert anyio.to_thread.run_sync is before
    loop = asyncio.new_event_loop()
    loop.close()
    assert isinstance(loop, asyncio.SelectorEventLoop)
