"""Reports, made from recorded runs alone: nothing here starts, measures or remembers anything."""
