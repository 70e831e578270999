"""From SQL text to bound blocks: parsing, names, types, constants."""
