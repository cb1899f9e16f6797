"""What our own vLLM servers can do besides: loaded by their workers (--worker-extension-cls), under
an interpreter that has vLLM and need not have us. It imports nothing.

A CPU build of vLLM 0.32 packs the weights of each matrix product when they are loaded. Where the
output layer shares the embedding's weights, `reload_weights` leaves it with what it packed before:
log-probabilities were then off by up to 13. So it is packed again here.
"""

from typing import Any


class Extension:
    """Joins the bases of vLLM's worker, whose attributes it uses."""

    model_runner: Any
    reload_weights: Any

    def rehearsal_reload(self, weights_path: str) -> int:
        """Load the weights of a Hugging Face directory in place of the present ones; gives how
        many layers with shared weights were packed again."""
        self.reload_weights(weights_path=weights_path)  # under vLLM's config, which layers look up
        modules = list(self.model_runner.get_model().modules())
        held = [module for module in modules if self._shares(module, modules)]
        for module in held:
            module.quant_method.process_weights_after_loading(module)
        return len(held)

    def _shares(self, module: Any, modules: list[Any]) -> bool:
        """Whether a layer computes with a packed copy of weights that another layer loads."""
        weight = getattr(module, "weight", None)
        return hasattr(module, "cpu_linear") and any(
            other is not module and getattr(other, "weight", None) is weight for other in modules
        )
