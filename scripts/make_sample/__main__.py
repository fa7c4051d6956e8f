"""Makes the bundled sample in kgqa/data from public data sets. The same input gives the same bytes.

python scripts/make_sample --shared DIR [--out kgqa/data]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import answers
import conceptnet
import freebase
import subgraph
import umls

HERE = Path(__file__).parent
XSD = f"^^<{subgraph.XSD}"


def _value_id(end: str) -> str:
    """Return an entity's id, or a literal with its type's prefix."""
    return end.replace(XSD, "^^xsd:").removesuffix(">") if XSD in end else end


def make_freebase(shared: Path, out: Path) -> None:
    graph = subgraph.read(shared)
    kept = freebase.draw(graph)
    freebase.write(out / "sample.nt.gz", freebase.lines(graph, kept, shared))
    present = {node for head, _, tail in kept for node in (head, tail)}
    by_name: dict[str, list[str]] = {}
    for mid in sorted(present & graph.names.keys()):
        by_name.setdefault(graph.names[mid], []).append(mid)

    def topic_of(named: str) -> str:
        name, _, mid = named.partition("@")
        mids = [mid] if mid else by_name.get(name, [])
        if len(mids) != 1 or mids[0] not in present:
            raise SystemExit(f"{named}: {len(mids)} entities have this name in the sample.")
        return mids[0]

    answers.write_questions(
        HERE / "questions_freebase.tsv",
        out / "questions.jsonl",
        "freebase",
        answers.index(kept, backwards=False),
        topic_of,
        _value_id,
    )


def make_conceptnet(shared: Path, out: Path) -> None:
    text = conceptnet.lines(shared)
    freebase.write(out / "assertions.csv.gz", text)
    triples = []
    for line in text:
        _, relation, head, tail, _ = line.split("\t")
        triples.append((head, relation, tail))
    edges = answers.index(triples, backwards=True)
    source, target = HERE / "questions_conceptnet.tsv", out / "questions.jsonl"
    answers.write_questions(source, target, "conceptnet", edges, str)


def make_umls(shared: Path, out: Path) -> None:
    edges = answers.index(umls.write(shared, out), backwards=True)
    source, target = HERE / "questions_umls.tsv", out / "questions.jsonl"
    answers.write_questions(source, target, "umls", edges, str)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, required=True, help="folder that holds data/")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "kgqa" / "data")
    options = parser.parse_args()
    data = options.shared / "data"
    make_freebase(data, options.out / "freebase")
    make_conceptnet(data, options.out / "conceptnet")
    make_umls(data, options.out / "umls")
    size = sum(file.stat().st_size for file in options.out.rglob("*") if file.is_file())
    print(f"{options.out}: {size:,} bytes")


if __name__ == "__main__":
    main()
