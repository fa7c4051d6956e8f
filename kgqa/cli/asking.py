"""What ``kgqa ask`` and ``kgqa eval`` answer questions with: flags → a method, made ready.

``_MAKERS`` is the one place where a method's name is bound to what makes it. What this does not do:
find topic entities, or print.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from kgqa.cli import llm

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from kgqa.cli.common import Run
    from kgqa.graph.store import GraphStore
    from kgqa.models.adapter import AdapterCard
    from kgqa.models.general import GeneralLLM
    from kgqa.models.kg_llm import Quantize
    from kgqa.paths.walk import WalkRules
    from kgqa.reasoning.methods import Method
    from kgqa.reasoning.searches import SearchOptions
    from kgqa.reasoning.vote import WeighOptions
    from kgqa.trie.index.manifest import IndexKey
    from kgqa.trie.index.reader import TrieIndex

MethodName = Literal["gcr", "retrieval", "direct", "cot", "self-consistency"]
METHODS: tuple[str, ...] = get_args(MethodName)
BASELINES = ("direct", "cot", "self-consistency")  # without the KG: measured, not used

MethodFlag = Annotated[
    MethodName,
    typer.Option(help="gcr; retrieval: nearest paths; direct, cot, self-consistency: no KG."),
]
EncoderFlag = Annotated[
    str | None, typer.Option(help="retrieval: a sentence-transformers name or folder (MiniLM).")
]
CapFlag = Annotated[
    int | None,
    typer.Option(help="retrieval, --all-paths: a sample of so many of an entity (2000).", min=1),
]
ConcurrencyFlag = Annotated[
    int, typer.Option(help="Calls of the general LLM at a time.", min=1, max=256)
]
AnswerTokensFlag = Annotated[
    int | None, typer.Option(help="Tokens that the general LLM may answer with.", min=1)
]
CacheCallsFlag = Annotated[
    bool,
    typer.Option(
        "--cache-calls/--no-cache-calls",
        help="Keep the general LLM's answers, and do not ask for one twice.",
    ),
]


@dataclass(frozen=True, slots=True)
class Flags:
    """What the flags of a command say about the method. None is the default of each."""

    method: str = "gcr"
    k: int = 10
    wanted: llm.Wanted = field(default_factory=llm.Wanted)
    general: str | None = None
    searched: SearchOptions | None = None
    weigh: WeighOptions | None = None
    unconstrained: bool = False
    all_paths: bool = False
    encoder: str | None = None
    cap: int | None = None
    prompt_tokens: int | None = None
    samples: int | None = None
    concurrency: int | None = None
    answer_tokens: int | None = None
    cache_calls: bool = True
    together: int | None = None
    time_limit: float | None = None
    budget: int | None = None
    quantize: Quantize | None = None

    @property
    def decodes(self) -> bool:
        """Whether a KG-LLM writes paths."""
        return self.method == "gcr" and not self.all_paths

    def check(self, run: Run) -> None:
        """Raise UsageError for what cannot be meant, before anything is loaded."""
        from kgqa.errors import UsageError

        self.wanted.check()
        if self.unconstrained and self.all_paths:
            raise UsageError(
                "--unconstrained lets the KG-LLM write freely, --all-paths leaves it out.",
                "Give one of them.",
            )
        bound = self.decodes and not self.unconstrained
        searched = self.searched is not None and self.searched.kind != "beam"
        for flag, given, fits, of in (
            ("--unconstrained", self.unconstrained, self.method == "gcr", "--method gcr"),
            ("--all-paths", self.all_paths, self.method == "gcr", "--method gcr"),
            ("--model", self.wanted.model, self.decodes, "a method with a KG-LLM"),
            ("--adapter", self.wanted.adapter, self.decodes, "a method with a KG-LLM"),
            ("--quantize", self.quantize, self.decodes, "a method with a KG-LLM"),
            ("--search", searched, bound, "constrained decoding"),
            ("--sample", self.wanted.sample, bound, "constrained decoding"),
            ("--time-limit", self.time_limit, bound, "constrained decoding"),
            ("--together", self.together, bound, "constrained decoding"),
            ("--budget", self.budget, bound, "constrained decoding"),
            ("--encoder", self.encoder, self.method == "retrieval", "--method retrieval"),
            (
                "--cap",
                self.cap,
                self.method == "retrieval" or self.all_paths,
                "--method retrieval and --all-paths",
            ),
            ("--prompt-tokens", self.prompt_tokens, self.all_paths, "--all-paths"),
            (
                "--samples",
                self.samples,
                self.method == "self-consistency",
                "--method self-consistency",
            ),
        ):
            if given and not fits:
                raise UsageError(f"{flag} belongs to {of}.", f"Leave {flag} out.")
        needs = "--all-paths" if self.all_paths else f"--method {self.method}"
        if (self.all_paths or self.method in BASELINES) and not self._general_name(run):
            raise UsageError(
                f"{needs} is answered by a general LLM, and none is named.",
                "Name one: --general-model NAME, with OPENAI_BASE_URL for a server of your own.",
            )

    def _general_name(self, run: Run) -> str | None:
        return self.general or run.settings.general_model


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
    return _MAKERS[flags.method](_Parts(run, flags, store, stack, general))


@dataclass(frozen=True, slots=True)
class _Parts:
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
        from kgqa.reasoning.methods import CONCURRENCY, WithGeneralLLM

        flags = self.flags
        if self.general is not None and written:
            many = flags.concurrency or CONCURRENCY
            method = WithGeneralLLM(method, self.general, many, flags.answer_tokens)
        walked = self.walks(card)(self.store) if self.store is not None else None
        kept = {
            "method": flags.method,
            "unconstrained": flags.unconstrained or None,
            "all_paths": flags.all_paths or None,
            "preset": flags.wanted.preset,
            "k": flags.k,
            "hops": walked.hops if walked else flags.wanted.hops or card.hops,
            "direction": walked.direction if walked else flags.wanted.direction,
            "mediators": flags.wanted.mediators or card.mediators,
            "general_model": self.general.model if self.general else None,
            "answer_tokens": flags.answer_tokens if self.general else None,
            **settings,
        }
        return Ready(method, kept, index, self.general)


def _gcr(parts: _Parts) -> Ready:
    from dataclasses import asdict, replace

    from kgqa.models.profile import engine_for
    from kgqa.reasoning.all_paths import PROMPT_TOKENS, AllPaths
    from kgqa.reasoning.gcr import GcrOptions
    from kgqa.reasoning.methods import CAP, Gcr
    from kgqa.reasoning.searches import SearchOptions
    from kgqa.reasoning.unconstrained import Unconstrained
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


def _retrieval(parts: _Parts) -> Ready:
    from kgqa.models.sentences import load_sentence_encoder
    from kgqa.reasoning.methods import CAP
    from kgqa.reasoning.retrieval import Retrieval

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


def _direct(parts: _Parts) -> Ready:
    from kgqa.reasoning.direct import SAMPLES, TEMPERATURE, Direct
    from kgqa.reasoning.methods import CONCURRENCY

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


_MAKERS: dict[str, Callable[[_Parts], Ready]] = {
    "gcr": _gcr,
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
