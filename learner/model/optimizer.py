"""AdamW, which parameters it decays, and its learning rate over a run.

Decoupled weight decay (arXiv:1711.05101) shrinks matrices only. Norms' scales and biases are left
alone, as everywhere in the field, and so are embeddings: a rare token's row gets no gradient in
most updates, and would only ever be shrunk. A head that is tied to the embeddings is one of them.
"""

import math
from collections.abc import Iterable

from torch import Tensor, nn
from torch.optim import AdamW

from learner.config.settings import OptimizerSettings


def adamw(model: nn.Module, settings: OptimizerSettings) -> AdamW:
    """The optimiser of the model's trainable parameters."""
    decayed, spared = _split(model)
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": spared, "weight_decay": 0.0},
    ]
    return AdamW(
        [group for group in groups if group["params"]],
        lr=settings.lr,
        betas=settings.betas,
        eps=settings.eps,
    )


def learning_rate(step: int, settings: OptimizerSettings, *, steps: int) -> float:
    """The rate of batch `step` (from 0) of `steps`.

    It grows over `warmup_steps` batches and reaches `lr` at the last of them; then it is constant,
    or falls to zero, which it would reach one batch after the last. All updates of one batch have
    one rate.

    Example: lr 1.0, warmup_steps 2, linear, 6 steps -> 0.5, 1.0, 1.0, 0.75, 0.5, 0.25
    """
    if step < settings.warmup_steps:
        return settings.lr * (step + 1) / settings.warmup_steps
    if settings.schedule == "constant":
        return settings.lr
    decay = max(1, steps - settings.warmup_steps)
    done = min(1.0, (step - settings.warmup_steps) / decay)
    if settings.schedule == "linear":
        return settings.lr * (1.0 - done)
    return settings.lr * 0.5 * (1.0 + math.cos(math.pi * done))


def set_learning_rate(optimizer: AdamW, rate: float) -> None:
    """Let the next updates have this rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that are trained, each once."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _split(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Parameters that are decayed, and those that are not."""
    spared_ids = set(_embeddings(model.modules()))
    decayed: list[nn.Parameter] = []
    spared: list[nn.Parameter] = []
    for parameter in trainable(model):
        to = spared if parameter.ndim < 2 or id(parameter) in spared_ids else decayed
        to.append(parameter)
    return decayed, spared


def _embeddings(modules: Iterable[nn.Module]) -> Iterable[int]:
    for module in modules:
        if isinstance(module, nn.Embedding):
            weight: Tensor = module.weight
            yield id(weight)
