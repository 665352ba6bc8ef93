"""How many states each system of the hand-over has at its named sizes, explored to the end.

Counted with the reductions that a configuration asks for, and with every property watched (what a
property reads is not swept as dead). Pinned, so that a change of the tables which changes what can
happen is seen: tests/handoff explores each anew, and `pdproto check --table` prints them.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Counts(NamedTuple):
    """transitions: enabled ground rows summed over all states. depth: steps to the farthest."""

    states: int
    transitions: int
    depth: int


# By system, as in check/load.py, and by the name of a configuration.
PINNED: Final[Mapping[tuple[str, str], Counts]] = {
    ("registry", "default"): Counts(80_490, 566_095, 33),
    ("registry", "restart"): Counts(195_096, 1_370_516, 39),
    ("registry", "lossy"): Counts(123_776, 967_048, 32),
    ("registry", "deep"): Counts(522_432, 5_786_106, 42),
    ("registry-prompt", "default"): Counts(27_930, 142_824, 32),
    ("registry-prompt", "outage"): Counts(21_356, 80_644, 27),
    ("registry-patient", "default"): Counts(42_536, 262_332, 32),
    ("dp-rank", "default"): Counts(682, 1_533, 18),
    ("dp-rank", "two-rooms"): Counts(125_166, 504_164, 31),
    ("dp-rank", "alone"): Counts(13_731, 62_466, 19),
    ("dp-rank", "deep"): Counts(709_787, 3_282_634, 33),
    ("dp-rank-prompt", "default"): Counts(170, 230, 17),
    ("dp-rank-prompt", "two-rooms"): Counts(9_078, 24_630, 29),
    ("transfer", "default"): Counts(114_336, 1_170_136, 32),
    ("transfer", "sources"): Counts(74_208, 861_631, 27),
    ("transfer", "sinks"): Counts(66_499, 697_570, 28),
    ("transfer", "pairs"): Counts(77_421, 826_218, 32),
    ("transfer", "dummy"): Counts(6_219, 46_341, 20),
    ("transfer", "restart"): Counts(147_368, 1_501_463, 32),
    ("transfer", "stray"): Counts(81_115, 763_942, 32),
    ("transfer", "no-fence"): Counts(67_431, 671_383, 32),
    ("transfer", "chunks"): Counts(68_977, 780_737, 33),
    ("transfer", "deep"): Counts(334_173, 3_719_377, 32),
    ("transfer-lossy", "default"): Counts(7_636, 51_792, 20),
    ("transfer-lossy", "chunks"): Counts(14_596, 87_528, 23),
    ("transfer-patient", "default"): Counts(4_068, 26_183, 19),
    ("transfer-patient", "no-memory"): Counts(288, 1_509, 9),
    ("transfer-patient", "deep"): Counts(7_408, 47_933, 23),
    ("transfer-prompt", "default"): Counts(521, 2_343, 16),
    ("transfer-prompt", "sources"): Counts(67_431, 606_980, 27),
    ("transfer-prompt", "sinks"): Counts(7_001, 55_100, 26),
    ("transfer-prompt", "no-memory"): Counts(32, 97, 6),
    ("transfer-prompt", "deep"): Counts(120_237, 966_442, 32),
    ("transfer-restart", "default"): Counts(17_995, 137_498, 32),
    ("transfer-restart", "deep"): Counts(21_985, 179_900, 32),
    ("transfer-direct", "default"): Counts(101_493, 1_054_779, 32),
    ("transfer-direct", "sources"): Counts(66_695, 786_865, 27),
    ("transfer-direct", "deep"): Counts(275_838, 3_157_695, 32),
    ("transfer-in-place", "default"): Counts(101_493, 1_054_779, 32),
    ("transfer-in-place", "sources"): Counts(66_695, 786_865, 27),
    ("transfer-in-place", "deep"): Counts(161_835, 1_679_739, 32),
    ("transfer-calm", "default"): Counts(700, 4_029, 19),
    ("transfer-landed", "default"): Counts(157, 608, 14),
    ("transfer-drained", "default"): Counts(201, 810, 15),
    ("transfer-two-sinks", "deep"): Counts(219_588, 2_347_902, 32),
    ("transfer-two-lives", "deep"): Counts(273_700, 2_605_589, 35),
    ("agreement", "default"): Counts(17_375, 197_323, 37),
    ("agreement", "deep"): Counts(99_682, 1_952_435, 48),
    ("agreement", "two-slots"): Counts(8_234, 106_674, 34),
    ("agreement-lost", "default"): Counts(7_644, 84_275, 28),
    ("agreement-lost", "deep"): Counts(168_847, 2_231_345, 38),
    ("agreement-once", "default"): Counts(7_071, 56_991, 22),
    ("agreement-once", "deep"): Counts(17_062, 120_145, 28),
    ("agreement-prompt", "default"): Counts(448, 1_720, 20),
    ("agreement-prompt", "deep"): Counts(2_733, 15_710, 28),
    ("optimistic", "default"): Counts(43_705, 271_608, 41),
    ("optimistic", "slots"): Counts(58_670, 381_998, 41),
    ("optimistic", "seats"): Counts(43_705, 274_869, 41),
    ("optimistic", "deep"): Counts(2_625_740, 21_877_739, 62),
    ("optimistic-lossy", "default"): Counts(532, 2_288, 21),
    ("optimistic-lossy", "deep"): Counts(65_277, 484_764, 42),
    ("optimistic-patient", "default"): Counts(568, 2_153, 21),
    ("optimistic-patient", "deep"): Counts(78_325, 514_247, 42),
    ("optimistic-one-sided", "default"): Counts(309, 1_108, 20),
    ("optimistic-one-sided", "deep"): Counts(24_114, 145_450, 40),
    ("optimistic-one-attempt", "default"): Counts(14_749, 98_088, 40),
    ("optimistic-one-attempt", "deep"): Counts(488_376, 4_475_901, 60),
    ("optimistic-keeping", "default"): Counts(16_483, 119_556, 40),
    ("optimistic-keeping", "deep"): Counts(16_723, 121_588, 40),
    ("optimistic-group", "default"): Counts(61_764, 241_323, 37),
    ("optimistic-group", "deep"): Counts(52_332, 289_337, 47),
    ("optimistic-crash", "default"): Counts(682, 3_107, 20),
    ("optimistic-crash", "lives"): Counts(44_658, 352_141, 40),
    ("optimistic-crash", "deep"): Counts(117_482, 884_001, 41),
    ("whole", "default"): Counts(7_412, 57_028, 29),
    ("whole-pair", "deep"): Counts(514_279, 8_098_777, 44),
    ("complete", "default"): Counts(48_224, 345_774, 47),
    ("complete-restart", "deep"): Counts(2_417_652, 20_679_150, 58),
    ("complete-bootstrap", "default"): Counts(182_754, 1_379_530, 44),
    ("complete-bootstrap", "deep"): Counts(271_870, 2_045_815, 45),
    ("complete-routing", "default"): Counts(27_925, 196_586, 33),
    ("complete-attempts", "default"): Counts(11_982, 80_218, 30),
    ("complete-attempts", "one-attempt"): Counts(7_376, 50_135, 30),
    ("complete-attempts", "deep"): Counts(1_654_668, 17_293_881, 58),
    ("complete-contended", "default"): Counts(6_432, 26_070, 53),
    ("complete-contended", "one-attempt"): Counts(4_542, 18_607, 52),
    ("complete-contended", "deep"): Counts(80_862, 437_000, 80),
}
