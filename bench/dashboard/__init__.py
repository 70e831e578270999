"""CloudTPS's evaluation on its Dashboard schema (Nikolov 2011, 6.3)."""
