"""What the extra ``kgqa[llm]`` brings, and the one error where it is not installed."""

from __future__ import annotations

from importlib.util import find_spec

from kgqa.errors import PackagesMissingError

LLM_PACKAGES = ("torch", "transformers", "peft", "gguf")


def missing_llm_packages() -> list[str]:
    """Return which packages of ``kgqa[llm]`` are not installed; none is imported."""
    return [name for name in LLM_PACKAGES if not _is_installed(name)]


def require_llm_packages(what: str) -> None:
    """Raise PackagesMissingError if ``what``, the subject of a sentence, cannot be run.

    To be called before the first import of torch or transformers, so that an installation without
    them ends in one sentence that names the extra.
    """
    if missing := missing_llm_packages():
        names = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
        lacks = "is not installed" if len(missing) == 1 else "are not installed"
        raise PackagesMissingError(
            f"{what} needs the packages of kgqa[llm], of which {names} {lacks}.",
            "Install them: pip install 'kgqa[llm]'",
        )


def _is_installed(name: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # an import that is blocked, or a module without a spec
        return False
