"""Every system, one entry each: its name on the command line, its counts and its proofs.

To add a system, write its module and add an entry here. Then `make docs` writes its page,
`docs/tables/NAME.md`. The system itself has the rest: its summary (`about`), its named sizes
(`configurations`) and its properties. Promises of the hand-over name properties
(spec/handoff/properties.py), so a system keeps a promise by having the property.
tests/handoff/test_catalogue.py refuses an entry that lacks a part, and a system without an entry.
"""

from collections.abc import Mapping
from typing import Final

from pdproto.spec.entry import Counts, Entry, Purpose

# The order is that of the output of `pdproto check`.
CATALOGUE: Final = (
    Entry("two-phase-commit", "examples.two_phase_commit:SYSTEM", Purpose.EXAMPLE,
          lemmas="two_phase_commit_lemmas"),
    Entry("lock-server", "examples.lock_server:SYSTEM", Purpose.EXAMPLE,
          lemmas="lock_server_lemmas"),
    Entry("lock-server-broken", "examples.lock_server_broken:SYSTEM", Purpose.EXAMPLE),
    Entry("ring-election", "examples.ring_election:SYSTEM", Purpose.EXAMPLE),
    Entry("paxos", "examples.paxos:SYSTEM", Purpose.EXAMPLE, lemmas="paxos_lemmas"),
    Entry("paxos-broken", "examples.paxos_broken:SYSTEM", Purpose.EXAMPLE),
    Entry("alternating-bit", "examples.alternating_bit:SYSTEM", Purpose.EXAMPLE,
          lemmas="alternating_bit_lemmas"),
    Entry("alternating-bit-broken", "examples.alternating_bit_broken:SYSTEM", Purpose.EXAMPLE),
    Entry("snapshot", "examples.snapshot:SYSTEM", Purpose.EXAMPLE, lemmas="snapshot_lemmas"),
    Entry("snapshot-broken", "examples.snapshot_broken:SYSTEM", Purpose.EXAMPLE),
    Entry("registry", "handoff.registry:SYSTEM",
          lemmas="registry_lemmas", ranking="registry_ranking", expected={
        "default": Counts(81_322, 614_387, 33),
        "restart": Counts(213_592, 1_693_484, 39),
        "lossy": Counts(240_384, 2_009_992, 34),
        "alarm": Counts(30_960, 230_468, 37),
        "alarm-lossy": Counts(3_898, 29_342, 23),
        "clocks": Counts(35_386, 236_160, 31),
        "disconnect": Counts(25_080, 151_864, 27),
        "disconnect-two": Counts(81_392, 912_460, 34),
        "disconnect-restart": Counts(44_802, 310_766, 33),
        "deep": Counts(523_594, 6_394_727, 42),
    }),
    Entry("registry-late", "handoff.registry_late:SYSTEM", lemmas="registry_lemmas", expected={
        "default": Counts(31_250, 223_845, 31),
    }),
    Entry("registry-replica", "handoff.replica:SYSTEM", lemmas="replica_lemmas", expected={
        "default": Counts(108_503, 767_956, 22),
        "restart": Counts(4_786, 25_185, 17),
    }),
    Entry("registry-replica-no-timeouts", "handoff.replica:NO_TIMEOUTS",
          lemmas="replica_lemmas", expected={"default": Counts(48_256, 293_021, 21)}),
    Entry("registry-replica-history", "handoff.replica_history:HISTORY",
          expected={"default": Counts(622, 2_599, 13)}),
    Entry("registry-no-retry", "handoff.registry:NO_RETRY", expected={
        "default": Counts(30_470, 178_682, 32),
        "outage": Counts(21_420, 85_156, 27),
    }),
    Entry("registry-no-timeouts", "handoff.registry:NO_TIMEOUTS", expected={
        "default": Counts(43_240, 283_476, 32),
    }),
    Entry("dp-rank", "handoff.dp_rank:SYSTEM",
          lemmas="dp_rank_lemmas", ranking="dp_rank_ranking", expected={
        "default": Counts(686, 1_990, 18),
        "two-rooms": Counts(125_168, 674_736, 31),
        "crash": Counts(796, 2_388, 18),
        "alone": Counts(13_731, 82_896, 19),
        "deep": Counts(709_843, 4_226_958, 33),
    }),
    Entry("dp-rank-no-timers", "handoff.dp_rank:NO_TIMERS", expected={
        "default": Counts(264, 462, 18),
        "two-rooms": Counts(28_904, 106_508, 31),
    }),
    Entry("dp-rank-loss", "handoff.dp_rank_loss:LOSS", lemmas="dp_rank_loss_lemmas", expected={
        "default": Counts(1_658, 5_478, 20),
        "deep": Counts(635_888, 3_662_196, 35),
    }),
    Entry("binding", "handoff.binding:SYSTEM", lemmas="binding_lemmas", expected={
        "default": Counts(464_934, 5_822_167, 28),
        "sinks": Counts(246_686, 3_220_511, 25),
        "deep": Counts(1_823_607, 24_644_364, 25),
    }),
    Entry("binding-two-leaders", "handoff.binding:TWO_LEADERS", lemmas="binding_lemmas",
          expected={"default": Counts(125_180, 1_326_416, 26)}),
    Entry("binding-loss", "handoff.binding:LOSS",
          lemmas="binding_lemmas", ranking="binding_ranking", expected={
        "default": Counts(67_717, 646_567, 21),
    }),
    Entry("binding-no-timeouts", "handoff.binding:NO_TIMEOUTS",
          lemmas="binding_lemmas", ranking="binding_no_timeouts_ranking", expected={
        "default": Counts(67_717, 560_341, 21),
    }),
    Entry("binding-no-timers", "handoff.binding:NO_TIMERS", lemmas="binding_lemmas",
          expected={"default": Counts(118_196, 880_182, 26)}),
    Entry("binding-once", "handoff.binding:ONCE", lemmas="binding_lemmas",
          expected={"default": Counts(3_582, 17_413, 17)}),
    Entry("binding-history", "handoff.binding_history:HISTORY",
          lemmas="binding_history_lemmas", expected={
        "default": Counts(1_023, 6_526, 15),
        "sinks": Counts(40_186, 461_092, 22),
    }),
    Entry("binding-guarded", "handoff.binding:GUARDED", lemmas="binding_guarded_lemmas",
          expected={"default": Counts(14_479, 117_791, 18)}),
    Entry("binding-guarded-no-timeouts", "handoff.binding:GUARDED_NO_TIMEOUTS",
          lemmas="binding_guarded_lemmas", expected={"default": Counts(6_378, 47_108, 18)}),
    Entry("binding-ordered", "handoff.binding_ordered:SYSTEM", lemmas="binding_ordered_lemmas",
          ranking="binding_ranking", expected={"default": Counts(8_509, 70_923, 17)}),
    Entry("binding-ordered-no-timers", "handoff.binding_ordered:NO_TIMERS",
          expected={"default": Counts(236_457, 1_900_719, 26)}),
    Entry("binding-ordered-loss", "handoff.binding_ordered:LOSS",
          lemmas="binding_ordered_loss_lemmas", ranking="binding_ordered_loss_ranking",
          expected={"default": Counts(16_215, 158_063, 22)}),
    Entry("binding-named", "handoff.binding_named:SYSTEM", lemmas="binding_named_lemmas", expected={
        "default": Counts(6_241, 49_138, 16),
        "deep": Counts(1_096_841, 13_856_770, 26),
    }),
    Entry("binding-named-loss", "handoff.binding_named:LOSS",
          lemmas="binding_named_lemmas", ranking="binding_ranking", expected={
        "default": Counts(18_017, 156_401, 17),
    }),
    Entry("binding-named-two-lives", "handoff.binding_named:TWO_LIVES",
          lemmas="binding_named_lemmas", expected={"default": Counts(60_025, 602_700, 20)}),
    Entry("binding-named-timeouts-only", "handoff.binding_named:TIMEOUTS_ONLY",
          lemmas="binding_named_lemmas", ranking="binding_ranking", expected={
        "default": Counts(779, 4_915, 13),
    }),
    Entry("binding-named-no-timeouts", "handoff.binding_named:NO_TIMEOUTS",
          lemmas="binding_named_lemmas", ranking="binding_named_no_timeouts_ranking", expected={
        "default": Counts(18_017, 144_448, 17),
    }),
    Entry("binding-named-no-timers", "handoff.binding_named:NO_TIMERS",
          lemmas="binding_named_lemmas", expected={
        "default": Counts(1_444, 6_080, 14),
        "ranks": Counts(322, 1_248, 12),
        "sinks": Counts(162, 577, 11),
        "deep": Counts(184_340, 1_431_920, 24),
    }),
    Entry("transfer", "handoff.transfer:SYSTEM",
          lemmas="transfer_lemmas", ranking="transfer_ranking", expected={
        "default": Counts(170_527, 1_810_732, 32),
        "sources": Counts(102_400, 1_180_592, 27),
        "sinks": Counts(98_277, 1_054_104, 28),
        "pairs": Counts(109_278, 1_189_188, 32),
        "dummy": Counts(7_515, 56_907, 20),
        "restart": Counts(230_223, 2_443_279, 32),
        "stray": Counts(115_223, 1_122_734, 32),
        "no-fence": Counts(105_336, 1_107_172, 32),
        "chunks": Counts(173_367, 1_999_087, 33),
        "deep": Counts(472_196, 5_346_759, 32),
    }),
    Entry("transfer-loss", "handoff.transfer:LOSS", lemmas="transfer_lemmas", expected={
        "default": Counts(9_168, 62_372, 20),
        "chunks": Counts(21_008, 126_784, 23),
    }),
    Entry("transfer-no-timeouts", "handoff.transfer:NO_TIMEOUTS",
          lemmas="transfer_lemmas", expected={
        "default": Counts(9_588, 61_733, 22),
        "no-memory": Counts(650, 3_626, 13),
        "deep": Counts(22_956, 147_181, 26),
    }),
    Entry("transfer-no-timers", "handoff.transfer:NO_TIMERS", lemmas="transfer_lemmas", expected={
        "default": Counts(615, 2_805, 16),
        "sources": Counts(94_593, 848_976, 27),
        "sinks": Counts(9_865, 81_033, 26),
        "no-memory": Counts(39, 128, 7),
        "sink-crash": Counts(427, 1_877, 15),
        "deep": Counts(168_592, 1_386_278, 32),
    }),
    Entry("transfer-restart", "handoff.transfer:RESTARTED", lemmas="transfer_lemmas", expected={
        "default": Counts(20_769, 159_014, 32),
        "deep": Counts(24_915, 203_237, 32),
    }),
    Entry("transfer-direct", "handoff.transfer:DIRECT", lemmas="page_fence_lemmas", expected={
        "default": Counts(152_309, 1_644_365, 32),
        "sources": Counts(91_808, 1_075_965, 27),
        "deep": Counts(399_062, 4_658_843, 32),
    }),
    Entry("transfer-in-place", "handoff.direct:IN_PLACE", lemmas="direct_lemmas", expected={
        "default": Counts(152_309, 1_644_365, 32),
        "sources": Counts(91_808, 1_075_965, 27),
        "deep": Counts(235_756, 2_515_033, 32),
    }),
    Entry("transfer-timeouts-only", "handoff.transfer_fault_free:TIMEOUTS_ONLY",
          lemmas="transfer_lemmas", expected={
        "default": Counts(1_040, 6_059, 19),
    }),
    Entry("transfer-landed", "handoff.transfer_fault_free:LANDED",
          lemmas="transfer_lemmas", expected={
        "default": Counts(185, 738, 14),
    }),
    Entry("transfer-drained", "handoff.transfer_fault_free:DRAINED",
          lemmas="transfer_lemmas", expected={
        "default": Counts(237, 980, 15),
    }),
    Entry("transfer-two-sinks", "handoff.transfer_two:TWO_SINKS",
          lemmas="transfer_lemmas", expected={
        "deep": Counts(311_868, 3_373_192, 32),
    }),
    Entry("transfer-two-sources", "handoff.transfer_two:TWO_SOURCES",
          lemmas="transfer_lemmas", expected={
        "deep": Counts(19_093_093, 244_745_900, 36),
    }),
    Entry("transfer-two-lives", "handoff.transfer_two:TWO_LIVES",
          lemmas="transfer_lemmas", expected={
        "deep": Counts(345_708, 3_275_567, 35),
    }),
    Entry("transfer-queued", "handoff.transfer_two:QUEUED", lemmas="transfer_lemmas", expected={
        "default": Counts(123_579, 1_346_210, 32),
        "deep": Counts(192_555, 1_926_219, 32),
    }),
    Entry("agreement", "handoff.agreement:SYSTEM",
          lemmas="agreement_lemmas", ranking="agreement_ranking", expected={
        "default": Counts(17_375, 197_323, 37),
        "deep": Counts(99_682, 1_952_435, 48),
        "two-slots": Counts(8_234, 106_674, 34),
    }),
    Entry("agreement-loss", "handoff.agreement:LOSS", lemmas="agreement_lemmas", expected={
        "default": Counts(7_644, 84_275, 28),
        "deep": Counts(168_847, 2_231_345, 38),
    }),
    Entry("agreement-once", "handoff.agreement:ONCE", lemmas="agreement_lemmas", expected={
        "default": Counts(7_071, 56_991, 22),
        "deep": Counts(17_062, 120_145, 28),
    }),
    Entry("agreement-no-timers", "handoff.agreement:NO_TIMERS", expected={
        "default": Counts(448, 1_720, 20),
        "deep": Counts(2_733, 15_710, 28),
    }),
    Entry("optimistic", "handoff.optimistic:SYSTEM",
          lemmas="optimistic_lemmas", ranking="optimistic_ranking", expected={
        "default": Counts(43_705, 271_608, 41),
        "slots": Counts(58_670, 381_998, 41),
        "running-slots": Counts(43_705, 274_869, 41),
        "deep": Counts(2_625_740, 21_877_739, 62),
    }),
    Entry("optimistic-loss", "handoff.optimistic:LOSS",
          lemmas="optimistic_safe_lemmas", ranking="optimistic_loss_ranking", expected={
        "default": Counts(532, 2_288, 21),
        "deep": Counts(63_117, 469_956, 42),
    }),
    Entry("optimistic-no-timeouts", "handoff.optimistic:NO_TIMEOUTS",
          lemmas="optimistic_safe_lemmas", ranking="optimistic_no_timeouts_ranking", expected={
        "default": Counts(568, 2_153, 21),
        "deep": Counts(75_589, 497_375, 42),
    }),
    Entry("optimistic-one-sided", "handoff.optimistic:ONE_SIDED",
          lemmas="optimistic_safe_lemmas", expected={
        "default": Counts(309, 1_108, 20),
        "deep": Counts(23_808, 143_704, 40),
    }),
    Entry("optimistic-one-attempt", "handoff.optimistic:ONE_ATTEMPT",
          lemmas="optimistic_safe_lemmas", expected={
        "default": Counts(14_515, 96_702, 40),
        "deep": Counts(475_038, 4_364_115, 60),
    }),
    Entry("optimistic-keeping", "handoff.optimistic:KEEPING", expected={
        "default": Counts(16_223, 117_626, 40),
        "deep": Counts(16_463, 119_658, 40),
    }),
    Entry("optimistic-at-once", "handoff.optimistic_at_once:AT_ONCE", expected={
        "default": Counts(66_368, 421_488, 40),
        "running-slots": Counts(66_368, 426_855, 40),
    }),
    Entry("optimistic-retracted", "handoff.optimistic_retracted:RETRACTED",
          lemmas="optimistic_retracted_lemmas", expected={
        "default": Counts(71_567, 450_906, 41),
    }),
    Entry("optimistic-at-once-retracted", "handoff.optimistic_retracted:AT_ONCE_RETRACTED",
          lemmas="optimistic_retracted_lemmas", expected={
        "default": Counts(590, 2_269, 20),
    }),
    Entry("optimistic-group", "handoff.optimistic_group:SYSTEM", expected={
        "default": Counts(57_699, 232_983, 37),
        "deep": Counts(47_594, 278_970, 47),
    }),
    Entry("optimistic-group-history", "handoff.optimistic_group_history:HISTORY",
          Purpose.COMPARED, lemmas="optimistic_group_lemmas", ranking="optimistic_group_ranking",
          expected={"default": Counts(61_449, 239_986, 37)}),
    Entry("optimistic-group-loss", "handoff.optimistic_group_loss:LOSS", expected={
        "default": Counts(124_676, 1_686_703, 26),
        "deep": Counts(223_140, 4_335_534, 37),
    }),
    Entry("optimistic-group-loss-no-timeouts", "handoff.optimistic_group_loss:REPEATED_ONLY",
          expected={"default": Counts(39_267, 554_669, 24)}),
    Entry("optimistic-group-loss-history", "handoff.optimistic_group_history:LOSS_HISTORY",
          Purpose.COMPARED, lemmas="optimistic_group_loss_lemmas",
          ranking="optimistic_group_loss_ranking"),
    Entry("optimistic-crash", "handoff.optimistic_crash:CRASHING",
          lemmas="optimistic_lemmas", expected={
        "default": Counts(682, 3_107, 20),
        "lives": Counts(44_658, 352_141, 40),
        "deep": Counts(117_482, 884_001, 41),
    }),
    Entry("decode-scheduler", "handoff.scheduler:SYSTEM", lemmas="scheduler_lemmas", expected={
        "default": Counts(73, 179, 9),
        "two-lives": Counts(5_329, 26_134, 18),
    }),
    Entry("decode-load", "handoff.load:SYSTEM", lemmas="load_lemmas", expected={
        "default": Counts(39, 68, 6),
        "two-lives": Counts(1_521, 5_304, 12),
    }),
    Entry("incarnations", "handoff.incarnations:SYSTEM",
          lemmas="incarnations_lemmas", ranking="incarnations_ranking", expected={
        "default": Counts(355, 1_195, 13),
        "sources": Counts(14_114, 90_451, 22),
        "runs": Counts(1_675, 5_873, 16),
        "lives": Counts(45_256, 293_549, 25),
    }),
    Entry("drain", "handoff.drain:SYSTEM", lemmas="drain_lemmas", expected={
        "default": Counts(1_231, 5_302, 22),
        "deep": Counts(18_209, 109_923, 31),
    }),
    Entry("group-transfer", "handoff.group_transfer:SYSTEM", Purpose.COMPOSED,
          lemmas="group_transfer_lemmas", ranking="group_transfer_ranking", expected={
        "default": Counts(20_901, 157_520, 32),
    }),
    Entry("group-transfer-pair", "handoff.group_transfer:PAIR", Purpose.COMPOSED,
          lemmas="group_transfer_lemmas", ranking="group_transfer_ranking", expected={
        "deep": Counts(511_505, 7_829_860, 44),
    }),
    Entry("sink-group", "handoff.sink_group:SYSTEM", Purpose.COMPOSED,
          lemmas="sink_group_lemmas", ranking="sink_group_ranking", expected={
        "default": Counts(7_520, 52_227, 28),
    }),
    Entry("sink-group-pair", "handoff.sink_group:PAIR", Purpose.COMPOSED,
          lemmas="sink_group_lemmas", ranking="sink_group_ranking", expected={
        "deep": Counts(234_194, 3_493_687, 45),
    }),
    Entry("sink-group-loss", "handoff.sink_group:LOSS", Purpose.COMPOSED,
          lemmas="sink_group_lemmas", expected={
        "default": Counts(10_164, 73_887, 33),
        "sources": Counts(29_320, 310_590, 36),
        "deep": Counts(2_953_988, 41_918_693, 53),
    }),
    Entry("end-to-end", "handoff.end_to_end:SYSTEM", Purpose.COMPOSED,
          lemmas="end_to_end_lemmas", ranking="end_to_end_ranking", expected={
        "default": Counts(54_724, 433_708, 47),
    }),
    Entry("end-to-end-restart", "handoff.end_to_end:RESTART", Purpose.COMPOSED,
          lemmas="end_to_end_lemmas", ranking="end_to_end_ranking", expected={
        "deep": Counts(3_057_160, 29_402_266, 58),
    }),
    Entry("end-to-end-bootstrap", "handoff.end_to_end_bootstrap:SYSTEM", Purpose.COMPOSED,
          lemmas="end_to_end_bootstrap_lemmas", ranking="end_to_end_bootstrap_ranking", expected={
        "default": Counts(246_946, 2_100_904, 44),
        "deep": Counts(356_530, 2_985_564, 45),
    }),
    Entry("end-to-end-routing", "handoff.end_to_end_routing:SYSTEM", Purpose.COMPOSED,
          lemmas="end_to_end_routing_lemmas", ranking="end_to_end_routing_ranking", expected={
        "default": Counts(33_353, 252_879, 33),
    }),
    Entry("end-to-end-attempts", "handoff.end_to_end_attempts:SYSTEM", Purpose.COMPOSED,
          lemmas="end_to_end_attempts_lemmas", ranking="end_to_end_attempts_ranking", expected={
        "default": Counts(13_770, 94_424, 30),
        "one-attempt": Counts(8_486, 59_163, 30),
        "deep": Counts(2_331_863, 25_649_013, 58),
    }),
    Entry("end-to-end-contended", "handoff.end_to_end_attempts:CONTENDED", Purpose.COMPOSED,
          lemmas="end_to_end_attempts_lemmas", ranking="end_to_end_contended_ranking", expected={
        "default": Counts(8_519, 35_484, 53),
        "one-attempt": Counts(6_252, 26_582, 52),
        "deep": Counts(122_208, 675_195, 80),
    }),
    Entry("transfer-light", "handoff.light:LIGHT", Purpose.COMPARED),
    Entry("transfer-timed", "handoff.light:TIMED", Purpose.COMPARED),
    Entry("transfer-deferred", "handoff.light:DEFERRED", Purpose.COMPARED),
    Entry("two-pass", "handoff.two_pass:TWO_PASS", Purpose.COMPARED),
    Entry("two-pass-local-drain", "handoff.two_pass:LOCAL_DRAIN", Purpose.COMPARED),
    Entry("two-pass-no-second-look", "handoff.two_pass:NO_SECOND_LOOK", Purpose.COMPARED),
    Entry("transfer-abort", "handoff.abort:SYSTEM", Purpose.COMPARED),
    Entry("transfer-forgetful", "handoff.forgetting:FORGETFUL", Purpose.COMPARED),
    Entry("transfer-forgetful-sinks", "handoff.forgetting_sinks:SINKS_FORGET", Purpose.COMPARED),
)

SYSTEMS: Final[Mapping[str, Entry]] = {entry.name: entry for entry in CATALOGUE}
HANDOFF: Final = tuple(entry.name for entry in CATALOGUE if entry.of_the_handoff)
# By system and configuration.
EXPECTED: Final[Mapping[tuple[str, str], Counts]] = {
    (entry.name, configuration): counts
    for entry in CATALOGUE for configuration, counts in entry.expected.items()
}
