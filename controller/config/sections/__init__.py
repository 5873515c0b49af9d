"""The sections of the configuration: a file for each key of the whole, by its name."""
