"""An extension of vLLM's workers, which load it (--worker-extension-cls) under an interpreter that
has vLLM and need not have Rehearsal. It imports nothing of either.

A CPU build of vLLM 0.32 packs the weights of each matrix product when they are loaded. Where the
output layer shares the embedding's weights, `reload_weights` does not pack it again:
log-probabilities were then wrong by up to 13. So this module packs it again.
"""

from typing import Any


class Extension:
    """Becomes a base class of vLLM's worker, whose attributes it uses."""

    model_runner: Any
    reload_weights: Any

    def rehearsal_reload(self, weights_path: str) -> int:
        """Replace the weights by those of a Hugging Face directory; return the number of layers
        with shared weights that were packed again."""
        self.reload_weights(weights_path=weights_path)  # under vLLM's config, which layers look up
        modules = list(self.model_runner.get_model().modules())
        sharing = [module for module in modules if self._shares(module, modules)]
        for module in sharing:
            module.quant_method.process_weights_after_loading(module)
        return len(sharing)

    def _shares(self, module: Any, modules: list[Any]) -> bool:
        """Whether a layer computes with a packed copy of weights that another layer loads."""
        weight = getattr(module, "weight", None)
        return hasattr(module, "cpu_linear") and any(
            other is not module and getattr(other, "weight", None) is weight for other in modules
        )
