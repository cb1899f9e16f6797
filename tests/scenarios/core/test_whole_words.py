"""Finding whole words, compared with the regular expression whose meaning it has."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from scenarios.core.whole_words import has_whole

_TEXTS = st.text(alphabet="a1_.,- éß٣²", max_size=12)


@given(_TEXTS, st.one_of(_TEXTS, st.text(max_size=3)), st.sampled_from(["", ".", ".,"]))
@example("aaa a", "a", "")
@example("1.1, 1", "1", ".")
@example("", "", ".")
def test_a_part_is_found_where_the_regular_expression_finds_it(
    text: str, part: str, not_after: str
) -> None:
    """`has_whole` finds what `(?<![\\w…])part(?!\\w)` finds, in any text and with any part."""
    pattern = rf"(?<![\w{re.escape(not_after)}]){re.escape(part)}(?!\w)"
    assert has_whole(text, part, not_after=not_after) is (re.search(pattern, text) is not None)
