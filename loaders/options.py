"""The options of the loaders, in a module that is quick to import."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from kgqa.registry import Options, option


class TriplesOptions(Options):
    """How files of triples are read."""

    form: Literal["delimited", "ntriples", "jsonl", "parquet"] | None = option(
        None,
        "Format of the files (by default found from the ending or the first lines).",
        flag=True,
        group="triples",
    )
    columns: str | None = option(
        None,
        "Names of the columns, separated by commas, with _ for one to skip (by default those of a "
        "header, or head,relation,tail).",
        flag=True,
        group="triples",
    )
    delimiter: str | None = option(
        None,
        "Separator between fields: one character, or whitespace (by default found from the file).",
        flag=True,
        group="triples",
    )
    header: bool | None = option(
        None, "Whether the first line is a header (by default found from the file)."
    )
    names: Path | None = option(
        None,
        "File of names: an id, a tab and a name on each line; further names of an id are aliases.",
        flag=True,
        group="triples",
    )
    types: Path | None = option(
        None,
        "File of types: an id, a tab and a type on each line.",
        flag=True,
        group="triples",
    )
    relation_names: Path | None = option(
        None,
        "File of the relations' names: an id, a tab and a name on each line.",
        flag=True,
        group="triples",
    )
    type_relation: str | None = option(
        None,
        "Relation that says of what kind a thing is, which becomes a type; `none` if no relation "
        "does (by default found by its name and its tails).",
        flag=True,
        group="triples",
    )
    mediators: str | Path | None = option(
        None,
        "Ids that are mediators if they have no name: a pattern that matches the start of the id, "
        "or a file of ids.",
        flag=True,
        group="triples",
        union_mode="left_to_right",
    )
    direction: Literal["out", "in", "both"] = option(
        "both", "Direction in which paths may follow an edge.", flag=True, group="triples"
    )
    language: str = option("en", "Language of the labels to keep from N-Triples.")


class TablesOptions(Options):
    """How tables are read as a graph."""

    mapping: Path | None = option(
        None,
        "What the tables mean: a mapping.toml that a load wrote, edited (by default found from the "
        "tables).",
        flag=True,
        group="tables",
    )
    direction: Literal["out", "in", "both"] = option(
        "both", "Direction in which paths may follow an edge."
    )


class FreebaseOptions(Options):
    """How a Freebase dump is read."""

    language: str = option(
        "en", "Language of names, aliases and texts.", flag=True, group="freebase"
    )
    filters: Path | None = option(
        None,
        "File of the predicates to leave out or keep, instead of the bundled list.",
        flag=True,
        group="freebase",
    )


class ConceptnetOptions(Options):
    """How ConceptNet's assertions are read."""

    language: str = option(
        "en",
        "Language of both ends of an edge; separate several with commas.",
        flag=True,
        group="conceptnet",
    )
    senses: Literal["fold", "keep"] = option(
        "fold",
        "Whether a concept with a part of speech or a sense becomes its term, or stays an entity "
        "of its own.",
        flag=True,
        group="conceptnet",
    )
    min_weight: float | None = option(
        None,
        "Minimum weight of the assertions to keep.",
        flag=True,
        group="conceptnet",
        allow_inf_nan=False,
    )


class UmlsOptions(Options):
    """How a UMLS release is read."""

    language: str = option(
        "ENG", "Language of names, as in MRCONSO's LAT.", flag=True, group="umls"
    )
    sources: str | None = option(
        None,
        "Vocabularies (SAB, separated by commas) whose names, definitions and relations to keep "
        "(by default all). Semantic types are kept whatever the source.",
        flag=True,
        group="umls",
    )


class TextOptions(Options):
    """How triplets are extracted from texts."""

    limit: int | None = option(
        None, "Read only this many paragraphs.", flag=True, group="text", ge=1
    )
    reply_tokens: int = option(
        1_024, "Maximum number of tokens in a reply.", flag=True, group="text", ge=1
    )
    # not part of the options' text, by which a stopped load is recognised
    concurrency: int = option(
        8, "Number of simultaneous calls.", flag=True, group="text", ge=1, repr=False
    )
