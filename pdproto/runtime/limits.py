"""Every limit of a size, a number or a time that another process controls: one table.

Data beyond a limit is refused, so a peer costs no more memory than the limits say. The module that
keeps a limit imports it from here. docs/reference/limits.md is written from `LIMITS`.
"""

from typing import Final, NamedTuple

# One batch between two nodes.
BATCH_BYTES_MAX: Final = 4 << 20
UNREAD_BATCHES_MAX: Final = 64
FRAMES_MAX: Final = 256
NAME_MAX: Final = 128
NAME_BYTES_MAX: Final = 255
REASON_MAX: Final = 1_024
ROOM_MAX: Final = (1 << 63) - 1
SINKS_MAX: Final = 32
EARLIER_LIVES_MAX: Final = 64
PROMPT_BYTES_MAX: Final = 32
CHUNKS_MAX: Final = 4_096
PAGES_MAX: Final = 1 << 24
LEASE_ADDRESS_MAX: Final = 1_024
METADATA_MAX: Final = 1 << 20
LAYOUT_TOLD_MAX: Final = 512
COMPONENTS_MAX: Final = 64
PAYLOAD_MAX: Final = 1 << 20

# What a node keeps for its peers.
PEERS_MAX: Final = 4_096
MALFORMED_NAMES_MAX: Final = 1_024
WAITING_FRAMES_MAX: Final = 1 << 17
EARLY_LIVES_MAX: Final = 1 << 17
USED_ROOMS_MAX: Final = 1 << 16
ENDED_ROOMS_MAX: Final = 1_024
TOLD_ROOMS_MAX: Final = 16_384
EARLY_DECISIONS_MAX: Final = 4_096
TOLD_MAX: Final = 64
INCARNATIONS_MAX: Final = 8

# The registry.
BODY_BYTES_MAX: Final = 1 << 20
BODY_S: Final = 10.0
TOPOLOGY_SIZE_MAX: Final = 4_096
RANKS_MAX: Final = 65_536
CAPABILITIES_MAX: Final = 64
NESTED_MAX: Final = 32
ASKED_ROOMS_MAX: Final = 16_384
OPEN_ROOMS_MAX: Final = 1_000_000
EARLY_GOODBYES_MAX: Final = 8
CHANGE_BYTES_MAX: Final = 5 << 18
WAITING_CHANGES_BYTES_MAX: Final = 64 << 20
STORE_WRITERS_MAX: Final = 64
ORDER_S: Final = 4.0

# The ports.
PORT_CONNECTIONS_MAX: Final = 1_024
HANDSHAKE_S: Final = 5.0
IDLE_S: Final = 60.0
ANSWER_S: Final = 10.0
UNREAD_BYTES_MAX: Final = 64 << 20
SINK_CONNECTIONS_MAX: Final = 1_024
UNREAD_ANSWERS_MAX: Final = 16_384
SINK_WRITES_MAX: Final = 4_096
REGIONS_MAX: Final = 131_072
DESCRIPTION_MAX: Final = 1 << 16


class Limit(NamedTuple):
    """One limit.

    name: of its constant in this module. of: its subject and unit. past: the consequence for the
    peer that passes it. test: its test.
    """

    name: str
    of: str
    past: str
    test: str


DROPPED: Final = "the batch or the message is dropped, counted, and logged (the 1st, 2nd, 4th ...)"
AT: Final = "tests/runtime/test_limits.py"
CONNECTIONS: Final = "tests/node/test_connections.py"
REPLICA: Final = "tests/registry/test_replica.py"
SLOW: Final = "tests/registry/test_slow_clients.py"

