"""The configuration: what can be written (`schema`), in which units (`quantity`), the files that it
names (`files`), and what of a new one can take effect at work (`reload`)."""
