"""Uses a database as an application of Django does, and prints one line for each question. Both
Hornbeam and PostgreSQL answer it: `python -m tests.pgwire.django_shop.program`, with DATABASE,
DATABASE_USER and PORT in the environment."""

from __future__ import annotations

import datetime as dt
import io
import os
import tempfile
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.pgwire.django_shop.settings")
UTC = dt.UTC
Line = tuple[str, object]


def main() -> None:
    import django

    django.setup()
    groups = (
        migrations,
        reads,
        aggregates,
        documents,
        writes,
        transactions,
        tools,
        admin,
        fixtures,
    )
    for questions in groups:
        for name, answer in questions():
            print(f"{name}: {answer}", flush=True)


def migrations() -> Iterator[Line]:
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    MigrationExecutor(connection).migrate([("shop", "0001_initial")])
    _fill()
    call_command("migrate", run_syncdb=True, verbosity=0)
    yield "tables", [n for n in connection.introspection.table_names() if n.startswith("shop")]
    call_command("makemigrations", "shop", check=True, dry_run=True, verbosity=0)
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, "shop_book")
        names = {name: (each["columns"], each["unique"]) for name, each in found.items()}
        yield "constraints", sorted(n for n in names if n.startswith(("book_", "shop_book_pkey")))
        yield "relations", connection.introspection.get_relations(cursor, "shop_book")
        yield (
            "sequences",
            connection.introspection.get_sequences(cursor, "shop_author")[0]["column"],
        )


def _fill() -> None:
    from tests.pgwire.django_shop.models import Author, Book, Tag

    authors = [Author.objects.create(name=name) for name in ("Ann", "Bob")]
    tags = [Tag.objects.create(label=label) for label in ("blue", "red")]
    Book.objects.bulk_create(
        Book(
            title=f"T{i}",
            author=authors[i % 2],
            price=Decimal(i) / 2,
            kind="np"[i % 2],
            published=dt.datetime(2024, 1 + i, 3, 23, 30, tzinfo=UTC),
            stock=i,
            number=uuid.UUID(int=i),
            data={"a": i, "b": {"c": [1, i]}},
            cover=bytes([i]),
            rating=i / 4,
            took=dt.timedelta(hours=i),
        )
        for i in range(12)
    )
    for book in Book.objects.all()[:3]:
        book.tags.set(tags)


def reads() -> Iterator[Line]:
    from django.db.models import Exists, F, OuterRef, Subquery
    from django.db.models.functions import Lower, TruncDate, TruncMonth

    from tests.pgwire.django_shop.models import Author, Book

    books = Book.objects
    yield "icontains", [*books.filter(author__name__icontains="AN").values_list("title", flat=True)]
    yield "regex", books.filter(title__iregex=r"^t1\d$").count()
    yield "like", books.filter(title__startswith="T1", title__iendswith="0").count()
    yield "day", books.filter(published__date=dt.date(2024, 2, 4), published__hour=0).count()
    yield "week", books.filter(published__week_day=5, published__quarter=1).count()
    range_ = dt.datetime(2024, 1, 1, tzinfo=UTC), dt.datetime(2024, 4, 1, tzinfo=UTC)
    yield "range", books.filter(published__range=range_, published__year=2024).count()
    best = books.filter(author=OuterRef("pk")).order_by("-price").values("title")[:1]
    yield "subquery", [*Author.objects.annotate(best=Subquery(best)).values_list("name", "best")]
    priced = books.filter(author=OuterRef("pk"), price__gt=5)
    yield "exists", Author.objects.filter(Exists(priced)).count()
    yield "distinct on", [*books.order_by("kind", "-price").distinct("kind").values_list("title")]
    yield "select related", [book.author.name for book in books.select_related("author")[:3]]
    tagged = books.prefetch_related("tags")[:4]
    yield "prefetch", [(b.title, sorted(t.label for t in b.tags.all())) for b in tagged]
    yield "many to many", books.filter(tags__label="red").distinct().count()
    yield "exclude", books.exclude(tags__label="red").count()
    union = (
        books.filter(kind="n")
        .values_list("title")
        .union(books.filter(kind="p").values_list("title"))
    )
    yield "union", [*union.order_by("title")[:2]]
    month = TruncMonth("published")
    yield "months", [str(m) for m in books.annotate(m=month).values_list("m", flat=True)[:1]]
    day = books.annotate(d=TruncDate("published"), low=Lower("title")).values_list("d", "low")
    yield "days", [*day.order_by("pk")[:1]]
    yield "moments", books.annotate(e=F("published") + F("took")).values_list("e", flat=True)[1]
    yield "stream", sum(1 for _ in books.iterator(chunk_size=5))
    raw = "SELECT * FROM shop_book WHERE price > %s ORDER BY id LIMIT 1"
    yield "raw", [(book.title, bytes(book.cover)) for book in books.raw(raw, [2])]
    yield "random", len({book.pk for book in books.order_by("?")[:12]})


