"""GRPO of a tiny model with TRL, on a CPU: `python examples/trl_grpo.py` (needs extra `trl`).

The model has random weights, so it learns nothing in ten steps; a real run differs in the model's
name and in the settings below.
"""

import sys
import tempfile
from pathlib import Path

from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

from harness.bridges.background import BackgroundRun
from harness.bridges.open_run import RunOptions
from judge.verdicts.code_judges import ScenarioJudges
from learner.bridges.trl import environments, judged_reward, rows

WORLD = "shop_support"
END, PAD = "<|im_end|>", "<|endoftext|>"


def tokenizer_for(texts: list[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE of the prompts, with Qwen3's chat template, which has tools."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = [PAD, "<|im_start|>", END]
    inner.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=1000, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        ),
    )
    tags = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>")
    inner.add_tokens([AddedToken(tag, normalized=False) for tag in (*tags, "</think>")])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=END, pad_token=PAD)
    tokenizer.chat_template = qwen3_chat_template
    return tokenizer


def model_for(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A Qwen3 of 70,000 random weights."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=32_768,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


def main(output: Path, steps: int) -> None:
    run = BackgroundRun(output / "run", [WORLD], RunOptions(judge=ScenarioJudges))
    data = rows(run)
    texts = [message["content"] for row in data for message in row["prompt"]]
    tokenizer = tokenizer_for(texts)
    trainer = GRPOTrainer(
        model_for(tokenizer),
        reward_funcs=judged_reward,
        args=GRPOConfig(
            output_dir=str(output / "model"),
            max_steps=steps,
            num_generations=2,
            per_device_train_batch_size=2,
            max_completion_length=64,
            max_tool_calling_iterations=4,
            learning_rate=1e-4,
            logging_steps=1,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
        ),
        train_dataset=Dataset.from_list(data),
        processing_class=tokenizer,
        environment_factory=environments(run)[WORLD],
    )
    trainer.train()
    run.close()
    print(f"{2 * steps} episodes: rehearse show {output / 'run'}")


if __name__ == "__main__":
    main(
        Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()),
        int(sys.argv[2]) if len(sys.argv) > 2 else 10,
    )
