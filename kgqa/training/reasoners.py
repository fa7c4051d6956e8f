"""Training a graph reasoner on a KG and questions: :func:`train_reasoner`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kgqa.graph.names import normalise
from kgqa.methods.kg_cot.hops import HopTable
from kgqa.models.sentences import load_sentence_encoder
from kgqa.paths.walk import WalkRules
from kgqa.questions.base import is_held_out
from kgqa.training.adapters import about
from kgqa.training.data import read_file
from kgqa.training.reasoner_fit import WalkQuestion, fit_reasoner, is_check, walk_questions

if TYPE_CHECKING:
    from kgqa.graph.store import GraphStore
    from kgqa.progress import Progress
    from kgqa.training.options import ReasonerTraining
    from kgqa.training.reports import ReasonerReport


def train_reasoner(
    store: GraphStore,
    options: ReasonerTraining,
    out: Path,
    *,
    device: str | None,
    cache: Path,
    progress: Progress,
) -> ReasonerReport:
    """Train a reasoner into the folder ``out``; a stopped run goes on from its last checkpoint.

    ``device`` and ``cache`` are those of the sentence encoder
    (:func:`kgqa.models.sentences.load_sentence_encoder`). Checkpoints are chosen by a tenth of the
    questions. Raises DataError, GraphError, ModelError, UsageError.
    """
    rules = WalkRules(
        options.hops, options.direction or store.info.direction, options.mediators or "collapse"
    )
    encoder = load_sentence_encoder(options.encoder, device=device, cache=cache, progress=progress)
    table = HopTable(store, rules)
    usable: list[WalkQuestion] = []
    held: set[str] = set()  # what held-out questions ask, whatever their ids
    used = []
    for form, path in options.files:
        file = read_file(path, form, options.topics if form == "jsonl" else None, progress)
        mine = []
        for question in file.questions:
            if options.held_out and is_held_out(question.id):
                held.add(normalise(question.question))
            else:
                mine.append(question)
        resolved = ((file.in_graph(store, question), question.hops or 0) for question in mine)
        some, report = walk_questions(table, resolved, len(mine), progress)
        progress.note(
            f"{path.name}: {report.used:,} of {report.questions:,} questions are used; "
            f"{len(report.unreachable):,} have no path to an answer, {len(report.unknown):,} name "
            "entities that are not in the KG."
        )
        used.append(f"{report.used} of {report.questions} in {path.name}")
        usable += some
    asked = [question for question in usable if normalise(question.question) not in held]
    if len(asked) < len(usable):
        progress.note(
            "Left out, since they ask what a held-out question asks: "
            f"{len(usable) - len(asked):,} of {len(usable):,} questions."
        )
    data = {
        "questions": "; ".join(used),
        "held out": "a fixed fifth by the hash of the id" if options.held_out else "none",
        "KG": about(store.info),
    }
    apart = {question.id for question in asked if is_check(question.id)}
    folder = Path(options.encoder).resolve() if options.encoder else None
    return fit_reasoner(
        table,
        [question for question in asked if question.id not in apart],
        [question for question in asked if question.id in apart],
        encoder,
        out,
        options.settings,
        described=data,
        progress=progress,
        # a folder is found again wherever the reasoner is used from
        encoder_name=str(folder) if folder is not None and folder.is_dir() else None,
    )
