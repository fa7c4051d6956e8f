"""Walks and their best paths against every path of the graph, made by the definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa.graph.model import Kind, keys_array
from kgqa.methods.kg_cot.hops import HopTable
from kgqa.methods.kg_cot.paths import PathSearch
from kgqa.methods.kg_cot.walk import walk_rows
from kgqa.models.graph_reasoner import EncodedQuestions, NumpyMath
from tests.methods.reasoners import random_tables
from tests.trie.language import brute_force, graphs, rules_of, store_of

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.graph.model import GraphTables, IntArray
    from kgqa.graph.store import GraphStore
    from kgqa.methods.kg_cot.walk import Walked
    from kgqa.models.graph_reasoner import Tables
    from kgqa.paths.walk import WalkRules

HIDDEN = 8
CHECKED = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def walked(
    store: GraphStore,
    rules: WalkRules,
    steps: Tables,
    topics: IntArray,
    rows: int,
    seed: int,
) -> tuple[Walked, EncodedQuestions]:
    """Walk from all ``topics`` for each of ``rows`` random questions, taking every edge."""
    torch.manual_seed(seed)
    log_beta = torch.log_softmax(torch.randn(rows, rules.hops), dim=1)
    hidden = torch.randn(rows, rules.hops, HIDDEN)
    reading = EncodedQuestions(hidden.numpy(), log_beta.exp().numpy(), log_beta.numpy())
    table = HopTable(store, rules)
    question = np.repeat(np.arange(rows), len(topics))
    found = walk_rows(table, lambda _: steps, reading, np.tile(topics, rows), question, floor=0.0)
    return found, reading


def score_of(steps: Tables, reading: EncodedQuestions, row: int, depth: int, hop: tuple) -> float:
    first, second = np.array([hop[0]]), np.array([hop[2]])
    hidden = reading.hidden[row : row + 1, depth]
    return float(NumpyMath().relation_scores(hidden, steps, first, second)[0, 0])


@CHECKED
@given(tables=graphs(), rules=rules_of, seed=st.integers(0, 99), most=st.integers(1, 4))
def test_the_best_paths_are_the_best_of_all_paths(
    tables: GraphTables, rules: WalkRules, seed: int, most: int, tmp_path: Path
) -> None:
    steps = random_tables(tables.info.relations, HIDDEN, seed)
    with store_of(tables, tmp_path) as store:
        kinds = tables.nodes["kind"].to_pylist()
        topics = keys_array([key for key in (0, 1) if kinds[key] != Kind.VALUE])
        found, reading = walked(store, rules, steps, topics, 1, seed)
        search = PathSearch(found.levels, topics)
        expected: dict[int, dict[tuple, float]] = {}
        for topic in topics.tolist():
            for _, hops in brute_force(tables, topic, rules):
                said = (topic, tuple((hop[0], hop[2], hop[3]) for hop in hops))
                score = np.mean([score_of(steps, reading, 0, *at) for at in enumerate(hops)])
                expected.setdefault(hops[-1][3], {})[said] = float(score)
        ends = set(found.node.tolist())
        assert set(expected) <= ends  # every end of a path has a score
        every = {
            (topic, hops)
            for topic in topics.tolist()
            for _, hops in brute_force(tables, topic, rules)
        }
        for node in ends:
            best = sorted(expected.get(node, {}).values(), reverse=True)[:most]
            paths = search.best(node, most)
            assert [path.score for path in paths] == pytest.approx(best, abs=1e-5)
            for path in paths:
                assert (path.topic, path.hops) in every
                said = (path.topic, tuple((hop[0], hop[2], hop[3]) for hop in path.hops))
                assert path.score == pytest.approx(expected[node][said], abs=1e-5)


@CHECKED
@given(tables=graphs(), rules=rules_of, seed=st.integers(0, 99))
def test_scores_are_those_of_dense_matrices(
    tables: GraphTables, rules: WalkRules, seed: int, tmp_path: Path
) -> None:
    """Walks may pass an entity twice, but for the topic entity; each triple counts once."""
    steps = random_tables(tables.info.relations, HIDDEN, seed)
    one_hop = type(rules)(1, rules.direction, rules.mediators)
    size = len(tables.nodes)
    kinds = np.array(tables.nodes["kind"].to_pylist())
    triples = {
        (node, hops[0][0], hops[0][2], hops[0][3], hops[0][1])
        for node in range(size)
        for _, hops in brute_force(tables, node, one_hop)
    }
    with store_of(tables, tmp_path) as store:
        found, reading = walked(store, rules, steps, keys_array([0]), 2, seed)
    for row in (0, 1):
        total = np.zeros(size)
        before = np.zeros(size)
        before[0] = 1.0
        for depth in range(rules.hops):
            through: dict[tuple[int, int, int, int], bool] = {}
            for head, first, second, tail, mediator in triples:
                if kinds[head] != 2 and tail != 0 and mediator != 0:
                    through[head, first, second, tail] = True
            after = np.zeros(size)
            for head, first, second, tail in through:
                score = score_of(steps, reading, row, depth, (first, 0, second, tail))
                after[tail] += before[head] * score
            before = np.minimum(after, 1.0)
            total += float(reading.beta[row, depth]) * before
        mine = found.question == row
        scores = np.zeros(size)
        scores[found.node[mine]] = found.scores[mine]
        np.testing.assert_allclose(scores, np.minimum(total, 1.0), atol=1e-4)


def test_a_hop_table_forgets_and_reads_again(tmp_path: Path) -> None:
    from tests.graph.tables import tricky_tables

    tables = tricky_tables()
    with store_of(tables, tmp_path) as store:
        from kgqa.paths.walk import WalkRules, hops_out_of

        rules = WalkRules(2, "both")
        small, large = HopTable(store, rules, most=3), HopTable(store, rules)
        every = np.arange(len(tables.nodes))
        for keys in (every[3:9], every[::2], every, every[:1]):
            direct = hops_out_of(store, keys, rules)
            for table in (small, large):
                found = table.out_of(keys)
                assert found.row.tolist() == direct.row.tolist()
                assert found.hop.tolist() == direct.hop.tolist()
                relations = table.relations()[found.relation]
                assert relations.tolist() == direct.hop[:, (0, 2)].tolist()
