"""``kgqa ask``: questions to answers with grounded paths."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgqa.cli.common import Run, takes_options
from kgqa.display import LIVE
from kgqa.errors import KgqaError, UsageError, without_secrets
from kgqa.registry import METHODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kgqa import Answer
    from kgqa.api import KG

STDIN = "-"


@takes_options(METHODS)
def ask(
    run: Run,
    options: dict[str, Any],
    question: Annotated[
        list[str] | None,
        typer.Argument(help="The question, in quotes; several, or - for lines of stdin."),
    ] = None,
    entity: Annotated[
        list[str] | None,
        typer.Option(help="A topic entity, by id or name; may be given several times."),
    ] = None,
    choices: Annotated[
        str | None,
        typer.Option(help="Choose one of these answers: a,b,c (a comma inside one: \\,)."),
    ] = None,
    reading: Annotated[
        int | None,
        typer.Option(min=1, help="Which of the readings that the answer offered is meant."),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="How answers are found; see kgqa options. [auto]")
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Show how each answer was found: entities, paths, scores, cost."
        ),
    ] = False,
    browser: Annotated[
        bool, typer.Option("--browser", help="Print the Neo4j Browser link that draws the facts.")
    ] = False,
    chat: Annotated[
        bool, typer.Option("--chat", help="Keep a prompt open; /help lists its commands.")
    ] = False,
) -> None:
    """Answer questions with facts, and show the path of facts behind each answer.

    `kgqa options METHOD` lists all options of a method; --set gives those without a flag.
    """
    from kgqa.api import QA
    from kgqa.api.kg import DEFAULT_METHOD

    questions = _check_quoted(question or [])
    if not questions and not chat:
        raise UsageError("A question is missing.", "Ask one in quotes. See: kgqa ask --help")
    if chat and run.as_json:
        raise UsageError("A chat is not JSON.", "Leave out --json, or ask by lines: kgqa ask -")
    method = method or options.pop("method", None) or DEFAULT_METHOD
    one_at_a_time = chat or (len(questions) == 1 and questions[0] != STDIN)
    # nobody else shares its forward passes: measuring how many could would delay the answer
    if one_at_a_time and "together" in METHODS.entry(method).options_model().model_fields:
        options.setdefault("together", 1)
    given: dict[str, Any] = {"entities": tuple(entity or ()), "choices": _parse_choices(choices)}
    given |= {} if reading is None else {"reading": reading}
    with ExitStack() as stack:
        session = QA(run.home, None, method, options)
        kg = stack.enter_context(run.kg())
        qa = stack.enter_context(session.on(kg.store))
        show = _AnswerPrinter(run, kg, verbose, browser, linked=not entity)
        if chat:
            from kgqa.cli.chat import TerminalChat

            TerminalChat(run, kg, qa, given, show).loop(questions)
            return
        if questions != [STDIN] and len(questions) == 1:
            show(qa.ask(questions[0], **given))
            return
        failed = False
        for text in _stdin_questions() if questions == [STDIN] else questions:
            try:
                show(qa.ask(text, **given), titled=True)
            except KgqaError as error:
                failed = True
                _show_error(run, text, error)
    if failed:
        raise typer.Exit(1)


def _check_quoted(words: list[str]) -> list[str]:
    """Return ``words`` as questions. Raises UsageError for one that was not put in quotes."""
    if len(words) > 1 and any(" " not in word.strip() for word in words):
        raise UsageError(
            "Put the question in quotes, so that it is one argument.",
            f'kgqa ask "{" ".join(words)}"',
        )
    return words


def _stdin_questions() -> Iterator[str]:
    """Yield the lines of standard input that are not blank."""
    return (line.strip() for line in sys.stdin if line.strip())


def _parse_choices(text: str | None) -> tuple[str, ...]:
    """Split the choices at commas, unless escaped; () for None.

    Raises UsageError for fewer than two choices, or an empty one.
    """
    if text is None:
        return ()
    import re

    choices = [word.replace("\\,", ",").strip() for word in re.split(r"(?<!\\),", text)]
    if not all(choices) or len(choices) < 2:
        raise UsageError(
            "Multiple choice needs at least two choices, none of them empty.",
            "Separate them with commas: --choices a,b,c",
        )
    return tuple(choices)


@dataclass(frozen=True, slots=True)
class _AnswerPrinter:
    """Prints answers; ``linked``: whether linking chose their topic entities."""

    run: Run
    kg: KG
    verbose: bool
    browser: bool
    linked: bool

    def __call__(self, answer: Answer, *, titled: bool = False) -> None:
        """Print an answer; ``titled``: below its question."""
        link = self.kg.browser_url(answer) if self.browser or self.run.as_json else None
        linked = (
            self.kg.linked(answer.question)["candidates"] if self.verbose and self.linked else []
        )

        def human() -> None:
            """Print the answer, its notes and, if asked for, its details as text."""
            from kgqa.cli.terminal import say, show_answer, show_details, shown_with

            shown = shown_with(answer) if self.verbose else (*shown_with(answer), LIVE)
            for note in answer.notes:
                if not note.startswith(shown):  # which the answer says
                    self.run.note(note)
            if titled:
                say(answer.question, style="bold")
            show_answer(answer, link)
            if self.verbose:
                show_details(answer, linked)
            if titled:
                say()

        result = answer.to_dict(link)
        if self.verbose:
            result |= {
                "linked": linked,
                "relations": [asdict(relation) for relation in answer.relations],
            }
        if self.run.as_json:
            for note in answer.notes:
                self.run.note(note)
        self.run.print(human, result)


def _show_error(run: Run, question: str, error: KgqaError) -> None:
    """Report a question that failed among several, without ending the command."""
    message, hint = without_secrets(error.message), without_secrets(error.hint)
    if run.as_json:
        failed = {"question": question, "error": {"message": message, "hint": hint}}
        sys.stdout.write(json.dumps(failed) + "\n")
    else:
        run.note(f"{question}: {message} {hint}")
