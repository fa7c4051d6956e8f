"""The JSON of each command has the fields that scripts rely on, with their types."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import QUESTION

if TYPE_CHECKING:
    from tests.cli.conftest import Kgqa

NODE = {"id": str, "name": str}
FACT = {"head": str, "predicate": str, "tail": str}
EDGE = {"head": NODE, "relation": str, "tail": NODE, "inverse": bool, "facts": [FACT]}
PATH = {
    "text": str,
    "hypothesis": str,
    "edges": [EDGE],
    "groundings": [[EDGE]],
    "grounded": bool,
}
CONDITION = {"asked": str, "text": str, "edges": [EDGE], "grounded": bool}
ANSWER = {"id": (str, None), "name": str, "score": float, "grounded": bool, "paths": [int]}
ASK = {
    "question": str,
    "method": str,
    "topic_entities": [NODE | {"score": float}],
    "answers": [ANSWER | {"conditions": [CONDITION]}],
    "others": [{"id": str, "name": str, "score": float, "grounded": bool}],
    "confidence": (float, None),
    "paths": [PATH | {"score": float}],
    "expanded": [PATH | {"score": None, "expanded": bool, "source": str}],
    "constraints": [{"entity": str, "source": str, "paths": (int, None)}],
    "kg_llm": {
        "model": str,
        "adapter": (str, None),
        "calls": int,
        "prompt_tokens": int,
        "generated_tokens": int,
    },
    "general_llm": None,
    "timings": dict.fromkeys(("link", "constraint", "decode", "ground", "answer", "total"), float),
    "forwards": int,
    "search": {"kind": str, "proven": None, "certain": None, "bound": None, "demands": None},
    "notes": [str],
    "readings": [{"text": str, "plan": str}],
    "understood": {
        **dict.fromkeys(("question", "text", "asks", "of"), str),
        "order": [{"sign": int, "dimension": str, "word": str}],
        "comparisons": [dict.fromkeys(("operator", "value", "unit"), str)],
        "aggregates": [str],
        "negations": [str],
        "groups": [str],
        "references": [str],
        "names": [str],
        "words": [str],
        "residual": [str],
    },
    "browser_url": None,
}
SCORES = dict.fromkeys(("hit", "f1", "precision", "recall"), float)
EVAL = {
    "format": str,
    "kg": str,
    "method": str,
    "questions": int,
    "answered": int,
    "hit": float,
    "hits_at_1": float,
    "hit_at_k": float,
    "mrr": float,
    "accuracy": None,
    "f1": float,
    "precision": float,
    "recall": float,
    "legacy": {"gcr": SCORES | {"acc": float}, "rog": SCORES | {"acc": float}},
    "grounded_paths": (float, None),
    "faithful_of_correct": (float, None),
    "path_recall": (float, None),
    "reachable": float,
    "unanswerable": {"questions": int, "found": (float, None), "falsely_refused": float},
    "seconds": {"p50": (float, None), "p95": (float, None)},
    "forwards": {"p50": (float, None)},
    "general_llm": None,
    "linking": None,
    "triplets": None,
}


def check(value: Any, shape: Any, where: str = "$") -> None:
    """Fail where ``value`` has not exactly the keys and types of ``shape``.

    Beside them an entity of a graph that has types and properties has these.
    """
    if isinstance(shape, tuple):
        assert value is None or type(value) in shape, f"{where}: {value!r}"
    elif isinstance(shape, dict):
        assert isinstance(value, dict), f"{where}: {value!r}"
        if "grounded" in shape:
            check(value.get("types", []), [str], f"{where}.types")
            value = {key: one for key, one in value.items() if key not in ("types", "properties")}
        assert list(value) == list(shape) or set(value) == set(shape), f"{where}: {set(value)}"
        for key, inner in shape.items():
            check(value[key], inner, f"{where}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{where}: {value!r}"
        for number, one in enumerate(value):
            check(one, shape[0], f"{where}[{number}]")
    elif shape is None:
        assert value is None, f"{where}: {value!r}"
    else:
        assert type(value) is shape, f"{where}: {value!r} is not of type {shape.__name__}"


def test_the_check_can_fail() -> None:
    for wrong in ({"id": 1, "name": ""}, {"id": ""}, {"id": "", "name": "", "more": 1}, []):
        with pytest.raises(AssertionError):
            check(wrong, NODE)


@pytest.mark.parametrize("kind", ["freebase", "conceptnet", "umls"])
def test_ingest(kgqa: Kgqa, tmp_path: Path, kind: str) -> None:
    done = kgqa("ingest", kind, "--json", "--home", tmp_path).json
    wanted = {"kg": str, "lines": int, "entities": int, "edges": int, "mediators": int}
    wanted |= {"rejected": int, "rejects_file": (str, None), "seconds": float, "dropped": dict}
    dropped = done.pop("dropped")
    assert all(type(count) is int for count in dropped.values())
    wanted.pop("dropped")
    wanted["taken"] = {
        "types": [{"name": str, "count": int, "found": str}],
        "relations": [{"name": str, "count": int, "head": str, "tail": str}],
        "properties": [{"name": str, "count": (int, None), "type": str}],
        "left_out": [{"reason": str, "count": int, "example": str, "rejected": bool}],
        "warnings": [str],
    }
    check(done, wanted)
    assert done["kg"] == kind
    assert done["entities"] > 100
    assert (done["rejects_file"] is not None) == (done["rejected"] > 0)


def test_ingest_tells_where_the_whole_dump_is_had(kgqa: Kgqa, tmp_path: Path) -> None:
    done = kgqa("ingest", "umls", "--home", tmp_path)
    assert "sample" in done.err
    assert "licence" in done.err
    assert done.out.startswith("umls: ")


def test_precompute_tries(kgqa: Kgqa, own_home: Path, tmp_path: Path) -> None:
    asked = tmp_path / "questions.jsonl"
    questions = [{"question": "?", "topic_entities": ["Apollo 13"]}, {"question": "no topic"}]
    asked.write_text("\n".join(json.dumps(question) for question in questions), encoding="utf-8")
    arguments = ("precompute-tries", "--questions", asked, "--hops", "1", "--home", own_home)
    done = kgqa(*arguments, "--json")
    whole = dict.fromkeys(
        ("entities", "stored", "composed", "paths", "bytes", "shards", "added", "without_paths"),
        int,
    )
    check(done.json, whole | {"kg": str, "seconds": float})
    assert (done.json["entities"], done.json["stored"], done.json["added"]) == (1, 1, 1)
    assert "line 2" in done.err
    assert kgqa(*arguments, "--json").json["added"] == 0, "a second run has nothing left to do"


def test_ask(healthy: dict[str, Any]) -> None:
    check(healthy, ASK)
    assert healthy["question"] == QUESTION
    assert [entity["id"] for entity in healthy["topic_entities"]] == ["m.02mjmr"]
    assert 1 <= len(healthy["paths"]) <= 2
    decoded = sum(math.exp(path["score"]) for path in healthy["paths"])
    everything = [*healthy["answers"], *healthy["others"]]
    assert sum(one["score"] for one in everything) == pytest.approx(decoded)
    assert decoded <= 1.0
    assert healthy["timings"]["total"] == pytest.approx(
        sum(value for stage, value in healthy["timings"].items() if stage != "total"), abs=0.001
    )
    constraint = healthy["constraints"][0]
    assert (constraint["entity"], constraint["source"]) == ("m.02mjmr", "shard")
    assert constraint["paths"] > 0


def test_paths_of_an_answer_are_consistent(healthy: dict[str, Any]) -> None:
    for path in healthy["paths"]:
        assert path["grounded"] is True
        assert path["score"] < 0
        assert math.isfinite(path["score"])
        assert path["groundings"][0] == path["edges"]
        for grounding in path["groundings"]:
            parts = [grounding[0]["head"]["name"]]
            for before, edge in zip([None, *grounding], grounding, strict=False):
                assert before is None or before["tail"] == edge["head"]
                parts += [edge["relation"], edge["tail"]["name"]]
                assert 1 <= len(edge["facts"]) <= 2
            assert " -> ".join(parts) == path["text"]
        assert path["hypothesis"] == path["edges"][-1]["tail"]["name"]


def test_paths(kgqa: Kgqa, plain_home: Path) -> None:
    done = kgqa("paths", "Apollo 13", "--limit", "5", "--json", "--home", plain_home).json
    wanted = {"entity": NODE, "paths": [PATH], "total": int, "browser_url": None, "tries": [dict]}
    check(done, wanted)
    assert len(done["paths"]) == 5
    assert done["total"] > 5
    fewer = kgqa("paths", "Apollo 13", "--hops", "1", "--json", "--home", plain_home).json
    assert fewer["total"] < done["total"]
    assert all(len(path["edges"]) == 1 for path in fewer["paths"])


def test_link(kgqa: Kgqa, plain_home: Path) -> None:
    done = kgqa("link", QUESTION, "--json", "--home", plain_home).json
    assert done["question"] == QUESTION
    parts = done["candidates"][0].pop("parts")
    features = done["candidates"][0].pop("features")
    assert parts.keys() == features.keys()
    assert all(isinstance(value, float | int) for value in [*parts.values(), *features.values()])
    check(
        done["candidates"][0],
        {"id": str, "name": str, "score": float, "mention": str, "start": int, "end": int}
        | {"match": str, "edges": int, "chosen": bool},
    )
    assert done["candidates"][0]["id"] == "m.02mjmr"
    assert done["candidates"][0]["chosen"] is True


def test_status(kgqa: Kgqa, home: Path, model_cache: Path) -> None:
    done = kgqa("status", "--json", "--verify", "--home", home).json
    assert set(done) == {"home", "graph", "kgs", "kg_llm", "general_llm", "dumps", "missing"}
    assert done["missing"] == []
    (kg,) = done["kgs"]
    assert (kg["name"], kg["ranker"]) == ("freebase", None)
    (index,) = kg["indexes"]
    assert (index["fits"], index["stored"], index["faults"]) == (True, 2, [])


def test_status_of_an_empty_home_says_what_to_do(kgqa: Kgqa, tmp_path: Path) -> None:
    done = kgqa("status", "--json", "--home", tmp_path / "nothing").json
    assert done["kgs"] == []
    assert any("kgqa ingest" in line for line in done["missing"])


def test_status_converts_no_model(kgqa: Kgqa, home: Path, tmp_path: Path) -> None:
    done = kgqa("status", "--json", "--home", home, KGQA_CACHE=tmp_path / "cache").json
    assert done["kg_llm"] is None
    assert [line for line in done["missing"] if "kgqa setup" in line] == done["missing"]
    assert not (tmp_path / "cache").exists()


def test_eval(kgqa: Kgqa, home: Path, tmp_path: Path) -> None:
    asked = tmp_path / "questions.jsonl"
    questions = [
        {"id": "1", "question": QUESTION, "topic_entities": ["m.02mjmr"], "answers": ["m.02hrh0_"]},
        {"id": "2", "question": "Who?", "topic_entities": ["nobody"], "answers": ["m.0rh6k"]},
    ]
    asked.write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")
    out = tmp_path / "out"
    done = kgqa("eval", "jsonl", asked, "--k", "2", "--json", "--out", out, "--home", home).json
    hops = done.pop("by_hop")
    intervals = done.pop("intervals", None)
    assert intervals is None or isinstance(intervals, dict)
    assert done.pop("by_type") == {}
    assert sum(done.pop("outcomes").values()) == 2
    check(done, EVAL)
    assert (done["questions"], done["answered"]) == (2, 1)
    assert done["hits_at_1"] in (0.0, 50.0), "the question that failed counts too"
    assert done["grounded_paths"] == 100.0
    assert all({"questions", "hits_at_1"} <= set(figures) for figures in hops.values())
    assert len((out / "results.jsonl").read_text("utf-8").splitlines()) == 2


def test_the_page_of_the_json_names_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text("utf-8")
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", page))))
    fields = [ASK, EVAL, ASK["answers"][0], ASK["topic_entities"][0], PATH, EDGE, FACT, CONDITION]
    assert {name for shape in fields for name in shape} <= words
