#!/usr/bin/env bash
# neo4j-graphrag 1.22.0: FixedSizeSplitter leaves out whole sentences of text without spaces.
#
# SimpleKGPipeline cuts a document with FixedSizeSplitter into chunks, from each of which a model
# extracts entities and relations; chunks overlap, so that nothing falls between two. With
# approximate=True (the default: no word is cut in two) the start of a chunk moves back to the last
# whitespace. Where it moves back by a step or more, the next search begins a step past where this
# one began, not where the chunk ended (since an endless loop was mended, issue 471): what lies
# between is in no chunk. It takes a run without whitespace longer than chunk_size - chunk_overlap; in
# Japanese, Chinese or Thai a paragraph is one, as are sequences and minified JSON. Below, paragraphs
# of up to 1,020 characters lose 912 of 6,000 sentences with chunks of 1,000, longer ones 201 with
# the default of 4,000; none is lost with approximate=False, or with a space after each sentence.
# Nothing is logged: the graph lacks these facts, and a search over the chunks does not find them.
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" install -q --disable-pip-version-check neo4j-graphrag==1.22.0
"$temp/venv/bin/python" - <<'PYTHON'
from neo4j_graphrag.components.text_splitters.fixed_size_splitter import FixedSizeSplitter

COUNT = 6000
SENTENCES = [f"会社{number:05}は東京都に本社を置く。" for number in range(COUNT)]  # each of 17 characters


def document(shortest, longest, after=""):
    """The sentences as paragraphs of mixed lengths, each in a line."""
    paragraphs, done = [], 0
    while done < COUNT:
        length = shortest + len(paragraphs) * 37 % (longest - shortest + 1)
        paragraphs.append(after.join(SENTENCES[done : done + length]))
        done += length
    return "\n".join(paragraphs)


lost = {}
for size, overlap, shortest, longest in ((1000, 200, 5, 60), (4000, 200, 100, 500)):
    print(f"paragraphs of {17 * shortest} to {17 * longest} characters, chunks of {size} that overlap by {overlap}")
    for title, after, approximate in (
        ("as it is", "", True),
        ("a space after each sentence", " ", True),
        ("approximate=False", "", False),
    ):
        splitter = FixedSizeSplitter(size, overlap, approximate)
        chunks = [chunk.text for chunk in splitter.iter_chunks(document(shortest, longest, after))]
        gone = [each for each in SENTENCES if not any(each in chunk for chunk in chunks)]
        print(f"  {title}: {len(gone)} of {COUNT} sentences are in none of {len(chunks)} chunks")
        if gone:
            print(f"    from {gone[0]} to {gone[-1]}")
        lost[size, title] = len(gone)
assert {key: number for key, number in lost.items() if number} == {
    (1000, "as it is"): 912,
    (4000, "as it is"): 201,
}, lost
PYTHON
echo "neo4j-graphrag 1.22.0: sentences of text without spaces are in no chunk"
