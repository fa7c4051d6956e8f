"""Constrain Hugging Face ``generate`` to the paths of a graph, with any transformers model.

    python examples/generate.py MODEL [ENTITY]

MODEL is a folder or a hub name. The graph is the bundled Freebase sample, and the default entity is
J. R. R. Tolkien. The model needs no training: whatever it prefers to write, it can write only
paths.
"""

from __future__ import annotations

import sys
import tempfile

from transformers import AutoModelForCausalLM, AutoTokenizer

import kgqa


def main(folder: str, entity: str = "m.041h0") -> None:
    """Print five paths that the model prefers, each checked in the graph."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with tempfile.TemporaryDirectory() as home, kgqa.ingest("freebase", home=home) as kg:
        language = kg.constraint([entity], tokenizer, hops=2)
        prompt = tokenizer("Where was J. R. R. Tolkien born?\n", return_tensors="pt")
        out = model.generate(
            **prompt,
            logits_processor=[language.processor(prompt)],
            num_beams=5,
            num_return_sequences=5,
            do_sample=False,
            max_new_tokens=100,
        )
        for path in language.read(out, prompt):
            print(path.text)
            for edge in path.edges:
                print("   ", edge.head.id, edge.relation, edge.tail.id)


if __name__ == "__main__":
    main(*sys.argv[1:])
