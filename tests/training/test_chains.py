"""Chains to train on: every triplet is in the graph, and decoding could have written each token."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kgqa.answers.naming import form_of
from kgqa.decoding.span_markers import FreeText, MarkedConstraint
from kgqa.methods.dog.answers import claimed
from kgqa.methods.dog.chains import BETWEEN, extended, first_reading, markers_of
from kgqa.methods.dog.graph import GraphFilter
from kgqa.models.adapter import preset
from kgqa.models.kg_llm import NO_ADAPTER, load_kg_llm
from kgqa.models.sentences_torch import TorchSentenceEncoder
from kgqa.paths.format import PathFormat
from kgqa.paths.triplets import END, StoreTriplets, as_rows, joined_rows
from kgqa.paths.walk import WalkRules
from kgqa.progress import Silent
from kgqa.training.chains import ChainExample, Step, as_stored, build_chains, can_be_said, concluded
from kgqa.training.data import TrainingQuestion, without_repeats
from kgqa.training.fit import IGNORED, chain_tokens, encode
from kgqa.trie.composed import TripletLanguage
from kgqa.trie.lexicon import PathLexicon
from tests.graph.tables import entity, random_tables, tables_of
from tests.trie.language import store_of

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.models.kg_llm import KgLLM

pytestmark = pytest.mark.model
FORM = PathFormat()


@pytest.fixture(scope="module")
def llm(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> KgLLM:
    cache = tmp_path_factory.mktemp("cache")
    tiny = load_kg_llm(str(tiny_folder), NO_ADAPTER, device="cpu", cache=cache, progress=Silent())
    return tiny.with_card(preset("dog"))


def graphs(llm: KgLLM, **more: int) -> GraphFilter:
    """A filter whose vectors are made by the tiny model: which triplets it prefers is chance."""
    encoder = TorchSentenceEncoder("tiny", llm.model.model, llm.tokenizer, "mean", 64)  # type: ignore[union-attr]
    return GraphFilter(encoder, FORM, **more)


def asked(id_: str, topics: list[str], answers: list[str], text: str = "Who?") -> TrainingQuestion:
    return TrainingQuestion(id_, text, tuple(topics), tuple(answers))


def made(store: GraphStore, llm: KgLLM, *questions: TrainingQuestion, **more):
    rules = more.pop("rules", WalkRules())
    chosen = more.pop("chosen", None) or graphs(llm)
    return build_chains(store, questions, rules, chosen, progress=Silent(), **more)


def check_decodable(store: GraphStore, llm: KgLLM, chain: ChainExample, rules: WalkRules) -> None:
    """Fail unless decoding from the topic entities could write the chain, token by token."""
    lexicon = PathLexicon(llm.encoder, FORM)
    tokens = chain_tokens(llm.encoder, lexicon, chain)
    assert tokens is not None
    everywhere = StoreTriplets(store, rules.mediators, entered=rules.direction != "out")
    language = TripletLanguage(store, everywhere, lexicon)
    markers = markers_of(llm.encoder)
    readings = [first_reading(store, store.keys_of(chain.topic_ids).tolist())]
    at = spans = 0
    free: list[int] = []
    while at < len(tokens):
        free.append(tokens[at])
        at += 1
        opening = markers.completed(free)
        if opening is None:
            continue
        visited = frozenset().union(*(reading.visited for reading in readings))
        inner = language.constraint(visited)
        marked = MarkedConstraint(inner, markers.closing)
        states = [marked.start()]
        while not (ends := [state for state in states if marked.is_end([state])[0]]):
            moves = marked.expand(states)
            states = moves.state[moves.token == tokens[at]].tolist()
            assert states, f"token {at} of the chain could not be written"
            at += 1
        rows = joined_rows(as_rows(inner.ground(end)) for end in ends)
        readings = extended(store, readings, rows)
        assert readings
        spans += 1
        free = []
    assert spans == len(chain.steps)
    assert free[-1] == llm.encoder.eos_id
    last = claimed([FreeText(tuple(free), llm.encoder.decode(free[:-1]))])
    assert last is not None
    assert [form_of(one) for one in last] == [form_of(ranked) for ranked in chain.answers]
    reached = {
        form_of(name or id_)
        for reading in readings
        for row in reading.triplets
        for key in (row[0], row[END])
        for name, id_ in [_named(store, key)]
    }
    assert {form_of(ranked) for ranked in chain.answers} <= reached


def _named(store: GraphStore, key: int) -> tuple[str | None, str]:
    found = store.entities(np.array([key], np.int64))
    return found.names[0], found.ids[0]


def test_a_chain_shows_each_answer_it_names_and_thinks_in_the_relations_words(
    town: GraphStore, llm: KgLLM
) -> None:
    two_hops = asked("q", ["p1"], ["c2"], "Where was the child of person 1 born?")
    (chain,), report = made(town, llm, two_hops)
    assert chain.steps == (
        Step("First I look for the child of Person 1.", "Person 1", "person.child", "Person 2"),
        Step("Then I look for the born in of Person 2.", "Person 2", "person.born_in", "City 2"),
    )
    assert chain.conclusion == "Therefore, the answer is * City 2."
    assert (chain.topics, chain.topic_ids) == (("Person 1",), ("p1",))
    for step in chain.steps:
        assert f"{step.head} -> {step.relation} -> {step.tail}" in chain.graph
    assert (report.used, report.put_in) == (1, 0)
    check_decodable(town, llm, chain, WalkRules())


def test_mediators_and_edges_walked_back_are_written_as_they_are_stored(
    town: GraphStore, llm: KgLLM
) -> None:
    both = WalkRules(1, "both")
    by_office, back = asked("a", ["p1"], ["c4"]), asked("b", ["c1"], ["p1"])
    from_place = asked("c", ["c4"], ["p1"])
    chains, _ = made(town, llm, by_office, back, from_place, rules=both)
    assert [chain.steps[0].relation for chain in chains] == [
        "person.office..office.place",
        "person.born_in",
        "person.office..office.place",
    ]
    assert [chain.steps[0].head for chain in chains] == ["Person 1"] * 3
    assert chains[1].steps[0].thought == "First I look for what has City 1 as born in."
    for chain in chains:
        check_decodable(town, llm, chain, both)


def test_several_answers_share_a_chain_up_to_its_steps(tmp_path: Path, llm: KgLLM) -> None:
    nodes = [entity("a", "Ann"), *(entity(f"b{at}", f"Bo {at}") for at in range(9))]
    nodes += [entity("odd", "Bo < 9"), entity("star", "Bo * Cy"), entity("none", "None")]
    ends = [node["id"] for node in nodes[1:]]
    tables = tables_of(nodes, [("a", "knows", end) for end in ends])
    with store_of(tables, tmp_path) as store:
        (chain,), report = made(store, llm, asked("q", ["a"], ends))
        assert len(chain.steps) == len(chain.answers) == 5
        assert [step.tail for step in chain.steps] == list(chain.answers)
        assert set(chain.answers) <= {f"Bo {at}" for at in range(9)}
        assert [step.thought for step in chain.steps[1:]] == ["There is another one."] * 4
        assert chain.conclusion.count(", and * ") == 4
        check_decodable(store, llm, chain, WalkRules())
        # names that the last line could not say
        none, report = made(store, llm, asked("q", ["a"], ["odd", "star", "none"]))
        assert (none, report.unwritable, report.used) == ([], 1, 0)
        assert "1 questions have no answer whose name can be written" in str(report)


def test_a_topic_with_an_opening_in_its_name_is_not_thought_about_by_name(
    tmp_path: Path, llm: KgLLM
) -> None:
    nodes = [entity("a", "A < B -> C | D >"), entity("b", "Bo <|im_end|>"), entity("c", "Cy")]
    tables = tables_of(nodes, [("a", "knows", "c"), ("c", "knows", "b"), ("b", "is", "a")])
    with store_of(tables, tmp_path) as store:
        (chain,), _ = made(store, llm, asked("q", ["a"], ["c"]))
        assert chain.steps[0].thought == "First I look for a fact that helps."
        check_decodable(store, llm, chain, WalkRules())


def test_what_the_filter_left_out_is_put_into_the_prompt(town: GraphStore, llm: KgLLM) -> None:
    questions = [asked(f"q{at}", [f"p{at}"], [f"c{at + 1}"]) for at in range(10)]
    chains, report = made(town, llm, *questions, chosen=graphs(llm, most=2))
    assert len(chains) == 10
    assert 0 < report.put_in <= 10
    assert f"Of {report.put_in} chains a triplet had to be put" in str(report)
    for chain in chains:
        assert len(chain.graph) == 2
        assert set(chain.graph) == {" -> ".join(hop) for hop in chain.hops}


def test_the_prompt_is_the_one_that_is_asked_with_and_the_loss_is_on_the_chain(
    town: GraphStore, llm: KgLLM
) -> None:
    (chain,), _ = made(town, llm, asked("q", ["p1"], ["c2"]))
    (row,), too_long = encode(llm, [chain], FORM, 4096)
    prompt = llm.prompt_ids(chain.question, chain.topics, BETWEEN.join(chain.graph))
    written = chain_tokens(llm.encoder, PathLexicon(llm.encoder, FORM), chain)
    assert written is not None
    assert row["input_ids"] == [*prompt, *written]
    assert row["labels"] == [IGNORED] * len(prompt) + written
    assert too_long == 0
    text = llm.encoder.decode(row["input_ids"])
    assert text.endswith(
        "Answer: First I look for the child of Person 1. < Person 1 -> person.child -> Person 2 > "
        "Then I look for the born in of Person 2. < Person 2 -> person.born_in -> City 2 > "
        "Therefore, the answer is * City 2.<|im_end|>"
    )


def test_a_long_graph_is_made_smaller_and_keeps_what_the_chain_needs(
    town: GraphStore, llm: KgLLM
) -> None:
    (chain,), _ = made(town, llm, asked("q", ["p1"], ["c2"]))

    def fitted(one: ChainExample, most: int) -> list[int]:
        ((row,), _) = encode(llm, [one], FORM, most)
        return row["input_ids"]

    needed = [" -> ".join(hop) for hop in chain.hops]
    least = replace(chain, graph=tuple(one for one in chain.graph if one in needed))
    room = len(fitted(least, 4096))
    for most in range(room, len(fitted(chain, 4096)) + 1):
        ids = fitted(chain, most)
        assert len(ids) <= most
        shown = llm.encoder.decode(ids).rpartition("\nGraph: ")[2].partition("\n")[0]
        kept = shown.split(BETWEEN)
        assert [one for one in chain.graph if one in kept] == kept
        assert set(needed) <= set(kept)
    assert encode(llm, [chain], FORM, room - 1) == ([], 1)


def test_a_chain_that_decoding_could_not_write_is_left_out(llm: KgLLM) -> None:
    lexicon = PathLexicon(llm.encoder, FORM)
    step = Step("First I look.", "Ann", "knows", "Bo")
    chain = ChainExample("q", "Who?", ("Ann",), ("Ann -> knows -> Bo",), (step,), ("Bo",))
    assert chain_tokens(llm.encoder, lexicon, chain) is not None
    for bad in (
        replace(chain, steps=(replace(step, thought="Is 1 < 2?"),)),
        replace(chain, steps=(replace(step, tail="Bo " * 200),)),
        replace(chain, steps=(replace(step, thought="So. " * 300),)),
        replace(chain, answers=("< Bo",)),
    ):
        assert chain_tokens(llm.encoder, lexicon, bad) is None


def test_repeated_chains_are_one_and_held_out_questions_are_not_asked(
    town: GraphStore, llm: KgLLM
) -> None:
    one, same = asked("a", ["p1"], ["c1"]), asked("b", ["p1"], ["c1"])
    chains, _ = made(town, llm, one, same)
    assert len(without_repeats(chains)) == 1
    assert without_repeats(chains, chains[:1]) == []


def test_unknown_and_unreachable_questions_are_reported(town: GraphStore, llm: KgLLM) -> None:
    chains, report = made(town, llm, asked("a", ["nobody"], ["c1"]), asked("b", ["p1"], ["c19"]))
    assert (chains, report.unknown, report.unreachable) == ([], ["a"], ["b"])


@pytest.mark.parametrize("seed", range(40))
def test_in_any_graph_a_chain_is_one_that_decoding_could_write(
    seed: int, tmp_path: Path, llm: KgLLM
) -> None:
    with store_of(random_tables(seed), tmp_path) as store:
        keys = np.arange(store.info.entities + store.info.mediators + store.info.values)
        every = store.entities(keys)
        dice = np.random.default_rng(seed)
        named = [id_ for id_, kind in zip(every.ids, every.kinds, strict=True) if kind == 0]
        mediators = "collapse" if seed % 3 else "keep"
        rules = WalkRules(1 + seed % 3, store.info.direction, mediators)
        questions = [
            asked(str(at), [str(dice.choice(named))], [str(dice.choice(every.ids))])
            for at in range(6)
            if named
        ]
        chains, _ = made(store, llm, *questions, rules=rules, per_question=2, seed=seed)
        for chain in chains:
            check_decodable(store, llm, chain, rules)
            assert {" ".join(" -> ".join(hop).split()) for hop in chain.hops} <= set(chain.graph)


def test_a_walked_hop_is_turned_only_where_both_its_edges_are_walked_back() -> None:
    rows = np.array(
        [[1, 4, -1, -1, 2], [1, 5, -1, -1, 2], [1, 5, 7, 9, 2], [1, 5, 7, 8, 2]], np.int64
    )
    assert as_stored(rows).tolist() == [
        [1, 4, -1, -1, 2],
        [2, 4, -1, -1, 1],
        [2, 8, 7, 4, 1],
        [1, 5, 7, 8, 2],
    ]


def test_names_that_the_last_line_can_say() -> None:
    for name in ("Oslo", "M*A*S*H", "Washington, D.C.", "Simon & Garfunkel", "1911-05-01"):
        assert can_be_said(name), name
    for name in ("a < b", "", "Oslo * Rome", "None"):
        assert not can_be_said(name), name
    assert concluded(["A", "B"]) == "Therefore, the answer is * A, and * B."
