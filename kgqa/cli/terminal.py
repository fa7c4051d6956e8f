"""How results, progress and notes look on a terminal."""

from __future__ import annotations

import functools
import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

from kgqa.display import REFUSED, path_parts, refusal, shown_name, visible
from kgqa.lexicon.tokens import last_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kgqa import Answer, QueryResult
    from kgqa.progress import Task

_ANSWERS = 10  # answers that are shown
_PATHS = 10
COUNTED = 8  # members of a counted set
_FACTS = 3  # behind the first row of a plan
_COLUMN = 44  # cells that a column is wide at most
_SHORT = 20  # characters of an example of a property
_TRIES = {"shard": "from the index", "composed": "built on the fly"}
_EVERY = 10.0  # seconds between two plain lines if stderr is not a terminal


class TerminalProgress:
    """Progress bars on a terminal, occasional plain lines elsewhere; both on stderr.

    ``worded`` transforms every note: it turns parameters into the flags of the command.
    """

    def __init__(self, worded: Callable[[str], str] = str) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._worded = worded

    @contextmanager
    def task(self, what: str, total: int | None = None, unit: str = "") -> Iterator[Task]:
        """Show a task while its ``with`` block runs."""
        what = visible(what)
        if not self._console.is_terminal:
            yield _LineProgress(what, total, unit)
            return
        columns: list[ProgressColumn] = [
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
        ]
        if total and unit == "bytes":
            columns += [BarColumn(), DownloadColumn(), TimeRemainingColumn()]
        elif total:
            columns += [BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn()]
        columns.append(TextColumn("{task.fields[beside]}", markup=False))
        with Bars(*columns, console=self._console, transient=True) as bars:
            yield _Bar(bars, bars.add_task(what, total=total, beside=""))

    def note(self, text: str) -> None:
        """Print a note as one line on stderr."""
        line = visible(self._worded(text))
        self._console.print(Text(line), style="yellow", soft_wrap=True)


class _Bar:
    """A task shown as a progress bar."""

    def __init__(self, bars: Bars, number: Any) -> None:
        self._bars = bars
        self._number = number

    def advance(self, amount: int = 1) -> None:
        """Count ``amount`` more units as done."""
        self._bars.advance(self._number, amount)

    def tell(self, text: str) -> None:
        """Show a text beside the bar."""
        self._bars.update(self._number, beside=visible(text))


class _LineProgress:
    """A task shown as a line of text now and then."""

    def __init__(self, what: str, total: int | None, unit: str) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._done = 0
        self._beside = ""
        self._started = self._shown = time.monotonic()

    def advance(self, amount: int = 1) -> None:
        """Count ``amount`` more units as done; print a line with the time left if it is due."""
        self._done += amount
        if time.monotonic() - self._shown >= _EVERY:
            self._shown = time.monotonic()
            of = f" of {self._total:,}" if self._total else ""
            line = f"{self._what}: {self._done:,}{of} {self._unit}".rstrip()
            if self._beside:
                line += f", {self._beside}"
            if self._total and 0 < self._done < self._total:
                spent = time.monotonic() - self._started
                left = timedelta(seconds=round(spent / self._done * (self._total - self._done)))
                line += f", {left} left"
            print(line, file=sys.stderr)

    def tell(self, text: str) -> None:
        """Set the text that the next line shows."""
        self._beside = visible(text)


@functools.cache
def _console() -> Console:
    """Return the console for results, created at first use."""
    return Console(highlight=False, emoji=False, markup=False)


def say(line: str | Text = "", style: str = "") -> None:
    """Print a line on stdout, never wrapped or cut.

    All output goes through here: text is never interpreted as markup, and control characters are
    escaped.
    """
    if isinstance(line, str):
        shown = Text(visible(line))
    else:
        parts = line.render(_console())
        shown = Text.assemble(*((visible(part.text), part.style or "") for part in parts))
    _console().print(shown, style=style, soft_wrap=True)


