"""Free text with constrained spans: spans are paths, and nothing else is taken for one."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa.deadline import deadline
from kgqa.decoding.span_markers import (
    Ending,
    FreeText,
    MarkedConstraint,
    Markers,
    Span,
    SpanOptions,
)
from kgqa.decoding.spans import TextForward, Writer
from kgqa.errors import (
    ConstraintError,
    EmptyLanguageError,
    MarkerMissingError,
    ModelError,
)
from tests.decoding.languages import (
    EOS,
    Moves,
    constraint_of,
    random_language,
    tiny_model,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.decoding.spans import Chain
    from kgqa.models.kg_llm import KgLLM

# A model with random weights opens a span as often as it writes one of these.
OPENINGS = tuple((token,) for token in range(20, 50))
CLOSE = 3
PROMPT = [7, 8, 9, 10]


def letters(tokens: Sequence[int]) -> str:
    return "".join(chr(ord("A") + token) for token in tokens)


def options(**changed: Any) -> SpanOptions:
    given = {"markers": Markers(OPENINGS, (CLOSE,)), "end_tokens": frozenset({EOS})}
    if changed.keys() & {"tokens", "spans", "span_tokens"}:
        given |= {"tokens": 512, "spans": 16}
    else:
        given |= {"tokens": 70, "span_tokens": 40, "spans": 4}
    return SpanOptions(**given | changed)


def writer(
    constraint: Any,
    setting: SpanOptions,
    *,
    seed: int = 0,
    family: str = "llama",
    trees: bool = True,
) -> Writer:
    forward = TextForward(tiny_model(family, seed), trees=trees, budget=32)
    chosen = constraint if callable(constraint) else lambda spans: constraint
    return Writer(forward, letters, chosen, setting)


def write(one: Writer, prompt: Sequence[int], *, beams: int = 1, chains: int = 1) -> list[Chain]:
    """Texts written to their ends: the best of each beam goes on, of the first ``chains``."""
    found = [one.start(prompt)]
    while any(chain.stop is None for chain in found):
        onward: list[Chain] = []
        for chain in one.free(found):
            wanted = 1 if chain.spans else chains
            onward += one.branches(chain, max(beams, wanted))[:wanted] if chain.opened else [chain]
        found = onward
        one.keep(found)
    return found


def tokens_of(chain: Chain) -> tuple[int, ...]:
    """All tokens after the prompt."""
    return chain.text.tokens[chain.prompt :]


def recomputed(
    model: Any,
    prompt: Sequence[int],
    written: Chain,
    openings: Sequence[tuple[int, ...]] = OPENINGS,
    error: float = 1e-3,
) -> list[float]:
    """The log-probability of each span's path, by one plain pass over the whole text.

    Of free text every token is the likeliest one but for those that may open a span.
    """
    tokens = [token for piece in written.pieces for token in piece.tokens]
    with torch.inference_mode():
        logits = model(torch.tensor([[*prompt, *tokens]])).logits[0].double().log_softmax(-1)
    others = torch.ones(logits.shape[1], dtype=torch.bool)
    others[[opening[-1] for opening in openings]] = False
    totals, at = [], len(prompt) - 1
    for piece in written.pieces:
        scores = [float(logits[at + n, token]) for n, token in enumerate(piece.tokens)]
        if isinstance(piece, Span):
            totals.append(sum(scores[len(piece.opening) :]))
        for n, score in enumerate(scores if isinstance(piece, FreeText) else ()):
            assert score >= float(logits[at + n, others].max()) - error
        at += len(piece.tokens)
    return totals


def scores_of(text: Chain) -> list[float]:
    return [span.hypothesis.log_probability for span in text.spans]


def closed(row: Sequence[int], closing: Sequence[int] = (CLOSE,)) -> tuple[int, ...]:
    return (*row[:-1], *closing)


# ── pieces ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
@pytest.mark.parametrize("trees", [True, False])
def test_pieces_have_the_scores_of_a_forward_over_the_whole_text(family: str, trees: bool) -> None:
    rows = random_language(3, 12)
    constraint = constraint_of(rows)
    found = 0
    for start in range(3):
        one = writer(constraint, options(), family=family, trees=trees)
        (text,) = write(one, [start + 5, *PROMPT], beams=3)
        expected = recomputed(tiny_model(family), [start + 5, *PROMPT], text)
        assert scores_of(text) == pytest.approx(expected, abs=1e-3)
        found += len(text.spans)
    assert found  # or nothing about spans was seen


def test_free_text_is_greedy() -> None:
    """Without room for spans it is what the model writes by itself, openings left out."""
    (text,) = write(writer(None, options(tokens=12, spans=0)), PROMPT)
    expected: list[int] = []
    for _ in range(12):
        with torch.inference_mode():
            logits = tiny_model("llama")(torch.tensor([[*PROMPT, *expected]])).logits[0, -1]
            logits[[opening for (opening,) in OPENINGS]] = -torch.inf
        expected.append(int(logits.argmax()))
        if expected[-1] == EOS:
            break
    assert list(tokens_of(text)) == expected
    assert "".join(piece.text for piece in text.pieces) == letters(expected)


# ── faithfulness ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("closing", [(), (CLOSE,), (CLOSE, 4), (5, 6, 7)])
def test_spans_under_random_weights_are_all_in_their_language(
    closing: tuple[int, ...],
) -> None:
    """Two hundred in all. The language changes with each, names hold the markers' own tokens."""
    languages = [random_language(seed, 15) for seed in range(4)]
    constraints = [constraint_of(rows) for rows in languages]
    setting = options(
        markers=Markers(OPENINGS, closing),
        end_tokens=frozenset(),
        tokens=150,
        spans=10,
    )
    spans, seed = 0, 0
    while spans < 50:
        one = writer(lambda spans: constraints[len(spans) % 4], setting, seed=seed % 7)
        (text,) = write(one, [2 + seed % 50, *PROMPT, 2 + seed // 50], beams=1 + seed % 3)
        for number, span in enumerate(text.spans):
            rows = languages[number % 4]
            ends = closing or (EOS,)
            assert span.hypothesis.tokens in {closed(row, ends) for row in rows}
            assert span.constraint is constraints[number % 4]
            (key,) = span.ground().topic.tolist()
            assert closed(rows[key], ends) == span.hypothesis.tokens
            assert span.opening in OPENINGS
        spans += len(text.spans)
        seed += 1
        assert seed < 400, "a model that hardly opens a span shows nothing"


def test_free_text_never_holds_an_opening() -> None:
    constraint = constraint_of(random_language(1, 10))
    opening = {token for (token,) in OPENINGS}
    for start in range(5):
        setting = options(tokens=60, spans=2)
        (text,) = write(writer(constraint, setting), [start + 2, *PROMPT])
        free = [piece for piece in text.pieces if isinstance(piece, FreeText)]
        assert not opening.intersection(token for piece in free for token in piece.tokens)
        assert len(text.spans) <= 2
        assert len(tokens_of(text)) <= 60


def raises(spans: Sequence[Span]) -> None:
    raise EmptyLanguageError("No path.")


@pytest.mark.parametrize("nothing", [None, raises, Moves({0: []})])
def test_an_empty_language_forbids_opening_and_is_told(nothing: Any) -> None:
    (text,) = write(writer(nothing, options(tokens=80)), PROMPT)
    assert text.spans == ()
    assert text.notes == ("Span 1 has no path to write. The text goes on without spans.",)
    assert not {token for (token,) in OPENINGS}.intersection(tokens_of(text))
    assert text.stop == "end token" or len(tokens_of(text)) == 80
    with pytest.raises(EmptyLanguageError):
        write(writer(nothing, options(force_opening=True)), PROMPT)


def test_a_language_that_dries_up_keeps_the_spans_before() -> None:
    constraint = constraint_of(random_language(2, 10))
    setting = options(end_tokens=frozenset(), tokens=120, spans=5)
    (text,) = write(writer(lambda spans: None if spans else constraint, setting), PROMPT)
    assert len(text.spans) == 1
    assert len(text.notes) == 1
    assert text.notes[0].startswith("Span 2 has no path")
    assert text.stop == "token limit"
    expected = recomputed(tiny_model("llama"), PROMPT, text)
    assert scores_of(text) == pytest.approx(expected, abs=1e-3)


def test_a_dead_end_is_no_licence() -> None:
    dead = Moves({0: [(5, 1, 1.0)], 1: [(6, 2, 1.0)], 2: []})
    dead.is_end = lambda states: torch.zeros(len(states), dtype=torch.bool).numpy()  # type: ignore[method-assign]
    (text,) = write(writer(dead, options()), PROMPT)
    assert text.spans == ()
    assert "no path" in text.notes[0]


# ── limits, stops ───────────────────────────────────────────────────────────────────────────


@given(
    tokens=st.integers(1, 60),
    span=st.integers(1, 20),
    spans=st.integers(0, 4),
    seed=st.integers(0, 6),
)
@settings(max_examples=25)
def test_limits_hold(tokens: int, span: int, spans: int, seed: int) -> None:
    rows = random_language(seed, 10)
    constraint = constraint_of(rows)
    setting = options(tokens=tokens, span_tokens=span, spans=spans, end_tokens=frozenset())
    (text,) = write(writer(constraint, setting, seed=seed), PROMPT)
    assert len(tokens_of(text)) == tokens or (
        text.stop == "token limit" and len(tokens_of(text)) <= tokens
    )
    assert len(text.spans) <= spans
    assert all(len(one.hypothesis.tokens) <= span + 1 for one in text.spans)
    assert all(span.hypothesis.tokens in {closed(row) for row in rows} for span in text.spans)


def test_a_forced_opening_is_first_and_scored() -> None:
    constraint = constraint_of(random_language(4, 9))
    setting = options(force_opening=True, tokens=60, spans=1)
    (text,) = write(writer(constraint, setting), PROMPT, beams=3)
    assert isinstance(text.pieces[0], Span)
    assert text.pieces[0].opening == OPENINGS[0]
    expected = recomputed(tiny_model("llama"), PROMPT, text)
    assert scores_of(text) == pytest.approx(expected, abs=1e-3)


def test_a_forced_opening_without_room_is_an_error() -> None:
    constraint = constraint_of([[5, 6, 7, 8, EOS]])
    for limit in ({"spans": 0}, {"tokens": 1}, {"span_tokens": 2}, {"tokens": 3}):
        one = writer(constraint, options(force_opening=True, **limit))
        with pytest.raises(ConstraintError):
            write(one, PROMPT)


def test_an_end_token_that_closes_a_span_ends_the_text() -> None:
    """A path format without an end marker: what closes the path ends the model's text."""
    constraint = constraint_of(random_language(4, 9))
    setting = options(markers=Markers(OPENINGS), force_opening=True)
    (text,) = write(writer(constraint, setting), PROMPT)
    (span,) = text.pieces
    assert isinstance(span, Span)
    assert span.hypothesis.tokens[-1] == EOS
    assert text.stop == "end token"


def test_a_stop_string_is_looked_for_in_free_text_alone() -> None:
    constraint = constraint_of([[11, 12, 11, EOS]])
    setting = options(force_opening=True, tokens=40, spans=1, end_tokens=frozenset())
    (text,) = write(writer(constraint, setting), PROMPT)
    free = text.pieces[1]
    stopped = letters(free.tokens[4:6])
    setting = options(
        force_opening=True,
        tokens=40,
        spans=1,
        end_tokens=frozenset(),
        stop=(stopped, letters([11, 12])),
    )
    (cut,) = write(writer(constraint, setting), PROMPT)
    assert cut.stop == "stop string"
    assert cut.spans[0].hypothesis.tokens == text.spans[0].hypothesis.tokens
    assert free.text.startswith(cut.pieces[1].text)
    assert stopped not in cut.pieces[1].text
    assert cut.pieces[1].tokens == free.tokens[: len(cut.pieces[1].tokens)]


@pytest.mark.parametrize("trees", [True, False])
def test_free_text_ends_where_it_is_over(trees: bool) -> None:
    """What is over opens no span, even with the token that would have opened one."""
    constraint = constraint_of(random_language(5, 20))
    setting = options(tokens=200, span_tokens=40, spans=4)
    for start in (35, *range(5, 35)):  # until the model thinks before it opens a span, and after it
        prompt = [start, *PROMPT]
        (whole,) = write(writer(constraint, setting, trees=trees), prompt)
        kinds = [type(piece) for piece in whole.pieces[:3]]
        if kinds == [FreeText, Span, FreeText]:
            break
    assert kinds == [FreeText, Span, FreeText]
    thought = len(whole.pieces[0].tokens)
    asked: list[tuple[int, str]] = []

    def ending(spans: Sequence[Span], tokens: Sequence[int], text: str) -> Ending | None:
        assert text == letters(tokens)
        asked.append((len(spans), text))
        return Ending(1, "Enough.") if len(spans) == over and len(tokens) > most else None

    for over, most in ((0, thought), (1, 0)):
        asked.clear()
        setting = options(tokens=200, span_tokens=40, spans=4, ending=ending)
        (cut,) = write(writer(constraint, setting, trees=trees), prompt)
        assert (cut.stop, cut.notes) == ("ending", ("Enough.",))
        assert len(cut.spans) == over
        last = cut.pieces[-1]
        assert isinstance(last, FreeText)
        assert (len(last.text), len(last.tokens)) == (1, most + 1)
        assert tokens_of(cut) == tokens_of(whole)[: len(tokens_of(cut))]
        assert asked[-1][0] == over


def test_a_prompt_that_was_run_is_not_run_again() -> None:
    constraint = constraint_of(random_language(5, 20))
    setting = options(force_opening=True)
    prompt = [7, 8, 9, 10] * 20
    forward = TextForward(tiny_model("llama"), budget=32)
    one = Writer(forward, letters, lambda spans: constraint, setting)
    (first,) = write(one, prompt)
    (text,), _ = forward.following([forward.text(prompt)])
    run: list[int] = []
    model = forward.tree.model  # type: ignore[union-attr]
    hook = model.register_forward_pre_hook(
        lambda _, args, named: run.append((args[0] if args else named["input_ids"]).numel()),
        with_kwargs=True,
    )
    try:
        (again,) = one.branches(one.start(text), 1)
        begun = sum(run)
        (whole,) = one.branches(one.start(prompt), 1)
    finally:
        hook.remove()
    assert begun + len(prompt) - 1 <= sum(run) - begun
    for chain in (again, whole):
        assert chain.spans[0].hypothesis.tokens == first.spans[0].hypothesis.tokens


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ModelError):
        write(writer(None, options()), [])


def test_damaged_weights_choose_nothing() -> None:
    import copy

    model = copy.deepcopy(tiny_model("llama"))
    torch.nn.init.constant_(model.lm_head.weight, math.nan)
    one = Writer(TextForward(model), letters, lambda spans: None, options())
    with pytest.raises(ModelError):
        write(one, PROMPT)


# ── chains ──────────────────────────────────────────────────────────────────────────────────


def test_k_paths_each_with_what_the_model_says_after_it() -> None:
    rows = random_language(8, 30)
    constraint = constraint_of(rows)
    setting = options(force_opening=True, tokens=40, spans=1)
    texts = write(writer(constraint, setting), PROMPT, beams=5, chains=5)
    assert len({text.spans[0].hypothesis.tokens for text in texts}) == 5
    scores = [text.spans[0].hypothesis.log_probability for text in texts]
    assert scores == sorted(scores, reverse=True)
    for text in texts:
        expected = recomputed(tiny_model("llama"), PROMPT, text)
        assert scores_of(text) == pytest.approx(expected, abs=1e-3)


def test_a_chain_whose_cache_was_given_back_goes_on_as_if_it_had_not() -> None:
    """Its places hold other texts by then, and none of them may be read."""
    constraint = constraint_of(random_language(8, 30))
    setting = options(force_opening=True, tokens=60, spans=2)
    one = writer(constraint, setting)
    best, second, *_ = one.branches(one.start(PROMPT), 4)
    one.keep([best])
    one.free([best])
    one.free([one.branches(one.start([9, 9, *PROMPT]), 3)[0]])
    (late,) = one.free([second])
    again = writer(constraint, setting)
    (fresh,) = again.free([again.branches(again.start(PROMPT), 4)[1]])
    assert late.text.tokens == fresh.text.tokens


def test_the_cache_is_that_of_the_text_and_not_of_what_was_looked_at() -> None:
    constraint = constraint_of(random_language(8, 200))
    setting = options(end_tokens=frozenset(), tokens=200, spans=20)
    forward = TextForward(tiny_model("llama"), budget=64)
    one = Writer(forward, letters, lambda spans: constraint, setting)
    (text,) = write(one, PROMPT, beams=8)
    assert len(text.spans) > 3
    assert forward.tree is not None
    assert forward.tree.cache.used <= len(PROMPT) + len(tokens_of(text))


# ── markers ─────────────────────────────────────────────────────────────────────────────────


@given(seed=st.integers(0, 1000), closing=st.lists(st.integers(2, 59), max_size=3))
@settings(max_examples=60)
def test_a_marked_constraint_accepts_the_same_paths_closed_by_the_marker(
    seed: int, closing: list[int]
) -> None:
    rows = random_language(seed, 8)
    inner = constraint_of(rows)
    marked = MarkedConstraint(inner, tuple(closing))
    found, edge = [], [((), marked.start())]
    while edge:
        moves = marked.expand([state for _, state in edge])
        order = list(zip(moves.row.tolist(), moves.token.tolist(), strict=True))
        assert order == sorted(order)
        ends = marked.is_end(moves.state.tolist()).tolist()
        edge = [
            ((*edge[row][0], token), state, end)
            for (row, token), state, end in zip(order, moves.state.tolist(), ends, strict=True)
        ]
        found += [(tokens, state) for tokens, state, end in edge if end]
        edge = [(tokens, state) for tokens, state, end in edge if not end]
    assert sorted(tokens for tokens, _ in found) == sorted(
        closed(row, closing or [EOS]) for row in rows
    )
    for tokens, state in found:
        (key,) = marked.ground(state).topic.tolist()
        assert closed(rows[key], closing or [EOS]) == tokens


def test_an_opening_is_its_tokens_wherever_they_stand_in_free_text() -> None:
    markers = Markers(((5, 6), (6,), (7, 5, 6)))
    assert markers.completed([1, 5]) is None
    assert markers.completed([6]) == (6,)
    assert markers.completed([9, 5, 6]) == (5, 6)
    assert markers.completed([7, 5, 6]) == (7, 5, 6)
    for empty in ((), ((),), ((5,), ())):
        with pytest.raises(MarkerMissingError):
            Markers(empty)


def test_a_marker_of_several_tokens_opens_by_all_of_them() -> None:
    """The model's own text is taken as the marker, so that it opens exactly there."""
    none = options(tokens=20, spans=0, markers=Markers(((EOS,),)))
    (text,) = write(writer(None, none), PROMPT)
    opening = tokens_of(text)[3:6]
    constraint = constraint_of(random_language(1, 5))
    setting = options(markers=Markers((opening,), (CLOSE,)), tokens=60, spans=1)
    (opened,) = write(writer(constraint, setting), PROMPT)
    first, span, *_ = opened.pieces
    at = next(n for n in range(3, 20) if tokens_of(text)[n - 3 : n] == opening)
    assert first.tokens == tokens_of(text)[: at - 3]
    assert isinstance(span, Span)
    assert span.opening == opening


# ── a real model ────────────────────────────────────────────────────────────────────────────


@pytest.mark.model
def test_markers_are_what_the_tokenizer_writes(kg_llm: KgLLM) -> None:
    encoder = kg_llm.encoder
    short = Markers.of(encoder, "<", ">")
    assert [encoder.decode(opening) for opening in short.openings] == ["<", " <"]
    assert encoder.decode(short.closing) == ">"
    special = Markers.of(encoder, "<|im_start|>", "<|im_end|>")
    assert special.openings == ((encoder.marker_id("<|im_start|>"),),)
    assert special.closing == (encoder.marker_id("<|im_end|>"),)
    spelled = encoder.encode(["<|im_start|>"])[0]  # the same characters as ordinary tokens
    assert special.completed(spelled) is None
    for nothing in ("", " "):
        with pytest.raises(MarkerMissingError):
            Markers.of(encoder, nothing)


def test_a_long_prompt_is_run_in_pieces_and_ends_between_two() -> None:
    model, prompt = tiny_model("llama"), [7, 8, 9, 10] * 700
    whole = TextForward(model, trees=False).following([TextForward(model).text(prompt)])[1]
    forward, looks, run = TextForward(model), itertools.count(), list[int]()
    hook = model.register_forward_pre_hook(
        lambda _, args, named: run.append(named["input_ids"].numel()), with_kwargs=True
    )
    try:
        with deadline(lambda: next(looks)):  # type: ignore[arg-type, return-value]
            (text,), found = forward.following([forward.text(prompt)])
        assert torch.allclose(found, whole, atol=1e-4)
        assert max(run) <= 1_024
        assert next(looks) > 3
        before = len(run)
        (_, again) = forward.following([text])
        assert torch.allclose(again, whole, atol=1e-4)
        assert run[before:] == [1]
    finally:
        hook.remove()
