"""The prompt of ``kgqa ask --chat``: a question a line, and commands that look closer."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from kgqa.errors import KgqaError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kgqa import Answer
    from kgqa.api import KG, QA
    from kgqa.cli.common import Run

_HISTORY = "chat_history"
_KEPT = 1_000  # lines of history
_REMEMBERED = 2  # questions
_MAX_LISTED = 20  # paths, or neighbours
HELP = """Type a question, or:
  /paths [ENTITY]   all paths of the last answer, or the facts about an entity
  /why [N]          the stored facts behind the N-th answer
  /help, /quit      this; Ctrl-D leaves, too"""


class TerminalChat:
    """An interactive prompt over a session; ``show`` prints an answer, ``given``: ask's options."""

    def __init__(
        self,
        run: Run,
        kg: KG,
        qa: QA,
        given: Mapping[str, Any],
        show: Callable[[Answer], None],
    ) -> None:
        self.run, self.kg, self.qa, self.given, self.show = run, kg, qa, given, show
        self.last: Answer | None = None
        self.before: list[Answer] = []  # that the next question may leave things to
        self.commands: dict[str, Callable[[str], None]] = {
            "/paths": self.paths,
            "/why": self.why,
            "/help": self.help,
        }

    def loop(self, questions: Sequence[str] = ()) -> None:
        """Answer ``questions``, then typed lines until end of input or ``/quit``; report errors."""
        terminal = sys.stdin.isatty()
        if terminal:
            print(f"{self.kg.name}: {self.kg.info.entities:,} entities. /help lists the commands.")
        with _history(self.kg.home.settings.home if terminal else None):
            for line in chain(questions, _input_lines("? " if terminal else "")):
                if line in ("/quit", "/exit"):
                    return
                try:
                    self.answer(line)
                except KgqaError as error:
                    self.run.note(str(error))
                except KeyboardInterrupt:  # ends the question, not the prompt
                    self.run.note("Stopped.")

    def answer(self, line: str) -> None:
        """Answer a question, or run a command that begins with a slash. Raises KgqaError."""
        name, _, rest = line.partition(" ")
        if line.startswith("/"):
            if name not in self.commands:
                raise UsageError(f"The command {name} does not exist.", "/help lists them.")
            self.commands[name](rest.strip())
        elif line:
            self.last = self.qa.ask(line, **self.given, after=self.before)
            self.before = [*self.before, self.last][-_REMEMBERED:]
            self.show(self.last)

    def help(self, _: str) -> None:
        """Print the commands."""
        print(HELP)

    def paths(self, entity: str) -> None:
        """Print the last answer's paths, or the facts about ``entity`` if it is not ""."""
        from kgqa.cli.terminal import path_line, say

        if entity:
            selection = self.kg.paths(entity, hops=1, direction="both", limit=_MAX_LISTED)
            say(f"{selection.entity.name} ({selection.entity.id})", style="bold")
            shown, total = list(selection.paths), selection.total
        else:
            answer = self._last_answer()
            every: list[Any] = [*answer.paths, *answer.expanded]
            shown = [path.groundings[0] for path in every]
            total = len(shown)
        for path in shown:
            say(path_line(path))
        say(f"{len(shown):,} of {total:,} paths", style="dim")

    def why(self, place: str) -> None:
        """Print the stored facts behind answer number ``place``, "" for the first one."""
        from kgqa.cli.terminal import path_line, say

        answer = self._last_answer()
        number = int(place) if place.isdecimal() else 1
        if not 1 <= number <= len(answer.answers):
            print(f"The last answer has {len(answer.answers)} answers.")
            return
        ranked_answer = answer.answers[number - 1]
        say(ranked_answer.name, style="bold")
        for path in ranked_answer.paths:
            say(path_line(path.groundings[0]))
            for edge in path.groundings[0].edges:
                for fact in edge.facts:
                    say(f"  {fact.head}  {fact.predicate}  {fact.tail}", style="dim")
        rows = answer.result
        if rows is not None and number <= len(rows):
            for fact in rows.evidence(number - 1, _MAX_LISTED).facts:
                say(f"  {fact.head}  {fact.predicate}  {fact.tail}", style="dim")
        elif not ranked_answer.paths:
            print("No path of the graph leads there.")

    def _last_answer(self) -> Answer:
        """Return the last answer. Raises UsageError if there is none."""
        if self.last is None:
            raise UsageError("Nothing was asked yet.", "Type a question first.")
        return self.last


def _input_lines(prompt: str) -> Iterator[str]:
    """Yield typed lines until end of input; Ctrl-C discards a line."""
    while True:
        try:
            yield input(prompt).strip()
        except EOFError:
            return
        except KeyboardInterrupt:  # of a half-typed line
            print()


@contextmanager
def _history(folder: Path | None) -> Iterator[None]:
    """Load the line history from a file in ``folder`` and save it there; None keeps none."""
    if folder is None:
        yield
        return
    with suppress(ImportError):  # not everywhere
        import readline

        readline.set_history_length(_KEPT)
        with suppress(OSError):
            readline.read_history_file(folder / _HISTORY)
    try:
        yield
    finally:
        with suppress(ImportError, OSError):
            import readline

            readline.write_history_file(folder / _HISTORY)
