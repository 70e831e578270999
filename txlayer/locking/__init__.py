"""What keeps transactions apart: locks on names, roots of rows, guards of ranges, the gate of the
schema."""
