"""Training a path ranker: domains as batches, what a fit changes, and what learning keeps."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.errors import DataError
from kgqa.methods.rank_words import RankWords
from kgqa.models.path_ranker import (
    OWN_RANKER,
    PathRanker,
    RankerCard,
    load_path_ranker,
    ranker_changes,
    save_path_ranker,
)
from kgqa.models.sentences import load_trainable_encoder
from kgqa.paths.phrases import PHRASES_FILE, phrases_of
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent
from kgqa.questions import Question
from kgqa.registry import validated
from kgqa.training import ranker_learn, ranker_made
from kgqa.training.domains import Domain, batches_of
from kgqa.training.options import LearnOptions
from kgqa.training.ranker_fit import (
    RankerSettings,
    first_right,
    fit_ranker,
    log_likelihoods,
)
from kgqa.training.ranker_head import averaged, joined
from kgqa.training.ranker_learn import learn
from kgqa.training.ranker_made import made_questions
from kgqa.training.ranker_questions import batch_of, kg_questions
from tests.graph.tables import entity, tables_of
from tests.methods.reasoners import encoder_folder
from tests.training.runs import PRACTICE
from tests.trie.language import store_of

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.sqlite import SqliteStore


@pytest.fixture
def ranker(encoder: Path) -> PathRanker:
    trained = load_trainable_encoder(str(encoder), device="cpu", cache=encoder, progress=Silent())
    return PathRanker("random", RankerCard(encoder=str(encoder)), trained)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encoder_folder(tmp_path_factory.mktemp("encoder") / "tiny")


def test_a_batch_says_which_path_is_right(practice: Path) -> None:
    right = {
        "who saw x?": "x treated by ?",
        "whom did x see": "? treated by x",
        "how heavy is x": "x weight ?",
        "where does the doctor of x live": "x treated by y, y lives in ?",
        "who shares a vet with x": "x treated by y, ? treated by y",
    }
    domain = Domain(practice)
    batch = domain.checks()
    assert batch == Domain(practice).checks()
    assert not any("does not fit" in one for one in batch.questions)
    for question, candidates, gold in zip(
        batch.questions, batch.candidates, batch.gold, strict=True
    ):
        (at,) = gold
        assert at in candidates
        if question in right:
            assert batch.paths[at].partition(" such as ")[0] == right[question]
    assert all(one == 1.0 for one in batch.stands_for)


def words_of(store: SqliteStore, ranker: PathRanker) -> RankWords:
    return RankWords(store, WalkRules(ranker.card.hops, store.info.direction))


@pytest.mark.parametrize("seed", range(8))
def test_drawn_batches_fit_together(practice: Path, seed: int) -> None:
    batch = next(batches_of([practice], Random(seed)))
    assert len(batch.paths) == len(batch.hops) == len(batch.stands_for)
    assert any(batch.gold)
    for candidates, gold in zip(batch.candidates, batch.gold, strict=True):
        assert candidates
        assert set(gold) <= set(candidates)
        assert max(candidates) < len(batch.paths)
    assert all("{x}" not in one for one in batch.questions)


@pytest.mark.parametrize("text", ["{", "[]", "{}", json.dumps({**PRACTICE, "types": {}})])
def test_a_file_that_is_no_domain_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(DataError, match=r"odd\.json is not a domain"):
        Domain(tmp_path / "odd.json")


def test_a_fit_prefers_what_is_right_and_is_saved_as_it_is(
    practice: Path, ranker: PathRanker, tmp_path: Path
) -> None:
    checks = [Domain(practice).checks()]
    before = log_likelihoods(ranker, checks).mean(), first_right(ranker, checks)
    settings = RankerSettings(steps=40, rank=4, rate=2e-2)
    fitted = fit_ranker(ranker, batches_of([practice], Random(1)), settings, Silent())
    after = PathRanker("fitted", fitted.card, ranker.encoder)
    assert log_likelihoods(after, checks).mean() > before[0] + 0.3
    assert first_right(after, checks) > before[1]
    save_path_ranker(tmp_path, fitted.card, fitted.changes)
    where = {"device": "cpu", "cache": tmp_path, "progress": Silent()}
    again = load_path_ranker(str(tmp_path), encoder=fitted.card.encoder, **where)
    texts = checks[0].paths
    ones = [1] * len(texts)
    saved, held = (one.logits(["who saw x?"], texts, ones) for one in (again, after))
    np.testing.assert_allclose(saved, held, atol=0.2)  # written as float16


def test_joined_heads_change_as_the_one_after_the_other(ranker: PathRanker) -> None:
    draw = np.random.default_rng(0).normal
    width, texts = ranker.encoder.width, ["who saw x?", "x treated by ?", "x lives in ?"]
    plain = ranker.vectors(texts)
    first, second = ((draw(size=(2, width)), draw(size=(width, 2))) for _ in range(2))
    found = replace(ranker, head=joined(first, second)).vectors(texts)
    for down, up in (first, second):
        plain = plain + plain @ down.T @ up.T
        plain /= np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(found, plain, atol=1e-5)


def test_averaged_heads_change_by_their_mean() -> None:
    draw = np.random.default_rng(0).normal
    heads = [(draw(size=(2, 8)), draw(size=(8, 2))) for _ in range(3)]
    down, up = averaged(heads, 6)
    np.testing.assert_allclose(up @ down, np.mean([one @ two for two, one in heads], axis=0))
    down, up = averaged(heads, 1)  # the nearest of its rank
    assert down.shape == (1, 8)
    assert up.shape == (8, 1)
    strength = np.linalg.svd(np.mean([one @ two for two, one in heads], axis=0))[1]
    rest = np.mean([one @ two for two, one in heads], axis=0) - up @ down
    np.testing.assert_allclose(np.linalg.norm(rest), np.linalg.norm(strength[1:]))


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> SqliteStore:
    names = [f"Shop {letter}" for letter in "KLMNOPQRSTUV"]
    edges = [(name, "owner", f"Owner {name[-1]}") for name in names]
    edges += [(name, "city", f"City {name[-1]}") for name in names]
    nodes = sorted({end for head, _, tail in edges for end in (head, tail)})
    tables = tables_of([entity(one, one) for one in nodes], edges, direction="both", name="shops")
    return store_of(tables, tmp_path_factory.mktemp("shops"))


def questions() -> list[Question]:
    found = []
    for letter in "KLMNOPQRSTUV":
        about = (f"Shop {letter}",)
        for text, answer in (("who runs", f"Owner {letter}"), ("where is", f"City {letter}")):
            found.append(
                Question(f"{text} {letter}", f"{text} Shop {letter}", list(about), [answer])
            )
    return found


def test_questions_know_the_relation_paths_to_their_answers(
    shops: SqliteStore, ranker: PathRanker
) -> None:
    odd = Question("odd", "who is Nobody", ["Nobody"], ["Owner K"])
    lost = Question("lost", "who is Shop K", ["Shop K"], ["Owner L"])
    none = Question("none", "how old is Shop K", ["Shop K"], [])
    made, unusable = kg_questions(words_of(shops, ranker), [*questions(), odd, lost, none], ranker)
    assert unusable == 2
    assert len(made) == 25
    first = made[0]
    assert first.asked == "who runs x"
    assert [one.partition(" such as ")[0] for one in first.gold] == ["x owner ?"]
    assert made[-1].gold == frozenset()
    gold = Question("gold", "who runs Shop K", ["Shop K"], [], relation_paths=[("owner",)])
    (by_path,), unusable = kg_questions(words_of(shops, ranker), [gold], ranker)
    assert (by_path.gold, unusable) == (first.gold, 0)
    batch = batch_of(made)
    assert len(batch.paths) == len(set(batch.paths))
    assert batch.gold[-1] == []
    assert [batch.paths[at] for at in batch.gold[0]] == list(first.gold)
    assert {batch.paths[at] for at in batch.candidates[0]} == set(first.paths)


def test_made_questions_are_people_s_about_entities_that_have_the_relation(
    shops: SqliteStore, ranker: PathRanker, practice: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranker_made, "_LIKE", -1.0)
    words = words_of(shops, ranker)
    made = made_questions(words, ranker, Random(0), Silent(), domains=practice.parent)
    assert made == made_questions(words, ranker, Random(0), Silent(), domains=practice.parent)
    texts = set(_texts(PRACTICE))
    for one in made:
        assert (one.hop,) in one.among
        assert one.text in texts
        asked = one.of_kg(words, ranker)
        assert asked.gold == {words.path([one.hop])}
    learnt, held_out = ({one.text for one in made if one.held_out == h} for h in (False, True))
    assert learnt
    assert not learnt & held_out


def test_what_people_ask_is_read_once(
    shops: SqliteStore, encoder: Path, practice: Path, tmp_path: Path
) -> None:
    save_path_ranker(tmp_path / "start", RankerCard(encoder=str(encoder)), {})
    where = {"device": "cpu", "cache": tmp_path, "progress": Silent(), "encoder": str(encoder)}
    ranker = load_path_ranker(str(tmp_path / "start"), **where)
    words, read = words_of(shops, ranker), list[str]()
    encode = ranker.encoder.encode
    ranker.encoder.encode = lambda texts: (read.extend(texts), encode(texts))[1]  # type: ignore[method-assign]
    made = [
        made_questions(words, ranker, Random(0), Silent(), tmp_path / kept, practice.parent)
        for kept in ("one", "one", "two")
    ]
    assert made[0] == made[1] == made[2]
    assert sum(text.startswith("x treated by ?") for text in read) == 2
    (file,) = (tmp_path / "one").iterdir()
    file.write_bytes(file.read_bytes()[:40])
    assert made_questions(words, ranker, Random(0), Silent(), tmp_path / "one", practice.parent)
    assert sum(text.startswith("x treated by ?") for text in read) == 3, "a damaged file"


def _texts(domain: dict) -> list[str]:
    every = [
        one[name] for one in domain["relations"] for name in ("forward", "backward") if name in one
    ]
    return [text for texts in every for text in texts]


@pytest.mark.parametrize("rate", [2e-2, 1e-12])
def test_what_is_learnt_is_kept_only_if_it_is_better(
    shops: SqliteStore,
    encoder: Path,
    tmp_path: Path,
    rate: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranker_learn, "made_questions", lambda *_: [])  # people's alone
    start = tmp_path / "start"
    save_path_ranker(start, RankerCard(encoder=str(encoder), hop_bias=(0.0, -9.0)), {})
    file = tmp_path / "questions.jsonl"
    rows = [
        {"id": q.id, "question": q.question, "topic_entities": q.topic_entities,
         "answers": q.answers}
        for q in questions()
    ]  # fmt: skip
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = {
        "questions": file, "start_from": str(start), "learning_rate": rate, "encoder": str(encoder)
    }  # fmt: skip
    options = validated(LearnOptions, given, "kgqa learn")
    out = tmp_path / OWN_RANKER
    report = learn(shops, tmp_path, options, device="cpu", cache=tmp_path, progress=Silent())
    assert report.questions == 24
    if rate > 1e-6:
        assert report.after > report.before
        assert report.folder == out
        assert ranker_changes(str(out))
        where = {"device": "cpu", "cache": tmp_path, "progress": Silent()}
        own = load_path_ranker(str(out), encoder=str(encoder), **where)
        made, _ = kg_questions(words_of(shops, own), questions(), own)
        assert first_right(own, [batch_of(made)]) == 1.0
    else:
        assert report.folder is None
        assert not out.exists()


def test_too_few_questions_are_an_error(shops: SqliteStore, encoder: Path, tmp_path: Path) -> None:
    save_path_ranker(tmp_path / "start", RankerCard(encoder=str(encoder)), {})
    file = tmp_path / "few.jsonl"
    file.write_text(
        '{"question": "who runs Shop K", "topic_entities": ["Shop K"], "answers": ["Owner K"]}\n'
    )
    given = {"questions": file, "start_from": str(tmp_path / "start"), "encoder": str(encoder)}
    options = validated(LearnOptions, given, "kgqa learn")
    with pytest.raises(DataError, match="has 1 questions that shops can answer; 8 are needed"):
        learn(shops, tmp_path / "out", options, device="cpu", cache=tmp_path, progress=Silent())


def test_phrases_are_written_edited_and_kept_with_the_kg(
    shops: SqliteStore, encoder: Path, tmp_path: Path
) -> None:
    save_path_ranker(tmp_path / "start", RankerCard(encoder=str(encoder)), {})
    file, home = tmp_path / "my.tsv", tmp_path / "kg"
    few = tmp_path / "few.jsonl"
    few.write_text('{"question": "who", "topic_entities": ["Shop K"], "answers": ["Nobody"]}\n')
    start = {"start_from": str(tmp_path / "start"), "encoder": str(encoder)}
    given = {"questions": few, "phrases": file, **start}
    options = validated(LearnOptions, given, "kgqa learn")

    def run() -> None:
        with pytest.raises(DataError, match="are needed to learn from"):
            learn(shops, home, options, device="cpu", cache=tmp_path, progress=Silent())

    run()
    first, *rest = file.read_text().splitlines()[1:]
    relation, phrase = first.split("\t")
    assert phrases_of(shops, home)[0] == (phrase,)
    file.write_text("\n".join([f"{relation}\tis run by\tbelongs to", *rest]))
    run()
    assert phrases_of(shops, home)[0] == ("is run by", "belongs to")
    assert RankWords(shops, WalkRules(2, "both"), home).path([(0, -1)]).startswith("x is run by ?")
    file.write_text("nothing like it\tis odd")
    with pytest.raises(DataError, match="'nothing like it', which is not a relation of shops"):
        learn(shops, home, options, device="cpu", cache=tmp_path, progress=Silent())
    file.write_text(relation)
    with pytest.raises(DataError, match=r"my\.tsv, line 1: .* has no phrase"):
        learn(shops, home, options, device="cpu", cache=tmp_path, progress=Silent())
    assert phrases_of(shops, home)[0] == ("is run by", "belongs to"), "what is kept stays"
    assert (home / PHRASES_FILE).is_file()
