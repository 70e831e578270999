"""The views that people keep in other systems: Nexmark's queries, dashboards and top lists. The
list says how each is kept here."""

import pytest

from hornbeam_server.maintain.deltas.program import compile_view
from hornbeam_server.schema.model import DeclaredView
from tests.maintain.deltas.deltas_world import catalog_of

CATALOG = catalog_of("""
CREATE TABLE person (p_id BIGINT PRIMARY KEY, name TEXT, city TEXT, state TEXT, at TIMESTAMP);
CREATE TABLE auction (a_id BIGINT PRIMARY KEY, item TEXT, category INTEGER, seller BIGINT,
    expires TIMESTAMP, at TIMESTAMP);
CREATE TABLE bid (b_id BIGINT PRIMARY KEY, auction BIGINT, bidder BIGINT, price DECIMAL(12,2),
    score DOUBLE, channel TEXT, url TEXT, at TIMESTAMP);
CREATE TABLE side (k BIGINT PRIMARY KEY, v TEXT);
CREATE TABLE limits (l_id INTEGER PRIMARY KEY, low DECIMAL(12,2), high DECIMAL(12,2));
CREATE INDEX bid_auction ON bid (auction); CREATE INDEX bid_bidder ON bid (bidder);
CREATE INDEX auction_seller ON auction (seller); CREATE INDEX bid_price ON bid (price);
CREATE INDEX bid_at ON bid (at);
""")

DELTA = "delta rules"
BEST = (
    "SELECT a.a_id, a.category, a.seller, b.price, row_number() OVER (PARTITION BY a.a_id"
    " ORDER BY b.price DESC, b.at) AS r FROM auction a JOIN bid b ON b.auction = a.a_id"
    " WHERE b.at BETWEEN a.at AND a.expires"
)

