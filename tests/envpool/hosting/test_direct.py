"""The short way to an endpoint answers as the application itself does."""

import gc
from typing import Any

import pytest

from rehearsal_room.envpool.hosting import asgi
from rehearsal_room.envpool.hosting.asgi import ToolReply
from tests.envpool.hosting.test_asgi import called

CODE = """
from fastapi import BackgroundTasks, Body, Depends, FastAPI, Form, HTTPException, Header, Query
from fastapi import Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.background import BackgroundTask
from pydantic import BaseModel

app = FastAPI()
log = []


class Odd(Exception):
    pass


class Item(BaseModel):
    name: str
    price: float = 1.5
    tags: list[str] = []


def made():
    log.append("made")
    return "made"


@app.exception_handler(Odd)
async def odd(request: Request, exc: Odd):
    log.append(f"odd {request.url.path} {request.scope['route'].path}")
    return JSONResponse({"odd": str(exc)}, status_code=418)


@app.exception_handler(LookupError)
def lookup(request: Request, exc: LookupError):
    raise ValueError("the handler fails")


@app.exception_handler(500)
async def failed(request: Request, exc: Exception):
    log.append(f"failed {type(exc).__name__} {type(exc.__context__).__name__}")
    return PlainTextResponse("it failed", status_code=500)


def opened():
    log.append("open")
    try:
        yield "db"
    except Odd:
        log.append("odd in the dependency")
        raise
    finally:
        log.append("close")


@app.get("/a/{n}", operation_id="one")
async def one(n: int, q: str = "x"):
    return {"n": n, "q": q}


@app.get("/a/me", operation_id="shadowed")
async def shadowed():
    return "never"


@app.post("/items", operation_id="add", response_model=Item)
def add(item: Item):
    return item


@app.get("/refuse", operation_id="refuse")
async def refuse():
    raise HTTPException(status_code=404, detail="nothing there", headers={"x-a": "b"})


@app.get("/strange", operation_id="strange")
async def strange():
    raise Odd("strange")


@app.get("/lookup", operation_id="look")
async def look():
    return {}["missing"]


@app.get("/breaks", operation_id="breaks")
async def breaks():
    return 1 / 0


@app.get("/wrong", operation_id="wrong", response_model=Item)
async def wrong():
    return {"price": 2}


@app.get("/depends/{fails}", operation_id="depends")
async def depends(fails: bool, db: str = Depends(opened)):
    if fails:
        raise Odd(db)
    return db


@app.get("/cut", operation_id="cut")
async def cut():
    def pieces():
        yield "one "
        raise Odd("in the stream")
    return StreamingResponse(pieces())


@app.get("/later/{fails}", operation_id="later")
async def later(fails: bool):
    def work():
        log.append("background")
        if fails:
            raise Odd("in the background")
    return PlainTextResponse("now", background=BackgroundTask(work))


@app.post("/form", operation_id="form")
async def form(a: str = Form("none")):
    return a


@app.get("/slash/", operation_id="slash")
async def slash():
    return "with a slash"


@app.get("/leaves", operation_id="leaves")
async def leaves():
    raise SystemExit(3)


@app.get("/state", operation_id="state")
async def state(request: Request, response: Response):
    response.headers["x-set"] = "1"
    return [sorted(request.scope["path_params"]), request.app is app, len(request.app.routes)]


@app.post("/many/{n}", operation_id="many")
async def many(
    n: int, tasks: BackgroundTasks, response: Response, request: Request, b: str = Body(...),
    c: float = Body(0.5), q: list[str] = Query(["a"]), when: str = Query(None, alias="at"),
    token: str = Header("none"), size: int = Query(3, ge=1),
):
    response.status_code, response.headers["x-n"] = 201, str(n)
    tasks.add_task(log.append, f"task {n}")
    return [n, b, c, q, when, token, size, await request.json()]


@app.put("/odd/{n}", operation_id="odd_defaults")
async def odd_defaults(
    n: int, request: Request, item: Item,
    size: int = Query(default="7", validate_default=True),
    made: str = Query(default_factory=made),
):
    item.tags = [*item.tags, "kept"]
    again = [piece async for piece in request.stream()]
    return [n, item, size, made, [piece.decode() for piece in again], request._stream_consumed]


@app.put("/wide/{n}", operation_id="wide")
async def wide(n: int, item: Item, size: int = Query(..., ge=1), token: str = Header(...)):
    item.tags.append("one")
    return [n, item, size, token]


@app.get("/plain", operation_id="plain_function")
def plain_function(func: str = "f", args: int = 1):
    return [func, args]


@app.get("/log", operation_id="read_log")
async def read_log():
    return log
"""
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("one", {"n": 3, "q": "y"}), ("one", {"n": 4}), ("shadowed", {}), ("state", {})),
    *(("add", {"name": "n"}), ("add", {"name": "n", "price": 2}), ("refuse", {}), ("strange", {})),
    *(("look", {}), ("breaks", {}), ("wrong", {}), ("cut", {}), ("form", {}), ("slash", {})),
    *(("depends", {"fails": True}), ("depends", {"fails": False})),
    *(("many", {"n": 1, "b": "x"}), ("many", {"n": 1, "b": "x", "q": ["u", "v"], "at": "now"})),
    *(("many", {"n": 1, "b": "x", "size": 0, "c": 2, "token": "t"}), ("many", {"n": 1, "c": 1})),
    *(("wide", {"n": 1, "size": 2, "token": "t", "name": "i"}), ("wide", {"n": 1, "size": 0})),
    *(("wide", {"n": 1, "size": 2, "token": "t", "name": "i"}), ("odd_defaults", {"n": 2})),
    ("odd_defaults", {"n": 2, "name": "i", "size": 4}),
    ("plain_function", {"func": "g"}),
    *(("later", {"fails": True}), ("later", {"fails": False}), ("leaves", {}), ("read_log", {})),
)
MIDDLEWARE = """
@app.middleware("http")
async def around(request: Request, call_next):
    log.append("around")
    response = await call_next(request)
    response.headers["x-around"] = "1"
    return response
"""


