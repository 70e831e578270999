"""Changes of the schema: the catalog's versions, builds and initial loads while writers write."""
