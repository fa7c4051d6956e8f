from __future__ import annotations

import os
import pickle
import subprocess
import sys
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AddedToken, AutoTokenizer, PreTrainedTokenizerFast

import kgqa.models.tokenizer as tokenizer_module
from kgqa.errors import ModelError
from kgqa.models.tokenizer import DIFFICULT, HFEncoder, bare_encoder
from tests.trie.real_tokenizers import real_encoder, with_spaces

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
LLAMA3, QWEN1 = (pytest.param(name, marks=pytest.mark.long) for name in ("llama3", "qwen1"))


@pytest.fixture(scope="module")
def encoder(smollm_folder: Path) -> HFEncoder:
    return HFEncoder(AutoTokenizer.from_pretrained(smollm_folder))


def sentencepiece_like() -> PreTrainedTokenizerFast:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += ["▁", "a", "b", "ab", "▁a", "▁ab", "-", ">", "->", "▁->"]
    vocab = {token: at for at, token in enumerate(tokens)}
    merges = [("a", "b"), ("▁", "a"), ("▁", "ab"), ("-", ">"), ("▁", "->")]
    return with_spaces(vocab, merges)


@pytest.mark.model
@settings(max_examples=200)
@given(text=st.text(st.characters(exclude_categories=["Cs", "Cn", "Cc"]), max_size=40))
def test_decoding_gives_the_text_back(encoder: HFEncoder, text: str) -> None:
    [ids] = encoder.encode([text])
    assert encoder.decode(ids) == text


@pytest.mark.model
@settings(max_examples=100)
@given(
    parts=st.lists(
        st.sampled_from(["<|im_end|>", "<|im_start|>", "<|endoftext|>", "<file_sep>", " x", "Foo"]),
        min_size=1,
        max_size=6,
    )
)
def test_no_name_becomes_a_special_token(encoder: HFEncoder, parts: list[str]) -> None:
    text = "".join(parts)
    [ids] = encoder.encode([text])
    assert min(ids) > 16  # SmolLM2's special tokens are the first seventeen
    assert encoder.decode(ids) == text


@pytest.mark.model
def test_a_batch_gives_what_single_texts_give(encoder: HFEncoder) -> None:
    texts = ["Paris", " -> ", "", "北京", "1977", "Foo <|im_end|>", "é" * 20_000]
    assert encoder.encode(texts) == [encoder.encode([text])[0] for text in texts]
    assert encoder.encode([]) == []


@pytest.mark.model
def test_markers(encoder: HFEncoder) -> None:
    assert encoder.marker_id("<|im_end|>") == encoder.eos_id == 2
    assert encoder.marker_id("\n") == encoder.encode(["\n"])[0][0]
    assert encoder.marker_id("<PATH>") is None
    assert encoder.marker_id("") is None
    assert encoder.marker_id("<|endoftext|>") is None  # it is SmolLM2's token for unknown text


@pytest.mark.model
def test_vocab_size_covers_the_model_and_the_tokenizer(smollm_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm_folder)
    assert HFEncoder(tokenizer).vocab_size == 49152
    assert HFEncoder(tokenizer, vocab_size=49216).vocab_size == 49216


@pytest.mark.model
def test_the_fingerprint_stays_across_use_saving_and_processes(
    smollm_folder: Path, tmp_path: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm_folder)
    before = HFEncoder(tokenizer).fingerprint
    tokenizer(["a", "a longer text"], padding=True, truncation=True, max_length=4)
    assert HFEncoder(tokenizer).fingerprint == before
    tokenizer.save_pretrained(tmp_path)
    code = (
        "import sys; from transformers import AutoTokenizer;"
        "from kgqa.models.tokenizer import HFEncoder;"
        "print(HFEncoder(AutoTokenizer.from_pretrained(sys.argv[1])).fingerprint)"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "4", "HF_HUB_OFFLINE": "1"},
    )
    assert elsewhere.stdout.strip() == before


@pytest.mark.model
def test_the_fingerprint_changes_with_an_added_token(smollm_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm_folder)
    before = HFEncoder(tokenizer).fingerprint
    tokenizer.add_tokens([AddedToken("<PATH>", special=True, normalized=False)])
    after = HFEncoder(tokenizer)
    assert after.fingerprint != before
    assert after.marker_id("<PATH>") == 49152
    assert after.vocab_size == 49153


def test_a_sentencepiece_space_is_kept_away_from_parts() -> None:
    tokenizer = sentencepiece_like()
    encoder = HFEncoder(tokenizer)
    a, ab, arrow = (tokenizer.convert_tokens_to_ids(token) for token in ("a", "ab", "▁->"))
    space = tokenizer.convert_tokens_to_ids("▁")
    assert tokenizer.convert_ids_to_tokens(tokenizer("ab").input_ids) == ["▁ab"]
    assert encoder.encode(["ab", "a", " -> "]) == [[ab], [a], [arrow, space]]
    assert not encoder.dummy_prefix


def test_joined_parts_read_as_the_whole_with_sentencepiece() -> None:
    encoder = HFEncoder(sentencepiece_like())
    parts = ["ab", " -> ", "b", " -> ", "é 北", ""]
    joined = [token for ids in encoder.encode(parts) for token in ids]
    assert encoder.decode(encoder.encode(["ab"])[0] + joined) == "ab" + "".join(parts)


