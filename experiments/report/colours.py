"""Colours of pictures: Okabe and Ito's, which colour-blind eyes tell apart. Lines and points differ
in their form as well."""

BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, YELLOW, BLACK = "#E69F00", "#56B4E9", "#F0E442", "#000000"
GREY = "#7F7F7F"

LINES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY)
"""Of lines, in this order: yellow is too light for a thin one."""
LEVEL = "#444444"
"""Of levels, limits and what is said of them."""