def show_schema(about: Mapping[str, Any]) -> None:
    """Print the types and relations of a KG in the notation of plans, with examples.

    ``about``: as :meth:`kgqa.KG.about` returns it.
    """
    counted = "about " if about["sampled"] else ""
    for entry in (*about["types"], *about["relations"]):
        example = f", such as {entry['example']}" if entry.get("example") else ""
        names = ", ".join(_property_text(each) for each in entry.get("properties", ()))
        line = f"{entry['plan']} ({counted}{entry['count']:,}){example}"
        say(f"{line}: {names}" if names else line)
    left = [f"{count:,} more {what}" for what, count in about["more"].items() if count]
    if left:
        say(f"{' and '.join(left)}: --json", style="dim")


def _property_text(entry: Mapping[str, Any]) -> str:
    """Return a property with type and example in words."""
    example = str(entry.get("example", ""))
    shown = f": {example}" if 0 < len(example) <= _SHORT else ""
    return f"{entry['name']} ({entry['type']}{shown})"


def show_unused(counts: Mapping[str, Any]) -> None:
    """Print the counts of left-out lines by reason, and the path of the rejects file."""
    for reason, count in sorted(counts["dropped"].items(), key=lambda item: -item[1]):
        say(f"  skipped: {count:,} {reason}", style="dim")
    if counts["rejected"]:
        say(f"  {counts['rejected']:,} lines rejected, see {counts['rejects_file']}")


_TAKEN = 6  # types, relations and properties that are named


def show_taken(counts: Mapping[str, Any]) -> None:
    """Print a load's types and relations, what it left out with examples, then warnings."""
    taken = counts["taken"]
    things = [
        f"{each['name']} {each['count']:,}" + (f" ({each['found']})" if each["found"] else "")
        for each in taken["types"]
    ]
    relations = [
        f"{each['name']} "
        + (f"{each['head']} → {each['tail']} " if each["head"] and each["tail"] else "")
        + f"{each['count']:,}"
        for each in taken["relations"]
    ]
    properties = [
        f"{each['name']} ({each['type']})" + (f" {each['count']:,}" if each["count"] else "")
        for each in taken["properties"]
    ]
    for title, parts in (("types", things), ("relations", relations), ("properties", properties)):
        more = [f"and {len(parts) - _TAKEN:,} more: --json"] if len(parts) > _TAKEN else []
        if parts:
            say(f"  {title}: {'; '.join(parts[:_TAKEN] + more)}", style="dim")
    for each in taken["left_out"][:_TAKEN]:
        example = f" ({each['example']})" if each["example"] else ""
        verb = "rejected" if each["rejected"] else "left out"
        say(f"  {verb}: {each['reason']} {each['count']:,}{example}", style="dim")
    if (more_kinds := len(taken["left_out"]) - _TAKEN) > 0:
        say(f"  left out: {more_kinds:,} more kinds: --json", style="dim")
    if counts["rejected"]:
        say(f"  {counts['rejected']:,} lines rejected, see {counts['rejects_file']}")
    for warning in taken["warnings"]:
        say(f"  {warning}", style="red")


def show_answer(answer: Answer, browser_url: str | None = None) -> None:
    """Print the answers and the reason: the first one's best path and the conditions it meets.

    Of a plan's rows: all cells, the plan in words, and what the first row's numbers count.
    """
    if answer.answers and answer.result is not None:
        _show_plan_rows(answer, answer.result)
    elif answer.answers:
        _show_names(answer)
        best = answer.answers[0]
        if best.paths:
            grounding = best.paths[0].groundings[0]
            origin = f"  ({'; '.join(grounding.origins)})" if grounding.origins else ""
            because = _styled_line(("  because ", "dim")) + path_line(grounding)
            say(because.append(origin, style="dim"))
        elif best.id is None and best.properties:  # what kind of thing it is
            held = (
                f"{name} {cell_text(value)}"
                for name, value in best.properties.items()
                if not name.startswith("_")
            )
            say(f"  {'; '.join(held)}", style="dim")
        for met in best.conditions:
            say(_styled_line((f"  {met.asked}: ", "dim")) + path_line(met.grounding))
    else:
        say(refusal(answer.notes, answer.confidence), style="bold")
    _show_readings(answer)
    rest = len(answer.paths) - (1 if answer.answers and answer.answers[0].paths else 0)
    parts = []
    if answer.answers and answer.confidence is not None:
        parts.append(f"confidence {confidence(answer.confidence)}")
    if rest > 0:
        parts.append(
            f"{rest:,} {'more' if answer.answers else 'nearby'} path{'s' * (rest > 1)}: -v"
        )
    if parts:
        say(f"  {'; '.join(parts)}", style="dim")
    if proven := proof(answer.search, len(answer.paths), answer.forward_passes):
        say(f"  {proven}", style="dim")
    if browser_url:
        say(f"  Neo4j Browser: {browser_url}", style="dim")


