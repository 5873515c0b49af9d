"""SDTCP, after its paper (Sensors 2017, 17, 109)."""

from dataclasses import replace

from experiments.hosts import hosts
from experiments.schemes import SCHEMES, Scheme

SCHEMES.add(
    Scheme(
        "sdtcp",
        "SDTCP",
        "the controller answers notices (regulation scheme sdtcp)",
        regulation="sdtcp",
    )
)
_LETTER = Scheme(
    "sdtcp_letter",
    "SDTCP, letter",
    "the same by the letter of Algorithm 1: each level is reported once until CR",
    regulation="sdtcp",
    controller={"regulation": {"repeat_notices": False}},
)
SCHEMES.add(_LETTER)
SCHEMES.add(
    replace(
        _LETTER,
        name="sdtcp_paper",
        label="SDTCP, paper",
        about="as sdtcp_letter, on hosts as the paper has them (--hosts paper)",
        host=hosts("paper").settings,
    )
)
