"""The sentence encoder that several methods need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kgqa.errors import ModelNotFoundError
from kgqa.models.sentences import load_sentence_encoder
from kgqa.progress import Silent

if TYPE_CHECKING:
    from pathlib import Path

    from kgqa.models.sentence_encoder import SentenceEncoder


@pytest.fixture(scope="session")
def encoder(model_cache: Path) -> SentenceEncoder:
    try:
        return load_sentence_encoder(None, device="cpu", cache=model_cache, progress=Silent())
    except ModelNotFoundError as error:
        pytest.skip(error.message)
