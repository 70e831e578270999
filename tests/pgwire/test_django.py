"""Django's backend for PostgreSQL: migrations, queries, the admin. One program uses them."""

import os
import subprocess
import sys

from tests.pgwire.wire_world import wire_world

ANSWERS = r"""
tables: ['shop_author', 'shop_book', 'shop_book_tags', 'shop_tag']
constraints: ['book_kind', 'book_lower', 'book_price', 'book_title', 'book_unsold', 'shop_book_pkey']
relations: {'author_id': ('id', 'shop_author')}
sequences: id
icontains: ['T0', 'T10', 'T2', 'T4', 'T6', 'T8']
regex: 2
like: 1
day: 1
week: 1
range: 3
subquery: [('Ann', 'T10'), ('Bob', 'T11')]
exists: 1
distinct on: [('T10',), ('T11',)]
select related: ['Ann', 'Bob', 'Ann']
prefetch: [('T0', ['blue', 'red']), ('T1', ['blue', 'red']), ('T10', ['blue', 'red']), ('T11', [])]
many to many: 3
exclude: 9
union: [('T0',), ('T1',)]
months: ['2024-01-01 00:00:00+01:00']
days: [(datetime.date(2024, 1, 4), 't0')]
moments: 2024-02-04 00:30:00+00:00
stream: 12
raw: [('T5', b'\x05')]
random: 12
annotate: [('Ann', 6, Decimal('15.00')), ('Bob', 6, Decimal('18.00'))]
aggregate: {'n': 6, 'price__sum': Decimal('33.00'), 'stock__avg': 5.5, 'title__min': 'T0', 'took__max': datetime.timedelta(seconds=39600)}
groups: [{'kind': 'n', 'n': 6}, {'kind': 'p', 'n': 6}]
windows: [('T0', 6, None), ('T1', 6, Decimal('0.00'))]
first of each: ['T10', 'T11']
case: [{'c': 'high', 'n': 1}, {'c': 'low', 'n': 11}]
lists: {'a': ['T0', 'T1', 'T2'], 's': 'n,p,n'}
documents: {'a': [{'a': 2, 'b': {'c': [1, 2]}}]}
key: 1
path: 1
contains: 1
contained: 1
keys: 12
missing: 12
values: [{'a': 2, 'b': {'c': [1, 2]}}]
part: [{'c': [1, 2]}]
update: 6
created: [True, False]
updated: False
ignored: 2
merged: [('Ann', None), ('Bob', None), ('Cat', datetime.date(1999, 1, 1)), ('Dan', None), ('Eve', None)]
bulk update: 3
deleted: (1, {'shop.Author': 1})
unique: UniqueViolation
kept: 1
check: CheckViolation
parent: ForeignKeyViolation
too long: DataException
locked: 77
inspected: ['price = models.DecimalField(max_digits=8, decimal_places=2)', 'data = models.JSONField()', "author = models.ForeignKey('ShopAuthor', models.DO_NOTHING)"]
dumped: [{"model": "shop.tag", "pk": "blue", "fields": {}}, {"model": "shop.tag", "pk": "new", "fields": {}}, {"model": "shop.tag", "pk": "red", "fields": {}}]
next number: True
login: True
page : 200
page shop/book/: 200
page shop/book/?q=TN+ann: 200
page shop/book/?kind__exact=n&o=-3: 200
page shop/book/?published__year=2024&published__month=3: 200
page shop/book/?tags__label__exact=red: 200
page shop/book/?sold__exact=0: 200
page shop/book/add/: 200
page shop/author/N/change/: 200
page shop/author/N/delete/: 200
page shop/author/N/history/: 200
page auth/user/: 200
page auth/group/add/: 200
page autocomplete/?app_label=shop&model_name=book&field_name=author&term=an: 200
added: 2001-02-03
action: True
deleted: (False, False)
recent: True
sqlflush: ['BEGIN;', 'COMMIT;', 'TRUNCATE', ['RESTART', 'IDENTITY;']]
all inspected: [1, 1]
flushed: (0, 0)
types again: True
first number: 1
next number in the transaction: True
loaded: [1, 0, 0]
next number behind the rows: True
"""  # noqa: E501
"""PostgreSQL 15 answers the same, but to `too long`: its error has a class of its own (22001)."""


def test_an_application_of_django_gets_the_answers_of_postgresql(tmp_path):
    with wire_world(tmp_path) as world:
        where = {"DATABASE": "hornbeam", "DATABASE_USER": "ann", "PORT": str(world.port)}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "tests.pgwire.django_shop.program"],
            env={**os.environ, **where}, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.stderr == ""
        assert done.stdout.splitlines() == ANSWERS.strip().splitlines()
