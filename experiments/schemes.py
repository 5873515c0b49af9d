"""What can be compared: a scheme is a setting of the controller and one of the hosts' TCP."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scheme:
    """``controller`` is the controller's regulation scheme; label and colour are for reports."""

    name: str
    controller: str
    congestion_control: str
    label: str
    colour: str


# Colours from Okabe and Ito's set, which stays distinct to colour-blind eyes.
SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("reno", "none", "reno", "Reno", "#D55E00"),
        Scheme("weir", "weir", "reno", "Weir", "#0072B2"),
        Scheme("sdtcp", "sdtcp", "reno", "SDTCP", "#009E73"),
    )
}


def scheme(name: str) -> Scheme:
    """Return the scheme called ``name``; raises ValueError naming those there are."""
    if name not in SCHEMES:
        raise ValueError(f"no scheme {name!r}: there are {', '.join(SCHEMES)}")
    return SCHEMES[name]
