"""Forward passes of fixed shapes, captured as CUDA graphs and replayed.

A pass of a large model starts more than a thousand kernels, which takes longer than they run. A
graph starts all of them by one call. The first pass of a shape runs as usual, the second is
captured, all others are replayed. A graph that cannot be captured, or whose first result differs
from that of the usual pass, ends capturing with a note: passes then run as usual.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch

from kgqa.decoding.arrays import pinned

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

_MOST = 64  # graphs that are held; the one that was used longest ago is dropped
# Differences, relative to the largest number, that the choice of another kernel may make.
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 6e-2}


class Capture(Protocol):
    """Captures the calls of a function, so that they can be replayed."""

    def warm(self, run: Callable[[], Tensor]) -> Tensor:
        """Call ``run`` as it is called before a capture, and return its result."""

    def record(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Capture ``run``; return a function that replays it and returns its result."""

    def reset(self) -> None:
        """Prepare to drop all functions that replay, and for new captures."""


class CudaCapture:
    """Captures CUDA graphs that share one pool of memory; replays must not overlap."""

    def __init__(self, device: torch.device) -> None:
        # streams and captures are of the current device, which may be another one
        self._device = device
        with torch.cuda.device(device):
            self._stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.reset()

    def reset(self) -> None:
        """Wait for replays, and take another pool: one without graphs cannot be used again."""
        torch.cuda.synchronize(self._device)
        self._pool = torch.cuda.graph_pool_handle()

    def warm(self, run: Callable[[], Tensor]) -> Tensor:
        """Call ``run`` on another stream: libraries set themselves up there on their first call."""
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                result = run()
            current.wait_stream(self._stream)
            result.record_stream(current)
        return result

    def record(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Capture ``run`` as a graph; return a function that replays it and returns its output."""
        graph = torch.cuda.CUDAGraph()
        # other threads of a server may use the GPU meanwhile
        how: Any = {"stream": self._stream, "capture_error_mode": "thread_local"}
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            try:
                with torch.cuda.graph(graph, pool=self._pool, **how):
                    result = run()
            finally:  # a capture that fails may leave its own stream as the current one
                torch.cuda.set_stream(current)
            # a graph that does not compute its output must not be taken for one that does
            result.fill_(torch.nan)

        def replay() -> Tensor:
            """Replay the graph; its output holds until the next replay of any graph."""
            with torch.cuda.device(self._device):
                graph.replay()
            return result

        return replay


@dataclass(slots=True)
class _Pass:
    """The input of passes of one shape, always at the same address, and how they are replayed."""

    inputs: Tensor
    warm: bool = False
    replay: Callable[[], Tensor] | None = None


class FixedPasses:
    """Runs passes by their shapes; captures those that come again.

    ``run``: runs a pass of a shape on its inputs, a tensor on ``device``; it returns a tensor with
    a row for each token. ``capture``: None to run every pass as usual. ``note`` takes one line of
    text if capturing has to end.
    """

    def __init__(
        self,
        run: Callable[[Hashable, Tensor], Tensor],
        device: torch.device,
        capture: Capture | None,
        note: Callable[[str], None],
    ) -> None:
        self._run, self._device, self._note = run, device, note
        self._capture = capture
        self._passes: dict[Hashable, _Pass] = {}  # the last used last
        self._generation = 0

    @property
    def captured(self) -> int:
        """The number of graphs that are held."""
        return sum(one.replay is not None for one in self._passes.values())

    def __call__(
        self, shape: Hashable, inputs: NDArray[np.int32], rows: int, generation: int
    ) -> Tensor:
        """Run a pass of ``shape``; the result holds until the next call.

        ``rows``: how many rows of the result are not padding. ``generation``: of the buffers that
        a pass writes to; graphs of an earlier one are dropped, since they hold its addresses.
        """
        if generation != self._generation:
            self.release()
            self._generation = generation
        own = self._passes.pop(shape, None)
        if own is None:
            own = _Pass(torch.empty(len(inputs), dtype=torch.int32, device=self._device))
        self._passes[shape] = own
        if len(self._passes) > _MOST:
            del self._passes[next(iter(self._passes))]
        own.inputs.copy_(pinned(inputs, self._device), non_blocking=True)
        run = partial(self._run, shape, own.inputs)
        if own.replay is not None:
            return own.replay()
        if self._capture is None:
            return run()
        if own.warm:
            return self._recorded(own, run, self._capture, rows)
        own.warm = True
        return self._capture.warm(run)

    def release(self) -> None:
        """Drop all graphs and their memory."""
        if self._capture is not None:
            self._capture.reset()
        self._passes.clear()

    def _recorded(
        self, own: _Pass, run: Callable[[], Tensor], capture: Capture, rows: int
    ) -> Tensor:
        """Capture a pass and return its result, that of the usual pass if the capture is unfit."""
        # a pass may be run twice: it writes the same numbers to the same columns
        expected = run()
        try:
            replay = capture.record(run)
            fits = _agree(replay()[:rows], expected[:rows])
        except Exception as error:  # a driver or a kernel may refuse a capture in any way it likes
            self._end_capturing(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
            return expected
        if not fits:
            self._end_capturing("a graph gave other numbers than the usual pass")
            return expected
        own.replay = replay
        return expected

    def _end_capturing(self, why: str) -> None:
        """Run all later passes as usual, with a note."""
        self._capture = None
        self.release()
        self._note(f"Forward passes run without CUDA graphs, and so more slowly: {why}")


def _agree(found: Tensor, expected: Tensor) -> bool:
    """Return whether two results of a pass differ by no more than rounding."""
    differs = (found.float() - expected.float()).abs().max()
    allowed = _TOLERANCE.get(expected.dtype, 1e-3) * expected.float().abs().max()
    return bool(differs <= allowed)  # NaN does not fit either
