"""Groups whose episodes branch (see harness.continuation.branches)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rehearsal_room.harness.core.errors import SettingsError

BranchBy = Literal["even", "entropy", "spread"]


class BranchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many episodes of a group begin at the start, and where the others begin."""

    roots: Annotated[
        int,
        Meta(
            ge=0,
            description="Number of episodes of a group that begin at the start; the others branch "
            "from them. 0: all begin at the start.",
        ),
    ] = 0
    width: Annotated[
        int, Meta(ge=1, description="Number of episodes that branch in one state.")
    ] = 1
    by: Annotated[
        BranchBy,
        Meta(
            description="Turns at which episodes branch: at equal distances (even), those of "
            "which the model was least sure (entropy), or where the rewards of episodes differ "
            "(spread)."
        ),
    ] = "even"
    tokens: Annotated[
        int,
        Meta(
            ge=0,
            description="Number of sampled tokens for which a group gets branches, each counted "
            "with the tokens that its source sampled from there on; 0: any number.",
        ),
    ] = 0

    def check(self, group_size: int, *, has_verdicts: bool) -> None:
        """Raises SettingsError for settings that a group of this size cannot have."""
        branches = group_size - self.roots
        if not self.roots:
            for name in ("width", "by", "tokens"):
                if (value := getattr(self, name)) != getattr(_NONE, name):
                    raise SettingsError(
                        f"branch_{name}: has an effect only with branch_roots, found {value!r}"
                    )
            return
        if branches < 1:
            raise SettingsError(
                f"branch_roots: all {group_size} episodes of a group begin at the start, so none "
                f"is left to branch; must be less than group_size, found {self.roots}"
            )
        if branches % self.width:
            raise SettingsError(
                f"branch_width: the {branches} branches of a group (group_size less branch_roots) "
                f"cannot be shared out {self.width} to a state"
            )
        if self.by == "spread" and not has_verdicts:
            raise SettingsError(
                "branch_by: 'spread' needs the rewards of the episodes before, and the run has no "
                "judge of its own"
            )


_NONE = BranchSettings()
