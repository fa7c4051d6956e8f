"""Votes of several methods together: laws of the pool, who is asked, what a failure costs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa.answers.answer import Answer, Findings, KgLlmUse, RankedAnswer, Timings, TopicEntity
from kgqa.display import NO_EVIDENCE, NOT_HERE
from kgqa.errors import EmptyLanguageError, KgqaError, LinkingError, ModelNotFoundError
from kgqa.methods.base import LinkedQuestion
from kgqa.methods.ensemble import TOGETHER, Auto, Ensemble, named_by_kind, pool
from kgqa.paths.walk import WalkRules
from tests.fixtures import LINCOLN, TOLKIEN
from tests.methods.given import Given, about, gcr, options_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kgqa.graph.sqlite import SqliteStore
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Numbered
    from kgqa.models.kg_llm import KgLLM


def answer(
    scores: dict[str, float], chosen: int = 1, confidence: float | None = None, topics: int = 1
) -> Answer:
    """An answer whose entities are called as their ids are."""
    ranked = [RankedAnswer(id_, id_, score, True) for id_, score in scores.items()]
    return Answer(
        question="?",
        method="fixed",
        topic_entities=(TopicEntity(0, "t", "t", 1.0),) * topics,
        answers=tuple(ranked[:chosen]),
        others=tuple(ranked[chosen:]),
        timings=Timings(link=1.0, decode=2.0),
        forward_passes=3,
        confidence=confidence,
    )


@dataclass
class Fixed:
    """A method that gives the same for each question, and keeps what it was asked."""

    name: str
    given: Answer | KgqaError
    asked: list[str] = field(default_factory=list)

    def rules(self, store: GraphStore) -> WalkRules:
        return WalkRules(hops=len(self.name))

    def answers(
        self, store: GraphStore, questions: Iterable[LinkedQuestion | KgqaError]
    ) -> Numbered:
        every = list(questions)
        self.asked += [one.question for one in every if isinstance(one, LinkedQuestion)]
        for number in reversed(range(len(every))):  # any order is allowed
            yield number, self.given


def together(
    members: Sequence[Any], weights: Sequence[float] = (1.0, 1.0), *, sure: float | None = None
) -> Ensemble:
    """An ensemble of a test's own members."""

    class Together(Ensemble if sure is None else Auto):  # type: ignore[misc]
        def _members(self) -> list[Any]:
            return [lambda one=one: one for one in members]

    method: Ensemble = Together(options_of(Ensemble.Options), Given())
    names = [member.name for member in members]
    method.weights, method.sure = dict(zip(names, weights, strict=False)), sure
    return method


def asked(ensemble: Ensemble, store: GraphStore, number: int = 1) -> list[Answer | KgqaError]:
    questions = [LinkedQuestion(f"q{one}", link_seconds=1.0) for one in range(number)]
    found = dict(ensemble.answers(store, questions))
    return [found[one] for one in range(number)]


def one(ensemble: Ensemble, store: GraphStore) -> Answer:
    (found,) = asked(ensemble, store)
    assert isinstance(found, Answer)
    return found


def test_what_two_agree_on_passes_what_one_is_sure_of(sample: SqliteStore) -> None:
    first = Fixed("a", answer({"x": 0.5, "y": 0.4, "z": 0.1}, confidence=0.5))
    second = Fixed("bb", answer({"y": 0.8, "w": 0.2}, confidence=0.7))
    found = one(together((first, second)), sample)
    assert [each.id for each in (*found.answers, *found.others)] == ["y", "x", "w", "z"]
    # 0.41 * 0.81, 0.51 * 0.01, 0.01 * 0.21, 0.11 * 0.01: their roots, brought to sum 1
    roots = [(a * b) ** 0.5 for a, b in ((0.41, 0.81), (0.51, 0.01), (0.01, 0.21), (0.11, 0.01))]
    assert [each.score for each in (*found.answers, *found.others)] == pytest.approx(
        [root / sum(roots) for root in roots]
    )
    assert [each.id for each in found.answers] == ["y"]  # x has less than 0.3 of its score
    assert found.method == "ensemble"
    assert found.confidence == pytest.approx(0.6)
    assert (found.forward_passes, found.timings.link, found.timings.decode) == (6, 1.0, 4.0)
    heavy = one(together((first, second), (30.0, 1.0)), sample)
    assert [each.id for each in heavy.answers] == ["x", "y"]


