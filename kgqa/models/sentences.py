"""Loading sentence encoders from folders in the form of the ``sentence-transformers`` library.

The transformer and its pooling (the mean of the tokens, or the first one) are read from the model's
own files; the library itself is not needed. Models with further layers are refused. BERT and MPNet
are run on the CPU by :mod:`kgqa.models.bert` and :mod:`kgqa.models.mpnet`, without torch; other
architectures and devices, and whatever is to be trained, by transformers
(:mod:`kgqa.models.sentences_torch`).
"""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa.deadline import check_deadline
from kgqa.errors import ModelError
from kgqa.extras import require_llm_packages
from kgqa.models.bert import Bert
from kgqa.models.large_encoder import LARGE, large_folder, large_is_installed
from kgqa.models.locate import MINILM, minilm_folder
from kgqa.models.mpnet import MPNet
from kgqa.models.sentence_encoder import Pooling, SentenceEncoder, batches, cannot_load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from kgqa.models.sentences_torch import TorchSentenceEncoder
    from kgqa.progress import Progress

_SMALL, _LARGE = ((name, f"sentence-transformers/{name}") for name in (MINILM, LARGE))
KNOWN = (*_SMALL, LARGE)  # what a card may name by itself
_MODULES = {"Transformer", "Pooling", "Normalize"}
_TOGETHER = 1_024  # tokens of a batch


class _BertEncoder(SentenceEncoder):
    """A sentence encoder that runs a BERT in numpy."""

    def __init__(self, name: str, model: Bert, tokenizer: Tokenizer, pooling: Pooling) -> None:
        self.name = name
        self.width = model.width
        self._model = model
        self._tokenizer = tokenizer
        self._pooling = pooling

    def change(self, changes: Mapping[str, NDArray[np.float32]]) -> None:
        """Add ``changes`` to the model's weights."""
        self._model.change(changes)

    def _read(
        self, texts: Sequence[str]
    ) -> Iterator[tuple[list[int], list[NDArray[np.float32]], NDArray[np.float32]]]:
        """Encode ``texts`` in batches; yield text indices with their token states and vectors."""
        encoded = [text.ids for text in self._tokenizer.encode_batch_fast(list(texts))]
        for batch, rows in batches(encoded, _TOGETHER):
            check_deadline()
            joined = self._model.states(rows)
            states = np.split(joined, np.cumsum([len(row) for row in rows[:-1]]))
            first = self._pooling == "first"
            with np.errstate(all="ignore"):  # of damaged weights; whoever asks checks the vectors
                pooled = np.stack([state[0] if first else state.mean(0) for state in states])
                pooled /= np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
            yield batch, states, pooled


def load_sentence_encoder(
    name: str | None, *, device: str | None, cache: Path, progress: Progress
) -> SentenceEncoder:
    """Load a sentence encoder from a folder or by a hub name; None is the offline MiniLM.

    ``device``: None runs a BERT on the CPU, and others where a KG-LLM would run. ``cache`` as for
    :func:`kgqa.models.kg_llm.load_kg_llm`. Raises ModelNotFoundError if there is none, ModelError
    if it cannot be used, UsageError for a device that does not exist, PackagesMissingError.
    """
    shown, folder = _located(name, cache, progress)
    config, file = _read(folder / "config.json"), folder / "model.safetensors"
    fast = folder / "tokenizer.json"
    kind = next(
        (architecture for architecture in (Bert, MPNet) if architecture.reads(config, file)), None
    )
    if device in (None, "cpu") and kind is not None and fast.is_file():
        load: Callable[[], SentenceEncoder] = partial(_bert, kind, shown, folder, config)
        way = "kgqa's own forward pass"
    else:
        load = partial(_by_transformers, shown, folder, device)
        way = "transformers"
    logging.getLogger("kgqa").debug("%s is run by %s", shown, way)
    with progress.task(f"loading {shown}"):
        return load()


def load_trainable_encoder(
    name: str | None, *, device: str | None, cache: Path, progress: Progress
) -> TorchSentenceEncoder:
    """Load a sentence encoder in torch, by transformers; see :func:`load_sentence_encoder`."""
    shown, folder = _located(name, cache, progress)
    with progress.task(f"loading {shown}"):
        return _by_transformers(shown, folder, device)


