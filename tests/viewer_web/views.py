"""Every page of the viewer, as the address of a good example."""

from dataclasses import dataclass

from playwright.sync_api import Page

from tests.viewer_web.served import Served


@dataclass(frozen=True)
class View:
    """A page: its name, its address, and a text that is there when it is ready."""

    name: str
    address: str
    ready: str  # selector
    height: int = 860  # of its picture


def views(served: Served) -> list[View]:
    """All pages, with examples that have something to show."""
    mutant, oracle = served.run_id("mutant"), served.run_id("oracle")
    failed = wrong_episode(served)
    group = failed["group"]
    members = served.episodes("mutant", f"group={group}&sort=-reward")
    one, two = members[0]["episode"], members[-1]["episode"]
    solved = served.episodes("oracle", f"task={failed['task']}")[0]["episode"]
    four = "&".join(
        f"run={served.run_id(name)}" for name in ("mutant", "oracle", "judged", "windows")
    )
    agent = max(served.episodes("agent"), key=lambda row: (row["turns"], row["episode"]))
    write = first_write(served, mutant, failed["episode"])
    episode = f"#/run/{mutant}/episode/{failed['episode']}"
    return [
        View("runs", "#/runs", ".grid-row"),
        View("compare", f"#/compare?run={mutant}&run={oracle}", ".grid-row"),
        View("compare-four", f"#/compare?{four}", ".grid-row"),
        View("pair-of-runs", f"#/pair?run={mutant}&a={one}&other={oracle}&b={solved}", ".parting"),
        View("tasks", f"#/run/{mutant}", ".grid-row"),
        View("kinds", f"#/run/{mutant}/tasks?by=kind", ".grid-row"),
        View("run", f"#/run/{mutant}?label=agent_error&label=partially_completed", ".grid-row"),
        View("overview", f"#/run/{mutant}/overview", ".card"),
        View("throughput", f"#/run/{mutant}/throughput", ".chart canvas", 1100),
        View("grid", f"#/run/{mutant}/grid", ".grid-row"),
        View("episode", f"{episode}?turn={write + 1}", ".call.wrong", 1000),
        View(
            "agent",
            f"#/run/{served.run_id('agent')}/episode/{agent['episode']}?turn={agent['turns']}",
            ".spans",
            1000,
        ),
        View("world", f"{episode}/world?turn={write + 1}&only=start", ".grid-row"),
        View("group", f"#/run/{mutant}/group/{group}", ".node", 1000),
        View("pair", f"#/run/{mutant}/pair?a={one}&b={two}", ".parting", 1000),
        View("fork", f"{episode}/fork?turn={write}", ".tool-form"),
        View("play", "#/play?world=shop_support", ".grid-row"),
        View("judge", f"#/run/{served.run_id('judged')}/judge", ".label-choice"),
        View("training", f"#/run/{served.run_id('learn')}/training", ".chart canvas", 1100),
        View("worlds", "#/worlds", ".grid-row"),
        View("world-detail", "#/worlds/shop_support/tables/orders", ".grid-row"),
    ]


def wrong_episode(served: Served) -> dict[str, object]:
    """A failed episode with a wrong value, of a task whose members end differently."""
    rows = served.episodes("mutant", "failure=wrong_value&label=agent_error&limit=100")
    kinds: dict[str, set[str]] = {}
    for row in served.episodes("mutant", "limit=1000&sort=episode"):
        kinds.setdefault(row["group"], set()).add(row["label"])
    return max(rows, key=lambda row: (len(kinds[row["group"]]), row["turns"]))


def first_write(served: Served, run: str, episode: object) -> int:
    """The turn of the first wrong write, from 0."""
    found = served.get(f"/api/runs/{run}/episodes/{episode}/failures")["failures"]
    return int(min(one["turn"] for one in found if one["turn"] is not None))


def show(page: Page, served: Served, view: View) -> None:
    """Go to a view and wait until it is ready."""
    page.goto(served.at(view.address))
    page.wait_for_selector(view.ready)
    page.wait_for_function("() => !document.querySelector('.loading, .ghost')")
    page.evaluate("document.fonts.ready")
