"""The parts of a question that may name an entity: runs of its words with their place in the text.

A word is a run of letters and digits; in scripts written without spaces every character counts as
one, so that a name inside a sentence is found. What it does not do: look anything up, or choose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kgqa.graph.names import normalise
from kgqa.linking.forms import is_abbreviation
from kgqa.linking.words import COMMON, FUNCTION, UNSPACED_FUNCTION

LONGEST = 12  # words in the longest mention; real names are shorter
LONGEST_UNSPACED = 20  # characters, where words are not separated

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

    ``form`` is the text as names are compared; ``words`` counts its words (characters in a script
    without spaces), ``content`` those that are no function words; ``common`` says that its content
    words are all everyday ones; ``emphasised`` that the writer set it off, by quotes or by capitals
    inside a sentence.
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
    """A word of the question: its place, its normalised form, and what kind of word it is."""

    start: int
    end: int
    form: str
    unspaced: bool
    possessive: bool  # the "s" of "Obama's"
    abbreviation: bool  # "the us", "US", and not "us"

    @property
    def function(self) -> bool:
        """Whether the word never names anything by itself."""
        if self.unspaced:
            return self.form in UNSPACED_FUNCTION
        return self.possessive or (self.form in FUNCTION and not self.abbreviation)

    @property
    def common(self) -> bool:
        """Whether the word is one that questions are made of; a bare number or letter is too."""
        if self.function or self.form in COMMON:
            return True
        return not self.unspaced and (self.form.isdecimal() or len(self.form) == 1)


def words_of(question: str) -> list[Word]:
    """Return the words of ``question`` in order."""
    found: list[Word] = []
    mixed = any(character.islower() for character in question)
    for match in _TOKEN.finditer(question):
        form = normalise(match.group())
        if not form:
            continue
        start = match.start()
        after_apostrophe = start > 1 and question[start - 1] in _APOSTROPHES
        possessive = form == "s" and after_apostrophe and question[start - 2].isalnum()
        unspaced = bool(_IS_UNSPACED.match(match.group()))
        raised = mixed and len(form) > 1 and match.group().isupper()
        after_the = bool(found) and found[-1].form == "the"
        abbreviation = is_abbreviation(form) and (raised or after_the)
        found.append(Word(start, match.end(), form, unspaced, possessive, abbreviation))
    return found


def mentions(question: str) -> list[Mention]:
    """Return every run of words that may name an entity, longest first, then in reading order.

    Left out: runs of function words alone (unless quoted or capitalised inside a sentence), runs
    that begin with a possessive "s" (it may end one: "McDonald's"), and single characters of a
    script without spaces that stand inside a longer run.
    """
    words = words_of(question)
    capitals = _capitalised(question, words)
    quotes = _quotes(question)
    found = []
    for first in range(len(words)):
        for last in range(first, len(words)):
            count = last - first + 1
            run = words[first : last + 1]
            if count > (LONGEST_UNSPACED if run[-1].unspaced else LONGEST):
                break
            if run[0].possessive or _inside_run(words, first, last):
                continue
            start, end = run[0].start, run[-1].end
            quoted = any(left <= start and end <= right for left, right in quotes)
            whole = quoted and any(_same(question, start, end, *quote) for quote in quotes)
            # the question's own capital counts where a name in capitals goes on from it
            capital = (capitals[first] or (first == 0 < last)) and capitals[last]
            capital = capital and any(question[word.start].isupper() for word in run)
            raised = whole or capital
            content = sum(not word.function for word in run)
            if content == 0 and not raised:
                continue
            form = normalise(question[start:end])
            if not form or (form in UNSPACED_FUNCTION and not raised):
                continue
            found.append(
                Mention(
                    text=question[start:end],
                    start=start,
                    end=end,
                    form=form,
                    words=count,
                    content=content,
                    common=all(word.common for word in run),
                    emphasised=raised,
                    quoted=whole,
                )
            )
    return sorted(found, key=lambda mention: (-mention.words, mention.start))


@dataclass(frozen=True, slots=True)
class Run:
    """A longest run of words that are neither function nor everyday words, at ``[start, end)``.

    ``left`` and ``right`` are where it ends with the everyday words that touch it, which may belong
    to the same name ("Supreme" Court, King "Henry VIII").
    """

    start: int
    end: int
    left: int
    right: int
    words: int


def content_runs(question: str) -> list[Run]:
    """Return what the question is about, whether or not the KG knows it, in reading order."""
    words = words_of(question)
    runs: list[Run] = []
    first = 0
    while first < len(words):
        if words[first].common:
            first += 1
            continue
        last = first
        while (step := _next_of_run(question, words, last)) > 0:
            last += step
        left, right = first, last
        while left > 0 and _joined(question, words, left - 1, content=False, back=True):
            left -= 1
        while right + 1 < len(words) and _joined(question, words, right, content=False):
            right += 1
        start, end = words[first].start, words[last].end
        runs.append(Run(start, end, words[left].start, words[right].end, last - first + 1))
        first = last + 1
    return runs


def _next_of_run(question: str, words: list[Word], last: int) -> int:
    """Return how many words further the run goes on after ``last``: 2 over an initial, 0 if not.

    "Stephen R Covey" is one run, though "R" alone names nothing.
    """
    if last + 1 == len(words):
        return 0
    if _joined(question, words, last, content=True):
        return 1
    initial = words[last + 1]
    shown = question[initial.start]
    is_initial = len(initial.form) == 1 and shown.isalpha() and not initial.possessive
    is_initial = is_initial and (shown.isupper() or initial.form not in _WORDS_OF_A_LETTER)
    if not is_initial or last + 2 == len(words) or words[last + 2].common:
        return 0
    gaps = question[words[last].end : words[last + 2].start]
    return 0 if _BREAK.search(gaps) or any(one in gaps for one in _APOSTROPHES) else 2


def _joined(
    question: str, words: list[Word], at: int, *, content: bool, back: bool = False
) -> bool:
    """Return whether the words ``at`` and ``at + 1`` stand together and the new one is wanted.

    The new one is the second, or with ``back`` the first; wanted are words that are not common
    (``content``), or words that are common and no function words.
    """
    new = words[at] if back else words[at + 1]
    wanted = not new.common if content else new.common and not new.function
    return wanted and not _BREAK.search(question, words[at].end, words[at + 1].start)


def _inside_run(words: list[Word], first: int, last: int) -> bool:
    """Return whether the words are one lone character out of an unspaced run."""
    if first != last or not words[first].unspaced:
        return False
    word = words[first]
    before = first > 0 and words[first - 1].unspaced and words[first - 1].end == word.start
    after = last + 1 < len(words) and words[last + 1].unspaced
    return before or (after and words[last + 1].start == word.end)


def _capitalised(question: str, words: list[Word]) -> list[bool]:
    """Return for each word whether it is written as a name may be: with a capital, or a number.

    A capital says nothing where the whole question is in capitals, nor on an everyday word at the
    question's beginning.
    """
    shown = [question[word.start].isupper() or word.form.isdecimal() for word in words]
    lower = sum(question[word.start].islower() for word in words)
    if lower == 0:
        return [False] * len(words)
    if shown and words[0].common:
        shown[0] = False
    return shown


def _quotes(question: str) -> list[tuple[int, int]]:
    return [
        match.span(group)
        for match in _QUOTED.finditer(question)
        for group in range(1, 7)
        if match.group(group)
    ]


def _same(question: str, start: int, end: int, left: int, right: int) -> bool:
    """Return whether both spans hold the same words."""
    return (
        left <= start
        and end <= right
        and normalise(question[left:right]) == normalise(question[start:end])
    )
