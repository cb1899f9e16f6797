"""Fixtures for the tests of a served checkpoint."""

import pytest

from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from tests.support.tiny_model import write_tokenizer


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    folder = tmp_path_factory.mktemp("model")
    write_tokenizer(folder)
    return ChatTokenizer.open(folder)
