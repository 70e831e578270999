from django.contrib import admin

from tests.pgwire.django_shop.models import Author, Book, Tag


class Books(admin.TabularInline):
    model = Book
    extra = 0


@admin.register(Author)
class AuthorAdmin(admin.ModelAdmin):
    search_fields = ("name",)
    inlines = (Books,)


@admin.register(Book)
class BookAdmin(admin.ModelAdmin):
    list_display = ("title", "author", "price", "kind", "published")
    list_filter = ("kind", "sold", "published", "author", "tags")
    search_fields = ("title", "author__name")
    date_hierarchy = "published"
    autocomplete_fields = ("author",)
    actions = ("sell",)

    @admin.action
    def sell(self, _request, queryset):
        queryset.update(sold=True)


admin.site.register(Tag)
