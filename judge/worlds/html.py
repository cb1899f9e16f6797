"""The catalogue of many worlds as one HTML file that needs nothing else: no script, no network."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from html import escape

from judge.worlds.catalogue import CatalogueFigures
from judge.worlds.charts import Chart, svg_of

_MEASURES = {
    "tables": "tables of a world",
    "rows": "seed rows of a world",
    "tools": "tools of a world",
    "steps": "calls of a task's oracle (AWM: steps of its agent)",
    "unique_tools": "different tools of a task",
}
_CLOSE = 0.15  # share of AWM's median within which ours counts as like it
_STYLE = """
:root { color: #1f2933; background: #f4f6f8; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 1240px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 4px; }
h2 { font-size: 20px; margin: 40px 0 12px; }
p { margin: 0 0 8px; max-width: 75ch; }
.faint { color: #5b6773; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0; }
.tile { background: #fff; border-radius: 8px; padding: 12px 16px; flex: 1; }
.tile b { display: block; font-size: 26px; line-height: 1.2; }
table { border-collapse: collapse; background: #fff; border-radius: 8px; overflow: hidden; }
th, td { padding: 7px 16px; text-align: right; border-bottom: 1px solid #e8ecef; }
th:first-child, td:first-child { text-align: left; }
th { font-weight: 600; background: #eaeef2; }
.charts { display: grid; gap: 16px;
  grid-template-columns: repeat(auto-fit, minmax(min(520px, 100%), 1fr)); }
figure { background: #fff; border-radius: 8px; margin: 0; padding: 14px; }
figure img { width: 100%; height: auto; display: block; }
figcaption { font-size: 14px; color: #46525e; margin-top: 6px; }
"""


def page_of(
    figures: CatalogueFigures,
    charts: Sequence[Chart],
    *,
    title: str,
    told: Callable[[], None] = lambda: None,
) -> str:
    """The page. `told` is called for each chart that was drawn."""
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="faint">{escape(_origin(figures))}</p>',
        _tiles(figures),
        "<h2>Sizes beside Agent World Model</h2>",
        "<p>Medians, beside those of the 1,000 worlds of AgentWorldModel-1K "
        "(arXiv:2602.10090).</p>",
        _medians(figures),
        "<h2>Distributions</h2>",
        '<div class="charts">',
    ]
    for chart in charts:
        body.append(_figure(chart))
        told()
    body += ["</div>", *_alike(figures), *_unread(figures)]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _origin(figures: CatalogueFigures) -> str:
    by = ", ".join(f"{count:,} {source}" for source, count in figures.sources.items())
    return f"Worlds by where they come from: {by}. Figures are read from their files."


def _tiles(figures: CatalogueFigures) -> str:
    declined = figures.shares.get("to be declined, whole or in part")
    tiles = {
        "worlds": f"{figures.worlds:,}",
        "tasks": f"{figures.tasks:,}",
        "tools": f"{figures.tools:,}",
        "seed rows": f"{figures.rows:,}",
        "trades": f"{len(figures.trades):,}" if figures.trades else None,
        "module combinations": f"{figures.module_combinations:,}" if figures.modules else None,
        "near-duplicate pairs": f"{figures.similarity.share:.2%}" if figures.worlds > 1 else None,
        "tasks to decline": f"{declined.count / declined.of:.0%}" if declined else None,
    }
    shown = (
        f'<div class="tile"><b>{value}</b>{name}</div>' for name, value in tiles.items() if value
    )
    return f'<div class="tiles">{"".join(shown)}</div>'


def _medians(figures: CatalogueFigures) -> str:
    rows = []
    for name, words in _MEASURES.items():
        spread, awm = figures.spreads[name], figures.awm[name]
        if spread.median is None:
            continue
        apart = spread.median / awm - 1
        word = "alike" if abs(apart) <= _CLOSE else "apart"
        extent = f"{spread.least:,} to {spread.most:,}"
        rows.append((words, f"{spread.median:g}", f"{awm:g}", f"{apart:+.0%}", word, extent))
    head = ("median of", "here", "AWM", "difference", f"within {_CLOSE:.0%}", "from least to most")
    return _table(head, rows)


def _figure(chart: Chart) -> str:
    picture = b64encode(svg_of(chart).encode()).decode()
    return (
        f'<figure id="{chart.name}"><img alt="{escape(f"{chart.title}. {chart.caption}")}"'
        f' src="data:image/svg+xml;base64,{picture}">'
        f"<figcaption>{escape(chart.caption)}</figcaption></figure>"
    )


def _alike(figures: CatalogueFigures) -> list[str]:
    pairs = figures.similarity.alike
    if not pairs:
        return []
    rows = [(one, other, f"{alike:.1%}") for one, other, alike in pairs]
    return ["<h2>Worlds that are nearly the same</h2>", _table(("world", "and", "alike"), rows)]


def _unread(figures: CatalogueFigures) -> list[str]:
    if not figures.unread:
        return []
    rows = [(world.name, world.why) for world in figures.unread]
    return ["<h2>Worlds that could not be read</h2>", _table(("world", "why"), rows)]


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    def cells(tag: str, texts: Iterable[str]) -> str:
        return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)

    lines = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table>\n<tr>{cells('th', head)}</tr>\n{lines}\n</table>"
