"""The similarity of texts by their wording."""

import pytest

from rehearsal_room.scenarios.text_similarity import cosine, embed


def test_texts_with_the_same_wording_are_similar() -> None:
    """Equal texts have cosine 1, reordered ones are near 1, others near 0, an empty one has 0."""
    one, two, three, none = embed(
        [
            "A bakery takes orders for bread and cakes, with stock and deliveries.",
            "A bakery takes orders for cakes and bread, with deliveries and stock.",
            "Rowing clubs book boats, coaches and lanes on the river.",
            "--- !",
        ]
    )
    assert round(cosine(one, one), 9) == 1.0
    assert cosine(one, two) > 0.75
    assert abs(cosine(one, three)) < 0.2
    assert cosine(one, none) == 0.0
    with pytest.raises(ValueError, match="vectors of 512 and 1 numbers"):
        cosine(one, [1.0])
