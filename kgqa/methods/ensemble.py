"""Several methods asked the same question: their votes put together, or the quick one first.

Each member's list of entities is brought to sum 1, and the lists are multiplied, each to the power
of its weight (a logarithmic opinion pool: Genest and Zidek, Statistical Science 1986), so an entity
that two methods agree on passes one that a single method is sure of. A floor keeps a member that
has never come by an entity from ruling it out. With ``sure`` the members take turns: one that is
as sure as that answers alone and the rest are not asked (``--method auto``).

What it does not do: find paths. Every path shown is one of a member's, and was checked in the store
there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from kgqa.answers.answer import KgLlmUse, RankedAnswer, Timings
from kgqa.answers.confidence import ROUNDING, ConfidenceOptions
from kgqa.errors import KgqaError, UsageError
from kgqa.methods.base import NO_KG_LLM

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.answers.answer import Answer, ScoredPath
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Method, Numbered
    from kgqa.methods.gcr import Asking
    from kgqa.paths.walk import WalkRules

TOGETHER = 16  # questions that each member is given at a time
FLOOR = 0.01  # what an entity has with a member that never came by it
UNSURE = 0.25  # below this pooled confidence one member that finds no answer is believed


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Members that answer together: a method.

    ``weights``: what each member's vote counts, all above 0. ``judging``: of the pooled entities
    those are answers that have its ``cut`` of the first one's share. ``sure``: the confidence from
    which a member answers alone, asked in their order; None asks all. Raises UsageError where
    members and weights do not fit together.
    """

    members: tuple[Method, ...]
    weights: tuple[float, ...]
    judging: ConfidenceOptions = field(default_factory=ConfidenceOptions)
    sure: float | None = None

    def __post_init__(self) -> None:
        if len(self.members) < 2 or len(self.weights) != len(self.members):
            raise UsageError(
                f"{len(self.members)} methods with {len(self.weights)} weights: an ensemble has at "
                "least two methods, each with a weight."
            )
        if min(self.weights) <= 0:
            raise UsageError("A weight is above 0; leave a method out that is not to count.")

    @property
    def name(self) -> str:
        """The method's name."""
        return "ensemble" if self.sure is None else "auto"

    def rules(self, store: GraphStore) -> WalkRules:
        """Return the walks of the member that walks furthest: what any path can reach."""
        return max((one.rules(store) for one in self.members), key=lambda rules: rules.hops)

    def answers(self, store: GraphStore, questions: Iterable[Asking | KgqaError]) -> Numbered:
        """Yield each question's number with its answer or its error, some questions at a time.

        A member that fails on a question is left out of its pool, with a note; a question on which
        all fail has the first one's error.
        """
        numbered = enumerate(questions)
        while taken := list(islice(numbered, TOGETHER)):
            yield from self._some(store, taken)

    def _some(self, store: GraphStore, taken: Sequence[tuple[int, Asking | KgqaError]]) -> Numbered:
        open_: dict[int, Asking] = {}
        for number, asking in taken:
            if isinstance(asking, KgqaError):
                yield number, asking
            else:
                open_[number] = asking
        found: dict[int, list[Answer | KgqaError]] = {number: [] for number in open_}
        for member in self.members:
            asked = list(open_)
            for place, answer in member.answers(store, [open_[number] for number in asked]):
                found[asked[place]].append(answer)
            for number in asked:
                last = found[number][-1]
                if self._sure(last):
                    del open_[number]
        for number, given in found.items():
            yield number, self._pooled(given)

    def _sure(self, answer: Answer | KgqaError) -> bool:
        if self.sure is None or isinstance(answer, KgqaError) or answer.confidence is None:
            return False
        single = len(answer.topic_entities) == 1
        return single and bool(answer.answers) and answer.confidence >= self.sure

    def _pooled(self, given: Sequence[Answer | KgqaError]) -> Answer | KgqaError:
        good = [
            (member, weight, answer)
            for member, weight, answer in zip(self.members, self.weights, given, strict=False)
            if not isinstance(answer, KgqaError)
        ]
        if not good:
            return next(one for one in given if isinstance(one, KgqaError))
        said = tuple(
            f"{member.name} did not answer: {one.message}"
            for member, one in zip(self.members, given, strict=False)
            if isinstance(one, KgqaError)
        )
        alone = [member.name for member, _, _ in good] if len(good) == 1 else []
        if alone:
            said = (*said, f"Answered by {alone[0]} alone.")
        answers = [answer for _, _, answer in good]
        ranked = pool([(weight, answer) for _, weight, answer in good])
        confidence = _mean([(weight, answer.confidence) for _, weight, answer in good])
        silent = [not answer.answers for answer in answers]
        thin = all(silent) or (any(silent) and (confidence or 0.0) < UNSURE)
        chosen = 0 if thin else self._chosen(ranked, len(answers[0].topic_entities))
        if alone:  # its own cut stands
            chosen = len(answers[0].answers)
        used = [answer.kg_llm for answer in answers if answer.kg_llm != NO_KG_LLM]
        notes = dict.fromkeys(
            note if alone else f"{member.name}: {note}"
            for member, _, answer in good
            for note in answer.notes
        )
        return replace(
            answers[0],
            method=self.name,
            answers=tuple(ranked[:chosen]),
            others=tuple(ranked[chosen:]),
            paths=_paths(answers),
            constraints=tuple(
                dict.fromkeys(one for answer in answers for one in answer.constraints)
            ),
            kg_llm=_together(used),
            timings=_sum([answer.timings for answer in answers]),
            forwards=sum(answer.forwards for answer in answers),
            notes=(*said, *notes),
            search=next(
                (answer.search for answer in answers if answer.kg_llm in used), answers[0].search
            ),
            expanded=tuple(one for answer in answers for one in answer.expanded),
            confidence=confidence,
        )

    def _chosen(self, ranked: Sequence[RankedAnswer], topics: int) -> int:
        """Return how many of the first of ``ranked`` are answers."""
        share = self.judging.cut_several if topics > 1 else self.judging.cut
        least = share * ranked[0].score * (1.0 - ROUNDING) if ranked else 0.0
        return sum(one.score >= least for one in ranked)


