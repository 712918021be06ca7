"""Saved models: a folder on disk, no pickle; see `nasheval.store.models`."""

from nasheval.store.models import load as load
from nasheval.store.models import save as save
