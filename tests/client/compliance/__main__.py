"""Write the section of `docs/sqlalchemy.md` about the compliance suite."""

from tests.client.compliance.reference import write

if __name__ == "__main__":
    write()
