"""The sentence encoder that several methods need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kgqa.errors import ModelNotFoundError
from kgqa.models.sentences import load_sentence_encoder
from kgqa.progress import Silent

if TYPE_CHECKING:
    from kgqa.models.sentence_encoder import SentenceEncoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    cache = tmp_path_factory.mktemp("cache")
    try:
        return load_sentence_encoder(None, device="cpu", cache=cache, progress=Silent())
    except ModelNotFoundError as error:
        pytest.skip(error.message)
