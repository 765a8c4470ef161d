"""The scenarios by name."""

from . import beside, multiplex, speed, storing, waiting

SCENARIOS = {
    "S1": waiting.s1,
    "S2": speed.s2,
    "S3": speed.s3,
    "S4": waiting.s4,
    "S5": waiting.s5,
    "S6": storing.s6,
    "S7": waiting.s7,
    "S8": speed.s8,
    "S9": waiting.s9,
    "S10": storing.s10,
    "S11": speed.s11,
    "S12": speed.s12,
    "S13": beside.s13,
    "S13b": beside.s13b,
    "S14": multiplex.s14,
    "S15": multiplex.s15,
}
