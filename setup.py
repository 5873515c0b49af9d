"""Packaging of Weir's Python parts.

The folder ``mininet/`` must stay without an ``__init__.py``, or it would hide the real Mininet;
its package ``testbed`` is therefore mapped by hand, which is why this file exists beside
``pyproject.toml``.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

VERSION = re.search(r'__version__ = "(.+)"', Path("controller/__init__.py").read_text())
assert VERSION is not None

setup(
    name="weir",
    version=VERSION[1],
    description="Keeps many-to-one (incast) TCP traffic from collapsing data-centre networks",
    license="MIT",
    python_requires=">=3.11",
    packages=[
        *find_packages(include=["controller", "controller.*", "experiments", "experiments.*"]),
        *find_packages("mininet", include=["testbed", "testbed.*"]),
    ],
    package_dir={"testbed": "mininet/testbed"},
    package_data={
        "experiments.figures": ["*.jinja", "*/*/*.toml", "*/*/*.csv", "*/*/*.json"],
        "experiments.traffic": ["distributions/*.csv"],
    },
    install_requires=[
        "ryu==4.34",  # the last release; controller/runtime/launcher.py says what it needs
        "eventlet==0.41.3",
        "cryptography>=42",
        "fastapi>=0.115",
        "httptools>=0.6",
        "httpx>=0.27",
        "numpy>=1.26",
        "prometheus-client>=0.22",
        "pydantic>=2.7",
        "PyYAML>=6.0",
        "rich>=13",
        "typing-extensions>=4.10",
        "uvicorn>=0.30",
        "uvloop>=0.21",
    ],
    extras_require={
        "experiments": [
            "Jinja2>=3.1",
            "matplotlib>=3.8",
            "psutil>=7",
            "pyarrow>=17",
        ],
        "test": [
            "hypothesis>=6.100",
            "import-linter>=2.0",
            "mypy>=1.10",
            "networkx>=3.2",
            "pytest>=8",
            "pytest-timeout>=2.3",
            # Eventlet imports it where it is there, and Debian's does not fit a newer cryptography.
            "pyOpenSSL>=25",
            "pytest-xdist>=3.6",
            "ruff>=0.5",
            "schemathesis>=4",
            "shtab>=1.7",
            "types-PyYAML",
            "types-greenlet",
            "types-networkx",
            "types-psutil",
            "types-setuptools",
        ],
        "browser": ["axe-playwright-python>=0.1.4", "playwright>=1.48"],
        "fuzz": ["atheris==3.0.0"],
    },
    entry_points={
        "console_scripts": [
            "weir-controller = controller.runtime.launcher:main",
            "weir-lab = testbed.lab:main",
            "weir-experiment = experiments.cli:main",
        ],
    },
)
