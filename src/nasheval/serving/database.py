"""Opening a store: SQLite or PostgreSQL by its URL, with the schema checked."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import Any
from urllib.parse import quote

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, event, insert, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from nasheval.errors import Argument, InputError, ReadError, one_line
from nasheval.serving.schema import META, VERSION

_BUSY_SECONDS = 5
_LOCK = 5_117_263  # any number, by which those who change the schema wait for each other
_SECRET = "secret"


def store_url(store: str) -> URL:
    """Return the URL of a store: a path is an SQLite file."""
    if "://" not in store:
        return URL.create("sqlite", database=store)
    try:
        url = make_url(store)
    except (ArgumentError, ValueError):
        raise InputError("The store's URL cannot be understood; give sqlite:///votes.db or postgresql://...") from None
    backend = url.get_backend_name()
    if backend == "postgres" or (backend == "postgresql" and "+" not in url.drivername):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise InputError(f"The store is of {backend!r}; accepted are sqlite:///votes.db and postgresql://...")
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise InputError("A store in memory is lost with the process; give a file, such as sqlite:///votes.db.")
    return url


def shown(store: str) -> str:
    """Return a store's URL without its password."""
    return store_url(store).render_as_string(hide_password=True)


def open_store(store: str, *, create: bool = False, pool: int = 5) -> Engine:
    """Return the engine of a store whose schema is the one this version knows.

    Args:
        create: make what is not there, and bring an older schema up to date.
        pool: connections kept.
    """
    url = store_url(store)
    path = Path(url.database or "") if url.get_backend_name() == "sqlite" else None
    if path is not None and not create and not path.is_file():
        raise ReadError("there is no store here", source=str(path), fix="give the file that `nasheval serve` wrote to")
    if path is not None and not path.exists():
        _new_file(path)
    engine = _engine(url, pool)
    try:
        if create:
            _upgrade(engine)
        check_schema(engine)
    except (SQLAlchemyError, OSError) as error:
        raise _fault(store, plainly(error)) from None
    return engine


def _new_file(path: Path) -> None:
    """Make an empty file that others may not read; votes hold what people asked."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise InputError(f"The store {str(path)!r} cannot be made ({error.strerror}); give another place.") from None


def _engine(url: URL, pool: int) -> Engine:
    options: dict[str, Any] = {"hide_parameters": True, "pool_size": pool, "max_overflow": pool, "pool_timeout": 5}
    if url.get_backend_name() == "postgresql":
        settings = f"-c lock_timeout={_BUSY_SECONDS}s -c synchronous_commit=on"
        extra = {"connect_timeout": _BUSY_SECONDS, "options": settings}
        return create_engine(url, pool_pre_ping=True, connect_args=extra, **options)
    engine = create_engine(url, creator=partial(_connect_sqlite, str(url.database)), **options)
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _connect_sqlite(path: str) -> sqlite3.Connection:
    """Open a file that is there: by default SQLite would make an empty one in place of a store that is gone."""
    address = f"file:{quote(str(Path(path).absolute()))}?mode=rw"
    return sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, check_same_thread=False)


def _set_up_sqlite(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say, not where the driver thinks so
    cursor = connection.cursor()
    # FULL: a commit is on the disk when it returns, whatever happens to the machine then.
    _set_wal(cursor)
    for setting in ("synchronous=FULL", "secure_delete=ON", "trusted_schema=OFF"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _set_wal(cursor: Any) -> None:
    """Have readers and the writer not wait for each other; kept in the file, and changed by one process at a time."""
    until = monotonic() + _BUSY_SECONDS
    while True:
        try:
            if cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or monotonic() > until:
                raise
            sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    # Who is going to write says so at once: a reader that turns writer would be refused, not made to wait.
    write = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Yield a connection in a transaction that writes, durable at the end."""
    with engine.connect().execution_options(write=True) as connection, connection.begin():
        yield connection


# -- schema -----------------------------------------------------------------------------------------------------------


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _upgrade(engine: Engine) -> None:
    """Bring a store's schema up to date, one process at a time, and give it a secret."""
    if _schema_of(engine) not in (None, VERSION):
        check_schema(engine)
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        command.upgrade(_config(connection), "head")
        if connection.execute(select(META.c.value).where(META.c.name == _SECRET)).first() is None:
            connection.execute(insert(META).values(name=_SECRET, value=token_hex(32)))


def _schema_of(engine: Engine) -> str | None:
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def check_schema(engine: Engine) -> None:
    """Raise an InputError unless the schema is the one that this version knows."""
    found = _schema_of(engine)
    if found == VERSION:
        return
    if found is None:
        raise InputError("The store has no tables of ours; start `nasheval serve` once, which makes them.")
    newer = not found.isdigit() or int(found) > int(VERSION)
    fix = "upgrade nasheval" if newer else "start `nasheval serve` once, which brings it up to date"
    raise InputError(f"The store's schema is version {found}, and this nasheval knows version {VERSION}; {fix}.")


def secret_of(engine: Engine) -> bytes:
    """Return the store's secret, under which decisions are signed, and sessions and prompts hashed."""
    with engine.connect() as connection:
        return bytes.fromhex(str(connection.execute(select(META.c.value).where(META.c.name == _SECRET)).scalar_one()))


# -- what went wrong --------------------------------------------------------------------------------------------------

_WORDS = (
    ("disk is full", "the disk is full"), ("no space left", "the disk is full"), ("disk full", "the disk is full"),
    ("database is locked", "the store is locked by another process"), ("lock timeout", "the store is locked"),
    ("disk i/o error", "the disk cannot be read or written"), ("readonly", "the store may not be written to"),
    ("no such table", "the store's tables are gone"), ("unable to open", "the store's file cannot be opened"),
    ("malformed", "the store's file is damaged"), ("not a database", "the store's file is not a database"),
)  # fmt: skip


def plainly(error: BaseException) -> str:
    """Return why a store failed, in words without values, addresses or passwords."""
    said = one_line(error.orig if isinstance(error, DBAPIError) and error.orig is not None else error)
    for sign, words in _WORDS:
        if sign in said.lower():
            return words
    if isinstance(error, DBAPIError) and error.orig is not None:
        return f"the store does not answer ({type(error.orig).__name__})"
    return f"the store does not answer ({re.sub(r'//[^@/]*@', '//', said)[:120]})"


def _fault(store: str, what: str) -> ReadError:
    return ReadError(what, source=shown(store), fix=("see whether it runs, or give another ", Argument("store")))