def shown_with(answer: Answer) -> tuple[str, ...]:
    """Return the prefixes of the notes that :func:`show_answer` makes redundant."""
    if answer.result is None:
        return REFUSED if answer.count is None else (*REFUSED, "Counted: ")
    counted = [
        f"{group.aggregate}: "
        for group in (answer.result.evidence(0, 0).counted if len(answer.result) else ())
    ]
    return (*REFUSED, f"Read as: {answer.result.sentence}", *counted)


def _show_plan_rows(answer: Answer, result: QueryResult) -> None:
    """Print the rows of a plan's result with the facts behind the first."""
    rows = [*result.rows, *result.tied]
    several = len(rows) > 1
    for rank, row in enumerate(rows[:_ANSWERS], 1):
        first, *others = [cell_text(cell) for cell in row]
        line = _styled_line((f"{rank}. " if several else "", ""), (shown_name(first), "bold"))
        for label, cell in zip(result.labels[1:], others, strict=True):
            if cell != first or not hasattr(row[0], "name"):  # its name as a property, once more
                line.append(f"  {label}: {shown_name(cell)}", style="dim")
        say(line)
    if len(rows) > _ANSWERS:
        say(f"and {len(rows) - _ANSWERS:,} more; --json gives all", style="dim")
    behind = result.evidence(0, COUNTED)
    names = {node.id: shown_name(node.name) for node in behind.nodes}
    facts = [(fact.head, fact.predicate, fact.tail) for fact in behind.facts[:_FACTS]]
    facts += [
        (value.id, value.property, cell_text(value.value))
        for value in behind.held
        if not value.id.startswith("[")  # a fact has no name, and stands above
    ]
    if not any(group.members for group in behind.counted):
        for head, relation, tail in facts[:_FACTS]:
            line = _styled_line(("  because ", "dim"), (names.get(head, shown_name(head)), ""))
            line.append(" -> ").append(shown_name(last_part(relation)), style="cyan")
            line.append(" -> ")
            say(line.append(names.get(tail, shown_name(tail))))
    show_counted(behind.counted)
    show_next(result)
    if not answer.readings:
        say(f"  read as: {result.sentence}", style="dim")


def _show_readings(answer: Answer) -> None:
    """Print the plans that a question may mean, numbered for choosing."""
    if answer.readings:
        say("  It may mean, to choose with --reading:", style="dim")
    for number, reading in enumerate(answer.readings, 1):
        say(f"    {number}. {reading.text}", style="dim")


def show_counted(counted: Sequence[Any]) -> None:
    """Print the sets that the numbers of a row count, from its evidence; empty ones are skipped."""
    for group in counted:
        members = ", ".join(shown_name(cell_text(each)) for each in group.members)
        more = f", … ({group.size:,} in all)" if group.size > len(group.members) else ""
        if members:
            say(f"  {group.aggregate}: {members}{more}", style="dim")


def show_next(result: QueryResult) -> None:
    """Print the rows just after the limit; those with an empty cell are skipped."""
    rows = [row for row in result.runners_up if None not in row]
    if rows:
        after = (", ".join(shown_name(cell_text(cell)) for cell in row) for row in rows)
        say(f"  next: {'; '.join(after)}", style="dim")


