"""The fixtures of tests of the page in a browser."""

from browsing import browser, built_page, expect, looking, served

__all__ = ["browser", "built_page", "expect", "looking", "served"]
