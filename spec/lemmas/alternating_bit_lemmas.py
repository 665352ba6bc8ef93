"""Why items arrive in order and once, for any number of items, and links of any length: on each
link the items never go back, none is older than the newest that was taken, and none is newer than
its sender has it.
"""

from typing import Final

from pdproto.spec.examples.alternating_bit import (
    PROTOCOL,
    Bit,
    first,
    i,
    j,
    k,
    next,  # noqa: A004 - the usual name for it
    odd,
    s,
    t,
)
from pdproto.spec.language import Always, all_of, any_of, exists, forall, implies

ack, data = PROTOCOL.ack, PROTOCOL.data
current, newest = PROTOCOL.current, PROTOCOL.newest
delivered, expects = PROTOCOL.delivered, PROTOCOL.expects

LEMMAS: Final = (
    Always("items_never_go_back_in_packets",
           implies(all_of(data(i).at(s), data(j).at(t), s.before(t)), ~j.before(i)),
           why="the sender sends the current item, and never goes back"),
    Always("items_never_go_back_in_acknowledgements",
           implies(all_of(ack(i).at(s), ack(j).at(t), s.before(t)), ~j.before(i)),
           why="the receiver acknowledges the newest item, and never goes back"),
    Always("nothing_is_sent_before_the_beginning",
           any_of(forall((s, i), ~data(i).at(s)), current().is_set),
           why="the sender sends the current item"),
    Always("nothing_is_acknowledged_before_it_arrives",
           any_of(forall((s, i), ~ack(i).at(s)), newest().is_set),
           why="the receiver acknowledges the newest item"),
    Always("no_packet_is_ahead_of_the_sender",
           implies(all_of(data(i).at(s), current() == j), ~j.before(i)),
           why="the sender sends the current item, and never goes back"),
    Always("the_receiver_is_not_ahead_of_the_sender",
           implies(all_of(newest() == i, current() == j), ~j.before(i)),
           why="it has what the sender has sent"),
    Always("nothing_arrives_before_the_beginning", any_of(newest().unset, current().is_set),
           why="the receiver has what the sender has sent"),
    Always("no_packet_is_behind_the_receiver",
           implies(all_of(data(i).at(s), newest() == j), ~i.before(j)),
           why="packets arrive in order"),
    Always("no_acknowledgement_is_ahead_of_the_receiver",
           implies(all_of(ack(i).at(s), newest() == j), ~j.before(i)),
           why="the receiver acknowledges the newest item, and never goes back"),
    Always("an_acknowledgement_covers_all_before_the_current_item",
           implies(all_of(ack(i).at(s), current() == j, k.before(j)), ~i.before(k)),
           why="acknowledgements arrive in order, and the sender goes on by the last one"),
    Always("the_newest_item_is_delivered", implies(newest() == i, delivered(i)),
           why="the receiver delivers as it takes"),
    Always("nothing_newer_is_delivered", implies(all_of(delivered(i), newest() == j), ~j.before(i)),
           why="items arrive in order"),
    Always("nothing_is_delivered_before_it_arrives",
           any_of(forall(i, ~delivered(i)), newest().is_set),
           why="an item that is taken is the newest"),
    Always("all_before_the_current_item_is_delivered",
           implies(all_of(current() == j, i.before(j)), delivered(i)),
           why="the sender goes on when the receiver has the current item"),
    Always("the_current_item_is_first_or_next",
           any_of(current().unset,
                  exists(j, all_of(current() == j, any_of(first(j), exists(i, next(i, j)))))),
           why="the sender begins with the first item, and goes on to the next"),
    Always("after_an_even_item_comes_odd", implies(all_of(newest() == i, ~odd(i)),
                                                   expects() == Bit.ODD),
           why="a packet that is taken turns the bit"),
    Always("after_an_odd_item_comes_even", implies(all_of(newest() == i, odd(i)),
                                                   expects() == Bit.EVEN),
           why="a packet that is taken turns the bit"),
    Always("even_comes_first", any_of(newest().is_set, expects() == Bit.EVEN),
           why="the first item is even"),
)
