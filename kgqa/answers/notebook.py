"""HTML of an answer for notebooks: the answers, and their paths from left to right by hop.

The page is made of the JSON of :meth:`kgqa.answers.answer.Answer.to_dict`, needs nothing from
outside, and escapes every name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgqa.display import as_html, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAX_DRAWN_PATHS = 10  # paths that are drawn
_LONGEST = 26  # characters of a label
_COLUMN, _ROW, _BOX = 330, 46, 180  # pixels


def answer_html(answer: Mapping[str, Any]) -> str:
    """Return the HTML of an answer's JSON object."""
    rows = "".join(
        f"<li><b>{as_html(entry['name'])}</b> <code>{as_html(entry['id'] or '')}</code> "
        f"{entry['score']:.3f}{'' if entry['grounded'] else ' <i>(not in the graph)</i>'}</li>"
        for entry in answer["answers"]
    )
    paths = [path for path in [*answer["paths"], *answer["expanded"]] if path["edges"]]
    ids = {entry["id"] for entry in answer["answers"]}
    paths.sort(key=lambda path: path["edges"][-1]["tail"]["id"] not in ids)  # answers' first
    for entry in answer["answers"]:  # beside the path that they belong to
        met = [edge for condition in entry["conditions"] for edge in condition["edges"]]
        behind = [answer["paths"][number]["edges"] for number in entry["paths"][:1]]
        paths[:0] = [{"edges": [*edges, *met]} for edges in behind if met]
    notes = "".join(f"<li>{as_html(note)}</li>" for note in answer["notes"])
    return (
        f"<div><p><b>{as_html(answer['question'])}</b></p>"
        f"{f'<ol>{rows}</ol>' if rows else '<p>No answer.</p>'}"
        f"{paths_svg(paths[:_MAX_DRAWN_PATHS], ids)}{f'<ul>{notes}</ul>' if notes else ''}</div>"
    )


def paths_svg(paths: Sequence[Mapping[str, Any]], answers: set[str | None]) -> str:
    """Return the SVG of paths: a column for each hop, a box for each entity reached.

    ``paths``: in the form of an answer's JSON; ``answers``: ids of entities to be green.
    """
    boxes: dict[tuple[int, str], str] = {}  # (column, id) -> name
    lines: dict[tuple[tuple[int, str], tuple[int, str]], str] = {}
    for path in paths:
        column = {path["edges"][0]["head"]["id"]: 0}
        for edge in path["edges"]:
            head, tail = edge["head"], edge["tail"]
            start = (column.setdefault(head["id"], 0), head["id"])
            end = (start[0] + 1, tail["id"])
            column.setdefault(tail["id"], end[0])
            boxes.setdefault(start, head["name"])
            boxes.setdefault(end, tail["name"])
            arrow = ("← " if edge["inverse"] else "") + edge["relation"]
            lines.setdefault((start, end), arrow)
    if not boxes:
        return ""
    rows: dict[int, int] = {}
    place: dict[tuple[int, str], tuple[int, int]] = {}
    for box in boxes:
        row = rows[box[0]] = rows.get(box[0], -1) + 1
        place[box] = (box[0] * _COLUMN, row * _ROW)
    width, height = max(rows) * _COLUMN + _BOX, (max(rows.values()) + 1) * _ROW
    parts = [  # on white, also where the page around it is dark
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 20}" height="{height + 16}" '
        f'viewBox="-10 -8 {width + 20} {height + 16}" font-family="sans-serif" font-size="11" '
        'style="background:#fff">'
    ]
    labels = []  # above all lines
    for (start, end), relation in lines.items():
        (x1, y1), (x2, y2) = place[start], place[end]
        parts.append(
            f'<line x1="{x1 + _BOX}" y1="{y1 + 16}" x2="{x2}" y2="{y2 + 16}" stroke="#999"/>'
        )
        labels.append(
            f'<text x="{x2 - 8}" y="{y2 + 14}" fill="#555" text-anchor="end" stroke="#fff" '
            f'stroke-width="4" paint-order="stroke">{_label(relation.rpartition(".")[2])}'
            f"<title>{as_html(relation)}</title></text>"
        )
    parts += labels
    for box, name in boxes.items():
        x, y = place[box]
        fill = "#d9f2e3" if box[1] in answers else "#eef2f8"
        parts.append(
            f'<g><rect x="{x}" y="{y + 2}" width="{_BOX}" height="28" rx="5" fill="{fill}" '
            f'stroke="#889"/><text x="{x + 8}" y="{y + 20}">{_label(name)}</text>'
            f"<title>{as_html(name)} ({as_html(box[1])})</title></g>"
        )
    return "".join([*parts, "</svg>"])


def _label(text: str) -> str:
    """Return a text as HTML, shortened if it is long."""
    text = visible(text)
    return as_html(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
