"""Generated code is executed as a script, on a virtual event loop."""

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

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.hosting.app_loading import ENVIRONMENT, HostedApp, execute
from rehearsal_room.envpool.hosting.determinism.loop import Runner, Stuck, VirtualAsyncio
from rehearsal_room.envpool.hosting.fastapi_compat import compat
from rehearsal_room.envpool.hosting.tool_listing import list_tools

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
    """No server starts, and code after its start is not executed."""
    with executed(APP + ending) as hosted:
        assert (hosted.app.title, hosted.module.__name__) == ("the app", "odd_app")


def test_the_application_that_is_run_precedes_the_one_called_app() -> None:
    """Without a server, `app` is chosen, else the only application."""
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
         "odd/server.py: its startup fails: Stuck: it waits for something that never happens"),
    ],
)  # fmt: skip
def test_code_that_cannot_be_hosted_is_refused_with_line_and_reason(code: str, reason: str) -> None:
    """Its module does not stay in sys.modules."""
    assert refusal(code) == reason


def test_startup_and_shutdown_run_once_as_on_a_server() -> None:
    """Startup handlers, in each way of registering them, and the lifespan run once."""
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


def test_the_environment_is_set_while_the_code_is_executed() -> None:
    """The variables that AWM sets exist while the code is executed, and not afterwards."""
    before = dict(os.environ)
    names = sorted(ENVIRONMENT)
    code = APP + f"import os\nseen = {{name: os.environ[name] for name in {names}}}\n"
    with executed(code) as hosted:
        assert hosted.module.seen == ENVIRONMENT
    assert dict(os.environ) == before


def test_tracebacks_show_the_code_until_the_application_is_closed() -> None:
    """inspect and traceback find the text although there is no file."""
    with executed(APP + "def breaks():\n    raise ValueError('x')  # here\n") as hosted:
        with pytest.raises(ValueError) as raised:
            hosted.module.breaks()
        assert "# here" in "".join(traceback.format_exception(raised.value))
        assert sys.modules["odd_app"] is hosted.module
    assert "odd_app" not in sys.modules
    assert str(PATH) not in linecache.cache


def test_nothing_refers_to_a_closed_application() -> None:
    """Its memory is freed: workers load and drop hundreds of scenarios."""
    code = APP + (
        "from pydantic import BaseModel\nclass Item(BaseModel):\n    a: int\n"
        "@app.post('/x')\ndef post(item: Item) -> Item: ...\n"
    )
    with executed(code) as hosted, compat():
        list_tools(hosted.app, PATH)
        references = weakref.ref(hosted.app), weakref.ref(hosted.module.post)
    del hosted
    gc.collect()
    assert [reference() for reference in references] == [None, None]


# The loop ----------------------------------------------------------------------------------------


@pytest.fixture
def runner() -> Iterator[Runner]:
    with VirtualAsyncio():
        runner = Runner()
        yield runner
        runner.close()


def test_waiting_takes_no_time(runner: Runner) -> None:
    """An hour of sleep and an earlier timeout pass at once, in the right order."""
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


def test_work_for_threads_runs_inline(runner: Runner) -> None:
    """Work for anyio's and asyncio's threads runs in this thread, where it may start a new loop."""

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


def test_an_exception_of_inline_work_is_raised(runner: Runner) -> None:
    """It is raised where the thread is awaited."""

    def breaks() -> None:
        raise KeyError("x")

    async def main() -> None:
        with pytest.raises(KeyError):
            await anyio.to_thread.run_sync(breaks)
        with pytest.raises(KeyError):
            await asyncio.to_thread(breaks)

    runner.run(main())


def test_a_task_that_refuses_to_be_cancelled_ends_with_its_loop(runner: Runner) -> None:
    """It does not run in the next call, which has another loop."""
    turns = []

    async def refuses() -> None:
        while True:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                turns.append("refused")
            turns.append("turn")

    async def main(number: int) -> int:
        if number == 1:
            main.task = asyncio.create_task(refuses())  # type: ignore[attr-defined]
        return number

    assert runner.run(main(1)) == 1
    count = len(turns)
    assert "refused" in turns
    assert runner.run(main(2)) == 2
    assert len(turns) == count


def test_an_endless_wait_is_an_error_and_the_runner_stays_usable(runner: Runner) -> None:
    """A coroutine that waits for an event that nothing can set raises Stuck."""

    async def never() -> None:
        await asyncio.Event().wait()

    async def once() -> int:
        return 1

    with pytest.raises(Stuck) as stuck:
        runner.run(never())
    assert str(stuck.value) == "it waits for something that never happens"
    assert runner.run(once()) == 1


def test_a_thread_of_the_code_may_wake_a_call(runner: Runner) -> None:
    """When nothing else can run, the loop waits for threads in real time."""

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

    generators = []

    async def main() -> None:
        generator = numbers()
        generators.append(generator)
        await anext(generator)  # type: ignore[call-overload]

    runner.run(main())
    assert seen == ["closed"]


def test_virtual_asyncio_restores_what_it_replaces() -> None:
    """anyio's threads, the event loop policy and the caller's loop are as before the block."""

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
