"""The table of families in docs/reference/model-families.md, measured on tiny configurations.

python -m tests.support.family_table      measures all families, renews the page (`just families`)
"""

from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from rehearsal_room.learner.backends.flex import Flex
from rehearsal_room.learner.config.settings import ComputeSettings
from rehearsal_room.learner.core.errors import ModelError
from rehearsal_room.learner.model.pretrained import quiet
from rehearsal_room.learner.selftest import probe
from rehearsal_room.learner.selftest.comparison import difference
from rehearsal_room.learner.selftest.copies import copy_of
from rehearsal_room.learner.selftest.family_test import check_family
from tests.support.families import FAMILIES, config_of

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "model-families.md"
EXACT = 1e-5  # relative, in float32: what a family that is not refused must reach
_HEADER = (
    "| family | class | `twopass`, `packed` | `flex` | `naive` | policy `local` |\n"
    "|---|---|---|---|---|---|\n"
)
_BEGIN, _END = "<!-- families: begin -->\n", "<!-- families: end -->\n"


class Row(msgspec.Struct, frozen=True):
    """A row of the table: what gives the numbers of plain rows; the rest is refused."""

    family: str
    model: str  # the class
    shared: bool  # twopass and packed
    flex: bool
    naive: bool
    local: bool

    def __str__(self) -> str:
        cells = ["equal" if one else "refused" for one in msgspec.structs.astuple(self)[2:]]
        return f"| {' | '.join([self.family, f'`{self.model}`', *cells])} |"


def measure(family: str) -> Row:
    """Measure a family. Raises AssertionError for one that is neither equal nor refused."""
    config = config_of(family)
    with quiet():
        model = copy_of(config)
    equal = {
        backend: _is_equal(family, backend, sampler=False)
        for backend in ("twopass", "packed", "naive")
    }
    assert equal["twopass"] == equal["packed"], family
    return Row(
        family,
        type(model).__name__,
        shared=equal["twopass"],
        flex=_is_equal_in_flex(family),
        naive=equal["naive"],
        local=_is_equal(family, "naive", sampler=True),
    )


def _is_equal(family: str, backend: Any, *, sampler: bool) -> bool:
    try:
        report = check_family(config_of(family), ComputeSettings(backend=backend), sampler=sampler)
    except ModelError:
        return False
    largest = max(report.backend.largest, report.sampler or 0.0)
    assert largest <= EXACT, f"{family}: {backend} differs by {largest:.2g} and is not refused"
    return True


def _is_equal_in_flex(family: str) -> bool:
    """`flex` has no backward on a CPU; a kernel that has one computes under its mask."""
    model, group = copy_of(config_of(family)).train(), probe.probe_group()
    try:
        found = probe.by_backend(Flex(probe.max_tokens_of("flex"), _under_mask), model, group)
    except Exception:  # whatever a foreign forward raises: refused by the self-test
        return False
    largest = difference(found, probe.by_plain_rows(model, group)).largest
    return largest <= EXACT


def _under_mask(query: Tensor, key: Tensor, value: Tensor, mask: Any, scaling: float) -> Tensor:
    indices = torch.arange(query.shape[2])
    seen = mask.mask_mod(0, 0, indices[:, None], indices[None, :])
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=seen, scale=scaling, enable_gqa=True
    )


def committed_rows() -> list[str]:
    """The rows of the table in the page."""
    table = PAGE.read_text(encoding="utf-8").partition(_BEGIN)[2].partition(_END)[0]
    return table.strip().splitlines()[2:]


def main() -> None:
    """Measure all families and write the table into the page."""
    torch.set_num_threads(1)  # these models are too small for more
    rows = "".join(f"{measure(family)}\n" for family in FAMILIES)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    after = rest.partition(_END)[2]
    PAGE.write_text(f"{before}{_BEGIN}{_HEADER}{rows}{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
