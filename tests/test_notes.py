"""Notes: one per code, as sentences."""

from __future__ import annotations

from copy import deepcopy

from nasheval.notes import Note, code_of, once


def test_the_last_note_of_a_code_is_said_at_the_place_of_the_first():
    early, late = Note("3 pairs are bridged", "bridged"), Note("bridged by voters.", "bridged")
    assert once([early, "plain text"], ["plain text", late]) == ["Bridged by voters.", "Plain text."]


def test_a_copy_keeps_its_code():
    assert code_of(deepcopy(Note("text", "code"))) == "code"
