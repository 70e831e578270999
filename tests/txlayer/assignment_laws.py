"""Invariants of each step from one version of the assignment to the next (decision 21)."""

from hornbeam_server.txlayer.cluster.balance import NO_OWNER


def check_step(old, number, new, words, recovered, were_dead):
    """Check a step from `old`, whose version is `number`, to `new`. `words` are at least as new as
    the words that the master knew when it wrote `new`. `recovered` has the timestamps found in
    logs, `were_dead` the members that have ever been dead."""
    said = {name: word.version for name, word in words.items()}
    before, after = names(old.members), names(new.members)
    everybody_said = all(said[name] >= number for name in before & after)
    assert new.dead == () or new.dead[: len(old.dead)] == old.dead
    assert before - after == names(new.dead) - names(old.dead)
    if old.dead and not new.dead:
        assert all(new.clock >= recovered[member.name] for member in old.dead)
        assert everybody_said
    if new.dead:
        assert not new.leaving
    check_slots(old, number, new, said)
    for member in new.members:
        was = old.member(member.name)
        assert was is None or member.commits >= was.commits
        if was is None:
            assert not member.commits
            assert member.name not in were_dead
        elif member.commits and not was.commits:
            assert not new.dead
            assert everybody_said
    assert new.clock >= old.clock
    assert new.catalog == old.catalog or old.gate_closed or new.master != old.master


def check_clock(old, new, words):
    """Check the clock of `new`; `words` are the words that the master knew."""
    assert new.clock >= max([words[name].clock for name in names(old.members) & names(new.members)],
                            default=0)  # fmt: skip


def check_slots(old, number, new, said):
    after = names(new.members)
    for slot, (was, owner) in enumerate(zip(old.slots, new.slots, strict=True)):
        assert owner in after | {NO_OWNER}
        if owner == was:
            continue
        assert not (owner and new.dead)
        if owner == NO_OWNER and was not in after:
            assert was in names(new.dead)
        elif was != NO_OWNER:
            assert old.leaving[slot] == owner
            assert said[was] >= number


def names(members):
    return {member.name for member in members}
