from django.db import models
from django.db.models.functions import Lower


class Author(models.Model):
    name = models.CharField(max_length=40, unique=True)
    born = models.DateField(null=True, blank=True)

    class Meta:
        ordering = ("name",)

    def __str__(self):
        return self.name


class Tag(models.Model):
    label = models.SlugField(primary_key=True)

    def __str__(self):
        return self.label


class Book(models.Model):
    title = models.CharField(max_length=100)
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    kind = models.CharField(max_length=1, choices={"n": "Novel", "p": "Poems"}, default="n")
    published = models.DateTimeField(db_index=True)
    stock = models.PositiveIntegerField(default=0)
    number = models.UUIDField(null=True, blank=True)
    data = models.JSONField(default=dict, blank=True)
    cover = models.BinaryField(null=True)
    rating = models.FloatField(null=True, blank=True)
    took = models.DurationField(null=True, blank=True)
    sold = models.BooleanField(default=False)
    tags = models.ManyToManyField(Tag, related_name="books", blank=True)

    class Meta:
        ordering = ("title",)
        constraints = (
            models.CheckConstraint(condition=models.Q(price__gte=0), name="book_price"),
            models.UniqueConstraint(fields=["author", "title"], name="book_title"),
            models.UniqueConstraint(Lower("title"), "kind", name="book_lower"),
        )
        indexes = (
            models.Index(fields=["kind", "-price"], name="book_kind"),
            models.Index(fields=["stock"], condition=models.Q(sold=False), name="book_unsold"),
        )

    def __str__(self):
        return self.title
