"""The fabric as a graph: switches and ports (`fabric`), links, the trees that paths follow, the
next hops that switches hold for them, and round trips."""
