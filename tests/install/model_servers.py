"""Stand-ins of model servers for the checks of an installation; the address is printed.

    python model_servers.py chat          a chat endpoint that answers "Done."
    python model_servers.py vllm FOLDER   a vLLM server; FOLDER gets the files of its tokenizer

tests/install/run.sh runs it with an environment of its own, from copies of its imports.
"""

import sys
from pathlib import Path

import anyio

from tests.support.fake_vllm import fake_vllm
from tests.support.model_server import Completes, ModelServer
from tests.support.tiny_model import write_tokenizer


async def serve_chat() -> None:
    """Answer every chat until this process is ended."""
    async with ModelServer(Completes("Done.")) as server:
        print(server.url, flush=True)
        await anyio.sleep_forever()


async def serve_vllm(folder: Path) -> None:
    """Write a tokenizer, and answer every completion with the same tokens."""
    write_tokenizer(folder)
    async with fake_vllm() as (fake, url):
        fake.models = [{"id": "served", "max_model_len": 200_000, "parent": None}]
        print(url, flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    if sys.argv[1] == "chat":
        anyio.run(serve_chat)
    else:
        anyio.run(serve_vllm, Path(sys.argv[2]))
