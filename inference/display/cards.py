"""What a notebook shows of a record: a card of HTML, with a heading, words, lists and tables.

Everything that is shown is escaped. Colours are mixed from the colour of the text around the card, so that they can be
read wherever that can be read: in Jupyter, VS Code and a page on its own, light or dark. Without style sheets, as on
GitHub, a card is still plain headings, lists and tables.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from inference.display.tables import Table

__all__ = ["card"]

_MOST_ROWS = 20  # of a table; the others are counted

_STYLE = """<style>
.touchstone { --soft: color-mix(in srgb, currentColor 72%, transparent);
  --rule: color-mix(in srgb, currentColor 22%, transparent); --wash: color-mix(in srgb, currentColor 5%, transparent);
  --good: color-mix(in srgb, #00a878 62%, currentColor); --bad: color-mix(in srgb, #f0560f 66%, currentColor);
  max-width: 62rem; padding: .55rem .9rem .65rem; margin: .3rem 0; background: var(--wash);
  border-left: 4px solid var(--rule); font-size: 13px; line-height: 1.5; overflow-wrap: anywhere; }
.touchstone.passed { border-color: var(--good); } .touchstone.failed { border-color: var(--bad); }
.touchstone > strong { font-size: 1.12em; } .touchstone.passed > strong { color: var(--good); }
.touchstone.failed > strong { color: var(--bad); }
.touchstone p { margin: .3em 0; max-width: 46rem; } .touchstone ul { margin: .3em 0; padding-left: 1.3em; }
.touchstone div { overflow-x: auto; }
.touchstone table { border-collapse: collapse; margin: .55em 0 .2em; font-size: 1em; border: 0;
  font-variant-numeric: tabular-nums; }
.touchstone caption { caption-side: top; text-align: left; color: var(--soft); padding: 0 0 .25em;
  white-space: nowrap; }
.touchstone.touchstone tr:nth-child(n) { background: none; }
.touchstone th, .touchstone td { padding: .2em .75em; text-align: right; white-space: nowrap; border: 0;
  border-bottom: 1px solid var(--rule); vertical-align: top; overflow-wrap: normal; line-height: 1.5; }
.touchstone th { font-weight: 600; } .touchstone thead th { border-bottom: 1.5px solid var(--soft); }
.touchstone th:first-child, .touchstone td:first-child { text-align: left; padding-left: 0; }
.touchstone td.rest, .touchstone .note { color: var(--soft); }
</style>"""


def card(heading: str, *parts: str | Sequence[str] | Table, passed: bool | None = None, note: str = "") -> str:
    """A card of HTML.

    Args:
        heading: what is shown, in a few words.
        parts: text, a list of texts, or a table; what is empty is left out.
        passed: whether the heading is good news or bad; None says neither.
        note: what one needs to know to read the rest.
    """
    mark = {True: " passed", False: " failed", None: ""}[passed]
    shown = [_shown(part) for part in parts if part and (not isinstance(part, Table) or part.rows)]
    if note:
        shown.append(f'<p class="note">{html.escape(note)}</p>')
    return f'{_STYLE}\n<div class="touchstone{mark}"><strong>{html.escape(heading)}</strong>\n{"".join(shown)}</div>'


def _shown(part: str | Sequence[str] | Table) -> str:
    if isinstance(part, str):
        return f"<p>{html.escape(part)}</p>\n"
    if isinstance(part, Table):
        return _table(part)
    return f"<ul>{''.join(f'<li>{html.escape(each)}</li>' for each in part)}</ul>\n"


def _table(table: Table) -> str:
    caption = f"<caption>{html.escape(table.title[:1].upper() + table.title[1:])}</caption>" if table.title else ""
    rows = [_row("td", row) for row in table.rows[:_MOST_ROWS]]
    if len(table.rows) > _MOST_ROWS:
        more = f"and {len(table.rows) - _MOST_ROWS:,} more"
        rows.append(f'<tr><td class="rest" colspan="{len(table.columns)}">{more}</td></tr>\n')
    head = f"<thead>{_row('th', table.columns)}</thead>"
    return f"<div><table>{caption}{head}\n<tbody>{''.join(rows)}</tbody></table></div>\n"


def _row(kind: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(cell)}</{kind}>' for cell in cells)}</tr>\n"
