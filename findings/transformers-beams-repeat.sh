#!/usr/bin/env bash
# transformers 5.23.0: a beam search with more beams than the constraint has texts returns copies.
#
# `generate` with `prefix_allowed_tokens_fn` is the published way to decode under a trie of paths
# (K beams, K sequences returned). If a topic entity has fewer paths than K, the list is filled up
# with copies of the same paths, without an error or a warning: only their scores, near -2e8, tell
# them apart, and those are given only with `output_scores`. The first beams of a search are dead
# (score -1e9) until K continuations exist; where the constraint never allows K of them, dead beams
# live on and end as copies. How many copies a path gets has nothing to do with its probability: with
# ten beams below, the second most likely of three paths has six and the most likely three. A vote
# over K returned paths, or a share of paths with an answer, counts this noise. Texts must be made
# distinct, or scores below about -1e6 dropped, before anything is counted.
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" install -q --disable-pip-version-check torch==2.15.0 transformers==5.23.0
"$temp/venv/bin/python" - <<'PYTHON'
from collections import Counter

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
END = 1
config = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=4, pad_token_id=0, eos_token_id=END, bos_token_id=2,
)
model = LlamaForCausalLM(config).eval()
prompt = torch.tensor([[2, 3]])
paths = [(5, 6, 7, END), (5, 8, END), (9, 10, 11, 12, END)]


def allowed(_, ids):
    written = tuple(ids.tolist()[prompt.shape[1] :])
    following = {p[len(written)] for p in paths if p[: len(written)] == written != p}
    return sorted(following) or [END]


for beams in (3, 5, 10, 20):
    made = model.generate(
        prompt, num_beams=beams, num_return_sequences=beams, max_new_tokens=8, do_sample=False,
        prefix_allowed_tokens_fn=allowed, output_scores=True, return_dict_in_generate=True,
    )
    texts = [tuple(ids[prompt.shape[1] :]) for ids in made.sequences.tolist()]
    texts = [text[: text.index(END) + 1] for text in texts]
    copies = Counter(texts)
    scores = made.sequences_scores.tolist()
    print(f"{beams} beams: {len(texts)} returned, {len(copies)} different")
    for path in paths:
        print(f"  {path}: {copies[path]} times")
    print(f"  scores {scores[0]:.2f} to {scores[-1]:.3g}")
    if beams == 10:
        assert copies[paths[2]] > copies[paths[0]] and texts[0] == paths[0]
    assert set(copies) == set(paths) and len(texts) == beams
    assert all(score > -100 for score in scores[:3]) and all(s < -1e7 for s in scores[3:])
PYTHON
echo "transformers 5.23.0: of 20 sequences of a constraint with 3 texts, 17 are copies"
