"""Choosing the few numbers of a universal ranker's card on graphs with questions of people.

    python -m scripts.universal.calibrate RANKER --graphs DIR… --home DIR [--choose] [--write]

RANKER is a bundled name or a folder. The bias of two hops and the temperature are chosen by what
they make right, one graph as much as another; then three logistic regressions are fitted: how sure
it is that the graph lacks what is asked for (``lacking``), that it gives no right answer
(``refusal``), and that the first answer is right (``evidence``). Each is also fitted with every
graph left out in turn, and what is printed is of graphs left out. ``refuse_above`` is the least by
which at most one right answer in fifty is held back. --write puts the numbers into the card.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

import scripts.environment  # noqa: F401
from kgqa import Question
from kgqa.evaluation.report import calibration
from kgqa.methods import rank
from kgqa.models.folders import card_content
from kgqa.models.path_ranker import CARD_FILE, RANKERS
from scripts.benchmarks.common import json_lines
from scripts.benchmarks.evals import own_graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kgqa.models.path_ranker import RankerCard
    from kgqa.models.sentence_encoder import SentenceEncoder

BIASES = (0.0, -0.8, -1.6)  # added to that of two hops
TEMPERATURES = (0.7, 1.0)
HELD_BACK = 0.02  # right answers, at most
SURE = 0.9
FILES = ("questions.jsonl", "conditions.jsonl")


class Asked(NamedTuple):
    """What became of one question: the signs that the ranker went by, and what was right."""

    graph: str
    answerable: bool
    right: bool  # the first answer, whether it was given or held back
    lacking: tuple[float, ...] | None  # signs, if they are of one topic and one reading
    evidence: tuple[float, ...] | None


class Remembering:
    """An encoder that reads a text once, whatever the KG and the numbers that are tried."""

    known: ClassVar[dict[str, NDArray[np.float32]]] = {}

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.name, self.width, self._encoder = encoder.name, encoder.width, encoder

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vector of each text."""
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known.update(zip(new, self._encoder.encode(new), strict=True))
        return np.stack([self.known[text] for text in texts])


def ask_all(
    ranker: str, card: RankerCard, folders: Sequence[Path], home: Path, files: Sequence[str]
) -> list[Asked]:
    """Ask the questions of each graph with the numbers of ``card``, refusing none."""
    made: list[Asked] = []
    signs: dict[str, list[tuple[float, ...]]] = {"lacking": [], "evidence": []}
    odds, sure = rank.lacking_odds, rank.sureness

    def noting(name: str, result: Any) -> Any:
        def noted(given: Sequence[float], weights: Sequence[float]) -> float:
            signs[name].append(tuple(map(float, given)))
            return float(result(given, weights))

        return noted

    rank.lacking_odds, rank.sureness = noting("lacking", odds), noting("evidence", sure)
    try:
        for folder in folders:
            rows = [
                row
                for file in files
                if (folder / file).exists()
                for row in json_lines(folder / file)
            ]
            with (
                own_graph(folder, home) as kg,
                kg.qa(method="rank", ranker=ranker, refuse_above=1.0) as session,
            ):
                session.method.ranker.card = card
                session.method.ranker.encoder = Remembering(session.method.ranker.encoder)
                for row in rows:
                    for each in signs.values():
                        each.clear()
                    asked = Question(
                        id=row["id"],
                        question=row["question"],
                        topic_entities=row["topic_entities"],
                        answers=row["answers"],
                    )
                    (answer,) = session.batch([asked])
                    every = [one.id or one.name for one in (*answer.answers, *answer.others)]
                    right = bool(every) and every[0] in row["answers"]
                    one = {
                        name: each[0] if len(each) == 1 else None for name, each in signs.items()
                    }
                    made.append(Asked(folder.name, bool(row["answers"]), right, **one))
    finally:
        rank.lacking_odds, rank.sureness = odds, sure
    return made


def fit(signs: Any, labels: Any) -> Any:
    """Return the weights of signs, the last of which is 1, by Newton's steps; a weak pull to 0."""
    size = signs.std(0).clip(1e-9)
    size[-1] = 1.0
    pull = np.append(np.ones(signs.shape[1] - 1), 0.0)
    scaled, values = signs / size, np.zeros(signs.shape[1])
    for _ in range(50):
        likely = 1 / (1 + np.exp(-scaled @ values))
        curve = scaled.T * (likely * (1 - likely)) @ scaled + np.diag(pull)
        values += np.linalg.solve(curve, scaled.T @ (labels - likely) - pull * values)
    return values / size