def test_several_topic_entities_ask_for_what_they_have_in_common(sample: SqliteStore) -> None:
    members = tuple(Fixed(name, answer({"x": 0.5, "y": 0.4}, topics=2)) for name in "ab")
    assert [each.id for each in one(together(members), sample).answers] == ["x"]


def test_a_member_that_found_nothing_does_not_contradict_the_others(sample: SqliteStore) -> None:
    none = replace(answer({"y": 1.0}, chosen=0, confidence=0.2), notes=(f"{NOT_HERE}: nothing.",))
    first = Fixed("a", replace(answer({"x": 1.0}, confidence=0.95), notes=("Said.",)))
    found = one(together((first, Fixed("b", none)), (10.0, 1.0)), sample)
    assert [each.id for each in found.answers] == ["x"]
    assert found.notes == ("a: Said.",)
    doubts = replace(none, notes=(f"{NO_EVIDENCE}: little.",))
    doubted = one(together((first, Fixed("b", doubts)), (10.0, 1.0)), sample)
    assert doubted.notes == ("a: Said.",)
    neither = one(together((Fixed("a", none), Fixed("b", none))), sample)
    assert not neither.answers
    assert neither.notes == (f"{NOT_HERE}: nothing.",)


def test_who_is_sure_answers_alone(sample: SqliteStore) -> None:
    quick, slow = Fixed("a", answer({"x": 1.0}, confidence=0.9)), Fixed("b", answer({"y": 1.0}))
    found = one(together((quick, slow), sure=0.9), sample)
    assert [each.id for each in found.answers] == ["x"]
    assert not slow.asked
    assert found.method == "auto"
    assert found.notes == ("Answered by a alone.",)
    found = one(together((quick, slow), sure=0.91), sample)
    assert slow.asked == ["q0"]
    assert {each.id for each in found.answers} == {"x", "y"}
    quick.given = answer({"x": 1.0}, chosen=0, confidence=1.0)  # sure that there is no answer
    one(together((quick, slow), sure=0.5), sample)
    assert slow.asked == ["q0", "q0"]
    quick.given = answer({"x": 1.0}, confidence=1.0, topics=2)  # reasoners are worse at several
    one(together((quick, slow), sure=0.5), sample)
    assert slow.asked == ["q0", "q0", "q0"]


@pytest.mark.parametrize(
    ("second", "calls"),
    [
        (answer({"y": 0.6, "x": 0.4}, chosen=2, confidence=0.8), 0),  # in another order
        (answer({"y": 0.6, "x": 0.4}, chosen=2, confidence=0.79), 1),
        (answer({"y": 0.6, "x": 0.4}, chosen=1, confidence=1.0), 1),
        (answer({"y": 0.6, "x": 0.4}, chosen=0, confidence=1.0), 1),
        (answer({"y": 0.6, "x": 0.4}, chosen=2, confidence=1.0, topics=2), 1),
        (KgqaError("It failed."), 1),
    ],
)
def test_where_two_name_the_same_answers_no_third_is_asked(
    sample: SqliteStore, second: Answer | KgqaError, calls: int
) -> None:
    first = Fixed("a", answer({"x": 0.5, "y": 0.4}, chosen=2, confidence=0.3))
    third = Fixed("c", answer({"x": 1.0}))
    found = one(together((first, Fixed("b", second), third), (1.0, 1.0, 1.0), sure=0.99), sample)
    assert len(third.asked) == calls
    assert calls or {each.id for each in found.answers} == {"x", "y"}


