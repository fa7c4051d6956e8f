"""Methods with models that a test has loaded already, and questions about given entities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgqa.answers.answer import Answer, TopicEntity
from kgqa.config import load_settings
from kgqa.errors import KgqaError
from kgqa.graph.model import keys_array
from kgqa.methods.base import LinkedQuestion
from kgqa.methods.gcr import Gcr
from kgqa.methods.kg_cot.method import KgCot
from kgqa.progress import Silent
from kgqa.registry import validated

if TYPE_CHECKING:
    from kgqa.config import Settings
    from kgqa.decoding.engine import Engine
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Method
    from kgqa.methods.options import MethodOptions

QUESTION = "Where was he born?"


@dataclass
class Given:
    """Resources that hand out what they were given, whatever is asked for."""

    model: Any = None
    encoder: Any = None
    graph_reasoner: Any = None
    general: Any = None
    stored: Any = None
    store: GraphStore | None = None

    def __post_init__(self) -> None:
        self.progress = Silent()

    @property
    def settings(self) -> Settings:
        return load_settings()

    def note(self, text: str) -> None:
        self.progress.note(text)

    def kg_llm(self, *_: Any, **__: Any) -> Any:
        return self.model

    def sentence_encoder(self, _: str | None) -> Any:
        return self.encoder

    def reasoner(self, *_: Any) -> Any:
        return self.graph_reasoner

    def general_llm(self, _: str | None, *, cache_calls: bool = True) -> Any:
        return self.general

    def index(self, _key: Any, _options: Any) -> Any:
        return self.stored


def options_of(model: type[MethodOptions], **given: Any) -> Any:
    """Options as users give them: those of a search beside the method's own."""
    return validated(model, given, "the method")


def gcr(
    llm: Any,
    *,
    store: GraphStore | None = None,
    index: Any = None,
    general: Any = None,
    engine: Engine | None = None,
    **options: Any,
) -> Gcr:
    """Graph-constrained reasoning over the whole vocabulary, decoded paths voted on."""
    rule = {"score_rule": "vocabulary", "expand": False, "k": 5}
    given = Given(llm, general=general, stored=index, store=store)
    method = Gcr(options_of(Gcr.Options, **{**rule, **options}), given)
    if engine is not None:
        method.engine = engine
    return method


def kg_cot(reasoner: Any, **options: Any) -> KgCot:
    """KG-CoT with a reasoner of a test's own."""
    named = options_of(KgCot.Options, reasoner="given", **options)
    return KgCot(named, Given(graph_reasoner=reasoner))


def topic(store: GraphStore, id_: str) -> TopicEntity:
    """The entity of that id, which must be there."""
    key = int(store.keys_of([id_])[0])
    assert key >= 0
    return TopicEntity(key, id_, store.entities(keys_array([key])).label(0), 1.0)


def about(
    store: GraphStore, *ids: str, question: str = QUESTION, choices: tuple[str, ...] = ()
) -> LinkedQuestion:
    """A question about entities."""
    return LinkedQuestion(question, tuple(topic(store, id_) for id_ in ids), choices=choices)


def answered(store: GraphStore, method: Method[Any], question: LinkedQuestion) -> Answer:
    """The answer to one question. Raises its error."""
    ((_, answer),) = method.answers(store, [question])
    if isinstance(answer, KgqaError):
        raise answer
    return answer
