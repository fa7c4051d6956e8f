"""Every error kgqa raises on purpose, as one tree.

    KgqaError
    ├── UsageError                     an option or a combination that cannot be meant
    ├── GraphError
    │   ├── StoreUnavailableError      no server, wrong password, no such database (ConnectionError)
    │   ├── KGNotFoundError            nothing is ingested under that name (LookupError)
    │   └── EntityNotFoundError        no such id or name (LookupError)
    ├── IngestError
    │   ├── DumpNotFoundError          (FileNotFoundError)
    │   └── DumpMalformedError         not the form it should have, cut short (ValueError)
    ├── IndexFault
    │   ├── IndexMissingError          no trie index for this KG
    │   ├── IndexStaleError            made for another KG version, tokenizer or path format
    │   └── ShardDamagedError          a checksum does not fit (OSError)
    ├── ConstraintError
    │   ├── EmptyLanguageError         no path to write: the topic entities have none
    │   └── MarkerMissingError         the tokenizer lacks a marker of the path format
    ├── LinkingError                   empty question, nothing in it that the KG knows
    ├── ModelError
    │   ├── ModelNotFoundError         neither on disk nor to be had (FileNotFoundError)
    │   ├── AdapterMismatchError       an adapter for another model or path format
    │   └── GeneralModelError          the OpenAI-compatible server failed
    ├── WorkerError                    a worker process or a cluster is not there, or ended
    ├── TimeLimitError                 a question took longer than it was allowed (TimeoutError)
    └── DataError                      a question file that cannot be read (ValueError)

A message is a sentence that says what was wrong and where; ``hint`` says what to do next. Neither
ever holds a secret: whoever builds one passes URLs through :func:`without_secrets`.
"""

from __future__ import annotations

import re


class KgqaError(Exception):
    """Base of all errors that a user can do something about.

    ``message`` says what was wrong and where, ``hint`` what to do next.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class UsageError(KgqaError, ValueError):
    """An option, or a combination of options, that cannot be meant."""


class GraphError(KgqaError):
    """A graph store could not do what it was asked."""


class StoreUnavailableError(GraphError, ConnectionError):
    """The store cannot be reached: no server, wrong password, no such database."""


class KGNotFoundError(GraphError, LookupError):
    """No knowledge graph of that name is in the store."""


class EntityNotFoundError(GraphError, LookupError):
    """No entity has that id or name."""


class IngestError(KgqaError):
    """A load could not be done."""


class DumpNotFoundError(IngestError, FileNotFoundError):
    """The dump is not where it was looked for."""


class DumpMalformedError(IngestError, ValueError):
    """The dump has another form than its loader reads, or is cut short."""


class IndexFault(KgqaError):  # noqa: N818 - "IndexError" is taken
    """The trie index cannot serve."""


class IndexMissingError(IndexFault, LookupError):
    """There is no trie index for this KG."""


class IndexStaleError(IndexFault):
    """The index was made for another KG version, tokenizer or path format."""


class ShardDamagedError(IndexFault, OSError):
    """A shard's bytes are not those that were written."""


class ConstraintError(KgqaError):
    """A constraint cannot be built; decoding without one is never an option."""


class EmptyLanguageError(ConstraintError):
    """The topic entities have no path, so there is nothing the model may write."""


class MarkerMissingError(ConstraintError):
    """The tokenizer lacks a marker that the path format needs."""


class LinkingError(KgqaError):
    """No topic entity was found in the question."""


class ModelError(KgqaError):
    """A language model could not be used."""


class ModelNotFoundError(ModelError, FileNotFoundError):
    """The model is neither on disk nor to be had."""


class AdapterMismatchError(ModelError, ValueError):
    """The adapter was trained for another model or another path format."""


class GeneralModelError(ModelError):
    """The OpenAI-compatible server failed or answered nonsense."""


class WorkerError(KgqaError):
    """A process or a cluster that work was given to is not there, or ended before it was done."""


class TimeLimitError(KgqaError, TimeoutError):
    """A question took longer than it was allowed."""


class DataError(KgqaError, ValueError):
    """A question file cannot be read."""


_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]*@")


def without_secrets(text: str) -> str:
    """Return ``text`` with the user and password of every URL in it left out.

    >>> without_secrets("bolt://neo4j:secret@localhost:7687 is down")
    'bolt://localhost:7687 is down'
    """
    return _CREDENTIALS.sub("", text)


def first_line(error: BaseException) -> str:
    """Return the first line of a library's message, to be quoted in a sentence."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__
