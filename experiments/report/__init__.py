"""Reports on recorded runs. Nothing here starts, measures or remembers anything."""