KEPT = {
    "nexmark 0, pass through": ("SELECT * FROM bid", DELTA),
    "nexmark 1, currency": ("SELECT b_id, price * 0.908 AS euro FROM bid", DELTA),
    "nexmark 2, selection": ("SELECT auction, price FROM bid WHERE auction % 123 = 0", DELTA),
    "nexmark 3, local items": (
        "SELECT name, city, a_id FROM auction JOIN person ON seller = p_id WHERE category = 10"
        " AND state IN ('OR', 'ID', 'CA')", DELTA),
    "nexmark 4, price by category": (
        "SELECT category, AVG(best) AS mean FROM (SELECT a_id, category, MAX(price) AS best"
        " FROM auction JOIN bid ON auction = a_id WHERE bid.at BETWEEN auction.at AND expires"
        " GROUP BY a_id, category) AS q GROUP BY category", DELTA),
    "nexmark 5, hot items": (
        "SELECT w, auction, n FROM (SELECT date_trunc('hour', at) AS w, auction, COUNT(*) AS n,"
        " rank() OVER (PARTITION BY date_trunc('hour', at) ORDER BY COUNT(*) DESC) AS r FROM bid"
        " GROUP BY date_trunc('hour', at), auction) AS q WHERE r = 1",
        "delta rules, partition recompute by (group.0)"),
    "nexmark 6, mean of the last ten sales": (
        "SELECT seller, a_id, AVG(price) OVER (PARTITION BY seller ORDER BY a_id ROWS BETWEEN 10"
        f" PRECEDING AND CURRENT ROW) AS mean FROM ({BEST}) AS q WHERE r = 1",
        "delta rules, partition recompute by (a.a_id), partition recompute by (q.seller)"),
    "nexmark 7, highest bid of a minute": (
        "SELECT b.auction, b.price, b.bidder FROM bid b JOIN (SELECT date_trunc('minute', at) AS w,"
        " MAX(price) AS best FROM bid GROUP BY date_trunc('minute', at)) AS m ON b.price = m.best"
        " WHERE date_trunc('minute', b.at) = m.w", DELTA),
    "nexmark 8, new users": (
        "SELECT p_id, name, COUNT(*) AS n FROM person JOIN auction ON seller = p_id"
        " WHERE date_trunc('hour', person.at) = date_trunc('hour', auction.at)"
        " GROUP BY p_id, name", DELTA),
    "nexmark 9, winning bids": (
        f"SELECT * FROM ({BEST}) AS q WHERE r = 1",
        "delta rules, partition recompute by (a.a_id)"),
    "nexmark 13, side input": ("SELECT b_id, v FROM bid JOIN side ON bidder = k", DELTA),
    "nexmark 14, calculation": (
        "SELECT b_id, CASE WHEN EXTRACT(hour FROM at) BETWEEN 8 AND 18 THEN 'day' ELSE 'night' END"
        " AS part, length(url) AS n FROM bid WHERE price > 1", DELTA),
    "nexmark 15, statistics of a day": (
        "SELECT date_trunc('day', at) AS d, COUNT(*) AS n, COUNT(*) FILTER (WHERE price < 10) AS"
        " low, COUNT(DISTINCT bidder) AS bidders FROM bid GROUP BY date_trunc('day', at)", DELTA),
    "nexmark 16, statistics of a channel": (
        "SELECT channel, COUNT(DISTINCT bidder) FILTER (WHERE price > 9) AS b, MAX(at) AS last"
        " FROM bid GROUP BY channel", DELTA),
    "nexmark 17, statistics of an auction": (
        "SELECT auction, MIN(price) AS l, MAX(price) AS h, AVG(price) AS m, SUM(price) AS s"
        " FROM bid GROUP BY auction", DELTA),
    "nexmark 18, last bid of a bidder": (
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY at DESC)"
        " AS r FROM bid) AS q WHERE r <= 1",
        "delta rules, partition recompute by (bid.bidder, bid.auction)"),
    "nexmark 19, ten best bids of an auction": (
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS r"
        " FROM bid) AS q WHERE r <= 10", "delta rules, partition recompute by (bid.auction)"),
    "nexmark 20, bids of a category": (
        "SELECT b.*, item FROM bid b JOIN auction ON auction = a_id WHERE category = 10", DELTA),
    "nexmark 21, channel of a link": (
        "SELECT b_id, CASE WHEN url LIKE '%channel_id=%' THEN split_part(url, '=', 2) ELSE"
        " lower(channel) END AS c FROM bid", DELTA),
    "nexmark 22, parts of a link": (
        "SELECT b_id, split_part(url, '/', 4) AS d1, split_part(url, '/', 5) AS d2 FROM bid",
        DELTA),
    "latest row by key": (
        "SELECT DISTINCT ON (auction) auction, price, bidder FROM bid ORDER BY auction, at DESC",
        "delta rules, partition recompute by (bid.auction)"),
    "median and percentile": (
        "SELECT channel, percentile_cont(0.5) WITHIN GROUP (ORDER BY price) AS p50,"
        " percentile_disc(0.99) WITHIN GROUP (ORDER BY price) AS p99 FROM bid GROUP BY channel",
        "delta rules, partition recompute by (group.bid.channel)"),
    "list of names": (
        "SELECT state, string_agg(name, ', ' ORDER BY name) AS names FROM person GROUP BY state",
        "delta rules, partition recompute by (group.person.state)"),
    "mean and spread of doubles": (
        "SELECT channel, AVG(score) AS m, stddev(score) AS s FROM bid GROUP BY channel",
        "delta rules, partition recompute by (group.bid.channel)"),
    "checks": ("SELECT seller, bool_and(expires > at) AS ok FROM auction GROUP BY seller", DELTA),
    "best bidder": (
        "SELECT auction, max_by(bidder, price) AS best FROM bid GROUP BY auction",
        "delta rules, partition recompute by (group.bid.auction)"),
    "share of a whole": (
        "SELECT b_id, price / SUM(price) OVER (PARTITION BY auction) AS share FROM bid",
        "delta rules, partition recompute by (bid.auction)"),
    "step between events": (
        "SELECT b_id, at - lag(at) OVER (PARTITION BY bidder ORDER BY at) AS pause FROM bid",
        "delta rules, partition recompute by (bid.bidder)"),
    "people without a bid": ("SELECT p_id FROM person EXCEPT SELECT bidder FROM bid", DELTA),
    "totals of a dashboard": (
        "SELECT category, seller, COUNT(*) AS n FROM auction GROUP BY ROLLUP (category, seller)",
        DELTA),
    "number of bids as a column": (
        "SELECT a_id, (SELECT COUNT(*) FROM bid WHERE auction = a_id) AS bids FROM auction", DELTA),
    "ranges of prices": (
        "SELECT b_id, l_id FROM bid JOIN limits ON price BETWEEN low AND high", DELTA),
    "total of everything": ("SELECT COUNT(*) AS n, SUM(price) AS s FROM bid", DELTA),
    "the last hour": (
        "SELECT COUNT(*) AS n FROM bid WHERE at > now() - INTERVAL '1 hour'", DELTA),
}  # fmt: skip


def compiled(sql):
    return compile_view(DeclaredView("v", sql), CATALOG)


@pytest.mark.parametrize("name", KEPT)
def test_a_known_view_is_kept(name):
    sql, rule = KEPT[name]
    assert compiled(sql).rule == rule


def test_there_are_34_known_views():
    assert len(KEPT) == 34
