"""The assignment: its form, and the rules of decision 21 by which one follows another."""

import json

import pytest

from schema.errors import Corruption
from txlayer.assignment import NOBODY, SLOTS, Assignment, Member, Word

A = Member("a", "http://a", "a:1", commits=True)
B = Member("b", "http://b", "b:1")


def test_an_assignment_is_readable_and_survives_its_form():
    slots = ("a",) * 128 + (NOBODY,) + ("b",) * (SLOTS - 130) + ("a",)
    leaving = {4: "b", 6: "b", 5: "b", 255: NOBODY}
    assignment = Assignment("a", (A, B), (Member("c", "x", "y"),), slots, leaving, 7, True, 3)
    encoded = assignment.encode()
    assert Assignment.decode(encoded) == assignment
    assert json.loads(encoded)["slots"] == {"": "128", "a": "0-127 255", "b": "129-254"}
    assert json.loads(encoded)["leaving"] == {"": "255", "b": "4-6"}


def test_who_is_a_member_and_who_owns_a_slot():
    slots = ("b",) * (SLOTS - 1) + (NOBODY,)
    assignment = Assignment("a", (A, B), (Member("c", "x", "y"),), slots, {}, 0, False, 0)
    assert assignment.is_member("a")
    assert not assignment.is_member("c")
    assert assignment.member("b") == B
    assert assignment.member("c") is None
    assert assignment.owner(0) == B
    assert assignment.owner(SLOTS - 1) is None


def test_the_first_has_neither_members_nor_owners():
    first = Assignment.founded("a", 3)
    assert Assignment.decode(first.encode()) == first
    assert set(first.slots) == {NOBODY}
    assert (first.members, first.dead, first.catalog) == ((), (), 3)


def encoded(**changed):
    return json.dumps({**json.loads(Assignment.founded("a", 0).encode()), **changed}).encode()


@pytest.mark.parametrize(
    "value",
    [b"", b"{}", encoded(slots={"a": "0-254"}), encoded(slots={"a": "0-x"}), encoded(members=3)],
)
def test_what_is_no_assignment_is_corrupt(value):
    with pytest.raises(Corruption, match="assignment"):
        Assignment.decode(value)


def test_words_survive_their_form_and_what_is_none_says_nothing():
    word = Word("http://a", "a:1", version=3, clock=4, reading=5, holding=6, leaves=True)
    assert Word.decode(word.encode()) == word
    assert Word.decode(Word("x", "y").encode()) == Word("x", "y", 0, 0, 0, 0, False)
    for data in (b"", b"{}", b"\xff", b'{"address": 1, "peer": ""}'):
        assert Word.decode(data) is None
