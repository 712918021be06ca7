"""The same examples on every machine, so that a suite passes again; HYPOTHESIS_PROFILE=explore draws new ones.

No deadlines: machines are shared, and the first call may compile.
"""

from __future__ import annotations

import os

from hypothesis import settings

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or its import fetches prices, and warns in other tests

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
