"""`nasheval serve`, `refit` and `keys`: a model as a service, and what it learns from its votes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nasheval.cli.options import FORMAT, TEXT_MODEL, TableOrJson, grouped, split
from nasheval.cli.printing import console, escaped, print_json, tell
from nasheval.errors import InputError, MissingExtraError
from nasheval.files import check_file

if TYPE_CHECKING:
    from nasheval.serving.versions import Versions

_STATUS = {"promote": 0, "keep": 10, "wait": 11}
_STORE = "sqlite:///votes.db"
_STORES = "sqlite:///votes.db, or the file itself, or postgresql://user@host/name"
MODELS = Annotated[
    str,
    typer.Option("--models", help="Folder of the versions of the model; by default beside an SQLite store."),
]
USE = Annotated[
    Literal["auto", "proposed", "all"],
    typer.Option(
        help="Votes to use: proposed (on menus of /v1/compare, whose propensities are known), all (then propensities "
        "are estimated where some menus were the caller's own), or auto: proposed where they are half or more."
    ),
]


@dataclass(frozen=True)
class Collecting:
    """What a service keeps, and for how long."""

    keep_prompts: Annotated[
        bool, typer.Option("--keep-prompts", help="Store prompts; by default a keyed hash and their embedding only.")
    ] = False
    retention_days: Annotated[
        float, typer.Option(help="Delete decisions and votes that are older; 0 keeps them.", min=0)
    ] = 0.0
    session_hours: Annotated[float, typer.Option(help="How long a session keeps its agent.", min=0.01)] = 24.0
    floor: Annotated[float, typer.Option(help="Share of compared menus that is drawn uniformly.", min=0.001, max=1)] = (
        0.2
    )
    default: Annotated[str, typer.Option(help="Agent to answer where the model is unsure; by default never.")] = ""
    new_agents: Annotated[
        str, typer.Option(help="Agents, with commas, that may be voted on though the model does not know them.")
    ] = ""


@dataclass(frozen=True)
class Limiting:
    """What a service admits."""

    max_body: Annotated[int, typer.Option(help="Bytes of a request.", min=1024)] = 1 << 18
    body_seconds: Annotated[float, typer.Option(help="Seconds until a request must have arrived.", min=0.1)] = 10.0
    rate: Annotated[float, typer.Option(help="Requests per second and client, twice that at once; 0: any.", min=0)] = (
        0.0
    )
    origins: Annotated[str, typer.Option(help="Web pages, with commas, that may call it, as https://a.example.")] = ""
    hosts: Annotated[str, typer.Option(help="Names, with commas, it answers to without keys, beside localhost.")] = ""


@grouped
def serve(
    collecting: Collecting,
    limiting: Limiting,
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="Folder of a model; may be left out where the store names one.")
    ] = "",
    store: Annotated[str, typer.Option(help=f"Where decisions and votes are kept: {_STORES}.")] = _STORE,
    models: MODELS = "",
    keys: Annotated[str, typer.Option(help="File of API keys, see nasheval keys; needed beyond this machine.")] = "",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = 8080,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
    poll_seconds: Annotated[float, typer.Option(help="Seconds between looks at which version serves.", min=0.05)] = 1.0,
    upstreams: Annotated[str, typer.Option(help="TOML file of the gateway's upstreams.")] = "",
    text_model: TEXT_MODEL = "",
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="Log each request, without its content.")
    ] = False,
) -> None:
    """Serve a model over HTTP: decide, show menus to voters, and store what they say.

    POST /v1/route chooses an agent, /v1/compare a menu to show, /v1/feedback stores a vote; docs/guides/serving.md.
    Which version serves is kept in the store, so that a restart goes on with the promoted one. It logs JSON lines to
    standard error. Needs the extra: pip install 'nasheval\\[serve]'.

    Examples:

      nasheval serve model/

      nasheval serve model/ --store postgresql://arena@db/votes --keys keys.toml --host 0.0.0.0 --workers 4
    """
    _need()
    from nasheval.serving.running import serve as run
    from nasheval.serving.settings import Settings

    kept: dict[str, Any] = {**vars(collecting), **vars(limiting)}
    kept |= {name: split(kept[name]) for name in ("new_agents", "origins", "hosts")}
    settings = Settings(
        model=model or None, store=store, models=models, keys=keys, host=host, port=port, workers=workers,
        poll_seconds=poll_seconds, upstreams=upstreams, text_encoder=text_model, log_requests=log_requests, **kept,
    )  # fmt: skip
    if keys and not Path(keys).is_file():
        raise InputError(f"There is no file {keys!r}; make one with `nasheval keys new --scope route,vote`.")
    run(settings)


@grouped
def refit(
    store: Annotated[str, typer.Argument(help=f"The store of a service: {_STORES}.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the model.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    models: MODELS = "",
    use: USE = "auto",
    holdout: Annotated[
        float, typer.Option(help="Share of the votes, the newest, to leave for nasheval promote.", min=0, max=0.9)
    ] = 0.0,
    update: Annotated[
        bool,
        typer.Option(
            "--update", help="Add the votes since to the model that serves, in seconds; without it, fit anew."
        ),
    ] = False,
    text_model: TEXT_MODEL = "",
    format: FORMAT = "table",
) -> None:
    """Learn again from the votes of a service, with the propensities it logged.

    The model is fitted as the one that serves was, on the votes of the store alone, saved, and added to the store's
    versions; `nasheval promote --store` makes it serve. With --update what the model that serves was fitted on stays,
    and agents that are new, or have no vote yet, do too.

    Examples:

      nasheval refit votes.db -o model/

      nasheval refit votes.db -o model/ --update

      nasheval refit postgresql://arena@db/votes -o monday/ --holdout 0.2
    """
    versions = _versions(store, models)
    from nasheval.serving.learning import refit as learn
    from nasheval.serving.learning import saved
    from nasheval.store.folder import check_target

    check_target(out.resolve(), overwrite)
    made = learn(versions, use=use, holdout=holdout, update=update, text_encoder=text_model)
    version = saved(versions, made, out, overwrite=overwrite)
    if format == "json":
        print_json({"version": version.name, "votes": made.votes, "votes_until": made.until, "notes": list(made.notes)})
        return
    out_to = console()
    how = "updated with" if update else "fitted on"
    out_to.print(f"[bold]{version.name}[/] was {how} {made.votes:,} votes: {escaped(str(out))}", soft_wrap=True)
    for note in made.notes:
        out_to.print(escaped(note), soft_wrap=True)
    out_to.print(
        f"To make it serve: nasheval promote --store {escaped(_shown(store))} --to {version.name}", soft_wrap=True
    )


def keys(
    action: Annotated[Literal["new", "list", "revoke"], typer.Argument(help="What to do.")],
    name: Annotated[str, typer.Argument(help="Name of the key, stored with the votes that come with it.")] = "",
    file: Annotated[Path, typer.Option("--file", help="File of keys.")] = Path("keys.toml"),
    scope: Annotated[str, typer.Option(help="What it may do, with commas: route, vote, admin.")] = "route",
    format: Annotated[TableOrJson, typer.Option(help="A table for people, JSON for machines.")] = "table",
) -> None:
    """Make, list or revoke API keys of a service; only their hashes are kept.

    A new key is printed once. A running service takes up changes within seconds.

    Examples:

      nasheval keys new arena --scope route,vote

      nasheval keys list

      nasheval keys revoke arena
    """
    from nasheval.serving.keys import new_key, read_keys, revoke

    if action == "list":
        kept = [{"name": k.name, "scopes": list(k.scopes), "created": k.created} for k in read_keys(file)]
        if format == "json":
            return print_json(kept)
        for one in kept:
            console().print(escaped(f"{one['name']}  {','.join(one['scopes'])}  {one['created']}"), soft_wrap=True)
        return None
    if action == "revoke":
        if not name:
            raise InputError("Name the key to revoke: nasheval keys revoke NAME; `nasheval keys list` shows them.")
        revoke(file, name)
        return tell(f"{name} is revoked.")
    check_file(file)
    name = name or _free_name(file)
    key = new_key(file, name, split(scope))
    if format == "json":
        return print_json({"name": name, "key": key, "scopes": split(scope)})
    typer.echo(key)
    return tell(f"This is the key {name!r}, which cannot be shown again; its hash is in {file}.")


def _free_name(file: Path) -> str:
    from nasheval.serving.keys import read_keys

    taken = {key.name for key in read_keys(file)} if file.exists() else set()
    return next(name for place in range(1, len(taken) + 2) if (name := f"key-{place}") not in taken)


# -- what other commands take -----------------------------------------------------------------------------------------


def _option(text: str, name: str, **more: Any) -> Any:
    return typer.Option(name, help=text, rich_help_panel="Of a service", show_default=False, **more)


@dataclass(frozen=True)
class Served:
    """What `nasheval promote` takes for a model that is served."""

    store: Annotated[str, _option(f"In place of OLD, NEW and VOTES, the store of a service: {_STORES}.", "--store")] = (
        ""
    )
    to: Annotated[str, _option("The version; by default the newest that has not served.", "--to")] = ""
    now: Annotated[bool, _option("Make it serve without looking at votes.", "--now")] = False
    back: Annotated[bool, _option("Go back to the version that served before.", "--back")] = False
    models: Annotated[str, _option("Folder of the versions; by default beside an SQLite store.", "--models")] = ""
    use: Annotated[Literal["auto", "proposed", "all"], _option("Votes to use, as in nasheval refit.", "--use")] = "auto"


def promote_served(served: Served, *, text_model: str, format: TableOrJson, **options: Any) -> None:
    """Make another version serve where the votes of the store allow it; exit as `nasheval promote` does."""
    versions = _versions(served.store, served.models)
    if served.back:
        chosen, reason = versions.previous(), "back"
        found = None
    else:
        chosen, reason = served.to or _newest(versions), "promoted without a look at votes"
        found = None if served.now else _gate(versions, chosen, served, text_model, options)
    decision = found["decision"] if found else "promote"
    if decision == "promote":
        versions.serve(chosen, found["reason"] if found else reason)
    said = {"version": chosen, "serves": decision == "promote", "decision": decision, **(found or {"reason": reason})}
    if format == "json":
        print_json(said)
    else:
        out = console()
        out.print(f"[bold]{decision}[/] {chosen}: {escaped(str(said['reason']))}", soft_wrap=True)
        for note in said.get("notes", []):
            out.print(escaped(str(note)), soft_wrap=True)
    raise typer.Exit(_STATUS[decision])


def _gate(versions: Versions, name: str, served: Served, text_model: str, options: dict[str, Any]) -> dict[str, Any]:
    from nasheval.serving.learning import gate

    found, note = gate(versions, versions[name], use=served.use, text_encoder=text_model, **options)
    said = found.to_dict()
    return {**said, "notes": [*said["notes"], note]}


def _newest(versions: Versions) -> str:
    served = {name for name, _, _ in versions.history()}
    new = [version.name for version in versions.all() if version.name not in served]
    if not new:
        raise InputError("Every version of this store has served; refit, or name one with --to VERSION.")
    return new[-1]


def export_votes(store: str, path: Path, *, quiet: bool) -> None:
    """Write a store's votes as a Parquet file that `nasheval fit` reads."""
    _need()
    import pyarrow.parquet as pq

    from nasheval.files import whole_file
    from nasheval.serving.database import open_store
    from nasheval.serving.exporting import exported, votes_of

    check_file(path, ".parquet")
    votes = votes_of(open_store(store))
    with whole_file(path) as file:
        pq.write_table(exported(votes), file)
    if not quiet:
        tell(f"{path}: {len(votes):,} votes. To learn from them: nasheval fit {path} -o model/")


def _versions(store: str, models: str) -> Versions:
    _need()
    from nasheval.serving.database import open_store
    from nasheval.serving.settings import models_folder
    from nasheval.serving.versions import Versions

    return Versions(open_store(store), models_folder(models, store))


def _shown(store: str) -> str:
    from nasheval.serving.database import shown

    return shown(store) if "://" in store else store


def _need() -> None:
    """Raise where the extra is not installed."""
    from importlib.util import find_spec

    for package in ("fastapi", "uvicorn", "sqlalchemy", "alembic", "httpx"):
        if find_spec(package) is None:
            raise MissingExtraError(package, extra="serve", purpose="A service")
