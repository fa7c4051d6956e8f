"""Every search gives the scores it says, whichever constraint serves, and proves what it claims."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch

from kgqa.answers.answer import SearchUse, TopicEntity
from kgqa.decoding.engine import Engine, Plan
from kgqa.errors import TimeLimitError, UsageError
from kgqa.graph.model import keys_array
from kgqa.methods.gcr import Asking, GcrOptions, answer_question, answer_questions
from kgqa.methods.searches import SearchOptions
from kgqa.paths.format import PathFormat
from kgqa.paths.walk import WalkRules, walk
from kgqa.trie.lexicon import PathLexicon
from kgqa.trie.precompute import all_topics
from tests.fixtures import LINCOLN, TOLKIEN, random_model
from tests.methods.test_gcr import same, topic_of

if TYPE_CHECKING:
    from kgqa.answers.answer import Answer
    from kgqa.graph.sqlite import SqliteStore
    from kgqa.models.kg_llm import KgLLM

FORM = PathFormat()
RULES = WalkRules()
QUESTION = "Where was he born?"
KINDS = [
    SearchOptions("beam"),
    SearchOptions("diverse"),
    SearchOptions("diverse", groups=2, diversity_penalty=3.0),
    SearchOptions("exact"),
    SearchOptions("sample", seed=4),
]
NAMES = ["beam", "diverse", "two groups", "exact", "sample"]
each_search = pytest.mark.parametrize("search", KINDS, ids=NAMES)


def ask(
    store: SqliteStore,
    llm: KgLLM,
    topics: list[TopicEntity],
    search: SearchOptions,
    k: int = 5,
    **more: Any,
) -> Answer:
    options = GcrOptions(k=k, search=search)
    # a plan of the test's own: what a device measures decides where a limit on forwards falls
    engine = Engine(llm.model, Plan(budget=more.pop("budget", 512)))
    lexicon = PathLexicon(llm.encoder, FORM)
    return answer_question(
        store, llm, lexicon, QUESTION, topics, RULES, options, engine=engine, **more
    )


def scores_of(
    store: SqliteStore, llm: KgLLM, topic: TopicEntity, pieces: list[list[str]]
) -> list[float]:
    """The log-probability of each path, from its parts, by whole forwards without a cache."""
    lexicon = PathLexicon(llm.encoder, FORM)
    prompt = llm.prompt_ids(QUESTION, [topic.name])
    rows = [
        list(lexicon.sequence(parts[0], list(zip(parts[1::2], parts[2::2], strict=True))))
        for parts in pieces
    ]
    found: list[float] = []
    for at in range(0, len(rows), 16):
        some = rows[at : at + 16]
        longest = max(map(len, some))
        ids = torch.tensor([[*prompt, *row, *[0] * (longest - len(row))] for row in some])
        with torch.inference_mode():
            logits = llm.model(ids, logits_to_keep=longest + 1).logits[:, :-1]
            shares = logits.float().log_softmax(-1)
        for number, row in enumerate(some):
            token = torch.tensor(row)
            found.append(float(shares[number, torch.arange(len(row)), token].sum()))
    return found


def every_path(store: SqliteStore, topic: TopicEntity) -> list[list[str]]:
    """The parts of every path out of a topic entity, each text once, by the walk alone."""
    table, _ = walk(store, keys_array([topic.key]), RULES)
    nodes = sorted({topic.key, *(int(hop) for hop in table.hops[:, :, 3].ravel() if hop >= 0)})
    label = dict(
        zip(nodes, map(store.entities(keys_array(nodes)).label, range(len(nodes))), strict=True)
    )
    relations = store.relations()

    def step(number: int) -> str:
        return (FORM.inverse if number % 2 else "") + relations.names[number // 2]

    found = set()
    for length, hops in zip(table.length.tolist(), table.hops.tolist(), strict=True):
        parts = [topic.name]
        for first, _, second, tail in hops[:length]:
            parts.append(step(first) if second < 0 else step(first) + FORM.joiner + step(second))
            parts.append(label[tail])
        found.add(tuple(parts))
    return [list(parts) for parts in sorted(found)]


# ── options ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "k", "said"),
    [
        ({"groups": 2}, 5, "--groups belongs to --search diverse, and the search is beam"),
        ({"kind": "exact", "diversity_penalty": 1.0}, 5, "--diversity-penalty belongs to"),
        ({"kind": "exact", "seed": 0}, 5, "--seed belongs to --search sample"),
        ({"kind": "sample", "max_forwards": 3}, 5, "--max-forwards belongs to --search exact"),
        ({"kind": "exact", "max_forwards": 0}, 5, "at least 1 forward"),
        ({"kind": "diverse", "groups": 6}, 5, "1 to 5 groups, not in 6"),
        ({"kind": "diverse", "diversity_penalty": -1.0}, 5, "diversity_penalty"),
        ({"kind": "sample", "seed": -1}, 5, "seed"),
        ({}, 0, "at least 1"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(
    options: dict[str, Any], k: int, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        GcrOptions(k=k, search=SearchOptions(**options))


@pytest.mark.parametrize("kind", ["exact", "sample"])
def test_a_length_penalty_is_refused_where_it_could_only_mislead(kind: Any) -> None:
    with pytest.raises(UsageError, match="length penalty"):
        GcrOptions(length_penalty=1.0, search=SearchOptions(kind))


def test_a_bound_of_minus_infinity_is_null_in_json() -> None:
    """JSON has no infinity."""
    use = SearchUse("exact", proven=True, certain=3, bound=float("-inf"), demands=7)
    assert use.to_json() == {
        "kind": "exact",
        "proven": True,
        "certain": 3,
        "bound": None,
        "demands": 7,
    }


# ── the same list, whichever constraint serves ──────────────────────────────────────────────────


@pytest.mark.model
@each_search
@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)]
)
def test_stored_and_composed_constraints_give_the_same_list(
    sample, kg_llm, index, search: SearchOptions, seed: int
) -> None:
    llm = random_model(kg_llm, seed)
    topics = [topic_of(sample, one) for one in (TOLKIEN, LINCOLN)[: 1 + seed % 2]]
    stored = ask(sample, llm, topics, search, k=8, index=index)
    composed = ask(sample, llm, topics, search, k=8)
    assert {use.source for use in stored.constraints} == {"shard"}
    assert {use.source for use in composed.constraints} == {"composed"}
    assert same(stored, composed)
    assert stored.search.kind == search.kind
    assert stored.search.proven == composed.search.proven
    assert len(stored.paths) == 8


@pytest.mark.model
@each_search
def test_the_real_model_gives_the_same_list_with_both_constraints(
    sample, kg_llm, index, search: SearchOptions
) -> None:
    topics = [topic_of(sample, TOLKIEN)]
    stored = ask(sample, kg_llm, topics, search, index=index)
    composed = ask(sample, kg_llm, topics, search)
    assert {use.source for use in stored.constraints} == {"shard"}
    assert same(stored, composed)


# ── scores and proofs ───────────────────────────────────────────────────────────────────────────


def parts_of(answer: Answer) -> list[list[str]]:
    return [
        [path.groundings[0].head.name]
        + [part for edge in path.groundings[0].edges for part in (edge.relation, edge.tail.name)]
        for path in answer.paths
    ]


@pytest.mark.model
@each_search
def test_a_score_is_the_sum_of_log_probabilities(sample, random_llm, search: SearchOptions) -> None:
    topic = topic_of(sample, TOLKIEN)
    answer = ask(sample, random_llm, [topic], search, k=6)
    expected = scores_of(sample, random_llm, topic, parts_of(answer))
    assert [path.score for path in answer.paths] == pytest.approx(expected, abs=1e-3)
    if search.kind != "sample":  # which is in the order of its drawing
        assert expected == pytest.approx(sorted(expected, reverse=True), abs=1e-3)


def small_topics(store: SqliteStore, count: int) -> list[TopicEntity]:
    """Seeded topic entities of the sample whose paths can all be tried."""
    keys = all_topics(store).tolist()
    random.Random(11).shuffle(keys)
    found: list[TopicEntity] = []
    for key in keys:
        entity = store.entities(keys_array([key]))
        paths = len(walk(store, keys_array([key]), RULES, 300)[0])
        if paths >= 40:
            found.append(TopicEntity(key, entity.ids[0], entity.label(0), 1.0))
        if len(found) == count:
            break
    return found


@pytest.mark.model
@pytest.mark.parametrize(
    "number",
    [pytest.param(one, marks=[pytest.mark.long] if one >= 3 else []) for one in range(20)],
)
def test_exact_search_finds_what_trying_every_path_finds(sample, kg_llm, number: int) -> None:
    llm = random_model(kg_llm, number % 3)
    topic = small_topics(sample, 20)[number]
    pieces = every_path(sample, topic)
    totals = dict(zip(map(tuple, pieces), scores_of(sample, llm, topic, pieces), strict=True))
    expected = sorted(totals.values(), reverse=True)

    exact = ask(sample, llm, [topic], SearchOptions("exact"), k=10)
    assert exact.search.proven is True
    assert exact.search.certain == len(exact.paths) == min(10, len(expected))
    assert [path.score for path in exact.paths] == pytest.approx(expected[:10], abs=1e-3)
    found = [totals[tuple(parts)] for parts in parts_of(exact)]
    assert found == pytest.approx(expected[:10], abs=1e-3)
    bound = exact.search.bound
    assert bound is not None
    assert bound <= exact.paths[-1].score

    unproven = 0
    for most in (2, 3, 5, 8):
        try:
            limited = SearchOptions("exact", max_forwards=most)
            some = ask(sample, llm, [topic], limited, k=10, budget=16)
        except TimeLimitError:  # no whole path yet
            unproven += 1
            continue
        assert some.forwards <= most
        certain = some.search.certain
        assert certain is not None
        assert [path.score for path in some.paths[:certain]] == pytest.approx(
            expected[:certain], abs=1e-3
        )
        seen = {tuple(parts) for parts in parts_of(some)}
        unseen = max((score for parts, score in totals.items() if parts not in seen), default=None)
        if some.search.proven:
            assert [path.score for path in some.paths] == pytest.approx(expected[:10], abs=1e-3)
        else:
            unproven += 1
            assert some.search.bound is not None
            if unseen is not None and len(some.paths) < 10:
                assert unseen <= some.search.bound + 1e-3
    assert unproven, "a limit that never binds proves nothing"


@pytest.mark.model
def test_a_sample_is_repeated_by_its_seed_alone(sample, random_llm) -> None:
    topics = [topic_of(sample, TOLKIEN)]
    drawn = [
        [
            path.text
            for path in ask(sample, random_llm, topics, SearchOptions("sample", seed=one)).paths
        ]
        for one in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.model
@each_search
def test_several_questions_together_are_answered_as_each_alone(
    sample, random_llm, search: SearchOptions
) -> None:
    topics = small_topics(sample, 5)
    lexicon = PathLexicon(random_llm.encoder, FORM)
    found = answer_questions(
        sample,
        random_llm,
        lexicon,
        [Asking(QUESTION, (topic,)) for topic in topics],
        RULES,
        GcrOptions(k=5, search=search),
        engine=Engine(random_llm.model, Plan(budget=32), together=4),
    )
    answers = dict(found)
    for number, topic in enumerate(topics):
        assert same(answers[number], ask(sample, random_llm, [topic], search))