def pool(votes: Sequence[tuple[float, Answer]]) -> list[RankedAnswer]:
    """Return the entities of all answers with their pooled shares, best first.

    Each answer's ``answers`` and ``others`` are brought to sum 1 first, an answer that has none is
    left out; what has no id goes by its name. Scores sum to 1; equal ones are ordered by name, then
    id.
    """
    shares: list[tuple[float, dict[str, float]]] = []
    known: dict[str, RankedAnswer] = {}
    for weight, answer in votes:
        every = {
            one.id if one.id is not None else f"\0{one.name}": one
            for one in (*answer.answers, *answer.others)
        }
        if not every:
            continue
        mass = sum(one.score for one in every.values())
        shares.append(
            (
                weight,
                {
                    key: one.score / mass if mass > 0 else 1 / len(every)
                    for key, one in every.items()
                },
            )
        )
        for key, one in every.items():
            if key not in known or (one.grounded and not known[key].grounded):
                known[key] = one
    heavy = sum(weight for weight, _ in shares)
    score = {
        key: math.prod(
            (share.get(key, 0.0) + FLOOR) ** (weight / heavy) for weight, share in shares
        )
        for key in known
    }
    total = math.fsum(score.values())
    ranked = [replace(one, score=score[key] / total) for key, one in known.items()]
    return sorted(ranked, key=lambda one: (-one.score, one.name, one.id or ""))


def _paths(answers: Sequence[Answer]) -> tuple[ScoredPath, ...]:
    """Return the paths of all, each once: a path that several found has its first score."""
    found: dict[tuple[object, ...], ScoredPath] = {}
    for answer in answers:
        for path in answer.paths:
            found.setdefault((path.text, path.groundings), path)
    return tuple(found.values())


def _together(used: Sequence[KgLlmUse]) -> KgLlmUse:
    """Return what all models cost together, under all their names."""
    if not used:
        return NO_KG_LLM
    adapters = dict.fromkeys(one.adapter for one in used if one.adapter)
    return KgLlmUse(
        model=" + ".join(dict.fromkeys(one.model for one in used)),
        adapter=" + ".join(adapters) or None,
        calls=sum(one.calls for one in used),
        prompt_tokens=sum(one.prompt_tokens for one in used),
        generated_tokens=sum(one.generated_tokens for one in used),
    )


def _mean(weighted: Sequence[tuple[float, float | None]]) -> float | None:
    """Return the weighted mean of those that there are, None where there is none."""
    known = [(weight, one) for weight, one in weighted if one is not None]
    if not known:
        return None
    return sum(weight * one for weight, one in known) / sum(weight for weight, _ in known)


def _sum(timings: Sequence[Timings]) -> Timings:
    return Timings(
        link=timings[0].link,  # done once, for all
        constraint=sum(one.constraint for one in timings),
        decode=sum(one.decode for one in timings),
        ground=sum(one.ground for one in timings),
        answer=sum(one.answer for one in timings),
    )
