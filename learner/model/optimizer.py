"""AdamW, the parameters that it decays, and its learning rate over a run.

Decoupled weight decay (arXiv:1711.05101) is applied to matrices only. The scales of norms and the
biases are not decayed, as is common practice. Neither are embeddings: the row of a rare token gets
no gradient in most updates and would only shrink. A head that is tied to the embeddings counts as
an embedding.
"""

import math
from collections.abc import Iterable

from torch import Tensor, nn
from torch.optim import AdamW

from rehearsal_room.learner.config.settings import OptimizerSettings


def adamw(model: nn.Module, settings: OptimizerSettings) -> AdamW:
    """The optimiser of the model's trainable parameters."""
    decayed, undecayed = _split(model)
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": undecayed, "weight_decay": 0.0},
    ]
    return AdamW(
        [group for group in groups if group["params"]],
        lr=settings.lr,
        betas=settings.betas,
        eps=settings.eps,
    )


def learning_rate(step: int, settings: OptimizerSettings, *, steps: int) -> float:
    """The learning rate of batch `step` (from 0) out of `steps`.

    It grows over `warmup_steps` batches and reaches `lr` at the last of them. Then it is constant,
    or it falls so that it would reach zero one batch after the last. All updates of a batch have
    the same rate.

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
    """Set the learning rate of the next updates."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The trainable parameters, each once."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _split(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The parameters that are decayed, and those that are not."""
    embedding_ids = set(_embedding_ids(model.modules()))
    decayed: list[nn.Parameter] = []
    undecayed: list[nn.Parameter] = []
    for parameter in trainable(model):
        is_undecayed = parameter.ndim < 2 or id(parameter) in embedding_ids
        (undecayed if is_undecayed else decayed).append(parameter)
    return decayed, undecayed


def _embedding_ids(modules: Iterable[nn.Module]) -> Iterable[int]:
    for module in modules:
        if isinstance(module, nn.Embedding):
            weight: Tensor = module.weight
            yield id(weight)