def test_a_tokenizer_without_an_end_is_refused() -> None:
    tokenizer = sentencepiece_like()
    tokenizer.eos_token = None
    with pytest.raises(ModelError, match="end-of-sequence"):
        HFEncoder(tokenizer)


def assert_same(encoder: HFEncoder) -> None:
    bare = bare_encoder(encoder)
    assert bare is not None
    bare = pickle.loads(pickle.dumps(bare))
    texts = [*DIFFICULT, "", "\n", " ", "é" * 5_000, *encoder.added_tokens]
    assert bare.encode(texts) == encoder.encode(texts)
    for name in ("fingerprint", "vocab_size", "eos_id", "anchor", "dummy_prefix"):
        assert getattr(bare, name) == getattr(encoder, name), name
    for marker in ("<PATH>", "\n", "", *encoder.added_tokens):
        assert bare.marker_id(marker) == encoder.marker_id(marker)
    for ids in encoder.encode(texts):
        assert bare.decode(ids) == encoder.decode(ids)


@pytest.mark.parametrize("name", ["gpt2", "llama2", LLAMA3, QWEN1])
def test_published_vocabularies(name: str) -> None:
    assert_same(real_encoder(name))


def test_a_sentencepiece_space() -> None:
    assert_same(HFEncoder(sentencepiece_like()))


@pytest.mark.model
def test_the_offline_model(smollm_folder: Path) -> None:
    assert_same(HFEncoder(AutoTokenizer.from_pretrained(smollm_folder), vocab_size=49216))


def assert_split_at_spaces(encoder: HFEncoder) -> None:
    assert encoder.splits_at_spaces
    plain = [chr(at) for at in range(33, sys.maxunicode, 23) if chr(at).isprintable()]
    firsts = [f"{gap}{one}{two}" for gap in ("", " ") for one, two in pairwise(plain)]
    firsts += [
        f"{gap}{name.split(' ')[0]}" for gap in ("", " ") for name in DIFFICULT if name[0] != " "
    ]
    rests = [f" {two}{one}" for one, two in pairwise([*plain, *plain])] + [" it's", " 's", " 12"]
    wholes = [first + rest for first, rest in zip(firsts, cycle(rests), strict=False)]
    for first, whole in zip(encoder.encode(firsts), encoder.encode(wholes), strict=True):
        assert whole[: len(first)] == first


@pytest.mark.parametrize("name", ["gpt2", LLAMA3])
def test_published_vocabularies_split_at_spaces(name: str) -> None:
    assert_split_at_spaces(real_encoder(name))


@pytest.mark.model
def test_the_offline_model_splits_at_spaces(encoder: HFEncoder) -> None:
    assert_split_at_spaces(encoder)


def test_a_tokenizer_that_may_join_words_does_not_split_at_spaces() -> None:
    assert not HFEncoder(sentencepiece_like()).splits_at_spaces


def test_what_a_worker_imports_holds_no_model_library() -> None:
    code = (
        "import sys, kgqa.cli.tries, kgqa.models.tokenizer, kgqa.graph.open, kgqa.trie.precompute;"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def assert_same_together(encoder: HFEncoder) -> None:
    plain = [chr(at) for at in range(33, sys.maxunicode, 23) if chr(at).isprintable()]
    names = [f" {one}{two} {two} {one}x" for one, two in pairwise(plain)]
    names += [gap + name for gap in ("", " ", "  ") for name in DIFFICULT]
    names += [" ", "", " Ġ", " aĠb Ġc", " it's", " 's", " 12 3456", " a ", " a\tb", " a\u00a0b"]
    names += [f" {token} x" for token in encoder.added_tokens]
    alone = [encoder.encode([name])[0] for name in names]
    assert encoder.encode(names) == alone
    assert encoder.encode(names[::-1]) == alone[::-1]


@pytest.mark.parametrize("name", ["gpt2", "llama2", LLAMA3, QWEN1])
def test_many_names_get_the_ids_that_each_gets(name: str) -> None:
    assert_same_together(real_encoder(name))


@pytest.mark.model
def test_many_names_get_the_ids_that_each_gets_in_the_offline_model(encoder: HFEncoder) -> None:
    assert_same_together(encoder)


@pytest.mark.model
def test_many_names_are_encoded_in_few_texts(
    encoder: HFEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []

    def counted(tokenizer: Tokenizer, some: Sequence[str]) -> list[list[int]]:
        texts.extend(some)
        return one_by_one(tokenizer, some)

    one_by_one = tokenizer_module._one_by_one
    bare = bare_encoder(encoder)
    assert bare is not None
    names = [f" Name {number} of many" for number in range(6_400)]
    monkeypatch.setattr(tokenizer_module, "_one_by_one", counted)
    for one in (encoder, bare):
        texts.clear()
        one.encode(names)
        assert len(texts) == 100


def test_names_are_encoded_one_by_one_where_the_vocabulary_has_no_space() -> None:
    vocab = {character: at for at, character in enumerate(["</s>", *"abcdefgh", "ab"])}
    tokenizer = Tokenizer(models.BPE(vocab, [("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    encoder = HFEncoder(PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>"))
    names = [" ab c", " ", "ab", " d"] * 500
    assert encoder.splits_at_spaces
    assert encoder.encode(names) == [[9, 3], [], [9], [4]] * 500
