"""Splits a question into words, and finds the runs of words that may name an entity.

A word is a run of letters and digits; in scripts written without spaces every character counts as
one, so that a name inside a sentence is found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from kgqa.graph.names import normalise
from kgqa.lexicon.vocabulary import ABBREVIATIONS, COMMON, FUNCTION, UNSPACED_FUNCTION

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST = 12  # words in the longest mention; real names are shorter
LONGEST_UNSPACED = 20  # characters, if words are not separated

# Han, kana, Hangul (particles stick to names), Thai, Lao, Myanmar, Khmer.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf"
_UNSPACED += "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_QUOTED = re.compile(
    r"“([^“”]+)”|«([^«»]+)»|「([^「」]+)」|『([^『』]+)』|\"([^\"]+)\"|(?<!\w)['‘]([^'‘’]+)['’](?!\w)"
)
_BREAK = re.compile(r"[?!;:。？！；]")
_APOSTROPHES = "'’ʼ"
_WORDS_OF_A_LETTER = ("a", "i")


@dataclass(frozen=True, slots=True)
class Mention:
    """A run of words of the question: ``question[start:end] == text``.

    ``form``: the normalised text; ``words``: the number of words (characters in a script without
    spaces), ``content``: without function words; ``common``: all content words are everyday words;
    ``emphasised``: marked by quotes, or by capitals inside a sentence.
    """

    text: str
    start: int
    end: int
    form: str
    words: int
    content: int
    common: bool
    emphasised: bool
    quoted: bool

    def overlaps(self, start: int, end: int) -> bool:
        """Return whether the mention shares a character with ``[start, end)``."""
        return self.start < end and start < self.end


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the question: its span, its normalised form, and its kind."""

    start: int
    end: int
    form: str
    unspaced: bool
    possessive: bool  # the "s" of "Obama's"
    abbreviation: bool  # "the us", "US", and not "us"

    @property
    def function(self) -> bool:
        """Whether it is a function word, which never names anything alone."""
        if self.unspaced:
            return self.form in UNSPACED_FUNCTION
        return self.possessive or (self.form in FUNCTION and not self.abbreviation)

    @property
    def common(self) -> bool:
        """Whether it is an everyday word of questions, or a bare number or letter."""
        if self.function or self.form in COMMON:
            return True
        return not self.unspaced and (self.form.isdecimal() or len(self.form) == 1)


@dataclass(frozen=True, slots=True)
class ContentRun:
    """A longest run of words that are neither function nor everyday words, at ``[start, end)``.

    ``left`` and ``right`` are where it ends with the everyday words that touch it, which may belong
    to the same name ("Supreme" Court, King "Henry VIII").
    """

    start: int
    end: int
    left: int
    right: int
    words: int


