"""Ten steps of GRPO with TRL, on a CPU: `python examples/trl_grpo.py` (needs extra `trl`).

The world is a micro-world, and the model has 150,000 weights. It first repeats the solutions of
two tasks until it can nearly recite them; GRPO then raises the chance of the calls that our judge
rewards. A real run differs in the model's name, in the worlds, and in the settings below.
"""

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

import rehearsal_room as rr
from rehearsal_room.bridges.trainers.trl import environments, judged_reward, rows
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.tokenization.chat_tokenizer import template_message
from rehearsal_room.scenarios.microworlds.writing import write_microworlds

END, PAD = "<|im_end|>", "<|endoftext|>"
NUM_TASKS = 2


def main(output: Path, steps: int) -> None:
    (world,) = write_microworlds(output / "worlds", seed=1, count=1, split="train", each=2)
    run = rr.BackgroundRun(output / "run", [str(world)], rr.RunOptions(judge=rr.ScenarioJudges))
    (environment,) = environments(run).values()
    data = rows(run)[:NUM_TASKS]
    names = sorted(name for name in vars(environment) if not name.startswith("_"))  # as TRL does
    tools = [getattr(environment, name) for name in names]
    plain = make_tokenizer()
    prompts = [
        plain.apply_chat_template(
            row["prompt"], tools=tools, tokenize=False, add_generation_prompt=True
        )
        for row in data
    ]
    solved = [
        plain.apply_chat_template(
            row["prompt"] + solution(run, row["task"]), tools=tools, tokenize=False
        )
        for row in data
    ]
    tokenizer = make_tokenizer(solved)
    model = make_model(tokenizer)
    recite(model, tokenizer, prompts, solved)
    trainer = GRPOTrainer(
        model,
        reward_funcs=judged_reward,
        args=GRPOConfig(
            output_dir=str(output / "model"),
            max_steps=steps,
            num_generations=4,
            per_device_train_batch_size=4,
            max_completion_length=300,
            max_tool_calling_iterations=6,
            learning_rate=1e-4,
            logging_steps=1,
            gradient_checkpointing=False,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
        ),
        train_dataset=Dataset.from_list(data),
        processing_class=tokenizer,
        environment_factory=environment,
    )
    trainer.train()
    run.close()
    for number, entry in enumerate(trainer.state.log_history[:steps], 1):
        reward, calls = float(entry["reward"]), float(entry["tools/call_frequency"])
        print(f"step {number}: reward {reward:.3f}, {calls:.1f} calls, loss {entry['loss']}")
    print(f"{4 * steps} episodes and {NUM_TASKS} solutions: rehearse show {output / 'run'}")


def solution(run: rr.BackgroundRun, task: str) -> list[dict[str, Any]]:
    """The messages of the oracle's episode, as a chat template takes them."""
    played = run.call(partial(rr.OpenRun.play, policy=OraclePolicy(Native())), task)
    turns = [message for step in played.steps for message in Native().turn_messages(step)]
    return [template_message(message) for message in turns]


def make_tokenizer(texts: list[str] | None = None) -> PreTrainedTokenizerFast:
    """A byte-level BPE of these texts, with Qwen3's chat template, which knows tools."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=[PAD, "<|im_start|>", END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(texts or [], trainer)
    tags = ("tool_call", "tool_response", "think")
    words = [word for tag in tags for word in (f"<{tag}>", f"</{tag}>")]
    inner.add_tokens([AddedToken(word, normalized=False) for word in words])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=END, pad_token=PAD)
    tokenizer.chat_template = qwen3_chat_template
    return tokenizer


def make_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
        )
    )


def recite(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    prompts: list[str],
    solved: list[str],
) -> None:
    """Train the model to continue each prompt as its solved conversation does."""
    batch = tokenizer(solved, return_tensors="pt", padding=True)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    for row, prompt in enumerate(prompts):
        labels[row, : len(tokenizer(prompt)["input_ids"])] = -100
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loss = torch.tensor(9.0)
    for _ in range(400):
        loss = model(**batch, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.02:
            break
    print(f"recited: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main(
        Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()),
        int(sys.argv[2]) if len(sys.argv) > 2 else 10,
    )