def _located(name: str | None, cache: Path, progress: Progress) -> tuple[str, Path]:
    """Return the name and folder of a sentence encoder, downloaded if necessary."""
    if name is None or name in _SMALL:
        return MINILM, minilm_folder()
    if name == LARGE or (name in _LARGE and large_is_installed(cache)):
        return LARGE, large_folder(cache)
    from kgqa.models.locate import locate_model

    return locate_model(name, cache, progress)


def _by_transformers(shown: str, folder: Path, device: str | None) -> TorchSentenceEncoder:
    """Load an encoder in torch with its pooling and maximum length."""
    require_llm_packages(f"The sentence encoder {shown}, which is run by transformers,")
    from kgqa.models.sentences_torch import TorchSentenceEncoder

    pooling = _pooling(folder)
    longest = _read(folder / "sentence_bert_config.json").get("max_seq_length")
    return TorchSentenceEncoder.load(shown, folder, pooling, longest, device)


def _bert(kind: type[Bert], shown: str, folder: Path, config: dict[str, Any]) -> SentenceEncoder:
    """Load an encoder in numpy with its tokenizer and pooling. Raises ModelError."""
    from safetensors import SafetensorError
    from tokenizers import Tokenizer

    pooling = _pooling(folder)
    stated = _read(folder / "sentence_bert_config.json").get("max_seq_length")
    try:
        model = kind.load(config, folder / "model.safetensors")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        if tokenizer.get_vocab_size() > model.vocabulary:
            raise ValueError("Its tokenizer has more tokens than its weights know")
        most = int(stated or config["max_position_embeddings"])
        tokenizer.enable_truncation(min(most, model.longest))
    except Exception as error:  # the tokenizers library raises Exception itself
        known = (SafetensorError, OSError, LookupError, TypeError, ValueError, ArithmeticError)
        if not isinstance(error, known) and type(error) is not Exception:
            raise
        raise cannot_load(folder, error) from error
    return _BertEncoder(shown, model, tokenizer, pooling)


def encoder_of_card(stated: str, named: str | None, folder: Path) -> str:
    """Return the encoder to load for the model in ``folder``: ``named`` by the user, or ``stated``.

    ``stated`` comes from a card, which is untrusted: only known names may be loaded from it. Raises
    ModelError.
    """
    # loading what a stranger's card names would fetch, and run, what nobody here chose
    if named is None and stated not in KNOWN:
        raise ModelError(
            f"The model in {folder} reads questions with the sentence encoder {stated}, which is "
            "not one of this program's own.",
            "If you trust that encoder, name it as `encoder`.",
        )
    return named or stated


def _pooling(folder: Path) -> Pooling:
    """Return how an encoder pools token states, from its files: their mean by default.

    Raises ModelError for other layers or ways of pooling.
    """
    modules = _read(folder / "modules.json")
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules.get("", [])]
    if odd := sorted(set(kinds) - _MODULES):
        raise ModelError(
            f"The sentence encoder in {folder} has a layer that is not known here: {odd[0]}.",
            "Use one of a transformer and a pooling, all-MiniLM-L6-v2 for instance.",
        )
    stated = _read(folder / "1_Pooling" / "config.json")
    ways = {name.removeprefix("pooling_mode_") for name, on in stated.items() if on is True}
    ways &= {"cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "lasttoken"}
    if not ways or ways == {"mean_tokens"}:
        return "mean"
    if ways == {"cls_token"}:
        return "first"
    raise ModelError(
        f"The sentence encoder in {folder} pools its tokens by {', '.join(sorted(ways))}; only "
        "their mean and the first token are known here.",
        "Use another one, all-MiniLM-L6-v2 for instance.",
    )


def _read(file: Path) -> dict[str, Any]:
    """Return the object of a JSON file; {} for a missing file; a list of objects under ``""``.

    Raises ModelError.
    """
    try:
        content = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"The file {file} of a sentence encoder cannot be read: {error}."
        ) from None
    if isinstance(content, list):
        return {"": [entry for entry in content if isinstance(entry, dict)]}
    return content if isinstance(content, dict) else {}
