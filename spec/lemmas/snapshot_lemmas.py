"""Why no token is missing in a snapshot, and none is there twice, for any number of processes and
tokens, and channels of any length: each token is in one place, and it is recorded exactly if it has
passed the line that the recording processes and their markers draw.
"""

from typing import Final

from pdproto.spec.examples.snapshot import PROTOCOL, Node, Phase, Place, k, p, q, r
from pdproto.spec.language import Always, all_of, any_of, exists, forall, implies

heard, holds, kept = PROTOCOL.heard, PROTOCOL.holds, PROTOCOL.kept
has, on_the_way, phase = PROTOCOL.has, PROTOCOL.on_the_way, PROTOCOL.phase
marker, token = PROTOCOL.marker, PROTOCOL.token
o, s, t = Node("o"), Place("s"), Place("t")

recorded = phase(p) == Phase.RECORDED
somewhere = any_of(exists(r, kept(r, k)), exists((r, o), on_the_way(r, o, k)))
nowhere = all_of(forall(r, ~kept(r, k)), forall((r, o), ~on_the_way(r, o, k)))

LEMMAS: Final = (
    Always("one_process_has_a_token", implies(all_of(has(p), has(q)), p.same(q)),
           why="a process that pays with a token has it no more"),
    Always("a_token_that_is_sent_is_had_by_none", implies(token(p, q, k).at(s), ~has(r)),
           why="a process that pays with a token has it no more"),
    Always("one_channel_has_a_token",
           implies(all_of(token(p, q, k).at(s), token(r, o, k).at(t)),
                   all_of(p.same(r), q.same(o))), why="one process at a time has it"),
    Always("a_channel_has_a_token_once",
           implies(all_of(token(p, q, k).at(s), token(p, q, k).at(t)), s.same(t)),
           why="one process at a time has it"),
    Always("every_token_is_somewhere",
           any_of(exists(p, has(p)), exists((p, q, s), token(p, q, k).at(s))),
           why="no channel loses a message"),
    Always("tokens_go_to_others", implies(token(p, q, k).at(s), p.differs(q)),
           why="nobody pays itself"),
    Always("markers_go_to_others", implies(marker(p, q).at(s), p.differs(q)),
           why="a process that records tells the others"),
    Always("the_sender_of_a_marker_has_recorded", implies(marker(p, q).at(s), recorded),
           why="it records as it sends its markers"),
    Always("a_heard_process_has_recorded", implies(heard(q, p), recorded),
           why="its marker has come"),
    Always("a_process_that_has_heard_has_recorded", implies(heard(p, q), recorded),
           why="a process records when its first marker comes"),
    Always("one_marker_in_a_channel",
           implies(all_of(marker(p, q).at(s), marker(p, q).at(t)), s.same(t)),
           why="a process records once"),
    Always("a_heard_marker_has_left_the_channel", implies(heard(q, p), ~marker(p, q).at(s)),
           why="a process records once"),
    Always("a_recorded_process_is_heard_or_will_be",
           any_of(~recorded, p.same(q), heard(q, p), exists(s, marker(p, q).at(s))),
           why="it sends a marker to each other process"),
    Always("a_process_that_has_kept_a_token_has_recorded", implies(kept(p, k), recorded),
           why="a process keeps the tokens as it records"),
    Always("a_process_that_saw_a_token_on_the_way_has_recorded",
           implies(on_the_way(p, q, k), recorded),
           why="tokens before that are its own"),
    Always("a_token_behind_the_line_is_recorded", implies(all_of(has(p), recorded), somewhere),
           why="it has kept its own, and notes those that come"),
    Always("a_token_before_the_line_is_not", implies(all_of(has(p), ~recorded), nowhere),
           why="nobody has recorded it on its way there"),
    Always("a_token_from_before_the_line_is_not", implies(all_of(token(p, q, k).at(s), ~recorded),
                                                          nowhere),
           why="its sender had it"),
    Always("a_token_before_a_marker_is_not",
           implies(all_of(token(p, q, k).at(s), marker(p, q).at(t), s.before(t)), nowhere),
           why="its sender had not recorded when it paid"),
    Always("a_token_behind_a_marker_is_recorded",
           implies(all_of(token(p, q, k).at(s), marker(p, q).at(t), t.before(s)), somewhere),
           why="its sender had recorded when it paid"),
    Always("a_token_behind_a_marker_that_has_come_is_recorded",
           implies(all_of(token(p, q, k).at(s), heard(q, p)), somewhere),
           why="its sender had recorded when it paid"),
    Always("one_channel_is_recorded_with_a_token",
           implies(all_of(on_the_way(p, q, k), on_the_way(r, o, k)),
                   all_of(p.same(r), q.same(o))), why="it passes the line once"),
)