class QuestionWords:
    """A question's text with its words, in order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: list[Word] = []
        mixed = any(character.islower() for character in text)
        for match in _TOKEN.finditer(text):
            form = normalise(match.group())
            if not form:
                continue
            start = match.start()
            after_apostrophe = start > 1 and text[start - 1] in _APOSTROPHES
            possessive = form == "s" and after_apostrophe and text[start - 2].isalnum()
            unspaced = bool(_IS_UNSPACED.match(match.group()))
            raised = mixed and len(form) > 1 and match.group().isupper()
            after_the = bool(self.words) and self.words[-1].form == "the"
            abbreviation = form in ABBREVIATIONS and (raised or after_the)
            self.words.append(Word(start, match.end(), form, unspaced, possessive, abbreviation))
        self._functions = [word.function for word in self.words]
        self._commons = [word.common for word in self.words]

    def mentions(self) -> list[Mention]:
        """Return every run of words that may name an entity, longest first, then in reading order.

        Left out: runs of function words alone (unless quoted or capitalised inside a sentence),
        runs that begin with a possessive "s" (it may end one: "McDonald's"), and single characters
        of a script without spaces that stand inside a longer run.
        """
        words, capitals = self.words, self._capitalised()
        quotes = _quotes(self.text)
        found = []
        for first in range(len(words)):
            if words[first].possessive:
                continue
            for last in range(first, len(words)):
                if last - first >= (LONGEST_UNSPACED if words[last].unspaced else LONGEST):
                    break
                if first == last and self._in_unspaced_run(first):
                    continue
                # the question's own capital counts if a name in capitals goes on from it
                capital = (capitals[first] or first == 0 < last) and capitals[last]
                if mention := self._mention(first, last, quotes, capital=capital):
                    found.append(mention)
        return sorted(found, key=lambda mention: (-mention.words, mention.start))

    def _mention(
        self, first: int, last: int, quotes: Sequence[tuple[int, int]], *, capital: bool
    ) -> Mention | None:
        """Return the words ``first`` to ``last`` as a mention, None if they cannot name anything.

        ``capital``: whether the first and the last one may be capitalised parts of a name.
        """
        text, run = self.text, self.words[first : last + 1]
        start, end = run[0].start, run[-1].end
        form = normalise(text[start:end])
        quoted = any(
            left <= start and end <= right and normalise(text[left:right]) == form
            for left, right in quotes
        )
        raised = quoted or (capital and any(text[word.start].isupper() for word in run))
        content = len(run) - sum(self._functions[first : last + 1])
        unnamed = not raised and (content == 0 or form in UNSPACED_FUNCTION)
        if unnamed or not form:
            return None
        common = all(self._commons[first : last + 1])
        return Mention(text[start:end], start, end, form, len(run), content, common, raised, quoted)

    @property
    def is_everyday(self) -> bool:
        """Whether it has everyday words alone, none of them quoted: nothing is surely a name."""
        return all(self._commons) and not _quotes(self.text)

    def content_runs(self) -> list[ContentRun]:
        """Return the longest runs of words that are neither function nor everyday words."""
        words = self.words
        runs: list[ContentRun] = []
        first = 0
        while first < len(words):
            if words[first].common:
                first += 1
                continue
            last = first
            while (step := self._next_of_run(last)) > 0:
                last += step
            left, right = first, last
            while left > 0 and self._is_everyday(left - 1) and self._joined(left - 1):
                left -= 1
            while right + 1 < len(words) and self._is_everyday(right + 1) and self._joined(right):
                right += 1
            start, end = words[first].start, words[last].end
            runs.append(
                ContentRun(start, end, words[left].start, words[right].end, last - first + 1)
            )
            first = last + 1
        return runs

    def names(self) -> list[tuple[int, int]]:
        """Return (start, end) of the content runs that contain a word written as a name.

        That is with a capital letter, but not the question's first word or a number.
        """
        raised = [
            word.start
            for word, capital in zip(self.words, self._capitalised(), strict=True)
            if capital and word.start and not word.form.isdecimal()
        ]
        return [
            (run.start, run.end)
            for run in self.content_runs()
            if any(run.start <= start < run.end for start in raised)
        ]

    def between(self, start: int, end: int) -> int:
        """Return the number of words in the span ``[start, end)``."""
        return sum(start <= word.start and word.end <= end for word in self.words)

    def _next_of_run(self, last: int) -> int:
        """Return how many words on a content run continues: 1, 2 over an initial, 0 at its end.

        "Stephen R Covey" is one run, though "R" alone names nothing.
        """
        text, words = self.text, self.words
        if last + 1 == len(words):
            return 0
        initial = words[last + 1]
        if not initial.common:
            return int(self._joined(last))
        shown = text[initial.start]
        is_initial = len(initial.form) == 1 and shown.isalpha() and not initial.possessive
        is_initial = is_initial and (shown.isupper() or initial.form not in _WORDS_OF_A_LETTER)
        if not is_initial or last + 2 == len(words) or words[last + 2].common:
            return 0
        gaps = text[words[last].end : words[last + 2].start]
        return (
            0
            if _BREAK.search(gaps) or any(apostrophe in gaps for apostrophe in _APOSTROPHES)
            else 2
        )

    def _is_everyday(self, at: int) -> bool:
        """Return whether the word number ``at`` is an everyday word, but not a function word."""
        return self.words[at].common and not self.words[at].function

    def _joined(self, at: int) -> bool:
        """Return whether no end of a sentence is between the word ``at`` and the next."""
        return not _BREAK.search(self.text, self.words[at].end, self.words[at + 1].start)

    def _in_unspaced_run(self, at: int) -> bool:
        """Return whether a word is a single character in a run of a script without spaces."""
        if not self.words[at].unspaced:
            return False
        around = self.words[max(at - 1, 0) : at + 2]
        return any(
            word.unspaced and other.unspaced and word.end == other.start
            for word, other in pairwise(around)
        )

    def _capitalised(self) -> list[bool]:
        """Return for each word whether it may be part of a name: capitalised, or a number.

        A capital means nothing if the whole question is in capitals, or on an everyday first word.
        """
        text, words = self.text, self.words
        if not any(text[word.start].islower() for word in words):
            return [False] * len(words)
        shown = [text[word.start].isupper() or word.form.isdecimal() for word in words]
        shown[0] = shown[0] and not words[0].common
        return shown


def _quotes(question: str) -> list[tuple[int, int]]:
    """Return the spans of quoted text."""
    return [match.span(match.lastindex or 0) for match in _QUOTED.finditer(question)]
