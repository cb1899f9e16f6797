"""The demonstration's tokenizer: nothing is lost, frames are single tokens, words stay alike."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from harness.dialects.hermes import Hermes
from harness.tokenization.chat_tokenizer import ChatTokenizer
from learner.demo.microworlds import prompt_texts
from learner.demo.tokenizer import save, trained
from scenarios.microworlds.writing import write_microworlds

VOCAB = 700


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[list[str]]]:
    folder = tmp_path_factory.mktemp("drills")
    return prompt_texts(write_microworlds(folder, seed=1, count=20, split="train"), Hermes())


@pytest.fixture(scope="module")
def tokenizer(texts: tuple[list[str], list[list[str]]]) -> Tokenizer:
    return trained(*texts, vocab_size=VOCAB)


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    """What each token of a text says."""
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return [tokenizer.decode([number], skip_special_tokens=False) for number in ids]


def test_every_text_comes_back(tokenizer: Tokenizer) -> None:
    """Texts that the tokenizer was not trained on are told without loss."""
    for text in ("Close order 52.", "naïve — 12345 €", '{"a":[1,2]}\n\t<tool_call>', "  two  "):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert tokenizer.get_vocab_size() <= VOCAB


def test_a_noun_has_the_same_tokens_wherever_it_stands(tokenizer: Tokenizer) -> None:
    """In an instruction, in a tool's name and in arguments, so that it can be copied."""
    alone = pieces(tokenizer, "greenhouse")
    for text in ("Close greenhouse 52.", "close_greenhouse", '{"greenhouse":52}'):
        found = pieces(tokenizer, text)
        assert any(found[at : at + len(alone)] == alone for at in range(len(found)))


def test_numbers_of_two_digits_and_frames_are_single_tokens(tokenizer: Tokenizer) -> None:
    """A call is little more than its names and values."""
    call = '<tool_call>\n{"name":"close_dog","arguments":{"dog":52}}\n</tool_call>'
    found = pieces(tokenizer, call)
    assert found[0] == '<tool_call>\n{"name":"'
    assert found[-2:] == ["52", "}}\n</tool_call>"]
    assert '","arguments":{"' in found


def test_a_system_prompt_of_any_drill_shrinks(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """The sentences around the tools and the frames of the tools are one token each."""
    prompts, _ = prompt_texts(
        write_microworlds(tmp_path, seed=2, count=2, split="held_out"), Hermes()
    )
    for prompt in prompts:
        assert len(pieces(tokenizer, prompt)) < len(prompt) / 10


def test_what_is_saved_is_a_model_s_tokenizer(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """The directory's tokenizer and chat template ask for the assistant's turn and end it."""
    save(tokenizer, tmp_path)
    chat = ChatTokenizer.open(tmp_path)
    assert chat.decode(chat.encode("Done.")) == "Done."
    assert chat.end_ids == {tokenizer.token_to_id("<|im_end|>")}
