"""What tests share: the folder of odd streams and truth servers beside the checkout, where there is one."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared material; skips where this checkout has none."""
    if not SHARED.is_dir():
        pytest.skip("the shared cases and servers are not beside this checkout")
    return SHARED
