"""Whether a trainer can carry an episode of several sequences, and the refusal where it cannot.

With windows (any history but `full`) the prompts of an episode do not continue each other, and an
agent of the user's own may have several conversations, or rewrite one: the episode is several
sequences. A trainer that takes one sequence an episode would train on prompts that the model never
saw.
"""

from rehearsal_room.bridges.run_options import RunOptions
from rehearsal_room.harness.core.errors import SettingsError

CARRIES = (
    *("AReaL", "SkyRL", "prime-rl", "rLLM", "slime", "tinker-cookbook", "verifiers"),
    "verl with trainer.use_v1 = true",
)
REFUSES = {
    "SkyRL": "SkyRL takes one sequence an episode without generator.step_wise_trajectories = true.",
    "TRL": "TRL takes one sequence an episode: one conversation, which it keeps itself, or one row"
    " of a rollout function.",
    "verl": "verl takes one sequence an episode with trainer.use_v1 = false.",
}


def refuse_sequences(trainer: str, options: RunOptions) -> None:
    """Raise SettingsError for a history window and for an agent of the user's own, where the
    trainer takes one sequence an episode."""
    if options.own_agent.target:
        found = f"agent: {REFUSES[trainer]} An agent of your own may have several conversations"
        instead = "leave the agent out"
    elif options.history.spec != "full":
        found = f"history: {REFUSES[trainer]} Found {options.history.spec!r}"
        instead = "use 'full'"
    else:
        return
    raise SettingsError(f"{found}: {instead}, or choose what carries it ({', '.join(CARRIES)})")
