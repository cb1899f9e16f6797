"""What sharing a prefix saves: tokens, time and memory of one group's gradient.

python -m benchmarks.learner_sharing --runs 3
python -m benchmarks.learner_sharing --picture docs/pictures/learner_memory.png
python -m benchmarks.learner_sharing --device cuda --dtype bfloat16 --reference

tokens     computed tokens in the reference shape (16 episodes of 15 steps, a prefix of 6,000
           tokens, windows of 3 turns, 1,500 tokens after the prefix): shared ÷ one row per step
time       forward and backward of a policy gradient: `twopass` (and `flex`, on a GPU) ÷ one row
           per step, packed without padding; measured in turns, as CPU time (on a GPU as wall
           clock). On a CPU the shape has the reference's proportions at 2/15 of the lengths and
           a fifth of the steps
memory     the peak of a gradient of the scaled shape above weights and their gradients, each
           in a separate process: by tokens in a micro-batch, and by suffixes in the group
           (`--picture` draws it; needs a CPU and Linux)
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import click
import matplotlib.pyplot as plt
import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option
from rehearsal_room.learner.backends.base import Backend
from rehearsal_room.learner.backends.registry import backend_of
from rehearsal_room.learner.config.settings import ComputeSettings
from rehearsal_room.learner.core.samples import Group, Ids, Rollout, Sample
from rehearsal_room.learner.packing.batch import Batch
from rehearsal_room.learner.packing.prefix_groups import PerSample, batch_of


class Shape(msgspec.Struct, frozen=True):
    """A group whose windows have its prefix and the last turns."""

    prefix: int
    episodes: int
    steps: int
    shown: int  # tokens of a turn's results
    sampled: int  # tokens of a turn's reply
    window: int = 3  # turns
    vocab: int = 2048

    def group(self) -> Group:
        """A group of episodes with random tokens."""
        chance = np.random.default_rng(0)
        prefix = self._ids(chance, self.prefix)
        rollouts = [
            Rollout(f"e{n}", n, 0.0, self._samples(chance, prefix), "answered", "")
            for n in range(self.episodes)
        ]
        return Group("g", "world", "task", tuple(rollouts))

    def _samples(self, chance: np.random.Generator, prefix: Ids) -> tuple[Sample, ...]:
        turns: list[Ids] = []
        samples = []
        for turn in range(self.steps):
            reply = self._ids(chance, self.sampled)
            logprobs = np.full(self.sampled, -np.log(self.vocab), np.float32)
            prompt = np.concatenate([prefix, *turns[-self.window :]])
            samples.append(Sample(prompt, reply, logprobs, 0.0, turn, "w0"))
            turns.append(np.concatenate([reply, self._ids(chance, self.shown)]))
        return tuple(samples)

    def _ids(self, chance: np.random.Generator, count: int) -> Ids:
        return chance.integers(0, self.vocab, count, dtype=np.int32)


REFERENCE = Shape(prefix=6000, episodes=16, steps=15, shown=233, sampled=200)
MICROBATCHES = (512, 1024, 2048, 4096, 8192)
EPISODES = (2, 4, 8, 12)
SCALED = Shape(prefix=800, episodes=4, steps=12, shown=31, sampled=27)


def batch_of_shape(shape: Shape, *, share: bool) -> Batch:
    """The group as a prefix group, or as one row per step."""
    return batch_of([shape.group()], *weighing(shape), share=share, merge=share)


def weighing(shape: Shape) -> tuple[PerSample, PerSample]:
    """Advantages of both signs, and the weight of a token; all weights add up to 1."""
    advantages = [[[(-1.0) ** n] * shape.steps for n in range(shape.episodes)]]
    weight = 1 / (shape.episodes * shape.steps * shape.sampled)
    return advantages, [[[weight] * shape.steps] * shape.episodes]


def model_of(shape: Shape, device: str) -> Qwen3ForCausalLM:
    """A model with 3.7 M parameters on a CPU; with the layers of Qwen3-0.6B on a device."""
    torch.manual_seed(0)
    small: dict[str, Any] = {"hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 4}
    heads: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64}
    if device != "cpu":
        small = {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28}
        heads = {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
    config = Qwen3Config(
        vocab_size=shape.vocab, tie_word_embeddings=True, use_cache=False, **small, **heads
    )
    model = Qwen3ForCausalLM(config)
    nn.Module.to(model, device)
    return model


def gradient(model: Qwen3ForCausalLM, backend: Backend, batch: Batch) -> None:
    """Compute one policy gradient of a batch."""
    for prefix_group in batch.prefix_groups:

        def loss_of(numbers: Sequence[int], logprobs: Tensor, _entropy: Tensor) -> Tensor:
            suffixes = [prefix_group.suffixes[number] for number in numbers]  # noqa: B023
            weights = [suffix.weights * suffix.advantages for suffix in suffixes]
            return -(logprobs * torch.from_numpy(np.concatenate(weights)).to(logprobs)).sum()

        backend.backward(model, prefix_group, loss_of)


def seconds(device: str, work: Callable[[], None]) -> float:
    """The duration of the work: CPU time of this process, or wall clock on a device."""
    if device == "cpu":
        started = time.process_time()
        work()
        return time.process_time() - started
    torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - started


def num_tokens(shape: Shape) -> list[Figure]:
    """Computed tokens, shared ÷ rows."""
    shared = batch_of_shape(shape, share=True)
    assert batch_of_shape(shape, share=False).num_tokens == shared.num_row_tokens
    unmerged = batch_of([shape.group()], *weighing(shape), merge=False)
    rows = shared.num_row_tokens
    return [
        figure("tokens of rows", "k", [rows / 1000]),
        figure("tokens of the prefix group", "k", [shared.num_tokens / 1000]),
        figure("tokens, prefix group ÷ rows", "", [shared.num_tokens / rows], reach=1 / 4.5),
        figure("tokens, one suffix a step ÷ rows", "", [unmerged.num_tokens / rows], reach=1 / 4.5),
    ]


def times(shape: Shape, runs: int, max_tokens: int, device: str, dtype: str) -> list[Figure]:
    """Times of a gradient, by backend."""
    model = model_of(shape, device)
    shared, rows = batch_of_shape(shape, share=True), batch_of_shape(shape, share=False)
    work: dict[Literal["packed", "twopass", "flex"], Batch] = {
        "packed": rows,
        "twopass": shared,
    }
    if device != "cpu":
        work["flex"] = shared
    spent: dict[str, list[float]] = {name: [] for name in work}
    for run in range(runs + 1):
        for name, packed in work.items():
            backend = backend_of(ComputeSettings(backend=name, max_tokens=max_tokens))

            def once(backend: Backend = backend, packed: Batch = packed) -> None:
                with torch.autocast(device, torch.bfloat16, enabled=dtype == "bfloat16"):
                    gradient(model, backend, packed)

            model.zero_grad()
            duration = seconds(device, once)
            if run:  # the first run warms up
                spent[name].append(duration)
    found = [figure(f"gradient, {name}", "s", values) for name, values in spent.items()]
    for name in list(work)[1:]:
        ratios = [one / rows for one, rows in zip(spent[name], spent["packed"], strict=True)]
        found.append(figure(f"time, {name} ÷ packed rows", "", ratios, reach=1 / 3, aim=1 / 4))
    return found


def peak_mb(shape: Shape, backend: str, max_tokens: int) -> float:
    """The peak memory of a gradient in MB, measured in a separate process."""
    arguments = msgspec.json.encode((shape, backend, max_tokens)).decode()
    command = [sys.executable, "-m", "benchmarks.learner_sharing", "--peak", arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return float(done.stdout)


def print_peak(arguments: str) -> None:
    """Print the peak memory of one gradient in MB: resident memory above weights and gradients."""
    shape, backend, max_tokens = msgspec.json.decode(arguments, type=tuple[Shape, str, int])
    chosen = backend_of(ComputeSettings(backend=backend, max_tokens=max_tokens))  # type: ignore[arg-type]
    model, packed = model_of(shape, "cpu"), batch_of_shape(shape, share=backend != "packed")
    small = batch_of_shape(Shape(prefix=8, episodes=2, steps=2, shown=2, sampled=2), share=True)
    gradient(model, chosen, small)  # allocates the gradients
    Path("/proc/self/clear_refs").write_text("5")  # resets the kernel's peak counter
    before = _resident("VmRSS")
    gradient(model, chosen, packed)
    print((_resident("VmHWM") - before) / 1024)


def _resident(field: str) -> int:
    """A field of /proc/self/status, in KB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def peaks() -> dict[str, list[tuple[int, float]]]:
    """Peak MB by tokens in a micro-batch, and by suffix tokens in the group."""
    found: dict[str, list[tuple[int, float]]] = {}
    for name in ("packed", "twopass"):
        found[f"{name}, by micro-batch"] = [
            (size, peak_mb(SCALED, name, size)) for size in MICROBATCHES
        ]
    for name, size in (
        ("all suffixes in one micro-batch", 1 << 30),
        ("micro-batches of 1,024", 1024),
    ):
        found[name] = []
        for episodes in EPISODES:
            shape = msgspec.structs.replace(SCALED, episodes=episodes)
            num_suffix = batch_of_shape(shape, share=True).num_tokens - shape.prefix
            found[name].append((num_suffix, peak_mb(shape, "twopass", size)))
    return found


