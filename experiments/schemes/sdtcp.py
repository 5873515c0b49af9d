"""SDTCP, after its paper (Sensors 2017, 17, 109)."""

from experiments.schemes import SCHEMES, Scheme

SCHEMES.add(
    Scheme(
        "sdtcp",
        "SDTCP",
        "TCP Reno; the controller answers notices (regulation scheme sdtcp)",
        regulation="sdtcp",
    )
)
SCHEMES.add(
    Scheme(
        "sdtcp_letter",
        "SDTCP, letter",
        "the same by the letter of Algorithm 1: each level is reported once until CR",
        regulation="sdtcp",
        controller={"regulation": {"repeat_notices": False}},
    )
)