def cell_text(cell: Any) -> str:
    """Return a cell of a plan's row as text: of a node its name, a dash for null."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, list | tuple):
        return ", ".join(map(str, cell))
    return f"{cell:.10g}" if isinstance(cell, float) else str(getattr(cell, "name", cell))


def show_details(answer: Answer, candidates: Sequence[dict[str, Any]]) -> None:
    """Print how an answer was found: entities, paths, linking, ranking, cost."""
    topics = ", ".join(f"{topic.name} ({topic.id})" for topic in answer.topic_entities)
    say()
    if answer.understood is not None:
        say(f"understood: {answer.understood}", style="dim")
        if residual := answer.residual():
            say(f"not taken: {', '.join(residual)}", style="dim")
    say(f"topic entities: {topics}", style="dim")
    known = [ranked for ranked in answer.answers[:_ANSWERS] if ranked.id is not None]
    if known:
        answers = ", ".join(f"{ranked.name} ({ranked.id})" for ranked in known)
        say(f"answers: {answers}", style="dim")
    if answer.result is not None:
        say()
        say(f"plan: {answer.result.plan}")
        if answer.result.cypher:
            say(f"Cypher: {' '.join(answer.result.cypher.split())}")
        if answer.result.sparql:
            say(f"SPARQL: {' '.join(answer.result.sparql.split())}")
    paths = _paths_best_first(answer)
    if paths or answer.expanded_answers():
        say()
        say(_styled_line(("paths", "bold"), (" (each edge is in the graph)", "dim")))
    for walked in answer.expanded_answers()[:_ANSWERS]:
        say(_styled_line(("expanded  ", "dim")) + path_line(walked.grounding))
    for path in paths[:_PATHS]:
        line = _styled_line((f"{path.score:8.3f}  ", "dim")) + path_line(path.groundings[0])
        if len(path.groundings) > 1:
            line.append(f" ({len(path.groundings)} groundings)", style="dim")
        say(line)
    if len(paths) > _PATHS:
        say(f"and {len(paths) - _PATHS} more; --json gives all", style="dim")
    _show_conditions(answer)
    if candidates:
        say()
        say("linking", style="bold")
        show_candidates(candidates)
    for topic in answer.topic_entities:
        ranked = [relation for relation in answer.relations if relation.topic == topic.id]
        if ranked:
            say()
            say(f"candidate relation paths (x = {topic.name}, ? = answer)", "bold")
        for share in ranked:
            has = "" if not share.missing else f"  (not in this graph for {topic.name})"
            say(f"{percent(share.probability):>8}  {share.words}{has}")
    tries = sorted({_TRIES[use.source] for use in answer.constraints})
    model = " + ".join(filter(None, (answer.kg_llm.model, answer.kg_llm.adapter)))
    say()
    say(
        f"{answer.timings.total:.2f} s; method {answer.method}, {model}, "
        f"{passes(answer.forward_passes)}{f', trie {tries[0]}' if len(tries) == 1 else ''}",
        style="dim",
    )


def show_candidates(candidates: Sequence[dict[str, Any]]) -> None:
    """Print the candidates of ``kgqa link --json``; topic entities have a star."""
    rows = [
        (
            "*" if candidate["chosen"] else "",
            candidate["name"],
            candidate["id"],
            f"{candidate['score']:.3f}",
            candidate["mention"],
            candidate["match"],
            candidate["edges"],
        )
        for candidate in candidates
    ]
    show_rows("", ["", "name", "id", "score", "mention", "by", "edges"], rows)


def _show_conditions(answer: Answer) -> None:
    """Print the question's conditions with the facts by which the first answers meet them."""
    met = dict.fromkeys(
        condition for each in answer.answers[:_ANSWERS] for condition in each.conditions
    )
    if met:
        say()
        say(_styled_line(("conditions", "bold"), (" (each edge is in the graph)", "dim")))
    for condition in met:
        say(_styled_line((f"  {condition.asked}  ", "dim")) + path_line(condition.grounding))


