"""Who does work that can be shared: this process, several of this machine, or a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kgqa.errors import UsageError
from kgqa.registry import Options, flag

if TYPE_CHECKING:
    from kgqa.parallel import Executor


class WorkerOptions(Options):
    """Where work is done, and by how many processes."""

    workers: int | None = flag(
        None, "Number of processes (1), or of simultaneous units on Ray (all its CPUs).", ge=1
    )
    engine: Literal["local", "ray"] = flag("local", "Where the work runs.")
    address: str | None = flag(
        None, "With engine ray: the cluster, HOST:PORT or 'auto' (default: a local one)."
    )

    def executor(self) -> Executor:
        """Return the executor: local processes or Ray. Raises UsageError."""
        from kgqa.cluster import RayExecutor
        from kgqa.parallel import LocalExecutor

        if self.engine == "ray":
            return RayExecutor(self.address, self.workers)
        if self.address is not None:
            raise UsageError(
                "`address` names a Ray cluster.", "Set `engine` to ray, or leave it out."
            )
        return LocalExecutor(self.workers or 1)
