"""Path ranking: whatever the ranker prefers, what is shown is in the graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import kgqa
from kgqa.errors import EmptyLanguageError
from kgqa.methods import rank_words as module
from kgqa.methods.rank import Rank
from kgqa.models.path_ranker import PathRanker, RankerCard
from kgqa.paths.ground import verify
from kgqa.paths.relation_paths import relation_paths
from kgqa.paths.walk import WalkRules, walk
from tests.graph.tables import entity, tables_of
from tests.methods.given import Given, about, answered, options_of
from tests.methods.reasoners import encoder_folder, tiny_encoder
from tests.trie.language import store_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kgqa.graph.sqlite import SqliteStore
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import LinkedQuestion
    from kgqa.paths.ground import GroundedPath
    from kgqa.paths.schema import Hop

EDGES = [
    ("shop", "sold by", "Ada"), ("shop", "city", "Bonn"), ("shop", "owner", "Bo"),
    ("mill", "sold by", "Ada"), ("mill", "owner", "Cy"), ("mill", "city", "Bonn"),
    ("farm", "sold by", "Bo"), ("farm", "city", "Kiel"),
    ("Bonn", "country", "Germany"), ("Kiel", "country", "Germany"), ("Ada", "born in", "Kiel"),
]  # fmt: skip
NAMES = [*sorted({end for head, _, tail in EDGES for end in (head, tail)}), "alone"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SqliteStore:
    tables = tables_of([entity(one, one) for one in NAMES], EDGES, direction="both")
    return store_of(tables, tmp_path_factory.mktemp("shops"))


@pytest.fixture(scope="module")
def ranker(tmp_path_factory: pytest.TempPathFactory) -> PathRanker:
    folder = encoder_folder(tmp_path_factory.mktemp("encoder") / "tiny")
    return PathRanker("random", RankerCard(encoder=str(folder), none=-9.0), tiny_encoder(folder))


class Wanted(PathRanker):
    """Gives the paths that hold one of some words a high logit, and "none" the given logit."""

    words: tuple[str, ...] = ()

    def logits_at(self, question, rows, hops):
        texts = [*self._kept.rows]  # in the order of their rows
        return np.array([9.0 if texts[row] in self.words else 0.0 for row in rows])


def wanting(ranker: PathRanker, *paths: str) -> PathRanker:
    made = Wanted(ranker.name, ranker.card, ranker.encoder)
    made.words = paths
    return made


def rank(ranker: PathRanker, **options: object) -> Rank:
    given = Given()
    given.path_ranker = lambda *_: ranker  # type: ignore[attr-defined]
    return Rank(options_of(Rank.Options, **options), given)


def named(store: GraphStore, path: str) -> str:
    """A path in words with the examples that stand behind it."""
    words = module.RankWords(store, WalkRules(2, "both"))
    return next(
        words.path(steps)
        for key in store.keys_of(NAMES[:-1]).tolist()
        for steps in relation_paths(store, key, WalkRules(2, "both"))[0].steps
        if words.path(steps).partition(" such as ")[0] == path
    )


def hops_of(store: GraphStore, path: GroundedPath) -> tuple[tuple[int, ...], ...]:
    """A grounded path as hops of keys, made from its facts alone."""
    relation = {id_: number for number, id_ in enumerate(store.relations().ids)}
    hops = []
    for edge in path.edges:
        (fact,) = edge.facts
        step = 2 * relation[fact.predicate] + (fact.head != edge.head.id)
        hops.append((step, -1, -1, int(store.keys_of([edge.tail.id])[0])))
    return tuple(hops)


def test_every_path_is_a_path_of_the_graph(store: SqliteStore, ranker: PathRanker) -> None:
    rules = WalkRules(2, "both")
    for name in NAMES[:-1]:
        answer = answered(store, rank(ranker, k=4), about(store, name, question=f"who is {name}?"))
        table, _ = walk(store, store.keys_of([name]), rules)
        assert verify(store, table).all()
        every = {
            tuple(map(tuple, hops[:length].tolist()))
            for hops, length in zip(table.hops, table.length, strict=True)
        }
        shown = [path for scored in answer.paths for path in scored.groundings]
        shown += [one.grounding for one in answer.expanded]
        assert shown
        assert all(path.head.id == name and hops_of(store, path) in every for path in shown)
        ends = {path.tail.id for path in shown}
        assert {ranked.id for ranked in (*answer.answers, *answer.others)} == ends
        assert name not in ends
        assert 0 <= answer.confidence <= 1


def test_the_likeliest_relation_path_answers(store: SqliteStore, ranker: PathRanker) -> None:
    wanted = wanting(ranker, named(store, "? sold by x"))
    answer = answered(store, rank(wanted), about(store, "Ada"))
    assert {ranked.id for ranked in answer.answers} == {"shop", "mill"}
    asked = about(store, "Ada", question="what is sold by Ada?")
    assert answer.confidence < answered(store, rank(wanted), asked).confidence < 1
    assert all("^sold by" in path.text for path in answer.paths[:2])


def test_texts_of_relation_paths_are_looked_up_once(
    store: SqliteStore, ranker: PathRanker, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = module.RankWords(store, WalkRules(2, "both"))
    steps = relation_paths(store, int(store.keys_of(["Ada"])[0]), words.rules)[0].steps
    fresh = replace(ranker, _kept=type(ranker._kept)())
    before = [words.logits(fresh, asked, steps) for asked in ("who sold x?", "where is x?")]
    texts: list[str] = []
    path = module.RankWords.path

    def counted(self: module.RankWords, steps: Sequence[Hop]) -> str:
        texts.append(path(self, steps))
        return texts[-1]

    monkeypatch.setattr(module.RankWords, "path", counted)
    again = words.logits(fresh, "who sold x?", steps)
    np.testing.assert_array_equal(again, before[0])
    words.nearest(fresh, "who sold x?", [(hop,) for one in steps for hop in one])
    assert texts == [path(words, [hop]) for hop in dict.fromkeys(h for s in steps for h in s)
                     if (hop,) not in steps]  # fmt: skip
    fresh._kept.clear()  # as where there are too many
    np.testing.assert_allclose(words.logits(fresh, "where is x?", steps), before[1], atol=1e-5)


def test_how_many_counts_the_list(store: SqliteStore, ranker: PathRanker) -> None:
    wanted = wanting(ranker, named(store, "? sold by x"))
    asked = about(store, "Ada", question="how many things does Ada sell?")
    counted = answered(store, rank(wanted), asked)
    assert counted.notes[-1] == "Counted: 2."
    assert counted.value == counted.to_dict()["count"] == 2
    assert {ranked.name for ranked in counted.answers} == {"shop", "mill"}
    listed = answered(store, rank(wanted), about(store, "Ada", question="what does Ada sell?"))
    assert listed.value is None
    assert not any("Counted" in note for note in listed.notes)


def test_whether_two_are_connected_is_yes_with_the_paths_that_say_it(
    store: SqliteStore, ranker: PathRanker
) -> None:
    wanted = wanting(ranker, named(store, "x sold by ?"), named(store, "? sold by x"))
    asked = about(store, "shop", "Ada", question="is the shop sold by Ada?")
    answer = answered(store, rank(wanted), asked)
    assert (answer.best.id, answer.best.name, answer.best.grounded) == (None, "yes", True)
    assert answer.best.paths == answer.paths
    assert len(answer.answers) == 1
    first = answer.paths[0].groundings[0]
    assert {first.head.id, first.tail.id} == {"shop", "Ada"}
    assert [edge.relation for edge in first.edges] in (["sold by"], ["^sold by"])
    assert all({grounding.head.id, grounding.tail.id} == {"shop", "Ada"}
               for path in answer.paths for grounding in path.groundings)  # fmt: skip
    shown = answer.to_dict()["answers"]
    assert (shown[0]["name"], shown[0]["paths"]) == ("yes", list(range(len(answer.paths))))
    assert 0 < answer.confidence <= 1


def test_a_connection_that_does_not_say_it_is_not_a_yes_and_nothing_is_a_no(
    store: SqliteStore, ranker: PathRanker
) -> None:
    """The shop's owner is Bo, and Ada sells it: that does not make her the owner."""
    wanted = wanting(ranker, named(store, "x owner ?"), named(store, "? owner x"))
    asked = about(store, "shop", "Ada", question="is Ada the owner of the shop?")
    answer = answered(store, rank(wanted), asked)
    assert (answer.best, answer.others) == (None, ())
    assert answer.notes[-1] == 'Not in this graph: no path between "shop" and "Ada" says this.'
    apart = answered(store, rank(wanted), about(store, "shop", "alone", question="is it alone?"))
    assert apart.best is None
    assert "Not in this graph" in apart.notes[-1]
    choice = about(store, "shop", "Ada", question="is it Bonn or Bo?")
    assert all(ranked.name != "yes" for ranked in answered(store, rank(wanted), choice).answers)


