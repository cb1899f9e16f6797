"""Whether a trainer can carry the windows of a history window, and the refusal where it cannot.

With windows (any history but `full`) the prompts of an episode do not continue each other, so that
an episode is several sequences. A trainer that takes one sequence an episode would train on prompts
that the model never saw.
"""

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.history.base import HistoryWindow

CARRIES = {
    "slime": "slime takes a list of samples an episode, so it carries every history window.",
    "SkyRL": "SkyRL takes an episode step by step (is_last_step), so it carries every history"
    " window; set generator.step_wise_trajectories = true.",
    "tinker-cookbook": "tinker-cookbook takes each turn with its own prompt, so it carries every"
    " history window.",
    "AReaL": "AReaL takes a batch of sequences an episode, so it carries every history window.",
    "rLLM": "rLLM takes a list of steps an episode, so it carries every history window.",
    "verifiers": "verifiers keeps a tree of messages and trains each branch, so it carries every"
    " history window.",
}
REFUSES = {
    "verl": "verl takes one sequence an episode (AgentLoopOutput), so it cannot carry history"
    " windows.",
    "TRL": "TRL keeps the conversation itself, one sequence an episode, so it cannot carry history"
    " windows.",
}


def require_windows(trainer: str, history: HistoryWindow) -> None:
    """Raise SettingsError for a windowed history that the trainer cannot carry."""
    if trainer in CARRIES or history.spec == "full":
        return
    others = ", ".join(sorted(CARRIES))
    raise SettingsError(
        f"history: {REFUSES[trainer]} Found {history.spec!r}: use 'full', or a trainer that carries"
        f" windows ({others})"
    )
