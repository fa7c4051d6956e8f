"""Ask questions about a SPARQL endpoint as it is, without loading it.

    python examples/attach_sparql.py [URL] [QUESTION]

Without a URL the bundled Freebase sample is served by Oxigraph: pip install oxigraph pyoxigraph.
Nothing is written to the endpoint: a survey finds its predicates, classes and names, and everything
else is read when it is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import socket
import subprocess
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import kgqa

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> None:
    """Attach the endpoint, show what it holds, and ask."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?", help="an endpoint, like https://host/sparql")
    parser.add_argument("question", nargs="?", default="Who directed Apollo 13?")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        url = options.url or stack.enter_context(served_sample(Path(folder)))
        kg = stack.enter_context(kgqa.attach(url, kg="endpoint", home=folder))
        print(f"{kg.info.edges:,} triples, {kg.info.relations:,} predicates")
        answer = kg.ask(options.question, method="rank")
        print(answer.best.name, "|", answer.paths[0].text)


@contextlib.contextmanager
def served_sample(folder: Path) -> Iterator[str]:
    """Serve the bundled sample by Oxigraph on a free loopback port; yield its URL."""
    import pyoxigraph

    lines = gzip.decompress((files("kgqa") / "data/freebase/sample.nt.gz").read_bytes())
    with (folder / "sample.nt").open("wb") as file:
        for line in lines.splitlines(keepends=True):
            with contextlib.suppress(SyntaxError):  # a few lines are not RDF, on purpose
                if list(pyoxigraph.parse(line, pyoxigraph.RdfFormat.N_TRIPLES)):
                    file.write(line)
    program, place = str(Path(sys.executable).with_name("oxigraph")), str(folder / "oxigraph")
    load = [program, "load", "--location", place, "--file", str(folder / "sample.nt")]
    subprocess.run(load, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    serve = [program, "serve-read-only", "--location", place, "--bind", address]
    with subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            host, _, port = address.partition(":")
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex((host, int(port))) == 0:
                        break
                time.sleep(0.1)
            yield f"http://{address}/query"
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
