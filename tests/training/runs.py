"""A short training run on a tiny model, in this process or in one of its own that is killed.

As a program: ``python -m tests.training.runs MODEL OUT STEP`` trains and kills itself, as hard as
can be, when it reports STEP.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa.models.kg_llm import NO_ADAPTER, load_kg_llm
from kgqa.paths.format import PathFormat
from kgqa.progress import Silent
from kgqa.training.data import Example
from kgqa.training.fit import train
from kgqa.training.options import TrainingSettings

if TYPE_CHECKING:
    from kgqa.training.reports import AdapterReport

EXAMPLES = [
    Example(
        str(at),
        f"Who likes {name}?",
        (name,),
        name,
        (("zoo.likes.animal", "The okapi" if at % 2 else "A gnu"),),
    )
    for at, name in enumerate(("Ann", "Bob", "Cid", "Dan", "Eve", "Fay the second of her name"))
]
SETTINGS = TrainingSettings(
    rank=4, epochs=16, learning_rate=2e-2, batch_size=2, checkpoint_every=10, seed=3
)  # 48 steps, noted at 20 and 40


def run(model: Path, out: Path, progress: Silent, **more: Any) -> AdapterReport:
    """Train on ``EXAMPLES`` with the last as held out; ``more`` replaces settings."""
    with tempfile.TemporaryDirectory() as cache:
        llm = load_kg_llm(
            str(model), NO_ADAPTER, device="cpu", cache=Path(cache), progress=Silent()
        )
        return train(
            llm,
            EXAMPLES,
            EXAMPLES[-1:],
            PathFormat(),
            out,
            TrainingSettings(**{**SETTINGS.model_dump(), **more}),
            data={"examples of": "a zoo"},
            progress=progress,
        )


class Deadly(Silent):
    """Ends this process at a step, without a word."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self._step = step

    def note(self, text: str) -> None:
        if text.startswith(f"step {self._step}/"):
            os.kill(os.getpid(), signal.SIGKILL)


PRACTICE = {
    "domain": "a veterinary practice",
    "types": {
        "pet": {"nouns": ["pet"], "is": "species", "names": ["Rex", "Tiger", "Coco"]},
        "vet": {"nouns": ["vet"], "is": "person", "names": ["Dr. Whit", "Dr. Bo"]},
        "town": {"nouns": ["town"], "is": "place", "names": ["Bonn", "Kiel"]},
        "weight": {"nouns": ["weight"], "is": "quantity", "names": ["3 kg", "9 kg"]},
    },
    "relations": [
        {"name": "treated by", "head": "pet", "tail": "vet", "forward": ["who saw {x}?"] * 6,
         "backward": ["whom did {x} see"] * 5},
        {"name": "lives in", "head": "vet", "tail": "town", "forward": ["{x} dwells where"] * 6,
         "backward": ["vets of {x}"]},
        {"name": "weight", "head": "pet", "tail": "weight", "forward": ["how heavy is {x}"] * 6},
    ],
    "two_hops": [
        {"path": ["treated by", "lives in"], "questions": ["where does the doctor of {x} live"]},
        {"path": ["treated by", "^treated by"], "questions": ["who shares a vet with {x}"]},
        {"path": ["lives in", "treated by"], "questions": ["a chain that does not fit {x}"]},
    ],
}  # fmt: skip


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]), Deadly(int(sys.argv[3])))
