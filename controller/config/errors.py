"""A configuration that cannot be used."""


class ConfigError(Exception):
    """A configuration that cannot be used; the message names every key and what would be right.

    `problems` are the same one by one.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
