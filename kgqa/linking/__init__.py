"""From a question to its topic entities, and from what a user typed to one entity."""

from __future__ import annotations

from kgqa.linking.linker import Candidate, link, topic_entities
from kgqa.linking.mentions import Mention, mentions
from kgqa.linking.resolve import Other, Resolution, resolve_entities, resolve_entity

__all__ = [
    "Candidate",
    "Mention",
    "Other",
    "Resolution",
    "link",
    "mentions",
    "resolve_entities",
    "resolve_entity",
    "topic_entities",
]
