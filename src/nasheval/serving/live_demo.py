"""The demo: a service with its gateway, and two tiny upstreams that answer for the agents of a model with canned text.

python -m nasheval.serving.live_demo build/demo --store build/serve/votes.db
"""

from __future__ import annotations

import argparse
import sys
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import sleep

import httpx
import uvicorn

from nasheval.errors import NashEvalError
from nasheval.serving.database import open_store
from nasheval.serving.demo import CannedUpstream
from nasheval.serving.running import bound, serve
from nasheval.serving.service import first_version
from nasheval.serving.settings import Settings
from nasheval.serving.versions import Versions, load_version

_STYLES = ("terse,careful,steps", "chatty,list,asking")  # of the two upstreams
_WORD_SECONDS = 0.03
_READY_SECONDS = 120.0


def main(given: Sequence[str] | None = None) -> None:
    """Run the demo until it is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m nasheval.serving.live_demo", description=__doc__)
    parser.add_argument("model", help="folder of a fitted model")
    parser.add_argument("--store", default="build/serve/votes.db", help="SQLite file for decisions and votes")
    parser.add_argument("--port", type=int, default=8080, help="of the service; 0 takes a free one")
    parser.add_argument("--no-browser", action="store_true", help="open no page")
    options = parser.parse_args(given)
    try:
        run(options.model, Path(options.store), port=options.port, browser=not options.no_browser)
    except NashEvalError as error:
        sys.exit(f"error: {error}")


def run(model: str, store: Path, *, port: int = 8080, browser: bool = True) -> None:
    """Serve a model with two upstreams of its own.

    Args:
        model: its folder.
        store: SQLite file; beside it upstreams.toml is written.
        port: 0: a free one.
        browser: whether to open the explorer.
    """
    store.parent.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    settings = Settings(model=model, store=str(store), port=port, keep_prompts=True)
    agents = agents_of(settings)
    with upstreams_of(agents) as text:
        file = store.parent / "upstreams.toml"
        file.write_text(text, encoding="utf-8")
        threading.Thread(target=_announce, args=(port, agents, browser), daemon=True).start()
        serve(replace(settings, upstreams=str(file)))


def agents_of(settings: Settings) -> tuple[str, ...]:
    """Return the agents of the version that serves, or is about to."""
    engine = open_store(settings.store, create=True)
    versions = Versions(engine, settings.models_folder)
    name = versions.current() or first_version(versions, settings)
    agents: tuple[str, ...] = tuple(load_version(versions[name]).agents)
    engine.dispose()
    return agents


@contextmanager
def upstreams_of(agents: Sequence[str]) -> Iterator[str]:
    """Run two upstreams; yield the upstreams.toml that shares the agents among them."""
    servers, lines = [], ["# Two tiny upstreams with canned answers, written by the demo.\n"]
    for place, style in enumerate(_STYLES):
        port = free_port()
        config = uvicorn.Config(
            CannedUpstream(style, word_seconds=_WORD_SECONDS), port=port, log_config=None, ws="none"
        )
        server = uvicorn.Server(config)
        threading.Thread(target=server.run, daemon=True).start()
        servers.append(server)
        styles = style.split(",")
        for number, agent in enumerate(agents[place :: len(_STYLES)]):
            lines.append(_entry(agent, port, styles[number % len(styles)]))
    try:
        yield "\n".join(lines)
    finally:
        for server in servers:
            server.should_exit = True


def _entry(agent: str, port: int, style: str) -> str:
    quoted = agent.replace("\\", "\\\\").replace('"', '\\"')
    where = f'url = "http://127.0.0.1:{port}/v1"\nmodel = "{style}"'
    return f'[upstreams."{quoted}"]\n{where}\nprices = {{ input = 1.0, output = 2.0 }}\n'


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with bound("127.0.0.1", 0) as listener:
        port: int = listener.getsockname()[1]
        return port


def _announce(port: int, agents: Sequence[str], browser: bool) -> None:
    """Say where the pages are once they are there, and open the first."""
    address = f"http://127.0.0.1:{port}"
    for _ in range(int(_READY_SECONDS / 0.1)):
        sleep(0.1)
        try:
            if httpx.get(f"{address}/ready", timeout=1).status_code == 200:
                break
        except httpx.HTTPError:
            continue
    else:
        return
    said = (
        f"\n  Explore  {address}/\n  Vote     {address}/vote\n  Status   {address}/status\n  OpenAI   {address}/v1"
        f'   model "nasheval" chooses among {len(agents)} agents\n\n  Answers are canned: two tiny upstreams on this '
        "machine stand in for the agents. Stop with Ctrl-C.\n"
    )
    print(said, flush=True)
    if browser:
        webbrowser.open(address)


if __name__ == "__main__":
    main()
