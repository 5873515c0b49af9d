"""The papers' figures as data, measured here: what is run, what the paper says, what it claims.

A figure is a folder PAPER/NAME with

    figure.toml    what is run, what is drawn, and what is claimed (``spec``)
    paper.csv      the paper's own points, each with its source; may be missing
    results.csv    medians and bands of the last full measurement; pairs.csv: of differences
                   between lines, seed by seed, that claims are about; provenance.json: of what

and is called PAPER-NAME, as ``sdtcp-fig9``. ``weir-experiment list`` shows all; a sweep of one's
own is a file like figure.toml. ``sweep`` measures, ``results`` reads what was measured, ``claims``
judges, ``plot`` and ``page`` show.
"""
