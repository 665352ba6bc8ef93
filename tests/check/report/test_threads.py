from pdproto.check.report.threads import Thread, threads
from pdproto.check.result import Arrow, Lane, Trace
from tests.check.report.samples import step

LANES = tuple(Lane(name, "m") for name in "abcd")
COLUMNS = {lane.name: index for index, lane in enumerate(LANES)}
PING = Arrow("ping", "b", ("a", "c"))


def routed(*steps: object) -> tuple[Thread, ...]:
    trace = Trace(LANES, (), steps)  # type: ignore[arg-type]  # objects keep the calls short
    return threads(trace, COLUMNS)


def test_a_message_to_both_sides_is_two_threads() -> None:
    left, right = routed(
        step("send", "b", sent=(PING,)),
        step("hear", "c", received=PING),
        step("hear", "a", received=PING),
        step("hear", "c", received=PING),
    )
    assert (left.ends, left.gutter) == ((2,), 1)
    assert (right.ends, right.gutter) == ((1, 3), 2)
    assert [right.passes(index) for index in range(4)] == [False, True, True, False]


def test_a_repeated_message_is_received_from_its_second_sending() -> None:
    again = step("send", "b", sent=(PING,))
    first, second = routed(again, again, step("hear", "c", received=PING))
    assert first.ends == ()
    assert second.ends == (2,)


def test_a_row_that_receives_and_sends_the_same_message_ends_the_first_thread() -> None:
    echo = step("echo", "c", received=PING, sent=(PING,))
    first, second = routed(step("send", "b", sent=(PING,)), echo)
    assert first.ends == (1,)
    assert second.ends == ()


def test_a_message_on_the_way_for_ever_points_to_its_receivers() -> None:
    left = Arrow("ping", "c", ("a", "b"))
    right = Arrow("pong", "c", ("d",))
    nowhere = Arrow("pang", "c", ())
    found = routed(step("send", "c", sent=(left, right, nowhere)))
    assert [thread.gutter for thread in found] == [2, 3, 3]
    assert not any(thread.passes(0) for thread in found)


def test_a_loss_ends_a_thread_even_when_nobody_was_to_receive() -> None:
    nowhere = Arrow("pang", "c", ("stranger",))
    (thread,) = routed(step("send", "c", sent=(nowhere,)), step("lose", "d", lost=(nowhere,)))
    assert thread.ends == (1,)


def test_messages_on_the_way_together_run_on_tracks_of_their_own() -> None:
    messages = [Arrow(f"m{number}", "a", ("b",)) for number in range(4)]
    sends = [step("send", "a", sent=(message,)) for message in messages]
    receipts = [step("hear", "b", received=message) for message in messages]
    found = routed(*sends, *receipts, step("send", "a", sent=(messages[0],)))
    assert [thread.track for thread in found] == [0, 1, 2, 2, 0]


def test_a_sender_without_a_lane_has_no_thread() -> None:
    assert routed(step("send", "a", sent=(Arrow("m", "stranger", ("a",)),))) == ()
