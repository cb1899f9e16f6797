"""vLLM as a child process, with a stand-in for vLLM: starting, failing, ending."""

import os
import re
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.vllm.child import rehearsal_vllm
from rehearsal_room.harness.vllm.server import (
    VllmServer,
    VllmServerSettings,
    arguments_of,
    environment_of,
)
from tests.support.paths import ROOT

# Accepts vLLM's arguments; starts a child process, as vLLM does, and prints its id.
UP = """
import http.server, subprocess, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
DEAD = "print('one'); print('no model here'); raise SystemExit(3)"
MUTE = "import time; print('loading', flush=True); time.sleep(600)"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def stand_in(folder: Path, code: str, **settings: Any) -> VllmServerSettings:
    """Settings that run `code` in place of vLLM."""
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text('{"max_position_embeddings": 4096}')
    python = folder / "python"
    python.write_text(f"#!{sys.executable}\n{code}")
    python.chmod(0o755)
    return VllmServerSettings(str(model), python=str(python), **settings)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_a_server_is_up_within_its_block(tmp_path: Path) -> None:
    """Inside its block the server answers; afterwards it and its children have ended."""
    log = tmp_path / "vllm.log"
    settings = stand_in(tmp_path, UP)
    async with VllmServer(settings, log) as server:
        assert await server.routes.is_healthy()
        client = server.client(timeout_s=9.0)
        child = int(log.read_text().split()[1])
        assert is_alive(child)
    assert not await server.routes.is_healthy()
    with anyio.fail_after(10):
        while is_alive(child):  # noqa: ASYNC110  # init takes it over and reaps it
            await anyio.sleep(0.01)
    assert (client.folder, client.base_url) == (settings.folder, server.base_url)
    assert client.timeout_s == 9.0


KILLED = """
import sys, anyio
from pathlib import Path
from rehearsal_room.harness.vllm.server import VllmServer, VllmServerSettings
async def main():
    async with VllmServer(VllmServerSettings(sys.argv[1]), Path(sys.argv[2])):
        print("up", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a parent's death")
async def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """A server ends with its parent process, also when that is killed: otherwise it would keep its
    memory."""
    model = stand_in(tmp_path, UP).folder
    package = tmp_path / "site" / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    alone = re.sub(r"child = .*\n.*\n", "import os\nprint('self', os.getpid(), flush=True)\n", UP)
    (package / "api_server.py").write_text(alone)
    log = tmp_path / "vllm.log"
    paths = os.pathsep.join([str(tmp_path / "site"), str(ROOT)])
    parent = await anyio.open_process(
        [sys.executable, "-c", KILLED, model, str(log)], env=os.environ | {"PYTHONPATH": paths}
    )
    assert parent.stdout is not None
    output = BufferedByteReceiveStream(parent.stdout)
    await output.receive_until(b"\nup\n", 10_000)
    server = int(log.read_text().split()[1])
    assert is_alive(server)
    parent.kill()
    await parent.aclose()
    with anyio.fail_after(10):
        while is_alive(server):  # noqa: ASYNC110  # another process ends it
            await anyio.sleep(0.01)


async def test_a_server_that_ends_at_its_start(tmp_path: Path) -> None:
    """The error for a server that ends contains the end of its log."""
    with pytest.raises(PolicyError, match=r"^vLLM ended with 3: the end of .*\none\nno model here"):
        async with VllmServer(stand_in(tmp_path, DEAD), tmp_path / "vllm.log"):
            pass


@pytest.mark.slow
async def test_a_server_that_is_not_up_in_time_is_ended(tmp_path: Path) -> None:
    """After `start_s` the server is ended, and the error contains the end of its log."""
    settings = stand_in(tmp_path, MUTE, start_s=1.0)
    with pytest.raises(
        PolicyError, match=r"^vLLM did not start within 1 s: the end of [^\n]*\nload"
    ):
        async with VllmServer(settings, tmp_path / "vllm.log"):
            pass


async def test_unusable_settings(tmp_path: Path) -> None:
    """A missing interpreter and a folder without a model are SettingsErrors."""
    settings = stand_in(tmp_path, UP)
    for bad, fault in (
        (VllmServerSettings(settings.folder, python="/no/python"), "python: /no/python cannot be"),
        (VllmServerSettings(str(tmp_path)), "model: .* is not a Hugging Face directory"),
    ):
        with pytest.raises(SettingsError, match=fault):
            async with VllmServer(bad, tmp_path / "vllm.log"):
                pass


async def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    """A port on which another server listens is refused: its answers would be taken for vLLM's."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        settings = stand_in(tmp_path, UP, port=port)
        with pytest.raises(SettingsError, match=f"port: {port} is not available"):
            async with VllmServer(settings, tmp_path / "vllm.log"):
                pass
    assert not (tmp_path / "vllm.log").exists()


def test_vllms_arguments() -> None:
    """The arguments that training needs are always there: processed log-probabilities, no sampling
    settings from the model's own files, and the report of cached tokens, off by default."""
    text = """--model m --host 127.0.0.1 --port 7 --dtype auto --max-num-seqs 64
        --logprobs-mode processed_logprobs --generation-config vllm
        --worker-extension-cls rehearsal_vllm.Extension --enable-prompt-tokens-details
        --disable-uvicorn-access-log"""
    usual = text.split()
    assert arguments_of(VllmServerSettings("m", cpu=False), 7) == usual
    more = VllmServerSettings("m", max_model_len=99, cpu=False, arguments=("--seed", "1"))
    assert arguments_of(more, 7)[len(usual) :] == ["--max-model-len", "99", "--seed", "1"]


def test_vllms_arguments_on_a_cpu(tmp_path: Path) -> None:
    """On a CPU prompts are computed whole, up to the model's context, and nothing is compiled."""
    settings = VllmServerSettings(str(tmp_path), cpu=True)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SettingsError, match=r"config\.json: it has no max_position_embeddings"):
        arguments_of(settings, 7)
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 4096}')
    assert arguments_of(settings, 7)[-4:] == [
        *("--enforce-eager", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "4096")
    ]
    short = msgspec.structs.replace(settings, max_model_len=512)
    assert arguments_of(short, 7)[-1] == "2048"