def test_the_likeliest_relations_of_each_topic_are_kept(
    store: SqliteStore, ranker: PathRanker
) -> None:
    wanted = wanting(ranker, named(store, "x owner ?"))
    answer = answered(store, rank(wanted), about(store, "farm", "Ada"))
    of_farm = [relation for relation in answer.relations if relation.topic == "farm"]
    assert (of_farm[0].words, of_farm[0].missing) == ("x owner ?", True)
    assert "none of them" in {relation.words for relation in answer.relations}
    for topic in ("farm", "Ada"):
        shares = [relation.probability for relation in answer.relations if relation.topic == topic]
        assert shares == sorted(shares, reverse=True)
        assert 0 < sum(shares) <= 1.0 + 1e-9


def test_two_topics_mean_what_both_lead_to(store: SqliteStore, ranker: PathRanker) -> None:
    wanted = wanting(ranker, named(store, "? sold by x"), named(store, "? owner x"))
    answer = answered(store, rank(wanted), about(store, "Ada", "Bo"))
    assert [ranked.id for ranked in answer.answers] == ["shop"]
    heads = {path.groundings[0].head.id for path in answer.best.paths}
    assert heads == {"Ada", "Bo"}, "a path from each topic entity"


def test_what_a_kind_has_and_the_topic_lacks_is_not_in_the_graph(
    store: SqliteStore, ranker: PathRanker
) -> None:
    wanted = wanting(ranker, named(store, "x owner ?"))
    answer = answered(store, rank(wanted), about(store, "farm"))
    assert answer.answers == ()
    assert answer.others
    said = 'Not in this graph: "farm" does not have "owner", as others of its kind do.'
    assert answer.notes[-1] == said
    said = answered(store, rank(wanted, refuse_above=1.0), about(store, "farm"))
    assert said.answers
    there = answered(store, rank(wanted), about(store, "mill"))
    assert [ranked.id for ranked in there.answers] == ["Cy"]


