"""What ``kgqa ask`` and ``kgqa eval`` answer questions with: flags → a method, made ready.

``MAKERS`` is the one place where a method's name is bound to what makes it. What this does not do:
find topic entities, or print.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgqa.cli import asking_dog, asking_ensemble, llm
from kgqa.cli.asking import BASELINES, TOGETHER

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from kgqa.cli.asking import Flags
    from kgqa.cli.common import Run
    from kgqa.graph.store import GraphStore
    from kgqa.methods.base import Method
    from kgqa.models.adapter import AdapterCard
    from kgqa.models.general import GeneralLLM
    from kgqa.paths.walk import WalkRules
    from kgqa.trie.index.manifest import IndexKey
    from kgqa.trie.index.reader import TrieIndex


@dataclass(frozen=True, slots=True)
class Ready:
    """A method that can be asked, the index that serves it, and what is kept of how it was made.

    ``settings``: None for what the method does not have.
    """

    method: Method
    settings: dict[str, Any]
    index: TrieIndex | None = None
    general: GeneralLLM | None = None

    def calls_note(self) -> str:
        """Return what is told of calls that were not made again; empty where there are none."""
        used = self.general.usage if self.general else None
        if not used or not used.cached:
            return ""
        every = used.cached + used.calls
        return (
            f"{used.cached:,} of {every:,} calls of the general LLM had been answered before and "
            "were not made again (--no-cache-calls makes them)."
        )


def make_ready(run: Run, flags: Flags, store: GraphStore | None, stack: ExitStack) -> Ready:
    """Load what the method needs; ``stack`` closes it.

    ``store``: the KG, None where every question has its own graph. Raises UsageError and what
    loading models raises.
    """
    general = general_llm(run, flags.general, cache_calls=flags.cache_calls)
    if general is not None:
        stack.enter_context(general)
    return MAKERS[flags.method](Parts(run, flags, store, stack, general))


@dataclass(frozen=True, slots=True)
class Parts:
    """What a method is made of."""

    run: Run
    flags: Flags
    store: GraphStore | None
    stack: ExitStack
    general: GeneralLLM | None

    def walks(self, card: AdapterCard) -> Callable[[GraphStore], WalkRules]:
        """Return which walks of a store are paths under ``card`` and the flags."""
        return lambda store: self.flags.wanted.rules(store.info, card)

    def card(self) -> AdapterCard:
        """Return the card of a method without a KG-LLM: the preset's, else the default."""
        from kgqa.models.adapter import AdapterCard
        from kgqa.models.presets import preset

        name = self.flags.wanted.preset
        return preset(name) if name else AdapterCard()

    def ready(
        self,
        method: Method,
        card: AdapterCard,
        settings: dict[str, Any],
        index: TrieIndex | None = None,
        *,
        written: bool = True,
    ) -> Ready:
        """Return ``method`` with its settings; with the general LLM behind it if ``written``."""
        from dataclasses import asdict

        from kgqa.methods.base import CONCURRENCY, WithGeneralLLM

        flags = self.flags
        if self.general is not None and written:
            many = flags.concurrency or CONCURRENCY
            method = WithGeneralLLM(method, self.general, many, flags.answer_tokens)
        walked = self.walks(card)(self.store) if self.store is not None else None
        sampled = flags.wanted.sampled()
        kept = {
            "method": flags.method,
            "unconstrained": flags.unconstrained or None,
            "all_paths": flags.all_paths or None,
            "preset": flags.wanted.preset,
            "k": flags.k,
            "hops": walked.hops if walked else flags.wanted.hops or card.hops,
            "direction": walked.direction if walked else flags.wanted.direction,
            "mediators": flags.wanted.mediators or card.mediators,
            "sample": None if sampled is None else asdict(sampled),
            "general_model": self.general.model if self.general else None,
            "answer_tokens": flags.answer_tokens if self.general else None,
            **settings,
        }
        return Ready(method, kept, index, self.general)


def _gcr(parts: Parts) -> Ready:
    from dataclasses import asdict, replace

    from kgqa.methods.all_paths import PROMPT_TOKENS, AllPaths
    from kgqa.methods.base import CAP, Gcr
    from kgqa.methods.gcr import GcrOptions
    from kgqa.methods.searches import SearchOptions
    from kgqa.methods.unconstrained import Unconstrained
    from kgqa.models.profile import engine_for
    from kgqa.trie.lexicon import PathLexicon

    run, flags = parts.run, parts.flags
    if flags.all_paths:
        card = parts.card()
        tokens, cap = flags.prompt_tokens or PROMPT_TOKENS, flags.cap or CAP
        every = AllPaths(llm.path_format(card), parts.walks(card), tokens, cap)
        return parts.ready(every, card, {"k": None, "prompt_tokens": tokens, "cap": cap})
    kg_llm = flags.wanted.load(run, flags.quantize)
    card = kg_llm.card
    form = llm.path_format(card)
    lexicon = PathLexicon(kg_llm.encoder, form)
    settings: dict[str, Any] = {
        "model": kg_llm.name,
        "adapter": kg_llm.adapter,
        "score_rule": card.score_rule,
        "quantize": flags.quantize,
    }
    if flags.unconstrained:
        free = Unconstrained(kg_llm, lexicon, parts.walks(card), flags.k)
        return parts.ready(free, card, {**settings, "score_rule": "vocabulary"})
    searched = flags.searched or SearchOptions()
    weigh = flags.weigh
    options = GcrOptions(
        k=flags.k,
        score_rule=card.score_rule,
        time_limit=flags.time_limit,
        search=searched,
        weigh=weigh,
    )
    index = None
    if parts.store is not None:
        rules, store = parts.walks(card)(parts.store), parts.store
        key = llm.index_key(store.info, kg_llm.encoder, form, rules, flags.wanted.sampled())
        index = open_fitting_index(run, store.info.name, key, flags.wanted)
        if index is not None:
            parts.stack.enter_context(index)
    engine = engine_for(kg_llm, together=flags.together, budget=flags.budget, progress=run.progress)
    if parts.general is not None:  # which writes the answers, so none are weighed
        options = replace(options, weigh=None)
    settings |= {
        "time_limit": flags.time_limit,
        "search": searched.kind,
        **{name: value for name, value in asdict(searched).items() if name != "kind"},
        "weigh": None if weigh is None else asdict(weigh),
    }
    return parts.ready(
        Gcr(kg_llm, lexicon, parts.walks(card), options, engine), card, settings, index
    )