LIMITS: Final = (
    Limit("BATCH_BYTES_MAX", "bytes of a batch", "ZeroMQ ends the connection", AT),
    Limit("UNREAD_BATCHES_MAX",
          "batches of a peer that ZeroMQ has read and the node has not",
          "ZeroMQ reads no more of the peer until the node has read half of them",
          "tests/transport/test_unread.py"),
    Limit("FRAMES_MAX", "messages in a batch", DROPPED, AT),
    Limit("NAME_MAX", "characters of a name or an endpoint", DROPPED, AT),
    Limit("NAME_BYTES_MAX", "bytes of the name of a node in UTF-8, as ZeroMQ takes it",
          "ValueError at the call", "tests/runtime/test_checked.py"),
    Limit("REASON_MAX", "characters of the reason of a failure", DROPPED, AT),
    Limit("ROOM_MAX", "the greatest number of a room, an incarnation or a generation", DROPPED, AT),
    Limit("SINKS_MAX", "decode ranks that one prefill rank feeds for a request", DROPPED, AT),
    Limit("EARLIER_LIVES_MAX", "earlier lives of a room that an introduction names", DROPPED, AT),
    Limit("PROMPT_BYTES_MAX", "bytes of the name of a prompt", DROPPED, AT),
    Limit("CHUNKS_MAX", "chunks of a hand-over", DROPPED, AT),
    Limit("PAGES_MAX", "pages of a hand-over, and of a chunk", DROPPED, AT),
    Limit("LEASE_ADDRESS_MAX", "bytes of the address of a lease", DROPPED, AT),
    Limit("METADATA_MAX", "bytes of a metadata row", DROPPED, AT),
    Limit("LAYOUT_TOLD_MAX", "characters of the description of a page layout", DROPPED, AT),
    Limit("COMPONENTS_MAX", "components of a page layout", DROPPED, AT),
    Limit("PAYLOAD_MAX", "bytes of a request of a group", DROPPED, AT),
    Limit("PEERS_MAX",
          "peers that a node knows; of one member of the cluster, as many as there are places left",
          "a peer that is not lost is not forgotten for a new one, whose batch is dropped",
          f"{CONNECTIONS}:test_a_stranger_is_refused_while_as_many_peers_live_as_a_node_may_know"),
    Limit("MALFORMED_NAMES_MAX",
          "senders whose malformed batches are counted one by one",
          "those of others are dropped, and counted together",
          f"{CONNECTIONS}:test_malformed_batches_are_counted_for_a_bounded_number_of_names"),
    Limit("WAITING_FRAMES_MAX",
          "messages kept for a peer that does not read",
          "later ones are dropped; the tables repeat them",
          f"{CONNECTIONS}:test_a_peer_that_does_not_read_loses_the_frames_past_the_bound"),
    Limit("EARLY_LIVES_MAX",
          "hand-overs that decode has begun and prefill has not; of one decode server or member, "
          "as many as there are places left",
          DROPPED,
          "tests/e2e/test_many_chunks.py:test_servers_that_begin_lives_without_end_stop_no_other"),
    Limit("INCARNATIONS_MAX", "incarnations of a prefill rank of which one hand-over has heard",
          DROPPED,
          "tests/node/test_incarnations.py:test_a_hand_over_bounds_the_incarnations_of_a_source"),
    Limit("USED_ROOMS_MAX",
          "rooms whose requests a node counts",
          "those that have been quiet for longest start again at 0",
          AT),
    Limit("ENDED_ROOMS_MAX",
          "rooms that a prefill node no longer keeps, and of which it remembers that it did",
          "a decode request for an older one waits for a sender, as for a room that is not open",
          "tests/node/test_keeps.py:test_so_many_ended_rooms_are_remembered"),
    Limit("TOLD_ROOMS_MAX",
          "rooms whose requests have ended, as a prefill node remembers them",
          "a decode request for an older one waits for a sender, as for a room that never was",
          "tests/node/test_ended_rooms.py:test_so_many_ended_rooms_are_remembered"),
    Limit("EARLY_DECISIONS_MAX",
          "decisions of a group that a rank keeps before their request",
          "later ones are dropped; the entry repeats them",
          "tests/group/test_early_decisions.py:"
          "test_decisions_past_the_limit_are_dropped_and_applied_when_repeated"),
    Limit("TOLD_MAX", "mistakes of its peers that the log of a node or an engine tells apart",
          "the others are counted, and told, together", "tests/runtime/test_repeats.py"),
    Limit("BODY_BYTES_MAX", "bytes of the body of a request to the registry", "413", AT),
    Limit("BODY_S", "seconds in which the body must come", "408",
          "tests/registry/test_strangers.py:test_a_body_that_never_comes_is_not_waited_for"),
    Limit("TOPOLOGY_SIZE_MAX", "ranks in one direction of a topology", "400", AT),
    Limit("RANKS_MAX", "ranks of a prefill server, and in a question", "400", AT),
    Limit("CAPABILITIES_MAX", "capabilities of a rank", "400", AT),
    Limit("NESTED_MAX", "lists and objects in one another in `dsv41_spec_layout`", "400", AT),
    Limit("ASKED_ROOMS_MAX", "rooms in one question", "400", AT),
    Limit("OPEN_ROOMS_MAX", "rooms that the registry keeps", "503",
          "tests/registry/test_registry.py:test_m2_5_too_many_open_rooms_are_refused"),
    Limit("EARLY_GOODBYES_MAX",
          "goodbyes of unknown runs, kept for a rank",
          "the oldest is forgotten",
          AT),
    Limit("CHANGE_BYTES_MAX", "bytes of a change, and of an entry, in the registry's store", "413",
          f"{REPLICA}:test_a_change_that_the_store_does_not_take_is_refused"),
    Limit("WAITING_CHANGES_BYTES_MAX", "bytes of the changes that wait for the registry's store",
          "504", f"{REPLICA}:test_changes_that_wait_for_a_dead_store_take_bounded_memory"),
    Limit("STORE_WRITERS_MAX", "runs of registries that a store remembers",
          "the one that has written nothing for longest is forgotten",
          f"{REPLICA}:test_a_store_remembers_the_last_writers"),
    Limit("ORDER_S", "seconds in which the registry's store must order a change", "504",
          f"{REPLICA}:test_a_store_that_is_late_leaves_changes_unanswered_and_look_ups_refused"),
    Limit("PORT_CONNECTIONS_MAX",
          "connections to an HTTP port, and to the control port of a node; at most half "
          "of the files that the process may open",
          "the oldest without a handshake is ended, or else the one that has been quiet "
          "for longest",
          "tests/transport/test_connection_limit.py:"
          "test_a_thousand_connections_of_a_stranger_do_not_take_the_files"),
    Limit("HANDSHAKE_S", "seconds for the handshake of a connection", "it is ended",
          "tests/transport/test_connection_limit.py:test_a_handshake_that_is_not_completed_ends"),
    Limit("IDLE_S", "seconds for the next request of a connection to an HTTP port", "it is closed",
          f"{SLOW}:test_a_request_that_never_comes_whole_is_not_waited_for"),
    Limit("ANSWER_S", "seconds for reading an answer of an HTTP port",
          "the connection is ended, and counted",
          f"{SLOW}:test_a_client_that_does_not_read_is_disconnected_and_counted"),
    Limit("UNREAD_BYTES_MAX", "bytes of the answers of an HTTP port that wait for their readers",
          "the connection whose answer waits for longest is ended, and counted",
          f"{SLOW}:test_unread_answers_take_bounded_memory"),
    Limit("SINK_CONNECTIONS_MAX",
          "connections to a data port",
          "the oldest that has shown no token is ended",
          "tests/engine/test_floods.py:"
          "test_a_thousand_connections_of_one_address_are_bounded_and_stop_no_write"),
    Limit("UNREAD_ANSWERS_MAX",
          "answers of a data port that a source has not read",
          "it is dropped",
          "tests/engine/test_peers.py:test_a_peer_that_never_reads_is_dropped"),
    Limit("SINK_WRITES_MAX",
          "writes of one source at a time (mooncake, nixl)",
          "it is dropped",
          AT),
    Limit("REGIONS_MAX",
          "pieces of memory that one source has mapped at a time (shm, cuda-ipc)",
          "its write is refused",
          AT),
    Limit("DESCRIPTION_MAX",
          "bytes of the description of memory (mooncake, nixl)",
          "the lease fails",
          "tests/engine/test_one_sided.py:"
          "test_a_description_at_the_limit_is_read_and_one_past_it_fails_the_lease"),
)
