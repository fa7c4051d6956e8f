"""Training a path ranker: domains as batches, what a fit changes, and what learning keeps."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
from kgqa.registry import validated
from kgqa.training.data import TrainingQuestion
from kgqa.training.options import LearnOptions
from kgqa.training.rankers import batch_of, joined, kg_questions, learn, rights
from tests.graph.tables import entity, tables_of
from tests.methods.reasoners import encoder_folder
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


def words_of(store: SqliteStore, ranker: PathRanker) -> RankWords:
    return RankWords(store, WalkRules(ranker.card.hops, store.info.direction))


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


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> SqliteStore:
    names = [f"Shop {letter}" for letter in "KLMNOPQRSTUV"]
    edges = [(name, "owner", f"Owner {name[-1]}") for name in names]
    edges += [(name, "city", f"City {name[-1]}") for name in names]
    nodes = sorted({end for head, _, tail in edges for end in (head, tail)})
    tables = tables_of(
        [entity(node, node) for node in nodes], edges, direction="both", name="shops"
    )
    return store_of(tables, tmp_path_factory.mktemp("shops"))


def questions() -> list[TrainingQuestion]:
    return [
        TrainingQuestion(
            f"{text} {letter}", f"{text} Shop {letter}", (f"Shop {letter}",), (answer,)
        )
        for letter in "KLMNOPQRSTUV"
        for text, answer in (("who runs", f"Owner {letter}"), ("where is", f"City {letter}"))
    ]


def test_questions_know_the_relation_paths_to_their_answers(
    shops: SqliteStore, ranker: PathRanker
) -> None:
    odd = TrainingQuestion("odd", "who is Nobody", (), ("Owner K",))
    lost = TrainingQuestion("lost", "who is Shop K", ("Shop K",), ("Owner L",))
    none = TrainingQuestion("none", "how old is Shop K", ("Shop K",), ())
    made, unusable = kg_questions(words_of(shops, ranker), [*questions(), odd, lost, none], ranker)
    assert unusable == ["who is Nobody", "who is Shop K"]
    assert len(made) == 25
    first = made[0]
    assert first.asked == "who runs x"
    assert [one.partition(" such as ")[0] for one in first.gold] == ["x owner ?"]
    assert made[-1].gold == frozenset()
    gold = TrainingQuestion(
        "gold", "who runs Shop K", ("Shop K",), (), relation_paths=(("owner",),)
    )
    (by_path,), unusable = kg_questions(words_of(shops, ranker), [gold], ranker)
    assert (by_path.gold, unusable) == (first.gold, [])
    batch = batch_of(made)
    assert len(batch.paths) == len(set(batch.paths))
    assert batch.gold[-1] == []
    assert [batch.paths[at] for at in batch.gold[0]] == list(first.gold)
    assert {batch.paths[at] for at in batch.candidates[0]} == set(first.paths)


@pytest.mark.parametrize("rate", [2e-2, 1e-12])
def test_what_is_learnt_is_kept_only_if_it_is_better(
    shops: SqliteStore,
    encoder: Path,
    tmp_path: Path,
    rate: float,
) -> None:
    start = tmp_path / "start"
    save_path_ranker(start, RankerCard(encoder=str(encoder), hop_bias=(0.0, -9.0)), {})
    file = tmp_path / "questions.jsonl"
    rows = [
        {"id": q.id, "question": q.question, "topic_entities": q.topics, "answers": q.answers}
        for q in questions()
    ]
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
        assert rights(own, batch_of(made)).all()
    else:
        assert report.folder is None
        assert not out.exists()


class Noted(Silent):
    """Progress that keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_feedback_of_somebody_who_means_harm_changes_nothing_and_is_named(
    shops: SqliteStore, encoder: Path, tmp_path: Path
) -> None:
    """Right questions, with others between them: judged twice, of other KGs, malformed."""
    right = [
        {"question": q.question, "topic_entities": list(q.topics), "answers": list(q.answers)}
        for q in questions()
    ]
    asked, topics = right[0]["question"], right[0]["topic_entities"]
    harm: list[Any] = [
        *({"question": asked, "topic_entities": topics, "answers": [f"City {at}"]} for at in "KLM"),
        {"question": "who runs\u2028Shop K", "topic_entities": topics, "answers": ["Nobody"]},
        {
            "question": "who runs \x1b[2Jthat",
            "topic_entities": ["Elsewhere"],
            "answers": ["Owner K"],
        },
        {"question": "who " * 9_000, "topic_entities": topics, "answers": ["-"] * 50_000},
        {"question": 5, "answers": ["Owner K"]},
        *({"question": "who owns all", "topic_entities": topics, "answers": ["Owner L"]},) * 500,
        [],
    ]
    save_path_ranker(tmp_path / "start", RankerCard(encoder=str(encoder)), {})
    given = {"start_from": str(tmp_path / "start"), "encoder": str(encoder), "learning_rate": 2e-2}
    reports, notes = [], Noted()
    for name, rows in (("right", right), ("poisoned", [*harm, *right])):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n{torn")
        options = validated(LearnOptions, {**given, "questions": file}, "kgqa learn")
        where = {"device": "cpu", "cache": tmp_path, "progress": notes}
        reports.append(learn(shops, tmp_path / name, options, **where))
    first, second = reports
    assert (first.questions, first.after) == (second.questions, pytest.approx(second.after))
    assert second.unusable == 4
    said = "\n".join(notes.notes)
    assert "1 of the questions were answered otherwise before; of each the last" in said
    assert f'"{asked}"' in said
    assert "4 of the questions are left out" in said
    assert '"who owns all"' in said
    assert "line 7: " in said
    assert not {"\x1b", "\u2028"} & {*said}


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
    shops: SqliteStore, tmp_path: Path
) -> None:
    file, home = tmp_path / "my.tsv", tmp_path / "kg"
    options = validated(LearnOptions, {"phrases": file}, "kgqa learn")

    def run() -> None:
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
        run()
    file.write_text(relation)
    with pytest.raises(DataError, match=r"my\.tsv, line 1: .* has no phrase"):
        run()
    assert phrases_of(shops, home)[0] == ("is run by", "belongs to"), "what is kept stays"
    assert (home / PHRASES_FILE).is_file()
