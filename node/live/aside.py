"""Which of several nodes does the next batch of a group. The others stand aside.

Any node may do any batch, at the same time as another one, without harm. So this is only a
division of work: it needs no agreement, and may be wrong for a moment.
"""

from __future__ import annotations

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.txlayer.cluster.member import Member
from hornbeam_server.txlayer.cluster.membership_view import slot_of
from hornbeam_server.txlayer.views.refresh_groups import views_of


def node_of(group: str, catalog: Catalog, member: Member, leader: str) -> str:
    """The address of the node that does the next batch of a group, among several nodes; "" if there
    is none now. `leader`: the address of the node that leads."""
    if all(catalog.readable(view.name) for view in views_of(catalog, group)):
        return member.owner(slot_of(("group", group)))
    return leader


def does_batch(group: str, catalog: Catalog, member: Member | None, *, leads: bool) -> bool:
    """Does this node do the next batch of a group? A node that serves alone does all. Among several
    nodes, the owner of the group's slot does. The node that leads (`leads`) does a batch that
    builds views, since it alone makes them readable. `member` is this node among the others."""
    if member is None:
        return True
    if all(catalog.readable(view.name) for view in views_of(catalog, group)):
        return member.owns(slot_of(("group", group)))
    return leads
