"""The models, indexes and settings that methods use, loaded on demand and cached."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from kgqa.closing import Closing
from kgqa.errors import IndexFault, ShardDamagedError
from kgqa.extras import require_llm_packages
from kgqa.models.locate import SMOLLM
from kgqa.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kgqa.config import Settings
    from kgqa.graph.store import GraphStore
    from kgqa.models.general import GeneralLLM
    from kgqa.models.graph_reasoner import LoadedReasoner
    from kgqa.models.kg_llm import KgLLM, Quantize
    from kgqa.models.path_ranker import PathRanker
    from kgqa.models.plan_scorer import PlanScorer
    from kgqa.models.sentence_encoder import SentenceEncoder
    from kgqa.progress import Progress
    from kgqa.trie.index.manifest import IndexKey
    from kgqa.trie.index.reader import TrieIndex

T = TypeVar("T")

_KG_LLM = "kg_llm"  # begins the name of a KG-LLM among the models


class Models:
    """Loaded models by name, shared by the sessions of one thread.

    Each is kept while a session holds it. ``before_kg_llm`` is called before a KG-LLM is loaded: a
    server makes room then.
    """

    def __init__(self, before_kg_llm: Callable[[], None] = lambda: None) -> None:
        self._loaded: WeakValueDictionary[tuple[object, ...], Any] = WeakValueDictionary()
        self._before_kg_llm = before_kg_llm

    def get(self, key: tuple[object, ...], load: Callable[[], T]) -> T:
        """Return the model named ``key``; it is loaded by ``load`` unless a session holds it."""
        found: T | None = self._loaded.get(key)
        if found is None:
            if key[0] == _KG_LLM:
                self._before_kg_llm()
            found = self._loaded[key] = load()
        return found

    def kg_independent(self) -> list[Any]:
        """Return the loaded models that belong to no KG, except KG-LLMs.

        The list keeps them loaded. A model of a KG is named by its folder.
        """
        return [
            model
            for key, model in self._loaded.items()
            if key[0] != _KG_LLM and not any(Path(str(part)).is_absolute() for part in key)
        ]


def model_and_adapter(
    settings: Settings,
    store: GraphStore | None,
    model: str | None = None,
    adapter: str | None = None,
    preset: str | None = None,
) -> tuple[str | None, str | None]:
    """Return the names of the model and the adapter for a KG; None names the offline one.

    Without a named adapter it is the KG's own, or a bundled one trained on such a KG. Raises
    GraphError.
    """
    from kgqa.models.adapter import UNTUNED
    from kgqa.models.kg_llm import NO_ADAPTER, suited_adapter

    model, adapter = model or settings.model, adapter or settings.adapter
    if adapter is None and preset in UNTUNED:
        adapter = NO_ADAPTER
    elif adapter is None and store is not None:
        folder = settings.kg_folder(store.info.name)
        adapter = suited_adapter(model, folder, store.relations().known)
    return model, adapter


class Resources(Closing):
    """The KG, the settings, and models by name, each loaded once.

    ``store`` is None if every question has its own graph. ``open_index`` returns the index that
    fits a key, or raises IndexFault; None: no index is used. ``build_command`` returns the command
    that builds an index with given options, for notes. ``models`` are shared with other sessions of
    the same thread. Closing it closes what was opened. Not for use by several threads.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        store: GraphStore | None = None,
        progress: Progress | None = None,
        open_index: Callable[[IndexKey], TrieIndex] | None = None,
        build_command: Callable[[Mapping[str, Any]], str] | None = None,
        models: Models | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.progress: Progress = progress or Silent()
        self._open_index = open_index
        self._build_command = build_command or (lambda _: "kgqa precompute-tries")
        self._kept: dict[tuple[object, ...], Any] = {}
        self._models = models or Models()
        self._opened = ExitStack()

    def close(self) -> None:
        """Close the general LLM and the indexes, and forget the models."""
        self._kept.clear()
        self._opened.close()

    def note(self, text: str) -> None:
        """Show the user one line."""
        self.progress.note(text)

    def kg_llm(
        self,
        model: str | None,
        adapter: str | None = None,
        preset: str | None = None,
        quantize: Quantize | None = None,
    ) -> KgLLM:
        """Load the KG-LLM; None: that of the settings, otherwise the offline one.

        A preset is combined with an adapter only if the adapter is named and the preset was not
        made for models without one.
        """
        from kgqa.models.adapter import preset as card_of

        require_llm_packages(f"The KG-LLM {model or SMOLLM}")
        from kgqa.models.prepared import open_kg_llm

        card = card_of(preset) if preset else None
        model, adapter = model_and_adapter(self.settings, self.store, model, adapter, preset)
        loaded = self._model(
            (_KG_LLM, model, adapter, quantize),
            lambda: open_kg_llm(model, adapter, quantize=quantize, **self._where()),
        )
        return loaded.with_card(card) if card else loaded

    def sentence_encoder(self, name: str | None) -> SentenceEncoder:
        """Load a sentence encoder; None is the offline one."""
        from kgqa.models.sentences import load_sentence_encoder

        return self._model(("encoder", name), lambda: load_sentence_encoder(name, **self._where()))

    def reasoner(self, name: str, encoder: str | None = None) -> LoadedReasoner:
        """Load a graph reasoner from a folder or by a bundled name, with ``encoder`` or its own."""
        from kgqa.models.graph_reasoner import load_reasoner

        return self._model(
            ("reasoner", name, encoder),
            lambda: load_reasoner(name, encoder=encoder, **self._where()),
        )

    def suited_reasoner(self) -> tuple[str, str]:
        """Return the bundled reasoner that suits the KG best, and a note, "" if it suits well."""
        from kgqa.models.graph_reasoner_card import suited_reasoner

        if self.store is None:  # every question has a graph of its own
            return suited_reasoner("", ())[0], ""
        return suited_reasoner(self.store.info.name, self.store.relations().known)

    def path_ranker(self, name: str | None = None, encoder: str | None = None) -> PathRanker:
        """Load a path ranker from a folder or by a bundled name, with ``encoder`` or its own.

        Without a name: the one that suits the KG.
        """
        from kgqa.models.path_ranker import load_path_ranker, suited_ranker, universal_ranker

        if name is None:
            name = universal_ranker(self.settings.encoder, self.settings.cache_folder)
            if self.store is not None:
                folder = self.settings.kg_folder(self.store.info.name)
                name = suited_ranker(self.store.relations().known, folder, name)
        return self._model(
            ("ranker", name, encoder),
            lambda: load_path_ranker(name, encoder=encoder, **self._where()),
        )

    def plan_scorer(self, folder: str | None = None) -> PlanScorer:
        """Load a plan scorer from a folder; None is the bundled one."""
        from kgqa.models.plan_scorer import UNIVERSAL, load_plan_scorer

        name = folder or UNIVERSAL
        return self._model(("planner", name), lambda: load_plan_scorer(name))

    def general_llm(self, name: str | None, *, cache_calls: bool = True) -> GeneralLLM | None:
        """Return the general LLM named here or in the settings, None if neither names one.

        An API key in the environment alone selects none. ``cache_calls``: keep replies in the cache
        folder.
        """
        model = name or self.settings.general_model
        if not model:
            return None
        return self._once(
            ("general", model, cache_calls), lambda: self._general(model, cache_calls=cache_calls)
        )

    def _general(self, model: str, *, cache_calls: bool) -> GeneralLLM:
        """Create the client of a general LLM."""
        from kgqa.models.general import FILE_NAME, CallCache, GeneralLLM

        settings = self.settings
        cache = CallCache(settings.calls_folder / FILE_NAME) if cache_calls else None
        try:
            general = GeneralLLM(
                model, base_url=settings.openai_base_url, key=settings.openai_api_key, cache=cache
            )
        except BaseException:
            if cache is not None:
                cache.close()
            raise
        if general.ignores_key:
            self.note(
                "OPENAI_BASE_URL has a user and password, which are sent in place of "
                "OPENAI_API_KEY. Leave one of them out."
            )
        return self._opened.enter_context(general)

    def index(self, key: IndexKey, build_options: Mapping[str, Any]) -> TrieIndex | None:
        """Return the index for ``key``; None, after a note, if no index fits.

        ``build_options``: the options of a build that makes it, by name.
        """
        if (opened := self._open_index) is None:
            return None
        try:
            return self._once(("index", key), lambda: self._opened.enter_context(opened(key)))
        except IndexFault as error:
            build = self._build_command(build_options)
            if isinstance(error, ShardDamagedError):
                build += " --rebuild"
            self.note(f"{error.message} Answering on the fly. Build one that fits: {build}")
            return None

    def _where(self) -> dict[str, Any]:
        """Return the device, cache folder and progress arguments of loaders."""
        return {
            "device": self.settings.device,
            "cache": self.settings.cache_folder,
            "progress": self.progress,
        }

    @property
    def kg_llms(self) -> frozenset[tuple[object, ...]]:
        """The keys (name, adapter, …) of the KG-LLMs loaded in this session."""
        return frozenset(key for key in self._kept if key[0] == _KG_LLM)

    def _model(self, key: tuple[object, ...], load: Callable[[], T]) -> T:
        """Return a model from this session or the shared ones, loading it at first use."""
        return self._once(key, lambda: self._models.get(key, load))

    def _once(self, key: tuple[object, ...], load: Callable[[], T]) -> T:
        """Return the value of ``key``, loaded at first use."""
        if key not in self._kept:
            self._kept[key] = load()
        found: T = self._kept[key]
        return found
