"""Changes of all kinds, of which those of the last group undo the others."""

from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.functions import Upper

AUTHOR = {"to": "shop.author", "on_delete": models.CASCADE, "related_name": "books"}


class Migration(migrations.Migration):
    atomic = False  # Hornbeam changes no schema in a transaction that has written
    dependencies = (("shop", "0001_initial"),)
    operations = (
        migrations.AddField("book", "pages", models.IntegerField(default=3)),
        migrations.AddField("book", "note", models.TextField(null=True)),
        migrations.AlterField("book", "note", models.TextField(default="none")),
        migrations.AlterField("book", "title", models.CharField(max_length=200)),
        migrations.AlterField("book", "stock", models.BigIntegerField(default=0)),
        migrations.AlterField("book", "pages", models.TextField(default="0")),
        migrations.RenameField("book", "pages", "leaves"),
        migrations.AddIndex("book", models.Index(Upper("title"), name="book_upper")),
        migrations.RenameIndex("book", "book_title_upper", old_name="book_upper"),
        migrations.AddConstraint(
            "book", models.CheckConstraint(condition=Q(stock__gte=0), name="book_stock")
        ),
        migrations.AddConstraint(
            "book",
            models.UniqueConstraint(fields=["number"], condition=Q(sold=True), name="book_number"),
        ),
        migrations.AlterUniqueTogether("book", {("kind", "title")}),
        migrations.AlterField("book", "author", models.ForeignKey(null=True, **AUTHOR)),
        migrations.CreateModel(
            "Log",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("book", models.ForeignKey("shop.book", on_delete=models.CASCADE)),
                (
                    "double",
                    models.GeneratedField(
                        expression=F("id") * 2,
                        output_field=models.BigIntegerField(),
                        db_persist=True,
                    ),
                ),
            ],
        ),
        migrations.RenameModel("Log", "Entry"),
        migrations.AlterModelTable("entry", "entries"),
        migrations.RunSQL(
            "INSERT INTO shop_tag VALUES ('new')", "DELETE FROM shop_tag WHERE label = 'new'"
        ),
        migrations.DeleteModel("Entry"),
        migrations.AlterField("book", "author", models.ForeignKey(**AUTHOR)),
        migrations.AlterUniqueTogether("book", set()),
        migrations.RemoveConstraint("book", "book_number"),
        migrations.RemoveConstraint("book", "book_stock"),
        migrations.RemoveIndex("book", "book_title_upper"),
        migrations.RemoveField("book", "leaves"),
        migrations.RemoveField("book", "note"),
        migrations.AlterField("book", "stock", models.PositiveIntegerField(default=0)),
        migrations.AlterField("book", "title", models.CharField(max_length=100)),
    )