def aggregates() -> Iterator[Line]:
    from django.contrib.postgres.aggregates import ArrayAgg, JSONBAgg, StringAgg
    from django.db.models import Avg, Case, Count, F, Max, Min, Q, Sum, Value, When, Window
    from django.db.models.functions import Lag, Rank, RowNumber

    from tests.pgwire.django_shop.models import Author, Book

    books = Book.objects
    summed = Author.objects.annotate(n=Count("books"), s=Sum("books__price"))
    yield "annotate", [*summed.order_by("name").values_list("name", "n", "s")]
    yield (
        "aggregate",
        books.aggregate(
            Sum("price"), Avg("stock"), Min("title"), Max("took"), n=Count("id", filter=Q(kind="n"))
        ),
    )
    grouped = books.values("kind").annotate(n=Count("id")).filter(n__gt=1).order_by("kind")
    yield "groups", [*grouped]
    ranked = Window(Rank(), partition_by=F("kind"), order_by=F("price").desc())
    before = Window(Lag("price"), order_by="id")
    yield "windows", [*books.annotate(r=ranked, l=before).values_list("title", "r", "l")[:2]]
    first = Window(RowNumber(), partition_by=F("kind"), order_by=F("price").desc())
    yield "first of each", [*books.annotate(r=first).filter(r=1).values_list("title", flat=True)]
    high = Case(When(price__gt=5, then=Value("high")), default=Value("low"))
    yield "case", [*books.annotate(c=high).values("c").annotate(n=Count("id")).order_by("c")]
    yield (
        "lists",
        books.filter(stock__lt=3).aggregate(
            a=ArrayAgg("title", order_by="title"), s=StringAgg("kind", ",", order_by="id")
        ),
    )
    yield "documents", books.filter(stock=2).aggregate(a=JSONBAgg("data"))


def documents() -> Iterator[Line]:
    from tests.pgwire.django_shop.models import Book

    books = Book.objects
    yield "key", books.filter(data__a=3).count()
    yield "path", books.filter(data__b__c__1=3).count()
    yield "contains", books.filter(data__contains={"a": 3}).count()
    yield "contained", books.filter(data__contained_by={"a": 1, "b": {"c": [1, 1]}}).count()
    yield "keys", books.filter(data__has_keys=["a", "b"], data__b__has_key="c").count()
    yield "missing", books.filter(data__z__isnull=True).count()
    yield "values", [*books.order_by("?").values_list("data", flat=True).filter(stock=2)]
    yield "part", [*books.filter(stock=2).values_list("data__b", flat=True).distinct()]


def writes() -> Iterator[Line]:
    from django.db.models import F

    from tests.pgwire.django_shop.models import Author, Book

    authors = Author.objects
    yield "update", Book.objects.filter(kind="p").update(price=F("price") + 1, stock=F("stock") * 2)
    yield "created", [authors.get_or_create(name="Cat")[1] for _ in range(2)]
    yield "updated", authors.update_or_create(name="Cat", defaults={"born": dt.date(2000, 1, 2)})[1]
    more = [Author(name="Cat"), Author(name="Dan")]
    yield "ignored", len(authors.bulk_create(more, ignore_conflicts=True))
    more = [Author(name="Cat", born=dt.date(1999, 1, 1)), Author(name="Eve")]
    authors.bulk_create(more, update_conflicts=True, update_fields=["born"], unique_fields=["name"])
    yield "merged", [*authors.order_by("name").values_list("name", "born")]
    some = list(Book.objects.all()[:3])
    for book in some:
        book.data, book.rating = {"n": book.title}, 2.5
    yield "bulk update", Book.objects.bulk_update(some, ["data", "rating"])
    yield "deleted", authors.filter(name="Dan").delete()


def transactions() -> Iterator[Line]:
    from django.db import DatabaseError, IntegrityError, transaction

    from tests.pgwire.django_shop.models import Author, Book

    authors = Author.objects
    with transaction.atomic():
        authors.create(name="Zoe")
        try:
            with transaction.atomic():
                authors.create(name="Ann")
        except IntegrityError as error:
            yield "unique", type(error.__cause__).__name__
    yield "kept", authors.filter(name="Zoe").count()
    for name, change in {
        "check": lambda: Book.objects.filter(title="T1").update(price=-1),
        "parent": lambda: Book.objects.create(
            title="X", author_id=99, published=dt.datetime.now(UTC)
        ),
        "too long": lambda: authors.create(name="x" * 41),
    }.items():
        try:
            with transaction.atomic():
                change()
        except DatabaseError as error:
            yield name, type(error.__cause__).__name__
    with transaction.atomic():
        book = Book.objects.select_for_update().get(title="T2")
        book.stock = 77
        book.save()
    yield "locked", Book.objects.get(title="T2").stock