@pytest.mark.parametrize(
    ("question", "chosen", "best"),
    [
        ("When did the Larks win the Tin Cup?", 2, "y"),
        ("What year did the Larks win the Tin Cup?", 2, "y"),
        ("Who was the first voice of Pim?", 2, "y"),
        ("When did the Larks win the Tin Cup?", 1, "x"),
        ("What cups did the Larks win?", 2, "x"),
        ("Who played for the Larks?", 2, "x"),
    ],
)
def test_which_of_several_equal_answers_is_meant_a_third_says_where_one_is_asked_for(
    sample: SqliteStore, question: str, chosen: int, best: str
) -> None:
    same = replace(answer({"x": 0.5, "y": 0.5}, chosen=chosen, confidence=0.9), question=question)
    third = Fixed("c", answer({"y": 0.9, "x": 0.1}))
    found = one(together((Fixed("a", same), Fixed("b", same), third), sure=0.99), sample)
    assert found.best is not None
    assert found.best.id == best
    assert len(third.asked) == (best == "y")


def test_no_answer_where_no_member_has_one_or_they_are_unsure_or_apart(
    sample: SqliteStore,
) -> None:
    thin = Fixed("a", answer({"x": 0.3}, chosen=0, confidence=0.1))
    sure = Fixed("b", answer({"y": 0.3}, confidence=0.9))
    assert one(together((thin, sure)), sample).answers
    unsure = Fixed("b", answer({"y": 0.3}, confidence=0.3))
    assert not one(together((thin, unsure)), sample).answers
    assert one(together((unsure, unsure)), sample).answers
    absent = Fixed("rank", answer({"x": 0.3}, chosen=0, confidence=0.9))  # that there is none
    found = one(together((absent, Fixed("b", answer({"y": 0.3}, confidence=0.9)))), sample)
    assert found.answers
    assert found.confidence == pytest.approx(0.5)
    three = (1.0, 1.0, 1.0)
    agreed = one(together((absent, sure, Fixed("c", sure.given)), three), sample)
    assert agreed.best.id == "y"
    other = Fixed("c", answer({"z": 0.3}, confidence=0.9))
    assert not one(together((absent, sure, other), three), sample).answers
    both = one(together((thin, Fixed("b", answer({"y": 0.3}, chosen=0)))), sample)
    assert not both.answers
    assert {each.id for each in both.others} == {"x", "y"}


def test_a_member_that_fails_is_named_and_all_failing_is_an_error(sample: SqliteStore) -> None:
    broken = Fixed("a", EmptyLanguageError("No path.", "Look elsewhere."))
    found = one(together((broken, Fixed("b", answer({"y": 1.0})))), sample)
    assert found.answers[0].id == "y"
    assert found.notes == ("a did not answer: No path.", "Answered by b alone.")
    (error,) = asked(together((broken, Fixed("b", LinkingError("Nobody.")))), sample)
    assert isinstance(error, EmptyLanguageError)


def test_every_question_comes_back_once_and_errors_are_handed_on(sample: SqliteStore) -> None:
    quick, slow = Fixed("a", answer({"x": 1.0})), Fixed("b", answer({"y": 1.0}))
    questions = [
        LinkingError("Nobody.") if number % 7 == 3 else LinkedQuestion(f"q{number}")
        for number in range(2 * TOGETHER + 5)
    ]
    found = list(together((quick, slow)).answers(sample, iter(questions)))
    assert sorted(number for number, _ in found) == list(range(len(questions)))
    for number, given_back in found:
        assert isinstance(given_back, Answer) == (number % 7 != 3)
    assert (
        quick.asked
        == slow.asked
        == [q.question for q in questions if isinstance(q, LinkedQuestion)]
    )


SCORES = st.dictionaries(st.sampled_from("uvwxyz"), st.floats(0, 1), min_size=0, max_size=6)


@given(st.lists(st.tuples(st.floats(0.1, 10), SCORES), min_size=1, max_size=3))
def test_pooled_scores_sum_to_one_and_hold_every_entity_once(
    votes: list[tuple[float, dict[str, float]]],
) -> None:
    ranked = pool([(weight, answer(scores)) for weight, scores in votes])
    assert {each.id for each in ranked} == {id_ for _, scores in votes for id_ in scores}
    assert len({each.id for each in ranked}) == len(ranked)
    if ranked:
        assert sum(each.score for each in ranked) == pytest.approx(1.0)
    assert [each.score for each in ranked] == sorted((r.score for r in ranked), reverse=True)


