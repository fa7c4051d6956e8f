"""How a KG lies in an SQLite file: what the writer and the reader must agree on.

The edges of an entity are one row: a packed array of ``EDGE`` records, sorted, with its CRC-32, so
that a frontier costs a row for each entity and not for each edge, and a changed byte is noticed.
"""

from __future__ import annotations

import numpy as np

FILE_NAME = "graph.sqlite"
APPLICATION_ID = 0x6B677161  # "kgqa"; stands in the file's header
USER_VERSION = 2  # of this layout; a file of another one is refused

EDGE = np.dtype([("relation", "<u4"), ("kind", "u1"), ("target", "<i8")])
"""One edge as its entity sees it: the relation's key, the other end's ``Kind`` and key."""

TABLES = """
CREATE TABLE meta (info TEXT NOT NULL);
CREATE TABLE entity (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    name TEXT,
    kind INTEGER NOT NULL,
    degree INTEGER NOT NULL,
    aliases TEXT NOT NULL,
    types TEXT NOT NULL,
    properties TEXT
);
CREATE TABLE relation (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    inverse TEXT
);
CREATE TABLE edges_out (key INTEGER PRIMARY KEY, crc INTEGER NOT NULL, edges BLOB NOT NULL);
CREATE TABLE edges_in (key INTEGER PRIMARY KEY, crc INTEGER NOT NULL, edges BLOB NOT NULL);
CREATE TABLE edge_properties (
    head INTEGER NOT NULL,
    relation INTEGER NOT NULL,
    tail INTEGER NOT NULL,
    properties TEXT NOT NULL,
    PRIMARY KEY (head, relation, tail)
) WITHOUT ROWID;
CREATE TABLE name_norm (
    norm TEXT NOT NULL,
    key INTEGER NOT NULL,
    PRIMARY KEY (norm, key)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE entity_text USING fts5 (
    name, aliases, content='', tokenize="unicode61 remove_diacritics 2"
);
"""

INDEXES = "CREATE UNIQUE INDEX entity_id ON entity (id)"
