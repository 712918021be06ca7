"""What agents cost, in the forms that people write it down in."""

from __future__ import annotations

from pathlib import Path

import pytest

from nasheval.errors import InputError
from nasheval.feedback.readers.costs import read_costs


def test_costs_in_every_form(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = {"ada": 1.5, "bert": 2.0}
    Path("prices.toml").write_text('ada = 1.5\nbert = 2\n"gpt-4" = 30\n')
    Path("prices.json").write_text('{"ada": {"in": 1.5, "out": 9}, "bert": {"in": 2, "out": 9}}')
    Path("log.csv").write_text("ada|cost,bert|cost\n1,2\n2,2\n")
    for said in ("prices.toml", "prices.json:in", "ada=1.5,bert=2", "{agent}|cost"):
        assert read_costs(said, "log.csv", ["ada", "bert"]) == expected, said
    assert read_costs("ada=price_a,bert=2", "log.csv", ["ada", "bert"]) == {"ada": "price_a", "bert": 2.0}
    for said, complaint in {
        "prices.json": "name one of its fields, as in prices.json:in",
        "prices.toml:in": "the cost of 'ada' is no number",
        "nowhere.toml": "cannot be read as TOML or JSON",
        "ada=1": "there is no cost of 'bert'",
        "{agent}, each": "'ada, each'",
    }.items():
        with pytest.raises(InputError, match=complaint):
            read_costs(said, "log.csv", ["ada", "bert"])