def tools() -> Iterator[Line]:
    from django.core.management import call_command
    from django.db import connection

    from tests.pgwire.django_shop.models import Author

    written = io.StringIO()
    call_command("inspectdb", "shop_book", stdout=written)
    fields = [line.split("#")[0].strip() for line in written.getvalue().splitlines()]
    yield (
        "inspected",
        [line for line in fields if line.startswith(("author =", "price =", "data ="))],
    )
    dumped = io.StringIO()
    call_command("dumpdata", "shop.tag", stdout=dumped)
    yield "dumped", dumped.getvalue().strip()
    reset = io.StringIO()
    call_command("sqlsequencereset", "shop", stdout=reset, no_color=True)
    with connection.cursor() as cursor:
        cursor.execute(reset.getvalue())
    yield "next number", Author.objects.create(name="new").pk > 1


def fixtures() -> Iterator[Line]:
    """All rows go, and come back from a fixture."""
    from django.contrib.contenttypes.models import ContentType
    from django.core.management import call_command
    from django.db import transaction

    from tests.pgwire.django_shop.models import Author, Book

    statements = io.StringIO()
    call_command("sqlflush", stdout=statements, no_color=True)
    lines = statements.getvalue().splitlines()
    yield "sqlflush", [lines[0], lines[-1], lines[1].partition(" ")[0], lines[1].split(" ")[-2:]]
    inspected = io.StringIO()
    call_command("inspectdb", include_views=True, stdout=inspected)
    found = inspected.getvalue()
    yield "all inspected", [found.count(f"class {name}(") for name in ("ShopBook", "AuthUser")]
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/rows.json"
        call_command("dumpdata", "shop", natural_foreign=True, output=file, verbosity=0)
        counts = Author.objects.count(), Book.objects.count(), Book.tags.through.objects.count()
        types = ContentType.objects.count()
        call_command("flush", interactive=False, verbosity=0)
        yield "flushed", (Author.objects.count(), Book.tags.through.objects.count())
        yield "types again", ContentType.objects.count() == types
        yield "first number", Author.objects.create(name="first").pk
        with transaction.atomic():
            call_command("loaddata", file, verbosity=0)
            yield "next number in the transaction", _is_next(Author)
        again = Author.objects.count(), Book.objects.count(), Book.tags.through.objects.count()
        yield "loaded", [now - before for now, before in zip(again, counts, strict=True)]
        yield "next number behind the rows", _is_next(Author)


def _is_next(model: Any) -> bool:
    """Is the key of a new row behind those of all others?"""
    keys = model.objects.values_list("pk", flat=True)
    last = max(keys)
    return model.objects.create(name=f"behind {last}").pk == last + 1


def admin() -> Iterator[Line]:
    from django.contrib.auth.models import User
    from django.test import Client

    from tests.pgwire.django_shop.models import Author, Book

    User.objects.create_superuser("root", "r@x", "secret")
    client = Client()
    yield "login", client.login(username="root", password="secret")
    author = Author.objects.get(name="Ann")
    for path in (
        *("", "shop/book/", "shop/book/?q=T1+ann", "shop/book/?kind__exact=n&o=-3"),
        "shop/book/?published__year=2024&published__month=3",
        *("shop/book/?tags__label__exact=red", "shop/book/?sold__exact=0", "shop/book/add/"),
        *(f"shop/author/{author.pk}/{page}/" for page in ("change", "delete", "history")),
        *("auth/user/", "auth/group/add/"),
        "autocomplete/?app_label=shop&model_name=book&field_name=author&term=an",
    ):
        answer = client.get(f"/admin/{path}")
        yield f"page {path.replace(str(author.pk), 'N')}", answer.status_code
    inline = {"books-TOTAL_FORMS": 0, "books-INITIAL_FORMS": 0}
    client.post("/admin/shop/author/add/", {"name": "Web", "born": "2001-02-03", **inline})
    web = Author.objects.get(name="Web")
    yield "added", web.born
    book = Book.objects.get(title="T3")
    action = {"_selected_action": [book.pk]}
    client.post("/admin/shop/book/", {**action, "action": "sell"})
    yield "action", Book.objects.get(pk=book.pk).sold
    client.post("/admin/shop/book/", {**action, "action": "delete_selected", "post": "yes"})
    client.post(f"/admin/shop/author/{web.pk}/delete/", {"post": "yes"})
    yield (
        "deleted",
        (Book.objects.filter(pk=book.pk).exists(), Author.objects.filter(pk=web.pk).exists()),
    )
    yield "recent", b"Web" in client.get("/admin/").content


if __name__ == "__main__":
    main()
