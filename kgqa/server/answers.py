"""A bounded cache of answers, by what they depend on."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from typing import Any


class AnswerCache:
    """The answers used last, ``most`` bytes of them as JSON."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()

    def get(self, key: tuple[Any, ...]) -> dict[str, Any] | None:
        """Return a copy of an answer, None if there is none."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            text = self._kept[key]
        answer: dict[str, Any] = json.loads(text)
        return answer

    def put(self, key: tuple[Any, ...], answer: dict[str, Any]) -> None:
        """Keep an answer; those not used for longest go."""
        text = json.dumps(answer).encode()
        if len(text) > self._most // 4:
            return
        with self._lock:
            self._size += len(text) - len(self._kept.pop(key, b""))
            self._kept[key] = text
            while self._size > self._most:
                self._size -= len(self._kept.popitem(last=False)[1])
