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
    ("transfer", "default"): Counts(170_527, 1_808_584, 32),
    ("transfer", "sources"): Counts(102_400, 1_179_492, 27),
    ("transfer", "sinks"): Counts(98_277, 1_053_530, 28),
    ("transfer", "pairs"): Counts(109_278, 1_187_316, 32),
    ("transfer", "dummy"): Counts(7_515, 56_871, 20),
    ("transfer", "restart"): Counts(230_223, 2_440_749, 32),
    ("transfer", "stray"): Counts(115_223, 1_120_246, 32),
    ("transfer", "no-fence"): Counts(105_336, 1_107_172, 32),
    ("transfer", "chunks"): Counts(173_367, 1_998_987, 33),
    ("transfer", "deep"): Counts(472_196, 5_341_451, 32),
    ("transfer-lossy", "default"): Counts(9_168, 62_340, 20),
    ("transfer-lossy", "chunks"): Counts(21_008, 126_700, 23),
    ("transfer-patient", "default"): Counts(9_588, 61_733, 22),
    ("transfer-patient", "no-memory"): Counts(650, 3_626, 13),
    ("transfer-patient", "deep"): Counts(22_956, 147_181, 26),
    ("transfer-prompt", "default"): Counts(615, 2_805, 16),
    ("transfer-prompt", "sources"): Counts(94_593, 848_976, 27),
    ("transfer-prompt", "sinks"): Counts(9_865, 81_033, 26),
    ("transfer-prompt", "no-memory"): Counts(39, 128, 7),
    ("transfer-prompt", "deep"): Counts(168_592, 1_386_278, 32),
    ("transfer-prompt", "sink-crash"): Counts(427, 1_871, 15),
    ("transfer-restart", "default"): Counts(20_769, 158_336, 32),
    ("transfer-restart", "deep"): Counts(24_915, 202_353, 32),
    ("transfer-direct", "default"): Counts(152_309, 1_642_329, 32),
    ("transfer-direct", "sources"): Counts(91_808, 1_074_931, 27),
    ("transfer-direct", "deep"): Counts(399_062, 4_653_995, 32),
    ("transfer-in-place", "default"): Counts(152_309, 1_642_329, 32),
    ("transfer-in-place", "sources"): Counts(91_808, 1_074_931, 27),
    ("transfer-in-place", "deep"): Counts(235_756, 2_511_329, 32),
    ("transfer-calm", "default"): Counts(1_040, 6_055, 19),
    ("transfer-landed", "default"): Counts(185, 738, 14),
    ("transfer-drained", "default"): Counts(237, 980, 15),
    ("transfer-two-sinks", "deep"): Counts(311_868, 3_373_192, 32),
    ("transfer-two-lives", "deep"): Counts(345_708, 3_275_567, 35),
    ("transfer-queued", "default"): Counts(123_579, 1_344_370, 32),
    ("transfer-queued", "deep"): Counts(192_555, 1_917_161, 32),
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
    ("decode-scheduler", "default"): Counts(72, 179, 9),
    ("decode-scheduler", "two-lives"): Counts(5_184, 25_776, 18),
    ("whole", "default"): Counts(7_719, 58_160, 29),
    ("whole-pair", "deep"): Counts(493_849, 7_544_364, 44),
    ("complete", "default"): Counts(54_684, 407_054, 47),
    ("complete-restart", "deep"): Counts(2_794_152, 24_927_198, 58),
    ("complete-bootstrap", "default"): Counts(224_694, 1_760_098, 44),
    ("complete-bootstrap", "deep"): Counts(334_278, 2_610_347, 45),
    ("complete-routing", "default"): Counts(33_027, 237_184, 33),
    ("complete-attempts", "default"): Counts(13_762, 94_368, 30),
    ("complete-attempts", "one-attempt"): Counts(8_478, 59_107, 30),
    ("complete-attempts", "deep"): Counts(1_778_379, 18_542_333, 58),
    ("complete-contended", "default"): Counts(8_519, 35_484, 53),
    ("complete-contended", "one-attempt"): Counts(6_264, 26_618, 52),
    ("complete-contended", "deep"): Counts(80_862, 437_000, 80),
}