def _replies(code: str) -> list[ToolReply]:
    with called(code) as call:
        return [call(name, arguments) for name, arguments in CALLS]


@pytest.mark.filterwarnings("ignore")  # warnings about what the application does
@pytest.mark.parametrize("code", [CODE, CODE + MIDDLEWARE], ids=["plain", "middleware"])
def test_the_short_way_gives_the_same_answers(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results, refusals, exceptions and their handlers, streams that are cut, background tasks,
    dependencies: each reply, and the log of what ran, equal those of the application itself."""
    direct = _replies(code)
    monkeypatch.setattr(asgi, "DirectApp", None)  # as where FastAPI has other layers
    assert direct == _replies(code)


def test_the_short_way_is_taken() -> None:
    """A plain application's requests do not pass through the application; those of one with
    middleware do."""
    for code, is_plain in ((CODE, True), (CODE + MIDDLEWARE, False)):
        with called(code) as call:
            call("one", {"n": 3})
            assert call.caller._app._is_plain is is_plain
            handlers = {
                choice.route.operation_id: choice.handler is not None
                for choice in call.caller._app._choices.get("GET", ())
                if hasattr(choice.route, "operation_id")
            }
            assert handlers.get("one", False) is is_plain
            assert not handlers.get("depends", False)


def test_a_route_that_is_replaced_later_is_found() -> None:
    """An endpoint may replace a route: later requests reach the new one."""
    code = """
from fastapi import FastAPI

app = FastAPI()


@app.get("/grow", operation_id="grow")
async def grow():
    app.router.routes.pop()
    app.get("/late")(lambda: "late")
    return len(app.routes)


@app.get("/late", operation_id="late")
async def late():
    return "early"
"""
    with called(code) as call:
        assert call("late").text == '"early"'
        call("grow")
        assert call("late").text == '"late"'


HOLDS = """
import weakref
from fastapi import Depends, FastAPI, HTTPException

app = FastAPI()
held = weakref.WeakSet()


class Held:
    pass


def opened():
    yield 1


@app.get("/fails/{how}", operation_id="fails")
async def fails(how: int):
    value = Held()
    held.add(value)
    raise HTTPException(404) if how else ValueError


@app.get("/depends", operation_id="depends")
async def depends(db: int = Depends(opened)):
    value = Held()
    held.add(value)
    raise ValueError


@app.get("/alive", operation_id="alive")
async def alive():
    return len(held)
"""


def test_a_failure_keeps_nothing_alive() -> None:
    """What an endpoint had open when it failed is freed at once, not by the garbage collector in
    some later call: a connection, for example."""
    with called(HOLDS) as call:
        gc.collect()
        gc.disable()
        try:
            for name, arguments in (("fails", {"how": 0}), ("fails", {"how": 1}), ("depends", {})):
                assert call(name, arguments).error is not None
                assert call("alive").text == "0"
        finally:
            gc.enable()
