"""What a service says of itself: one JSON object per line on standard error, never what a request holds."""

from __future__ import annotations

import json
import os
import sys
import traceback
from datetime import UTC, datetime
from typing import Any


def log(event: str, **fields: Any) -> None:
    """Write one line; it stands whole among those of other workers."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = json.dumps({"time": now, "event": event, "worker": os.getpid(), **fields}, ensure_ascii=True, default=str)
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def log_defect(route: str, error: BaseException) -> None:
    """Write that something of ours went wrong: where, and of what kind, but no message, which may quote a request."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    where = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
    log("defect", route=route, error=type(error).__name__, where=where)
