"""Write a model of a few thousand weights as a Hugging Face directory: tokenizer, chat template,
random Qwen3 weights."""

from pathlib import Path

import msgspec
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END, START = "<|im_end|>", "<|im_start|>"
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
TEMPLATE = """\
{%- if tools %}<|im_start|>system
# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}
{{- "\n" }}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
TEXTS = [
    'Void order 7. The order is void. {"name": "void_order", "arguments": {"order_id": 7}}',
    "You act through tools for Ann Lee (clerk), who is logged in already.",
    "Find what you need with the tools, change only what the task asks for.",
] * 4


def tiny_tokenizer(texts: list[str] | None = None, *, vocab_size: int = 384) -> Tokenizer:
    """A byte-level BPE trained on a few lines; each digit is one token, as in Qwen's."""
    tokenizer = Tokenizer(models.BPE())
    splits = pre_tokenizers.Split(Regex(r"\d|[^\s\d]+|\s+"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(TAGS),
        special_tokens=["<|endoftext|>", START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts or TEXTS, trainer)
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    return tokenizer


def write_tokenizer(
    folder: Path,
    *,
    template: str = TEMPLATE,
    texts: list[str] | None = None,
    num_tokens: int = 384,
) -> Tokenizer:
    """Write the tokenizer's files of a Hugging Face directory."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tiny_tokenizer(texts, vocab_size=num_tokens)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": "<|endoftext|>",
    }
    (folder / "tokenizer_config.json").write_bytes(msgspec.json.encode(config))
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return tokenizer


def write_model(
    folder: Path,
    *,
    hidden: int = 32,
    layers: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 32,
    context: int = 4096,
    seed: int = 0,
    tied: bool = True,
    vocab_size: int | None = None,
    texts: list[str] | None = None,
    num_tokens: int = 384,
) -> Path:
    """Write a random Qwen3 with its tokenizer; returns the folder. vLLM needs a head dimension of
    at least 32.

    `vocab_size` None: that of the tokenizer, which is trained on `texts` to have at most
    `num_tokens`. Trained on the texts of the worlds that are run, it makes prompts shorter.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = write_tokenizer(folder, texts=texts, num_tokens=num_tokens)
    config = Qwen3Config(
        vocab_size=vocab_size or tokenizer.get_vocab_size(),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=context,
        tie_word_embeddings=tied,
        initializer_range=0.1,
        eos_token_id=tokenizer.token_to_id(END),
        pad_token_id=tokenizer.token_to_id("<|endoftext|>"),
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    return folder


def write_model_for(world: Path, folder: Path, *, num_tokens: int = 420, **sizes: int) -> Path:
    """Write a model whose tokenizer is trained on a world's texts; returns the folder.

    A micro-world's prompt then has about 560 tokens instead of 1,570. That makes training runs
    several times cheaper, since attention is quadratic, and two prompts are still long enough for
    the trainer to share their prefix (learner.packing.minibatches).
    """
    from rehearsal_room.demo.worlds import prompt_texts
    from rehearsal_room.harness.dialects.hermes import Hermes

    [prompt], [instructions] = prompt_texts([world], Hermes())
    return write_model(folder, texts=[prompt, *instructions], num_tokens=num_tokens, **sizes)