def test_what_only_other_kinds_have_is_not_in_the_graph(
    store: SqliteStore, ranker: PathRanker
) -> None:
    wanted = wanting(ranker, named(store, "x born in ?"))
    answer = answered(store, rank(wanted), about(store, "shop"))
    assert answer.answers == ()
    said = 'Not in this graph: "shop" does not have "born in", as other kinds do.'
    assert answer.notes[-1] == said
    both = wanting(ranker, named(store, "x born in ?"), named(store, "x owner ?"))
    assert answered(store, rank(both), about(store, "shop")).best.id == "Bo"


def test_what_only_other_kgs_have_is_not_in_the_graph(
    store: SqliteStore, ranker: PathRanker, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = about(store, "shop", question="what is its phone number?")
    wanted = wanting(ranker)
    assert answered(store, rank(wanted), question).answers
    texts = words_asked(store, wanted, question)
    wanted.card = replace(wanted.card, scale=30.0)
    wanted.elsewhere = wanted.vectors(texts)
    assert answered(store, rank(wanted), question).answers  # a random encoder reads all alike
    monkeypatch.setattr("kgqa.models.path_ranker.SAME_RELATION", 2.0)
    answer = answered(store, rank(wanted), question)
    assert answer.answers == ()
    assert answer.notes[-1] == 'Not in this graph: "shop" has no fact that answers this.'
    wanted.elsewhere = -wanted.elsewhere
    assert answered(store, rank(wanted), question).answers


def words_asked(store: SqliteStore, ranker: PathRanker, question: LinkedQuestion) -> list[str]:
    """What the ranker reads of a question about one topic entity."""
    words = module.RankWords(store, WalkRules(2, "both"))
    (topic,) = question.topics
    return [words.question(question.question, topic.key, words.names(question.topics))]


def test_whether_an_answer_is_there_is_judged_with_and_without_the_head(
    store: SqliteStore, ranker: PathRanker
) -> None:
    def odds(one: PathRanker) -> float:
        confidence = answered(store, rank(one, refuse_above=0.0), about(store, "shop")).confidence
        return float(np.log(confidence / (1 - confidence)))

    wanted, bare = wanting(ranker, named(store, "x born in ?")), wanting(ranker)
    headed = wanting(ranker, named(store, "x born in ?"))
    width = ranker.encoder.width  # without its head it wants nothing
    headed.head = np.zeros((1, width), np.float32), np.zeros((width, 1), np.float32)
    assert odds(wanted) - odds(bare) > 1
    assert odds(headed) == pytest.approx((odds(wanted) + odds(bare)) / 2)


def test_none_of_them_can_be_likeliest(store: SqliteStore, ranker: PathRanker) -> None:
    card = RankerCard(encoder=ranker.card.encoder, none=50.0)
    unsure = PathRanker("unsure", card, ranker.encoder)
    answer = answered(store, rank(unsure), about(store, "Ada"))
    assert answer.answers == ()
    assert answer.confidence > 0.9


def test_choices_are_ranked(store: SqliteStore, ranker: PathRanker) -> None:
    wanted = wanting(ranker, named(store, "x city ?"))
    question = about(store, "shop", choices=("Kiel", "Bonn", "Atlantis"))
    answer = answered(store, rank(wanted), question)
    assert answer.best.name == "Bonn"
    assert answer.answers[-1].id is None
    with pytest.raises(EmptyLanguageError, match="to one of the choices"):
        answered(store, rank(wanted), about(store, "shop", choices=("Atlantis", "Lemuria")))


def test_an_entity_without_facts_is_an_error(store: SqliteStore, ranker: PathRanker) -> None:
    with pytest.raises(EmptyLanguageError, match="out of the topic entities"):
        answered(store, rank(ranker), about(store, "alone"))


def test_of_several_topics_one_may_have_no_facts(store: SqliteStore, ranker: PathRanker) -> None:
    asked = about(store, "alone", "mill", question="who owns alone or mill, opened after 1975?")
    answer = answered(store, rank(ranker), asked)
    assert {ranked.id for ranked in (*answer.answers, *answer.others)} >= {"Ada", "Cy", "Bonn"}


def test_of_a_hub_the_likely_paths_are_read_or_a_note_says_so(
    store: SqliteStore, ranker: PathRanker, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = wanting(ranker, named(store, "y city x, y sold by ?"))
    whole = answered(store, rank(wanted), about(store, "Bonn"))
    monkeypatch.setattr("kgqa.paths.relation_paths.MOST_PATHS", 2)
    answer = answered(store, rank(wanted), about(store, "Bonn"))
    assert (
        {ranked.id for ranked in answer.answers}
        == {ranked.id for ranked in whole.answers}
        == {"Ada"}
    )
    assert answer.notes == whole.notes
    monkeypatch.setattr("kgqa.paths.relation_paths._MOST_READ", 0)
    answer = answered(store, rank(wanted, refuse_above=1.0), about(store, "Bonn"))
    assert all(len(path.groundings[0].edges) == 1 for path in answer.paths)
    assert "Bonn (Bonn) has too many paths" in answer.notes[0]


def test_of_very_many_relation_paths_the_nearest_are_read(
    store: SqliteStore, ranker: PathRanker, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = module.RankWords(store, WalkRules(2, "both"))
    bonn = int(store.keys_of(["Bonn"])[0])
    steps = relation_paths(store, bonn, WalkRules(2, "both"))[0].steps
    single = next(at for at, one in enumerate(steps) if len(one) == 1)
    asked = words.path(steps[single])
    order = words.nearest(ranker, asked, steps)
    assert sorted(order) == list(range(len(steps)))
    assert single in order[:3], "a path of one hop has its own vector"
    monkeypatch.setattr(module, "MOST_RANKED", 3)
    logits = words.logits(ranker, asked, steps)
    assert np.flatnonzero(np.isfinite(logits)).tolist() == sorted(order[:3])
    alone = [(hop,) for hop in dict.fromkeys(hop for one in steps for hop in one)]
    assert len(alone) > 3
    monkeypatch.setattr(module.RankWords, "nearest", None)  # each hop has its vector already
    some = words.logits(ranker, asked, alone)
    monkeypatch.setattr(module, "MOST_RANKED", 99)
    every = words.logits(ranker, asked, alone)
    best = np.sort(np.argsort(-every, kind="stable")[:3])
    assert np.flatnonzero(np.isfinite(some)).tolist() == best.tolist()
    np.testing.assert_allclose(some[best], every[best], rtol=1e-5)


def test_more_answers_than_paths_that_are_asked_for(store: SqliteStore, ranker: PathRanker) -> None:
    wanted = wanting(ranker, named(store, "? sold by x"))
    answer = answered(store, rank(wanted, k=1), about(store, "Ada"))
    assert len(answer.answers) == 2
    assert len(answer.paths) == 1
    assert len(answer.expanded) == 1
    assert answer.expanded[0].source == answer.paths[0].text


def test_what_a_question_names_chooses_and_is_shown(store: SqliteStore, ranker: PathRanker) -> None:
    wanted = wanting(ranker, named(store, "? sold by x"))
    asked = about(store, "Ada", question="Which of the shops that Ada sold are owned by Cy?")
    answer = answered(store, rank(wanted), asked)
    assert [ranked.id for ranked in answer.answers] == ["mill"]
    (condition,) = answer.best.conditions
    assert (condition.asked, condition.grounding.text) == ("Cy", "mill -> owner -> Cy")
    assert condition.grounding.edges[0].facts[0] in answer.facts()
    assert "     Cy: mill -> owner -> Cy" in str(answer).splitlines()
    assert answer.to_dict()["answers"][0]["conditions"] == [condition.to_dict()]
    without = answered(store, rank(wanted, conditions=False), asked)
    assert {ranked.id for ranked in without.answers} == {"shop", "mill"}


@pytest.mark.parametrize(("noun", "right"), [("sister", {"Cy"}), ("siblings", {"Bo", "Cy"})])
def test_a_noun_that_says_the_gender_chooses(
    tmp_path: Path, ranker: PathRanker, noun: str, right: set[str]
) -> None:
    edges = [("Ada", "sibling", "Bo"), ("Ada", "sibling", "Cy")]
    edges += [("Bo", "gender", "Male"), ("Cy", "gender", "Female"), ("Ada", "gender", "Female")]
    names = sorted({end for head, _, tail in edges for end in (head, tail)})
    with store_of(tables_of([entity(name, name) for name in names], edges), tmp_path) as kin:
        words = module.RankWords(kin, WalkRules(2, "out"))
        path = words.path([(2 * kin.relations().names.index("sibling"), -1)])
        asked = about(kin, "Ada", question=f"Who is the {noun} of Ada?")
        answer = answered(kin, rank(wanting(ranker, path)), asked)
        assert {ranked.id for ranked in answer.answers} == right
        assert [condition.asked for condition in answer.best.conditions] == [noun][
            : noun == "sister"
        ]


def test_what_is_named_is_no_answer_but_its_path_says_what_is(
    store: SqliteStore, ranker: PathRanker
) -> None:
    wanted = wanting(ranker, named(store, "y sold by x, y owner ?"))
    asked = about(store, "Ada", question="Which of the shops that Ada sold are owned by Cy?")
    assert answered(store, rank(wanted), asked).best.id == "mill"
    assert answered(store, rank(wanted, conditions=False), asked).best.id in {"Bo", "Cy"}


def test_the_class_in_a_row_s_id_is_no_part_of_its_name(tmp_path: Path) -> None:
    rows = ["id,title,author,pages", "1,Salt,Cy Day,120", "2,The Mill,Bo Berg,450"]
    (tmp_path / "books.csv").write_text("\n".join(rows), "utf-8")
    with kgqa.ingest("tables", tmp_path / "books.csv", kg="books", home=tmp_path) as kg:
        assert kg.ask("Is Bo Berg the author of The Mill?").best.name == "yes"  # type: ignore[union-attr]
        other = kg.ask("Is Cy Day the author of The Mill?")
    assert not other.answers
    assert other.notes[-1].startswith("Not in this graph")


def test_what_was_read_for_one_question_is_not_read_for_the_next(
    store: SqliteStore, ranker: PathRanker, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[object] = []
    read: list[str] = []
    path_text, encode = module.relation_path_text, ranker.encoder.encode

    def counted(*given: Any) -> str:
        if len(given) > 2:  # with examples, as the ranker reads it
            texts.append(given[0])
        return path_text(*given)

    def encoded(new: Sequence[str]) -> Any:
        read.extend(new)
        return encode(new)

    monkeypatch.setattr(module, "relation_path_text", counted)
    monkeypatch.setattr(ranker.encoder, "encode", encoded)
    asked = rank(PathRanker("random", ranker.card, ranker.encoder))
    answered(store, asked, about(store, "shop", question="who owns shop?"))
    assert len(texts) > 5
    assert len(read) == len(set(read)) > 5
    texts.clear()
    read.clear()
    answered(store, asked, about(store, "shop", question="whose is shop?"))
    assert read == ["whose is x?"]
    assert not texts
