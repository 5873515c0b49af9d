"""Benchmarks: groups of figures, measured one after the other, each in a sandbox of its own.

`suites` has them all, a module each. A package for each subject has what measures it: modules with

    def run(progress: Callable[[str], None], **arguments) -> dict[str, float]

called in the first process of a new sandbox (``testbed.sandbox``), so it builds its network as any
experiment does and leaves cleaning up to the kernel. Figures carry their unit in their names; the
peers that were measured in the same run stand beside them. A group may take a few minutes.
"""
