"""Who voted, and how: the parts of an audit that look at voters, each a function of a fitted `model.stage1_`."""

from __future__ import annotations

from nasheval.audit.blocs import blocs
from nasheval.audit.duplicates import duplicates
from nasheval.audit.judges import judges
from nasheval.audit.planted import planted

__all__ = ["blocs", "duplicates", "judges", "planted"]