def test_what_one_grounded_is_grounded() -> None:
    said = answer({})
    free = RankedAnswer("x", "x", 1.0, False)
    found = pool([(1.0, _with(said, free)), (1.0, answer({"x": 1.0}))])
    assert found == [RankedAnswer("x", "x", 1.0, True)]
    nameless = RankedAnswer(None, "x", 1.0, False)
    assert len(pool([(1.0, _with(said, nameless)), (1.0, answer({"x": 1.0}))])) == 2


def test_the_conditions_that_a_member_found_met_are_shown() -> None:
    met: Any = ("opened after 1975",)
    which = RankedAnswer("x", "x", 1.0, True, conditions=met)
    for votes in (
        [_with(answer({}), which), answer({"x": 1.0})],
        [answer({"x": 1.0}), _with(answer({}), which)],
    ):
        assert pool([(1.0, vote) for vote in votes])[0].conditions == met


def _with(said: Answer, one: RankedAnswer) -> Answer:
    from dataclasses import replace

    return replace(said, answers=(one,))


def test_real_members_show_each_path_once_and_add_their_costs(
    sample: SqliteStore, random_llm: KgLLM
) -> None:
    questions = [about(sample, one) for one in (TOLKIEN, LINCOLN)]
    few_, many_ = (gcr(random_llm, k=k, hops=1, together=2) for k in (2, 4))
    few, many = (dict(one.answers(sample, questions)) for one in (few_, many_))
    both = dict(together((few_, many_)).answers(sample, questions))
    for number in range(2):
        a, b, found = few[number], many[number], both[number]
        assert isinstance(a, Answer)
        assert isinstance(b, Answer)
        assert isinstance(found, Answer)
        assert len({(path.text, path.groundings) for path in found.paths}) == len(found.paths)
        assert {path.text for path in found.paths} == {
            path.text for each in (a, b) for path in each.paths
        }
        assert all(path.groundings for path in found.paths)
        assert found.kg_llm == KgLlmUse(
            random_llm.name,
            random_llm.adapter,
            2,
            a.kg_llm.prompt_tokens + b.kg_llm.prompt_tokens,
            a.kg_llm.generated_tokens + b.kg_llm.generated_tokens,
        )


def test_without_a_fitting_reasoner_auto_is_gcr_alone(
    sample: SqliteStore, random_llm: KgLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    def misfit(_: object) -> tuple[str, str]:
        raise ModelNotFoundError("No reasoner is bundled.")

    monkeypatch.setattr(Given, "suited_reasoner", misfit, raising=False)
    resources = Given(random_llm, store=sample)
    method = Auto(options_of(Auto.Options, k=3), resources)
    assert resources.progress.notes == ["No reasoner is bundled. Answering by the method gcr."]
    ((_, found),) = method.answers(sample, [about(sample, TOLKIEN)])
    alone = gcr(random_llm, k=3, store=sample, score_rule=None, expand=True)
    ((_, same),) = alone.answers(sample, [about(sample, TOLKIEN)])
    assert isinstance(found, Findings)
    assert isinstance(same, Findings)
    assert found.method == "gcr"
    assert found.answers == same.answers
    assert found.notes == same.notes
    assert method.settings == alone.settings


@pytest.mark.parametrize(
    ("question", "name", "mention", "by_kind"),
    [
        ("Which trials are running?", "Pinnacle Trial Monitoring", "trials", True),
        ("What is the oldest ship?", "Ferrant Ship Management", "ship", True),
        ("Which companies operate trains?", "N2 Night Train", "trains", True),
        ("What is the email of bo?", "Bo Berg", "bo", False),
        ("Who runs the Trials?", "Pinnacle Trials", "Trials", False),
        ("How many stations have toilets?", "toilets", "toilets", False),
        ("How long was the depot link down?", "Depot link down", "depot link", False),
        ("Who wrote the mill?", "The Mill", "mill", False),
    ],
)
def test_a_common_noun_in_a_name_does_not_name_it(
    question: str, name: str, mention: str, *, by_kind: bool
) -> None:
    assert named_by_kind(question, TopicEntity(1, "x", name, 0.4, mention)) == by_kind
