"""What keeps people from using a page: axe's rules, in each look that a page has."""

from typing import Any

import pytest

# Colours, and widths in pixels: a screen and a phone.
LOOKS = [(scheme, width) for width in (1280, 390) for scheme in ("light", "dark")]


def complaints(page: Any) -> list[str]:
    """What axe takes for serious or critical on the page as it is now."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    return [
        f"{one['id']}: {node['html'][:120]} {node['failureSummary'][:200]}"
        for one in axe.run(page).response["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]
