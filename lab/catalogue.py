"""The names that only the laboratory knows: its verbs, and the protocols of other projects."""

from collections.abc import Mapping
from typing import Final

from pdproto.cli.main import GROUPS, Program, Verb

OWN_VERBS: Final[Mapping[str, Verb]] = {
    "bench": Verb("measure how fast this machine packs and unpacks pages", "lab.verbs.bench"),
    "bugs": Verb("find every historical defect with the explorer", "lab.verbs.bugs"),
    "cluster": Verb("run a cluster of nodes in virtual time: one seed, one run",
                    "lab.verbs.cluster"),
    "compare": Verb("ask several checkers the same questions of a system", "lab.verbs.compare"),
    "race": Verb("arrange the race of a historical defect on nodes in virtual time",
                 "lab.verbs.race"),
    "soak": Verb("hand over pages between real processes under faults, for a long time",
                 "lab.verbs.soak"),
    "study": Verb("measure the benefit of a feature in real processes and in the simulator",
                  "lab.verbs.study"),
}
LAB: Final = Program("python -m lab", {**GROUPS, "convince us": OWN_VERBS})

# The systems of lab/peers: defects included.
PEERS: Final[Mapping[str, str]] = {
    name: f"lab.peers.{at}" for name, at in (
        ("sglang", "sglang:SYSTEM"),
        ("sglang-once", "sglang:ONCE"),
        ("sglang-registry", "sglang_registry:SYSTEM"),
        ("vllm-lease", "vllm_lease:SYSTEM"),
        ("vllm-lease-head-first", "vllm_lease:HEAD_FIRST"),
        ("vllm-lease-confirmed", "vllm_lease_repaired:CONFIRMED"),
        ("vllm-lease-consented", "vllm_lease_repaired:CONSENTED"),
        ("vllm-reports", "vllm_reports:SYSTEM"),
        ("vllm-reports-last-frees", "vllm_reports:LAST_FREES"),
        ("nixl-release", "nixl_release:SYSTEM"),
        ("nixl-release-drained", "nixl_release:DRAINED"),
        ("nixl-release-deferred", "nixl_release:DEFERRED"),
        ("nixl-release-cancelled", "nixl_release:CANCELLED"),
        ("trtllm-cancel", "trtllm_cancel:SYSTEM"),
        ("trtllm-cancel-silent", "trtllm_cancel:SILENT"),
        ("trtllm-cancel-poisoned", "trtllm_cancel:POISONED"),
        ("dynamo-requests", "dynamo_requests:SYSTEM"),
        ("dynamo-requests-refused", "dynamo_requests:REFUSED"),
    )
}
