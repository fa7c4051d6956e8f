#!/usr/bin/env bash
# xgrammar 0.2.9: of keywords that stand side by side in a JSON schema one is enforced, silently.
#
# In JSON Schema 2020-12 all keywords of a schema apply, beside `anyOf` and `$ref`, too. xgrammar's
# documentation says that it ensures output that adheres to a schema, and it warns of some keywords
# that it leaves out; of the following it says nothing. `anyOf` beside `properties` and `required`
# replaces them: "a name, and an e-mail or an ORCID" accepts any JSON, `7` too, and of a fact whose
# tail depends on its relation "head" is forgotten. `$ref` with anything beside it is the reference
# alone. What `required` names and `properties` does not is not required: {"required": ["id"]}
# accepts {}, in strict mode, the default, nothing else. (With strict_mode=False the same invalid
# texts pass.) A `pattern` is read as if it had ^ and $ at its ends (it is not anchored: validation,
# section 6.3.3). A model may thus not write the right answer, and what it writes instead fails in the
# validator behind it. llguidance 1.9.1 agrees with jsonschema 4.26.0 on all of this. For xgrammar
# each branch of an anyOf must hold the whole object, a pattern needs .* at its ends, and what was
# decoded has to be validated all the same. The first is known (issue 858, August 2026).
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" install -q --disable-pip-version-check \
  torch==2.15.0 xgrammar==0.2.9 llguidance==1.9.1 jsonschema==4.26.0
"$temp/venv/bin/python" - <<'PYTHON' 2>"$temp/warnings" || { cat "$temp/warnings" >&2 && exit 1; }
import json

import jsonschema
import llguidance
import xgrammar

TOKENS = [*(bytes([byte]) for byte in range(256)), b"</s>"]  # each byte is a token, so texts decide


class Tokenizer:
    tokens, bos_token_id, eos_token_id, special_token_ids = TOKENS, None, 256, [256]

    def __call__(self, text):
        return list(text.encode() if isinstance(text, str) else text)


compiler = xgrammar.GrammarCompiler(
    xgrammar.TokenizerInfo(TOKENS, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[256])
)
tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokenizer()))


def by_xgrammar(schema, text):
    matcher = xgrammar.GrammarMatcher(compiler.compile_json_schema(json.dumps(schema)))
    return matcher.accept_string(text) and matcher.accept_token(256)


def by_llguidance(schema, text):
    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
    matcher = llguidance.LLMatcher(tokenizer, grammar)
    assert not matcher.is_error(), matcher.get_error()
    return matcher.try_consume_tokens([*text.encode()]) == len(text) and matcher.is_accepting()


def thing(*required, **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


text, number = {"type": "string"}, {"type": "integer"}
person = thing("name", name=text, email=text, orcid=text)
born = thing("relation", "tail", relation={"const": "born in"}, tail=text)
aged = thing("relation", "tail", relation={"const": "aged"}, tail=number)
named = {"$defs": {"thing": thing("id", id=text)}, "$ref": "#/$defs/thing", **thing("name", name=text)}
for title, schema, valid, invalid in (
    ("anyOf of required", {**person, "anyOf": [{"required": ["email"]}, {"required": ["orcid"]}]},
     None, ['{"name": "Ann"}', '{"email": 3}', "7"]),
    ("anyOf of objects", {**thing("head", head=text), "anyOf": [born, aged]},
     '{"head": "Ann", "relation": "aged", "tail": 7}', ['{"relation": "aged", "tail": 7}']),
    ("$ref and more", named, '{"id": "Q1", "name": "Ann"}', ['{"id": "Q1"}']),
    ("required alone", {"type": "object", "required": ["id"]}, '{"id": "Q1"}', ["{}"]),
    ("pattern Q[0-9]+", {"type": "string", "pattern": "Q[0-9]+"}, '"wd:Q1"', []),
):  # fmt: skip
    for sample in filter(None, [valid, *invalid]):
        right = jsonschema.Draft202012Validator(schema).is_valid(json.loads(sample))
        allowed = by_xgrammar(schema, sample)
        print(f"{title}: {sample} is {'valid' if right else 'invalid'}, xgrammar", end=" ")
        print("accepts it" if allowed else "refuses it")
        assert right == by_llguidance(schema, sample) == (sample == valid) != allowed, sample
PYTHON
if grep -i warning "$temp/warnings"; then exit 1; fi
echo "xgrammar 0.2.9: valid texts are refused, and invalid ones accepted, without a warning"
