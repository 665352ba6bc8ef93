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
    ("dp-rank", "default"): Counts(682, 1_533, 18),
    ("dp-rank", "two-rooms"): Counts(125_166, 504_164, 31),
    ("dp-rank", "alone"): Counts(13_731, 62_466, 19),
    ("dp-rank", "deep"): Counts(709_787, 3_282_634, 33),
    ("transfer", "default"): Counts(86_866, 887_955, 32),
    ("transfer", "sources"): Counts(53_422, 618_096, 27),
    ("transfer", "sinks"): Counts(44_824, 465_868, 28),
    ("transfer", "pairs"): Counts(65_341, 681_646, 32),
    ("transfer", "dummy"): Counts(5_382, 39_969, 20),
    ("transfer", "restart"): Counts(113_405, 1_152_615, 32),
    ("transfer", "stray"): Counts(70_503, 651_482, 32),
    ("transfer", "no-fence"): Counts(49_191, 494_846, 32),
    ("transfer", "chunks"): Counts(31_117, 314_345, 33),
    ("transfer", "deep"): Counts(248_243, 2_756_998, 32),
    ("transfer-lossy", "default"): Counts(5_980, 41_848, 20),
    ("transfer-lossy", "chunks"): Counts(11_588, 66_296, 23),
    ("transfer-patient", "default"): Counts(3_636, 23_439, 19),
    ("transfer-patient", "no-memory"): Counts(288, 1_509, 9),
    ("transfer-patient", "deep"): Counts(5_152, 32_893, 22),
    ("transfer-prompt", "default"): Counts(404, 1_830, 15),
    ("transfer-prompt", "sources"): Counts(38_794, 352_313, 26),
    ("transfer-prompt", "sinks"): Counts(6_019, 45_798, 26),
    ("transfer-prompt", "no-memory"): Counts(32, 97, 6),
    ("transfer-prompt", "deep"): Counts(72_372, 589_584, 30),
    ("transfer-restart", "default"): Counts(17_995, 137_498, 32),
    ("transfer-restart", "deep"): Counts(21_985, 179_900, 32),
    ("transfer-direct", "default"): Counts(86_866, 887_955, 32),
    ("transfer-direct", "sources"): Counts(53_422, 618_096, 27),
    ("transfer-direct", "deep"): Counts(228_644, 2_566_093, 32),
    ("transfer-in-place", "default"): Counts(86_866, 887_955, 32),
    ("transfer-in-place", "sources"): Counts(53_422, 618_096, 27),
    ("transfer-in-place", "deep"): Counts(136_409, 1_390_493, 32),
    ("transfer-two-sinks", "deep"): Counts(186_380, 1_952_914, 32),
    ("transfer-two-lives", "deep"): Counts(251_300, 2_368_869, 35),
    ("agreement", "default"): Counts(17_375, 197_323, 37),
    ("agreement", "deep"): Counts(99_682, 1_952_435, 48),
    ("agreement", "two-slots"): Counts(8_234, 106_674, 34),
    ("agreement-lost", "default"): Counts(7_644, 84_275, 28),
    ("agreement-lost", "deep"): Counts(168_847, 2_231_345, 38),
    ("agreement-once", "default"): Counts(7_071, 56_991, 22),
    ("agreement-once", "deep"): Counts(17_062, 120_145, 28),
    ("optimistic", "default"): Counts(43_705, 271_608, 41),
    ("optimistic", "slots"): Counts(58_670, 381_998, 41),
    ("optimistic", "seats"): Counts(43_705, 274_869, 41),
    ("optimistic", "deep"): Counts(2_625_740, 21_877_739, 62),
    ("optimistic-lossy", "default"): Counts(532, 2_288, 21),
    ("optimistic-lossy", "deep"): Counts(65_277, 484_764, 42),
    ("optimistic-patient", "default"): Counts(532, 2_061, 21),
    ("optimistic-patient", "deep"): Counts(65_277, 437_559, 42),
    ("optimistic-one-sided", "default"): Counts(245, 956, 20),
    ("optimistic-one-sided", "deep"): Counts(14_749, 98_088, 40),
    ("optimistic-one-attempt", "default"): Counts(14_749, 98_088, 40),
    ("optimistic-one-attempt", "deep"): Counts(488_376, 4_475_901, 60),
    ("optimistic-keeping", "default"): Counts(16_483, 119_556, 40),
    ("optimistic-keeping", "deep"): Counts(16_723, 121_588, 40),
    ("optimistic-group", "default"): Counts(61_713, 241_302, 37),
    ("optimistic-group", "deep"): Counts(52_332, 289_337, 47),
    ("optimistic-crash", "default"): Counts(682, 3_107, 20),
    ("optimistic-crash", "lives"): Counts(42_618, 335_869, 40),
    ("optimistic-crash", "deep"): Counts(117_482, 884_001, 41),
    ("whole", "default"): Counts(6_976, 53_353, 29),
    ("whole-pair", "deep"): Counts(471_776, 7_415_948, 44),
    ("complete", "default"): Counts(46_992, 336_482, 47),
    ("complete-restart", "deep"): Counts(2_355_324, 20_114_370, 58),
    ("complete-bootstrap", "default"): Counts(166_894, 1_242_498, 44),
    ("complete-bootstrap", "deep"): Counts(248_310, 1_842_803, 45),
    ("complete-routing", "default"): Counts(25_653, 177_248, 33),
    ("complete-attempts", "default"): Counts(11_582, 77_262, 30),
    ("complete-attempts", "one-attempt"): Counts(7_176, 48_657, 30),
    ("complete-attempts", "deep"): Counts(1_574_733, 16_415_619, 58),
    ("complete-contended", "default"): Counts(6_432, 26_070, 53),
    ("complete-contended", "one-attempt"): Counts(4_542, 18_607, 52),
    ("complete-contended", "deep"): Counts(80_862, 437_000, 80),
}
