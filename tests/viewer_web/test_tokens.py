"""The strip of a reply's tokens."""

from pathlib import Path

from playwright.sync_api import expect

from rehearsal_room.harness.log.writer import open_log
from tests.support.episode_logs import WORLD, started, story
from tests.support.token_logs import ended, reply, step
from tests.viewer_web.conftest import OpenPage
from tests.viewer_web.logs import in_thread
from tests.viewer_web.served import serving

# One for each colour, from likely to unlikely.
LOGPROBS = (-0.01, -0.3, -1.0, -2.0, -5.0, -9.0)


async def _write(folder: Path) -> None:
    answer = reply(tokens=range(100, 106), logprobs=LOGPROBS, text="Done.")
    async with open_log(folder) as log:
        log.add_scenario(WORLD)
        for record in story("e000000", [started(), step(answer), ended()]):
            log.append(record)


def test_tokens_are_coloured_by_their_log_probability(open_page: OpenPage, tmp_path: Path) -> None:
    """Each token has the colour of its log-probability, its id and the number; the least likely is
    named with its probability."""
    folder = tmp_path / "tokens"
    in_thread(_write, folder)
    with serving(folder, cwd=tmp_path) as served:
        page = open_page(served.at(f"#/run/{served.run_id('tokens')}/episode/e000000"))
        page.get_by_text("6 tokens", exact=True).click()
        strip = page.locator(".strip .token")
        expect(strip).to_have_count(6)
        for number, logprob in enumerate(LOGPROBS):
            expect(strip.nth(number)).to_have_class(f"token lp{number} ")
            expect(strip.nth(number)).to_have_text(f"‹{100 + number}›")
            title = strip.nth(number).get_attribute("title")
            assert title == f"token {100 + number}, log-probability {logprob:.3f}"
        colours = strip.evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
        assert len(set(colours)) == 6
        expect(page.locator(".least").first).to_contain_text("0.01")
        page.context.close()
