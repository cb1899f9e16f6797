"""Host an AWM record in a worker: its generated code is executed once and serves all its worlds.

A call sees the scenario's time and the world's randomness, database and module state, whichever
world was served before. What it commits stays even if the call then fails: the result of such a
call has an error and changes, as on the stack for which the code was written.

What the code does to the database while it is loaded (create_all, rows written at startup) belongs
to the template. When another worker has built the template already, its image is used instead.
"""

from typing import Any

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.core.remote_states import SeedFault
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.envpool.hosting.app_loading import HostedApp, execute
from rehearsal_room.envpool.hosting.asgi import Caller, ToolReply
from rehearsal_room.envpool.hosting.dbapi.database import WorldDatabase
from rehearsal_room.envpool.hosting.dbapi.hooks import Hook
from rehearsal_room.envpool.hosting.determinism.clock import frozen_clock, random_bytes, seed_random
from rehearsal_room.envpool.hosting.determinism.loop import VirtualAsyncio
from rehearsal_room.envpool.hosting.determinism.module_state import ModuleState
from rehearsal_room.envpool.hosting.determinism.threads import Threads
from rehearsal_room.envpool.hosting.fastapi_compat import compat
from rehearsal_room.envpool.hosting.live_world import LiveWorld
from rehearsal_room.envpool.hosting.routes import compile_routes
from rehearsal_room.envpool.hosting.seeding import seed
from rehearsal_room.envpool.hosting.tool_listing import list_tools
from rehearsal_room.envpool.store.digest import hex_digest
from rehearsal_room.envpool.store.overlay import PAGE, Overlay
from rehearsal_room.envpool.store.template import Template, make_vfs, template_of
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import Scenario

FILE = "server.py"  # of the package: the record's code


class AwmHost:
    """A hosted AWM record. `close()` closes its connections and removes its module.

    `image` has the template's pages when another worker built it; empty: it is built here.
    Raises SeedError and ToolsetError.
    """

    template: Template
    tools: tuple[ToolSpec, ...]
    module_state: bytes  # module state at the start of every world
    num_statements: int  # statements of the seed
    seed_faults: tuple[SeedFault, ...]
    notes: tuple[str, ...] = ()  # which state is separate for each world, as sentences

    def __init__(self, scenario: Scenario, image: bytes = b"") -> None:
        record = scenario.awm
        assert record is not None, (
            "packages in our format are hosted by envpool.hosting.package_host"
        )
        self._scenario = scenario
        self._path = scenario.path / FILE
        self._threads = Threads()
        self._virtual_asyncio = VirtualAsyncio()
        self._hosted: HostedApp | None = None
        self._vfs = make_vfs(scenario)
        self._database: WorldDatabase | None = None
        try:
            # The code is always loaded on the bare seed: on a template it would find the rows that
            # it is about to write.
            pages = self._seed_pages()
            self._database = database = WorldDatabase(self._vfs, pages, random_bytes=random_bytes)
            self._hook = Hook(database)
            loaded = self._load(record.code)
            if image or loaded.pages:
                pages = _pages(image) if image else database.pages_of(loaded)
                database.rebase(pages)
            self.template = template_of(pages, self._vfs, self._path)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<AwmHost {self._scenario.name!r} [{len(self.tools)} tools]>"

    def call(self, world: LiveWorld, name: str, arguments: Any) -> ToolResult:
        """Execute one call on a world and update the world. Invalid calls give results, too."""
        num_calls = world.num_calls
        world.num_calls += 1
        request = self._caller.request(name, arguments)
        if isinstance(request, ToolReply):
            return _result(request, world)
        with frozen_clock(self._scenario.clock, num_calls), self._virtual_asyncio:
            seed_random(self._scenario.digest, num_calls)
            self._code_state.restore(world.module_state)
            self._hook.enter(world.overlay)
            try:
                reply = self._caller.answer(request)
            finally:
                self._threads.check()  # the worker itself reports threads that still run
                effects = self._hook.leave()
            world.module_state = self._code_state.capture()
        if effects.stopped and reply.error is not None:
            reply = ToolReply(f"{name} took too long and was stopped.", "timeout")
        return _result(reply, world, effects.changes)

    def close(self) -> None:
        """Run the application's shutdown and close the connections; worlds become unusable."""
        if self._hosted is not None:
            with frozen_clock(self._scenario.clock), self._virtual_asyncio, self._hook:
                self._hosted.close()
                self._threads.check()
        if self._database is not None:
            self._hook.close()
            self._database.close()
        self._vfs.unregister()

    def _seed_pages(self) -> tuple[bytes, ...]:
        seeding = seed(self._scenario, self._vfs)
        self.num_statements, self.seed_faults = seeding.num_statements, seeding.faults
        return seeding.pages

    def _load(self, code: str) -> Overlay:
        """Execute the code and its startup; return the world in which they ran."""
        overlay = self._hook.database.fresh_overlay()
        with frozen_clock(self._scenario.clock), self._virtual_asyncio:
            seed_random(self._scenario.digest, -1)
            self._hook.enter(overlay)
            try:
                with compat():
                    # Pickled module state refers to the name, so it is the same in every worker.
                    self._hosted = execute(code, f"awm_{self._scenario.digest}", self._path)
                    listed = list_tools(self._hosted.app, self._path)
                self._hosted.startup(self._path)
            finally:
                fault = self._threads.check()
                self._hook.leave()
            if fault:
                raise ToolsetError(f"{self._path}: {fault}")
            self._code_state = ModuleState(self._hosted.module, self._hosted.uses)
            self.module_state = self._code_state.capture()
            self.notes = self._code_state.notes
        self.tools = tuple(tool.spec for tool in listed)
        compile_routes(self._hosted.app)
        self._caller = Caller(self._hosted.app, listed, self._hosted.runner)
        return overlay


def _pages(image: bytes) -> tuple[bytes, ...]:
    return tuple(image[at : at + PAGE] for at in range(0, len(image), PAGE))


def _result(reply: ToolReply, world: LiveWorld, changes: tuple[RowChange, ...] = ()) -> ToolResult:
    return ToolResult(reply.text, reply.error, changes, hex_digest(world.overlay.total))
