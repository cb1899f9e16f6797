"""How far two computations of the same numbers are apart, relative to their size."""

import msgspec
import torch
from torch import Tensor

from rehearsal_room.learner.selftest.probe import Computed

_SMALL = 1e-2  # of the gradient's norm: the gradients of smaller parameters count as this large


class RelativeDifference(msgspec.Struct, frozen=True):
    """Relative differences; NaN where a number is not finite."""

    scores: float  # the largest one of log-probabilities and entropies, by the largest of these
    gradient: float  # norm of the difference, by the norm of the gradient
    parameter: float  # the same for the worst parameter
    name: str  # of that parameter
    cosine: float  # of the gradients
    scale: float  # norm of the gradient found, by that of the expected one

    @property
    def largest(self) -> float:
        """The largest relative difference."""
        return float(torch.tensor([self.scores, self.gradient, self.parameter]).max())

    def is_within(
        self, bound: float, factor: float = 0.0, noise: "RelativeDifference | None" = None
    ) -> bool:
        """Whether every part is within the bound or `factor` times the noise's; NaN is not."""
        parts = [self.scores, self.gradient, self.parameter]
        of_noise = [0.0] * 3 if noise is None else [noise.scores, noise.gradient, noise.parameter]
        return all(
            part <= max(bound, factor * other) for part, other in zip(parts, of_noise, strict=True)
        )

    def or_worse(self, other: "RelativeDifference") -> "RelativeDifference":
        """The larger parts of both."""
        return msgspec.structs.replace(
            self,
            scores=max(self.scores, other.scores),
            gradient=max(self.gradient, other.gradient),
            parameter=max(self.parameter, other.parameter),
        )

    def __str__(self) -> str:
        return (
            f"log-probabilities differ by {self.scores:.2g}, the gradient by {self.gradient:.2g}"
            f" (cosine {self.cosine:.3f}, norm x {self.scale:.3g}; most in {self.name})"
        )


def difference(found: Computed, expected: Computed) -> RelativeDifference:
    """How far two computations of a prefix group are apart."""
    names = list(expected.gradient)
    norms = torch.stack([_norm(expected.gradient[n]) for n in names])
    apart = torch.stack([_norm(found.gradient[n] - expected.gradient[n]) for n in names])
    whole = norms.norm()
    relative = apart / norms.clamp(min=_SMALL * float(whole))
    worst = int(relative.argmax())
    inner = sum(
        float((found.gradient[n] * expected.gradient[n]).sum(dtype=torch.float64)) for n in names
    )
    length = float(torch.stack([_norm(found.gradient[n]) for n in names]).norm())
    scores = [
        relative_difference(found.logprobs, expected.logprobs),
        relative_difference(found.entropies, expected.entropies),
    ]
    return RelativeDifference(
        scores=float(torch.tensor(scores).max()),
        gradient=float(apart.norm() / whole),
        parameter=float(relative.max()),
        name=names[worst],
        cosine=inner / (length * float(whole)) if length else 0.0,
        scale=length / float(whole),
    )


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """The largest difference, by the largest of the expected numbers."""
    return float((found.to(expected) - expected).abs().max() / expected.abs().max())


def _norm(gradient: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(gradient, dtype=torch.float64)
    return norm
