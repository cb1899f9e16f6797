"""The demonstration's tokenizer: it is lossless, frames are single tokens, words are stable."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from rehearsal_room.demo.tokenizer import save, train_tokenizer
from rehearsal_room.demo.worlds import prompt_texts
from rehearsal_room.harness.dialects.hermes import Hermes
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.scenarios.microworlds.offices import OfficeShape, write_offices

VOCAB = 700


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[list[str]]]:
    folder = tmp_path_factory.mktemp("worlds")
    return prompt_texts(
        write_offices(folder, OfficeShape(), name="w", seed=1, count=20, split="train", each=6),
        Hermes(),
    )


@pytest.fixture(scope="module")
def tokenizer(texts: tuple[list[str], list[list[str]]]) -> Tokenizer:
    return train_tokenizer(*texts, vocab_size=VOCAB)


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    """The text of each token."""
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return [tokenizer.decode([number], skip_special_tokens=False) for number in ids]


def test_the_tokenizer_is_lossless(tokenizer: Tokenizer) -> None:
    """Also for texts that it was not trained on."""
    for text in ("Close order 52.", "naïve — 12345 €", '{"a":[1,2]}\n\t<tool_call>', "  two  "):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert tokenizer.get_vocab_size() <= VOCAB


def test_a_noun_has_the_same_tokens_everywhere(tokenizer: Tokenizer) -> None:
    """In an instruction, in a tool's name and in arguments; so the model can copy it."""
    alone = pieces(tokenizer, "greenhouse")
    for text in ("Close greenhouse 52.", "close_greenhouse", '{"greenhouse":52}'):
        found = pieces(tokenizer, text)
        assert any(found[at : at + len(alone)] == alone for at in range(len(found)))


def test_numbers_of_two_digits_and_frames_are_single_tokens(tokenizer: Tokenizer) -> None:
    """A call has few tokens besides its names and values."""
    call = '<tool_call>\n{"name":"close_dog","arguments":{"dog":52}}\n</tool_call>'
    found = pieces(tokenizer, call)
    assert found[0] == '<tool_call>\n{"name":"'
    assert found[-2:] == ["52", "}}\n</tool_call>"]
    assert '","arguments":{"' in found


def test_a_value_is_two_tokens_after_its_name_in_texts_and_in_calls(tokenizer: Tokenizer) -> None:
    """So the heads with which the model starts copy it. (With one token more in calls, cloning did
    not learn to copy values in one seed of two.)"""
    for text in (
        "the price 47.",
        '{"price":47}}',
        '{"greenhouse":47,"price":52}',
        '{"office":"rome"}',
    ):
        found = pieces(tokenizer, text)
        for value in set(found) & {"47", "52", "rome"}:
            name = found[found.index(value) - 2]
            assert name.isalpha(), (found, value)


def test_system_prompts_of_new_worlds_shrink(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """The sentences around the tools and the frames of the tools are one token each, also in
    held-out worlds."""
    prompts, _ = prompt_texts(
        write_offices(tmp_path, OfficeShape(), name="w", seed=2, count=2, split="held_out", each=6),
        Hermes(),
    )
    for prompt in prompts:
        assert len(pieces(tokenizer, prompt)) < len(prompt) / 10


def test_the_saved_files_are_a_models_tokenizer(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """ChatTokenizer can open the directory: it encodes, decodes, and has the end token."""
    save(tokenizer, tmp_path)
    chat = ChatTokenizer.open(tmp_path)
    assert chat.decode(chat.encode("Done.")) == "Done."
    assert chat.end_ids == {tokenizer.token_to_id("<|im_end|>")}