def draw(found: dict[str, list[tuple[int, float]]], path: Path) -> None:
    """Draw the peaks."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    labels = ("tokens in a micro-batch", "tokens of all suffixes of the group")
    titles = ("one group, micro-batches of several sizes", "twopass, groups of several sizes")
    for number, (panel, label, title) in enumerate(zip(panels, labels, titles, strict=True)):
        for name, points in list(found.items())[2 * number : 2 * number + 2]:
            panel.plot(*zip(*points, strict=True), marker="o", label=name.partition(", by")[0])
        panel.set(xlabel=label, ylabel="peak above weights and gradients, MB", title=title)
        panel.set_ylim(bottom=0)
        panel.legend()
    figure.savefig(path, dpi=110)


@benchmark(__doc__)
@runs_option(3)
@count_option("--max-tokens", 4096, "Tokens in one micro-batch.")
@click.option("--device", default="cpu", help="Device of the computation, as torch names it.")
@click.option(
    "--dtype",
    type=click.Choice(("float32", "bfloat16")),
    default="float32",
    help="Precision of the computation.",
)
@click.option("--reference", is_flag=True, help="Time the reference shape, not the scaled one.")
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Measure memory only, and draw it to this file.",
)
@click.option("--peak", hidden=True, help="Print the peak memory of one gradient.")
def main(
    runs: int,
    max_tokens: int,
    device: str,
    dtype: str,
    reference: bool,
    picture: Path | None,
    peak: str | None,
) -> list[Figure] | None:
    """The command line."""
    if peak is not None:
        print_peak(peak)
        return None
    if picture is not None:
        found = peaks()
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
        draw(found, picture)
        return None
    shape = REFERENCE if reference else SCALED
    return [*num_tokens(REFERENCE), *times(shape, runs, max_tokens, device, dtype)]


if __name__ == "__main__":
    main()