def _retrieval(parts: Parts) -> Ready:
    from kgqa.methods.base import CAP
    from kgqa.methods.retrieval import Retrieval
    from kgqa.models.sentences import load_sentence_encoder

    run, flags, card = parts.run, parts.flags, parts.card()
    encoder = load_sentence_encoder(
        flags.encoder,
        device=run.settings.device,
        cache=run.settings.cache_folder,
        progress=run.progress,
    )
    cap = flags.cap or CAP
    method = Retrieval(
        encoder,
        llm.path_format(card),
        parts.walks(card),
        k=flags.k,
        cap=cap,
    )
    return parts.ready(method, card, {"encoder": encoder.name, "cap": cap})


def _kg_cot(parts: Parts) -> Ready:
    from kgqa.methods.kg_cot.method import KgCot
    from kgqa.methods.kg_cot.scores import fitting_reasoner
    from kgqa.models.adapter import AdapterCard
    from kgqa.models.graph_reasoner_card import load_reasoner

    run, flags = parts.run, parts.flags
    named = flags.reasoner
    if named is None:
        named, told = fitting_reasoner(parts.store)
        if told:
            run.note(told)
    reasoner = load_reasoner(
        named,
        device=run.settings.device,
        cache=run.settings.cache_folder,
        progress=run.progress,
    )
    made = reasoner.card
    card = AdapterCard(
        hops=made.hops,
        direction=made.direction,
        mediators=made.mediators,
    )
    each = flags.paths_each or 1
    method = KgCot(reasoner, llm.path_format(card), parts.walks(card), flags.k, each, flags.cut)
    cut = made.answer_threshold if flags.cut is None else flags.cut
    settings = {"reasoner": reasoner.name, "paths_each": each, "cut": cut}
    return parts.ready(method, card, settings)


def _direct(parts: Parts) -> Ready:
    from kgqa.methods.base import CONCURRENCY
    from kgqa.methods.direct import SAMPLES, TEMPERATURE, Direct

    flags, card = parts.flags, parts.card()
    drawn = flags.method == "self-consistency"
    samples = flags.samples or SAMPLES
    assert parts.general is not None  # Flags.check has seen to it
    method = Direct(
        flags.method,  # type: ignore[arg-type]
        parts.general,
        parts.walks(card),
        samples=samples,
        concurrency=flags.concurrency or CONCURRENCY,
        max_tokens=flags.answer_tokens,
    )
    drawing = {"samples": samples, "temperature": TEMPERATURE} if drawn else {}
    return parts.ready(method, card, {"k": None, **drawing}, written=False)


MAKERS: dict[str, Callable[[Parts], Ready]] = {
    "gcr": _gcr,
    "kg-cot": _kg_cot,
    "dog": asking_dog.make_dog,
    **dict.fromkeys(TOGETHER, asking_ensemble.make_ensemble),
    "retrieval": _retrieval,
    **dict.fromkeys(BASELINES, _direct),
}


def open_fitting_index(run: Run, kg: str, key: IndexKey, wanted: llm.Wanted) -> TrieIndex | None:
    """Return the index that fits, or None after saying why there is none and what makes one."""
    from kgqa.errors import IndexFault, ShardDamagedError
    from kgqa.trie.index.reader import open_index

    try:
        return open_index(run.tries_folder(kg), key)
    except IndexFault as error:
        build = wanted.build_command(run)
        if isinstance(error, ShardDamagedError):
            build += " --rebuild"
        run.note(f"{error.message} Answering on the fly. Build one that fits: {build}")
        return None


def general_llm(run: Run, model: str | None, *, cache_calls: bool = True) -> GeneralLLM | None:
    """Return the general LLM where one was asked for; an exported key alone asks for none.

    With ``cache_calls`` its answers are kept in the cache folder.
    """
    settings = run.settings
    model = model or settings.general_model
    if not model:
        return None
    from kgqa.models.general import GeneralLLM
    from kgqa.models.general_cache import FILE_NAME, CallCache

    cache = CallCache(settings.cache_folder / FILE_NAME) if cache_calls else None
    try:
        return GeneralLLM(
            model, base_url=settings.openai_base_url, key=settings.openai_api_key, cache=cache
        )
    except BaseException:
        if cache is not None:
            cache.close()
        raise
