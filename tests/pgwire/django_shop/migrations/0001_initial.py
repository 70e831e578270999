"""The models as they were first; `makemigrations` writes it."""

import django.db.models.deletion
import django.db.models.functions.text
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = ()

    operations = (
        migrations.CreateModel(
            name="Author",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=40, unique=True)),
                ("born", models.DateField(blank=True, null=True)),
            ],
            options={"ordering": ("name",)},
        ),
        migrations.CreateModel(
            name="Tag",
            fields=[
                ("label", models.SlugField(primary_key=True, serialize=False)),
            ],
        ),
        migrations.CreateModel(
            name="Book",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("title", models.CharField(max_length=100)),
                ("price", models.DecimalField(decimal_places=2, default=0, max_digits=8)),
                (
                    "kind",
                    models.CharField(
                        choices=[("n", "Novel"), ("p", "Poems")], default="n", max_length=1
                    ),
                ),
                ("published", models.DateTimeField(db_index=True)),
                ("stock", models.PositiveIntegerField(default=0)),
                ("number", models.UUIDField(blank=True, null=True)),
                ("data", models.JSONField(blank=True, default=dict)),
                ("cover", models.BinaryField(null=True)),
                ("rating", models.FloatField(blank=True, null=True)),
                ("took", models.DurationField(blank=True, null=True)),
                ("sold", models.BooleanField(default=False)),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="books",
                        to="shop.author",
                    ),
                ),
                ("tags", models.ManyToManyField(blank=True, related_name="books", to="shop.tag")),
            ],
            options={
                "ordering": ("title",),
                "indexes": [
                    models.Index(fields=["kind", "-price"], name="book_kind"),
                    models.Index(
                        condition=models.Q(("sold", False)), fields=["stock"], name="book_unsold"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("price__gte", 0)), name="book_price"
                    ),
                    models.UniqueConstraint(fields=("author", "title"), name="book_title"),
                    models.UniqueConstraint(
                        django.db.models.functions.text.Lower("title"),
                        models.F("kind"),
                        name="book_lower",
                    ),
                ],
            },
        ),
    )