def _paths_best_first(answer: Answer) -> list[Any]:
    """Return the paths, the first answer's first."""
    behind = [path for ranked_answer in answer.answers[:_ANSWERS] for path in ranked_answer.paths]
    place = {id(path): number for number, path in reversed(list(enumerate(behind)))}
    return sorted(answer.paths, key=lambda path: place.get(id(path), len(behind)))


def _show_names(answer: Answer) -> None:
    """Print the answers' names, with scores if several, with ids if names are shared.

    If the question asks for a number, their count is printed above.
    """
    if answer.count is not None:
        say(f"{answer.count:,}", style="bold")
    shown = answer.answers[:_ANSWERS]
    several = len(shown) > 1
    names = [ranked_answer.name for ranked_answer in shown]
    for rank, ranked_answer in enumerate(shown, 1):
        line = _styled_line(
            (f"{rank}. " if several else "", ""), (shown_name(ranked_answer.name), "bold")
        )
        if ranked_answer.id is not None and names.count(ranked_answer.name) > 1:
            line.append(f" ({ranked_answer.id})")
        line.append(f"{'' if ranked_answer.grounded else ' (in no path)'}")
        if several and answer.general_llm is None and any(each.score < 1 for each in shown):
            line.append(f"  {percent(ranked_answer.score)}", style="dim")
        say(line)
    if len(answer.answers) > _ANSWERS:
        say(f"and {len(answer.answers) - _ANSWERS} more; --json gives all", style="dim")


def passes(count: int) -> str:
    """Return a count of forward passes in words.

    >>> passes(1), passes(1200)
    ('1 forward pass', '1,200 forward passes')
    """
    return f"{count:,} forward pass{'' if count == 1 else 'es'}"


def proof(search: Any, paths: int, forward_passes: int) -> str:
    """Return the certificate of an exact search in words, "" for other searches.

    ``paths``: how many paths it found; ``forward_passes``: those that it needed.
    """
    if search.proven is None:
        return ""
    within = f"within {passes(forward_passes)}"
    if search.proven:
        return f"Exact search: proven {within} that no other path has a higher score."
    bound = "" if search.bound is None else f" (a better one can reach {search.bound:.3f} at most)"
    return (
        f"Exact search: not proven {within}{bound}; certain are the first {search.certain} of "
        f"{paths}. Allow more with --set max_forward_passes=…."
    )


def percent(score: float) -> str:
    """Return a probability in per cent, with two or three digits.

    >>> [percent(score) for score in (1.0, 0.9996, 0.4321, 0.0021, 0.0)]
    ['100 %', '99.9 %', '43.2 %', '0.2 %', '<0.1 %']
    """
    if score >= 1.0:
        return "100 %"
    return f"{min(100 * score, 99.9):.1f} %" if score >= 0.001 else "<0.1 %"


def confidence(value: float) -> str:
    """Return an answer's confidence in per cent, at most 99.

    >>> [confidence(value) for value in (1.0, 0.634, 0.0)]
    ['99 %', '63 %', '<1 %']
    """
    return f"{min(round(100 * value), 99)} %" if value >= 0.005 else "<1 %"


def path_line(path: Any) -> Text:
    """Return a path as one styled line, with coloured relations."""
    line = Text()
    for place, part in enumerate(path_parts(path.edges)):
        line.append(part, style="cyan" if place % 2 else "")
    return line


def _styled_line(*parts: tuple[str, str]) -> Text:
    """Join (text, style) parts to one line."""
    return Text.assemble(*parts)


def show_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table, a row on a line: nothing is cut or wrapped.

    Columns are as wide as their cells up to a limit, beyond which a cell overflows.
    """
    if title:
        say(title, style="bold")
    cells = [[visible(str(cell)) for cell in row] for row in rows]
    widths = [
        min(max([cell_len(column), *(cell_len(row[i]) for row in cells)]), _COLUMN)
        for i, column in enumerate(columns)
    ]
    for number, row in enumerate([list(columns), *cells]):
        padded = (
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        )
        say("  ".join(padded).rstrip(), style="" if number else "bold")
