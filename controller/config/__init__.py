"""The configuration: `sections` has a file for each key of the whole, `schema` puts them together,
`reading` makes it from YAML.

`fields` and `quantity` say how rates, sizes, times and endpoints are written; `files` reads the
files that it names; `readiness` says whether all that it names will work; `reload` says which part
of a new one can take effect at work.
"""
