"""Why a drain is safe, for any number of requests."""

from typing import Final

from pdproto.spec.handoff.drain import (
    Asking,
    Listing,
    Serving,
    Taken,
    ask,
    asking,
    ended,
    found,
    h,
    known,
    leave,
    listing,
    look_up,
    refused,
    request,
    serving,
    taken,
    turned_away,
)
from pdproto.spec.language import Always, all_of, any_of, implies

LEMMAS: Final = (
    Always("a_refused_request_was_not_taken", implies(refused(h), request(h) == Taken.REFUSED),
           why="the server answers a request once"),
    Always("a_request_was_taken_before_its_client_hears",
           implies(any_of(taken(h), ended(h)), request(h).among(Taken.OPEN, Taken.ENDED))),
    Always("a_client_that_is_turned_away_asks_no_server",
           implies(turned_away(h), all_of(~known(h), listing() == Listing.STRUCK_OUT))),
    Always("a_server_is_found_by_its_entry", implies(found(h), known(h))),
    Always("an_asking_client_has_found_its_server", implies(ask(h), found(h)),
           why="a client asks only a server that the registry has named"),
    Always("an_answered_request_was_asked",
           implies(request(h) != Taken.UNKNOWN, ask(h))),
    Always("a_refusal_comes_in_a_drain",
           implies(request(h) == Taken.REFUSED, serving() != Serving.OPEN)),
    Always("the_registry_hears_of_a_drain", implies(leave(), serving() != Serving.OPEN)),
    Always("a_client_has_asked_the_registry",
           implies(any_of(look_up(h), found(h), turned_away(h)), asking(h) != Asking.IDLE)),
    Always("a_client_has_asked_the_server",
           implies(ask(h), ~asking(h).among(Asking.IDLE, Asking.LOOKING_UP))),
    Always("an_open_client_was_taken",
           implies(asking(h) == Asking.OPEN, request(h).among(Taken.OPEN, Taken.ENDED))),
    Always("a_done_client_was_served",
           implies(asking(h) == Asking.DONE, request(h) == Taken.ENDED)),
    Always("the_end_is_of_an_ended_request", implies(ended(h), request(h) == Taken.ENDED)),
    Always("a_client_at_a_server_is_known",
           implies(asking(h).among(Asking.ASKING, Asking.OPEN, Asking.DONE), known(h))),
)
