#!/usr/bin/env bash
# simplemma 2.0.0 (English): singular and plural are each other's lemma, so they never meet.
#
# A lemma is taken to be a fixed point: words of one lexeme map to one form, and that form to
# itself. In simplemma's English table six pairs swap instead: "bacteria" becomes "bacterium" and
# "bacterium" becomes "bacteria" (so do the two forms of cyanobacterium, mycobacterium,
# bifidobacterium, "erasure" and "sequester"). About 2,300 further words end at a form that has
# another lemma ("addings", "adding", "add"). Whoever compares a question with the names of a graph
# by lemma does not find "bacterium" for "Which bacteria …?", and lemmatising a text a second time
# changes it. A program that matches by lemma has to follow each chain to its end, and to take one
# member of a cycle (the first in the alphabet, say) for all of them.
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" install -q --disable-pip-version-check simplemma==2.0.0
"$temp/venv/bin/python" - <<'PYTHON'
import simplemma
from simplemma.strategies.dictionaries.dictionary_factory import DefaultDictionaryFactory


def lemma(word: str) -> str:
    return simplemma.lemmatize(word, lang="en")


def text(word: str | bytes) -> str:
    return word.decode() if isinstance(word, bytes) else word


words = [text(word) for word in DefaultDictionaryFactory().get_dictionary("en")]
moving = {word for word in words if lemma(lemma(word)) != lemma(word)}
swapped = sorted(word for word in moving if lemma(lemma(word)) == word)
print(f"{len(words):,} words in the table; the lemma of {len(moving):,} has another lemma")
for word in swapped:
    print(f"  {word} -> {lemma(word)} -> {lemma(lemma(word))}")
assert lemma("bacteria") == "bacterium" and lemma("bacterium") == "bacteria"
assert len(swapped) == 12, swapped
assert len(moving) == 2287, len(moving)
PYTHON
echo "simplemma 2.0.0: six pairs of English words are each other's lemma"
