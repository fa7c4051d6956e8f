"""The index of tries on disk: a manifest and Parquet shards, checked before anything is trusted."""

from kgqa.trie.index.manifest import IndexKey, Manifest, ShardRecord, index_folder
from kgqa.trie.index.reader import TrieIndex, open_index
from kgqa.trie.index.writer import IndexWriter

__all__ = [
    "IndexKey",
    "IndexWriter",
    "Manifest",
    "ShardRecord",
    "TrieIndex",
    "index_folder",
    "open_index",
]
