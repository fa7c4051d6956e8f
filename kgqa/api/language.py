"""The language of an entity's paths, for decoding with Hugging Face ``generate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kgqa.decoding.generate import ConstraintLogitsProcessor
    from kgqa.graph.store import GraphStore
    from kgqa.paths.format import PathFormat
    from kgqa.paths.ground import GroundedPath
    from kgqa.paths.walk import WalkRules
    from kgqa.queries.join import QueryStore
    from kgqa.queries.language import PlanConstraint
    from kgqa.queries.plan import Plan
    from kgqa.trie.constraint import Constraint
    from kgqa.trie.lexicon import PathLexicon


@dataclass(frozen=True, slots=True)
class PathLanguage:
    """All paths from some entities as token sequences, and nothing else.

    ``constraint`` says which tokens may follow, ``lexicon`` holds the tokens of names and
    relations, and ``store`` is the KG in which paths are checked.
    """

    store: GraphStore
    constraint: Constraint
    lexicon: PathLexicon

    def processor(
        self, prompt: Any, *, eos_token_id: int | None = None
    ) -> ConstraintLogitsProcessor:
        """Return the ``LogitsProcessor`` that keeps ``generate`` inside the language.

        ``prompt`` is what the tokenizer returned for the prompt (or for several prompts of the same
        length), or its number of tokens. ``eos_token_id`` ends a sequence; the default is the
        tokenizer's end token. The processor fails closed: if no path continues, only the end token
        may follow.
        """
        return processor([self], prompt, eos_token_id=eos_token_id)

    def read(self, sequences: Any, prompt: Any) -> list[GroundedPath]:
        """Return the paths that ``generate`` wrote, each once, every edge checked in the store.

        ``sequences`` is its output for one prompt, of shape ``[n, columns]``, including the prompt.
        Sequences that only fill up the list or that a length limit cut off are left out.
        """
        from kgqa.decoding.generate import accepted
        from kgqa.paths.ground import ground

        paths: dict[tuple[object, ...], GroundedPath] = {}
        for sequence in accepted(self.constraint, sequences, prompt):
            for path in ground(
                self.store, self.constraint.ground(sequence.state), self.lexicon.form
            ):
                if path is not None:
                    paths.setdefault(path.edges, path)
        return list(paths.values())


@dataclass(frozen=True, slots=True)
class WrittenPlans:
    """All plans over a KG's schema, with what a question states, as token sequences."""

    constraint: PlanConstraint
    eos_id: int

    def processor(
        self, prompt: Any, *, eos_token_id: int | None = None
    ) -> ConstraintLogitsProcessor:
        """Return the ``LogitsProcessor`` that keeps ``generate`` inside the language of plans.

        The arguments are those of :meth:`PathLanguage.processor`, and it fails closed as well.
        """
        from kgqa.decoding.generate import ConstraintLogitsProcessor

        end = self.eos_id if eos_token_id is None else eos_token_id
        return ConstraintLogitsProcessor([self.constraint], prompt, eos_token_id=end)

    def read(self, sequences: Any, prompt: Any) -> list[Plan]:
        """Return the plans that ``generate`` wrote, each once, best first, for ``kg.query``.

        Sequences that a length limit cut off are left out.
        """
        from kgqa.decoding.generate import accepted

        sequences_accepted = accepted(self.constraint, sequences, prompt)
        return list(
            dict.fromkeys(self.constraint.plan(sequence.state) for sequence in sequences_accepted)
        )


def plan_language(
    store: QueryStore, question: str, tokenizer: Any, hops: int, vocab_size: int | None
) -> WrittenPlans:
    """Return the language of plans that ``question`` may be asked by.

    Its literals are the numbers and dates that the question states, and the values of the graph
    that stand in it. Raises GraphError, ModelError.
    """
    from kgqa.models.tokenizer import HFEncoder
    from kgqa.planning.value_index import ValueIndex, found_texts, plan_literals
    from kgqa.queries.language import PlanConstraint, PlanLanguage
    from kgqa.understanding.literals import stated

    schema = store.schema()
    read = stated(question)
    given = plan_literals(
        read, found_texts(ValueIndex(store, schema).find(question, read.literals))
    )
    encoder = HFEncoder(tokenizer, vocab_size=vocab_size)
    return WrittenPlans(
        PlanConstraint(PlanLanguage(schema, given, hops=hops), encoder), encoder.eos_id
    )


def path_language(
    store: GraphStore,
    keys: Sequence[int],
    rules: WalkRules,
    form: PathFormat,
    tokenizer: Any,
    vocab_size: int | None,
) -> PathLanguage:
    """Return the language of the paths out of ``keys``, composed from the graph as it is decoded.

    Raises EmptyLanguageError if there are none, ModelError if the tokenizer cannot serve.
    """
    from kgqa.graph.model import keys_array
    from kgqa.models.tokenizer import HFEncoder
    from kgqa.trie.composed import ComposedConstraint
    from kgqa.trie.lexicon import PathLexicon

    lexicon = PathLexicon(HFEncoder(tokenizer, vocab_size=vocab_size), form)
    unique = keys_array(list(dict.fromkeys(keys)))
    return PathLanguage(store, ComposedConstraint(store, unique, rules, lexicon), lexicon)


def processor(
    languages: Sequence[PathLanguage], prompt: Any, *, eos_token_id: int | None = None
) -> ConstraintLogitsProcessor:
    """Return one ``LogitsProcessor`` for a batch, with one language for each prompt.

    ``prompt`` is the batch that the tokenizer returned, padded on the left, or its number of
    columns. Raises UsageError if the language is empty.
    """
    from kgqa.decoding.generate import ConstraintLogitsProcessor
    from kgqa.errors import UsageError

    if not languages:
        raise UsageError("The language is missing, and without one anything could be written.")
    end = languages[0].lexicon.encoder.eos_id if eos_token_id is None else eos_token_id
    constraints = [language.constraint for language in languages]
    return ConstraintLogitsProcessor(constraints, prompt, eos_token_id=end)
