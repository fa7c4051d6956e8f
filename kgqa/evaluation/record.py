"""The record of one question, from which every figure can be made again, and the folder of a run.

The folder has ``run.json`` and a line per question (``results.jsonl``); a stopped run goes on.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict

from kgqa.answers.answer import Answer, ScoredPath
from kgqa.answers.expand import tails
from kgqa.errors import (
    DataError,
    EntityNotFoundError,
    KgqaError,
    LinkingError,
    TimeLimitError,
    UsageError,
)
from kgqa.evaluation.metrics import (
    ALL_RIGHT,
    CHAINS,
    TRIPLET_SCORES,
    distance,
    gcr_scores,
    linking_of,
    path_recall,
    relation_path,
    rog_scores,
    strict_scores,
    triplets_of,
)
from kgqa.files import check_plain, write_whole
from kgqa.files import read_settings as read_file
from kgqa.graph.names import normalise
from kgqa.questions.meanings import Meanings, known_topics, meanings_of
from kgqa.records import record_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kgqa.graph.store import GraphStore
    from kgqa.paths.walk import WalkRules
    from kgqa.questions.base import BadEntry, Question

_KEPT = 20  # predictions and paths that stay in a line


class Outcome(StrEnum):
    """Where a question ended: answered rightly, or the first stage that failed it."""

    RIGHT = "right"
    MALFORMED = "malformed"  # the entry of the file cannot be read as a question
    UNANSWERABLE = "answered in vain"  # the file has no gold answer, and one was given
    LINKING = "linking"  # no topic entity of the file is among those that were linked
    NOT_REACHABLE = "not reachable"  # no path leads from a topic entity to an answer
    FAILED = "failed"  # an error: the time limit, the general LLM
    WRONG_RELATION = "wrong relation"  # the first path's relation path leads to no answer
    WRONG_TAIL = "wrong tail"  # it leads to an answer, but another of its tails was taken
    WRONG_ANSWER = "wrong answer"  # the first path ends in an answer, the first answer is another


class Record(BaseModel):
    """One question's line. Scores are shares in 0..1; what a question does not have is None.

    ``gold``, ``predictions``: ids (or texts), answers before what else was ranked. ``paths``:
    ``{text, score, relation_path}``, the best first. ``hops``: the file's, else to the nearest
    answer. ``grounded``: whether the first answer has a path; ``grounded_paths``: share of checked
    ones, of a plan the share of rows that rest on facts. Precision, recall, F1 are of the answers;
    Hits@1, Hit@K, MRR of the ranked list; all are 1 without gold answers if none was given.
    ``refused``: nothing was answered, though what was ranked first is right.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    question: str
    outcome: str
    type: str = ""
    hops: int | None = None
    reachable: bool = False
    topics: list[str] = []
    gold: list[str] = []
    gold_names: list[str] = []
    predictions: list[str] = []
    answers: list[str] = []
    hits_at_1: float = 0.0
    hit_at_k: float = 0.0
    mrr: float = 0.0
    precision: float = 0.0
    recall: float = 0.0
    f1: float = 0.0
    accuracy: float | None = None
    path_recall: float | None = None
    legacy: dict[str, dict[str, float]] = {}
    answered: bool = False
    refused: bool = False
    confidence: float | None = None
    grounded: bool = False
    grounded_paths: float = 0.0
    gold_relation_paths: list[str] = []
    paths: list[dict[str, Any]] = []
    error: str = ""
    seconds: float | None = None
    forwards: int | None = None
    general_llm: dict[str, Any] | None = None
    linking: dict[str, Any] | None = None
    triplets: dict[str, Any] | None = None


def bad_entry_record(bad: BadEntry) -> Record:
    """Return the record of an unreadable entry: counted, and not answered."""
    return Record(
        id=bad.place,
        question="",
        outcome=Outcome.MALFORMED.value,
        error=str(bad),
        legacy=_legacy_scores(()),
    )