def left_out(signs: Any, labels: Any, graphs: Any) -> Any:
    """Return for each row the probability by weights that were fitted on the other graphs."""
    said = np.zeros(len(labels))
    for graph in np.unique(graphs):
        other = graphs != graph
        weights = fit(signs[other], labels[other])
        said[~other] = 1 / (1 + np.exp(-signs[~other] @ weights))
    return said


def first_right(asked: Sequence[Asked]) -> float:
    """Return the mean over graphs of the share of answerable questions that are right first."""
    graphs = dict.fromkeys(one.graph for one in asked)
    shares = [
        np.mean([one.right for one in asked if one.answerable and one.graph == graph])
        for graph in graphs
    ]
    return float(np.mean(shares))


def calibrated_card(card: RankerCard, asked: Sequence[Asked]) -> RankerCard:
    """Return the card with the regressions' weights; print their worth on graphs left out."""
    known = [one for one in asked if one.lacking is not None]
    signs = np.array([one.lacking for one in known])
    none = np.array([not one.answerable for one in known], float)
    right = np.array([one.right and one.answerable for one in known])
    graphs = np.array([one.graph for one in known])
    lacking = fit(signs, none)
    absent = left_out(signs, none, graphs)
    levels = [at / 100 for at in range(5, 96)]
    held = [float((absent[right] > level).mean()) for level in levels]
    refuse_above = next(
        level for level, share in zip(levels, held, strict=True) if share <= HELD_BACK
    )
    found = (absent[none > 0] > refuse_above).mean()
    print(
        f"{len(known)} questions, {int(none.sum())} without an answer: above {refuse_above} of "
        f"graphs left out {100 * found:.0f} % found and "
        f"{100 * (absent[right] > refuse_above).mean():.1f} % right ones held back"
    )
    odds = np.log(absent.clip(1e-6, 1 - 1e-6) / (1 - absent.clip(1e-6, 1 - 1e-6)))
    refusal = fit(np.stack([odds, np.ones(len(odds))], 1), none)
    answered = [one for one in asked if one.evidence is not None and one.answerable]
    answered += [
        one
        for one, at in zip(known, absent, strict=True)
        if one.evidence is not None and not one.answerable and at <= refuse_above
    ]
    signs = np.array([one.evidence for one in answered])
    first = np.array([one.right and one.answerable for one in answered], float)
    evidence = fit(signs, first)
    said = left_out(signs, first, np.array([one.graph for one in answered]))
    sure = said >= SURE
    _, error = calibration(list(zip(said.tolist(), (first > 0).tolist(), strict=True)))
    print(
        f"{len(answered)} answers, {int(first.sum())} right; of graphs left out calibration error "
        f"{error:.3f}, {int(first[sure].sum())} of {int(sure.sum())} at {SURE:.0%} or above right"
    )
    return replace(
        card,
        lacking=_rounded(lacking),
        refusal=_rounded(refusal),
        refuse_above=refuse_above,
        evidence=_rounded(evidence),
    )


def _rounded(values: Any) -> Any:
    return tuple(round(float(value), 2) for value in values)


def main() -> int:
    """Choose, fit, print, and write what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ranker")
    parser.add_argument("--graphs", type=Path, nargs="+", required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--choose", action="store_true", help="the bias and the temperature, too")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    folder = RANKERS.folder(given.ranker)
    card = RANKERS.card(folder)
    folders = [file.parent for root in given.graphs for file in sorted(root.glob("*/triples.tsv"))]
    if given.choose:
        best = (0.0, card)
        one, *more = card.hop_bias
        for bias in BIASES:
            tried = replace(card, hop_bias=(one, *(each + bias for each in more)))
            best = _better(best, tried, given, folders)
        for temperature in TEMPERATURES:
            tried = replace(best[1], temperature=temperature)
            if tried != best[1]:
                best = _better(best, tried, given, folders)
        card = best[1]
    card = calibrated_card(card, ask_all(given.ranker, card, folders, given.home, FILES))
    print(card)
    if given.write:
        text = json.dumps(card_content(card), indent=1, ensure_ascii=False) + "\n"
        (folder / CARD_FILE).write_text(text, "utf-8")
    return 0


def _better(
    best: tuple[float, RankerCard], card: RankerCard, given: Any, folders: Sequence[Path]
) -> tuple[float, RankerCard]:
    share = first_right(ask_all(given.ranker, card, folders, given.home, FILES[:1]))
    print(f"hops {card.hop_bias}, temperature {card.temperature}: {100 * share:.2f}", flush=True)
    return max(best, (share, card), key=lambda one: one[0])


if __name__ == "__main__":
    sys.exit(main())