def test_vllms_environment() -> None:
    """The user's own settings stay; only the mode that allows loading weights is always set."""
    extension = str(Path(rehearsal_vllm.__file__).parent)
    parent = {"VLLM_CPU_KVCACHE_SPACE": "9", "VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": "mine"}
    assert environment_of(VllmServerSettings("m", can_reload=False), parent) == {
        "VLLM_CPU_KVCACHE_SPACE": "9",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_SERVER_DEV_MODE": "0",
        "PYTHONPATH": f"{extension}{os.pathsep}mine",
    }
    assert environment_of(VllmServerSettings("m"), {})["VLLM_SERVER_DEV_MODE"] == "1"


class Layer:
    """The part of a vLLM layer that the extension uses."""

    def __init__(self, weight: object, *, packed: bool) -> None:
        self.weight = weight
        self.num_packed = 0
        if packed:
            self.cpu_linear = object()
        self.quant_method = SimpleNamespace(process_weights_after_loading=self._pack)

    def _pack(self, layer: "Layer") -> None:
        assert layer is self
        self.num_packed += 1


def test_layers_that_share_weights_are_packed_again() -> None:
    """After the worker's own reload the output layer computes with the embedding's new weights;
    other layers were packed by the reload itself."""
    shared = object()
    embedding, head = Layer(shared, packed=True), Layer(shared, packed=True)
    own, plain = Layer(object(), packed=True), Layer(shared, packed=False)
    modules = [embedding, own, head, plain, SimpleNamespace()]
    loaded: list[str] = []
    worker = rehearsal_vllm.Extension()
    worker.reload_weights = lambda *, weights_path: loaded.append(weights_path)
    worker.model_runner = SimpleNamespace(
        get_model=lambda: SimpleNamespace(modules=lambda: modules),
    )
    assert worker.rehearsal_reload("v2") == 2
    assert loaded == ["v2"]
    assert [layer.num_packed for layer in (embedding, own, head, plain)] == [1, 0, 1, 0]