def failed_record(question: Question, error: KgqaError, seconds: float) -> Record:
    """Return the record of a question that could not be asked: its graph or worker failed."""
    no_triplets = {**dict.fromkeys(TRIPLET_SCORES, 0.0), "ill": 0, "written": 0}
    return Record(
        id=question.id,
        question=question.question,
        outcome=Outcome.FAILED.value,
        type=question.type,
        hops=question.hops,
        gold=question.answers,
        gold_names=question.answers,
        accuracy=0.0 if question.choices else None,
        path_recall=0.0 if question.relation_paths else None,
        triplets=no_triplets if question.gold_triplets else None,
        legacy=_legacy_scores((), question.answers),
        error=str(error),
        seconds=round(seconds, 4),
    )


def record_of(
    store: GraphStore,
    question: Question,
    given: Answer | KgqaError,
    rules: WalkRules,
    seconds: float,
    *,
    linked: bool = False,
    k: int | None = None,
) -> Record:
    """Return the record of a question that was answered or failed. Raises GraphError.

    ``given``: its answer or error; ``seconds``: the time of a failed one. ``linked``: whether to
    score the linker, too. ``k``: of Hit@K.
    """
    answer = None if isinstance(given, Exception) else given
    gold = meanings_of(store, question.answers, question.names)
    expected = meanings_of(store, known_topics(store, question), question.names)
    topics = [entity.id for entity in answer.topic_entities] if answer else list(expected.ids)
    keys = store.keys_of(topics)
    wanted = store.keys_of([id_ for id_ in gold.same if id_ not in gold.unknown])
    away = distance(store, keys[keys >= 0], wanted[wanted >= 0], rules)
    found_topic = bool(set(expected.canonical(topics)).intersection(expected.ids))
    relations = store.relations()
    pairs = zip(relations.ids, relations.inverses, strict=True)
    inverses = {relation: other for relation, other in pairs if other is not None}
    own = (
        _failure_fields(given, gold, seconds)
        if isinstance(given, Exception)
        else _answer_fields(given, gold, inverses, k)
    )
    every = [
        grounding for path in (answer.paths if answer else ()) for grounding in path.groundings
    ]
    in_triplets = question.gold_triplets or (answer is not None and answer.method == CHAINS)
    outcome = _outcome_of(
        store,
        given,
        rules,
        gold,
        right=own.get("hits_at_1") == 1.0,
        linked=found_topic or not expected.ids,
        reachable=away is not None,
    )
    return Record(
        id=question.id,
        question=question.question,
        outcome=outcome.value,
        type=question.type,
        hops=away if question.hops is None else question.hops,
        reachable=away is not None,
        topics=topics,
        gold=list(gold.ids),
        gold_names=list(gold.names),
        accuracy=_choice_accuracy(store, question, answer, gold) if question.choices else None,
        path_recall=path_recall(question.relation_paths, every, inverses),
        gold_relation_paths=[" -> ".join(path) for path in question.relation_paths[:_KEPT]],
        linking=linking_of(store, question) if linked else None,
        triplets=triplets_of(store, question, answer) if in_triplets else None,
        **own,
    )


def _failure_fields(error: KgqaError, gold: Meanings, seconds: float) -> dict[str, Any]:
    """Return the record fields of a failed question."""
    return {
        "legacy": _legacy_scores((), gold.names),
        "error": str(error),
        "seconds": round(seconds, 4),
    }


def _answer_fields(
    answer: Answer, gold: Meanings, inverses: Mapping[str, str], k: int | None
) -> dict[str, Any]:
    """Return the record fields that are computed from the answer."""
    given = answer.answers
    # if nothing is answered, what stands behind the answers is not an answer either
    ranked = (*given, *answer.others) if given else ()
    predictions = gold.canonical(
        [ranked_answer.id or ranked_answer.name for ranked_answer in ranked]
    )
    # a list that was expanded is longer than the paths; what is right far down does not count
    limits = [len(answer.paths) if answer.expanded else None, k]
    most = min((limit for limit in limits if limit is not None), default=None)
    scores = strict_scores(predictions, gold.ids, k=most)
    answers = strict_scores(
        gold.canonical([ranked_answer.id or ranked_answer.name for ranked_answer in given]),
        gold.ids,
    )
    # to say that the graph has no answer is right where the file has none
    if not given and not gold.ids:
        scores = answers = ALL_RIGHT
    held_back = [ranked_answer.id or ranked_answer.name for ranked_answer in answer.others[:1]]
    names = [ranked_answer.name for ranked_answer in given]
    return {
        "predictions": predictions[:_KEPT],
        "answers": names[:_KEPT],
        "hits_at_1": scores.hits_at_1,
        "hit_at_k": scores.hit_at_k,
        "mrr": scores.mrr,
        "precision": answers.precision,
        "recall": answers.recall,
        "f1": answers.f1,
        "legacy": _legacy_scores(names, gold.names),
        "answered": True,
        "refused": not given and bool(set(gold.canonical(held_back)) & set(gold.ids)),
        "confidence": answer.confidence,
        "grounded": bool(ranked) and ranked[0].grounded,
        "grounded_paths": _grounded_share(answer),
        "paths": [_path_json(path, inverses) for path in answer.paths[:_KEPT]],
        "seconds": round(answer.timings.total, 4),
        "forwards": answer.forward_passes,
        "general_llm": None if answer.general_llm is None else asdict(answer.general_llm),
    }


