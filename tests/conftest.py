"""The same examples on every machine, so that a suite passes again; HYPOTHESIS_PROFILE=explore draws new ones."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.register_profile("explore")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