def _grounded_share(answer: Answer) -> float:
    """Return the share of paths that are grounded, or of a plan's rows that rest on facts.

    0 without any.
    """
    if answer.result is not None and not answer.paths:
        rows = [answer.result.evidence(row, 1) for row in range(len(answer.result))[:_KEPT]]
        grounded = [bool(row.facts or row.held or row.nodes) for row in rows]
        return sum(grounded) / max(len(grounded), 1)
    return sum(bool(path.groundings) for path in answer.paths) / max(len(answer.paths), 1)


def _path_json(path: ScoredPath, inverses: Mapping[str, str]) -> dict[str, Any]:
    """Return a path as JSON with text, score and relation path (None if not grounded)."""
    row: dict[str, Any] = {"text": path.text, "score": path.score, "relation_path": None}
    if path.groundings:
        row["relation_path"] = " -> ".join(relation_path(path.groundings[0], inverses))
    return row


def _legacy_scores(names: Sequence[str], gold: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    """Return the scores of ``names`` as answers by GCR's and by RoG's program."""
    return {
        "gcr": asdict(gcr_scores(list(names), list(gold))),
        "rog": asdict(rog_scores(list(names), list(gold))),
    }


def _choice_accuracy(
    store: GraphStore, question: Question, answer: Answer | None, gold: Meanings
) -> float:
    """Return 1.0 if the first answer that is one of the choices is right, else 0.0.

    Answers that are not choices are passed over.
    """
    choices = meanings_of(store, question.choices, question.names)
    by_name = {normalise(name): id_ for id_, name in zip(choices.ids, choices.names, strict=True)}
    for ranked_answer in answer.answers if answer else ():
        chosen = choices.same.get(ranked_answer.id or "") or by_name.get(
            normalise(ranked_answer.name)
        )
        if chosen is not None:
            return float(chosen in gold.same)
    return 0.0


def _outcome_of(
    store: GraphStore,
    given: Answer | KgqaError,
    rules: WalkRules,
    gold: Meanings,
    *,
    right: bool,
    linked: bool,
    reachable: bool,
) -> Outcome:
    """Return where a question ended: right, or the first stage that failed it.

    ``right``: its first answer is; ``linked``: a gold topic was found, or the file has none;
    ``reachable``: a gold answer is within the hops of ``rules``.
    """
    if right:
        return Outcome.RIGHT
    if not gold.ids and isinstance(given, Answer):
        return Outcome.UNANSWERABLE
    if isinstance(given, TimeLimitError):
        return Outcome.FAILED
    if isinstance(given, LinkingError | EntityNotFoundError) or not linked:
        return Outcome.LINKING
    if not reachable:
        return Outcome.NOT_REACHABLE
    if isinstance(given, Exception):
        return Outcome.FAILED
    first = given.paths[0].groundings if given.paths else ()
    if any(path.tail.id in gold.same for path in first):
        return Outcome.WRONG_ANSWER
    reached = {key for path in first for key in tails(store, path, rules).tolist()}
    wanted = store.keys_of(list(gold.same)).tolist()
    leads = any(key >= 0 and key in reached for key in wanted)
    return Outcome.WRONG_TAIL if leads else Outcome.WRONG_RELATION


RUN = "run.json"
RESULTS = "results.jsonl"
_LOCK = ".lock"
_OTHER = "Name another folder with `out`, or remove this one."
_NO_RUN = "Give a folder that `kgqa eval` wrote."


@dataclass(frozen=True, slots=True)
class ResultLog:
    """The open results file of a run; ``done`` has the records so far, by id."""

    folder: Path
    done: dict[str, Record]
    _file: BinaryIO

    def write(self, record: Record) -> None:
        """Append a record; it is on disk when this returns. Raises UsageError."""
        line = record_line(record.model_dump())
        try:
            self._file.write(line.encode("utf-8", "replace"))
            self._file.flush()
        except OSError as error:
            raise _unwritable(self.folder, error) from None
        self.done[record.id] = record


@contextmanager
def open_log(folder: Path, settings: Mapping[str, Any]) -> Iterator[ResultLog]:
    """Open a run's folder as a context, with the records of an earlier run.

    Raises UsageError, DataError.
    """
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(folder / _LOCK, timeout=0))
            _check_settings(folder, json.loads(json.dumps(dict(settings))))
            path = folder / RESULTS
            check_plain(path)
            file = stack.enter_context(path.open("a+b"))
            file.seek(0)
            whole, done = _parse_results(file.read(), path)
            file.truncate(whole)
            file.seek(0, os.SEEK_END)
        except Timeout:
            raise UsageError(
                f"Another run is writing to {folder}.", "Wait until it has ended."
            ) from None
        except OSError as error:
            raise _unwritable(folder, error) from None
        yield ResultLog(folder, done, file)


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of the run in ``folder``. Raises DataError."""
    path = folder / RUN
    try:
        settings = read_file(path)
    except OSError as error:
        raise _unreadable_run(path, error) from None
    except ValueError:
        raise DataError(f"{path} is not JSON.", _NO_RUN) from None
    if not isinstance(settings, dict):
        raise DataError(f"{path} is not a JSON object.", _NO_RUN)
    return settings


def read_run(folder: Path) -> dict[str, Record]:
    """Return the records in ``folder`` by id, in order, without a torn last line.

    Raises DataError.
    """
    path = folder / RESULTS
    try:
        check_plain(path)
        return _parse_results(path.read_bytes(), path)[1]
    except OSError as error:
        raise _unreadable_run(path, error) from None


def _parse_results(raw: bytes, path: Path) -> tuple[int, dict[str, Record]]:
    """Parse the complete lines of a results file; return their length in bytes, and the records.

    Of records with one id the last counts. Raises DataError for a malformed line.
    """
    whole = raw.rfind(b"\n") + 1
    done: dict[str, Record] = {}
    for number, line in enumerate(raw[:whole].split(b"\n")[:-1], 1):
        try:
            record = Record.model_validate_json(line)
        except ValueError:
            raise DataError(
                f"{path}, line {number} is not a line of a run.",
                "Remove the line, and the question is answered again.",
            ) from None
        done[record.id] = record
    return whole, done


def _check_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Write a run's settings, or raise UsageError if the folder has a run with others."""
    path = folder / RUN
    if not path.exists():
        if (folder / RESULTS).exists():
            raise UsageError(f"The folder {folder} has results, but no {RUN} beside them.", _OTHER)
        write_whole(path, json.dumps(settings, indent=1, ensure_ascii=False).encode())
        return
    there = read_settings(folder)
    for name in [*settings, *there]:
        old, new = there.get(name), settings.get(name)
        if old != new:
            raise UsageError(
                f"The folder {folder} holds a run with another {name}: "
                f"{_as_json_text(old)}, not {_as_json_text(new)}.",
                _OTHER,
            )


def _as_json_text(value: object) -> str:
    """Return a value as JSON for a message, "nothing" for None."""
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def _unreadable_run(path: Path, error: OSError) -> DataError:
    """Return the error of a folder without a readable run."""
    return DataError(
        f"The folder {path.parent} holds no run: {path.name} cannot be read ({error.strerror}).",
        _NO_RUN,
    )


def _unwritable(folder: Path, error: OSError) -> UsageError:
    """Return the error of a folder that cannot be written to."""
    return UsageError(
        f"The results cannot be written to {folder}: {error.strerror or error}.",
        "Name another folder with `out`.",
    )
