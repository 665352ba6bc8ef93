"""What an operator's questions cost: python -m tests.bench.bench_operator

A pair of nodes with 10,000 open hand-overs; each question of the port is asked over HTTP, one after
the other, while requests are put to the loop of the node. Then other hand-overs go on, with and
without a question every 0.1 s.
"""

import http.client
import logging
import threading
import time
from statistics import quantiles

from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import RunningNode
from pdproto.transport.operator_port import OperatorPort
from tests.node.data_paths import Cluster, cluster, polls, published
from tests.waiting import until

OPEN, ASKED, MEASURED = 10_000, 30, 400


def get(port: OperatorPort, path: str) -> float:
    """Milliseconds until the answer is here."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection(port.host, port.port, timeout=30.0)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200, path
    return (time.perf_counter() - began) * 1e3


def loop_waits(node: RunningNode, until_set: threading.Event) -> list[float]:
    """Milliseconds until the loop has served a request, of requests every 1 ms until then."""
    waits, served = [], threading.Event()
    while not until_set.wait(0.001):
        began = time.perf_counter()
        node._core.ask(served.set)
        served.wait()
        waits.append((time.perf_counter() - began) * 1e3)
        served.clear()
    return waits


def asked_while_the_loop_is(
    node: RunningNode, port: OperatorPort, path: str
) -> tuple[list[float], list[float]]:
    """Milliseconds of each answer, and of each wait for the loop meanwhile; both sorted."""
    answers, over = [], threading.Event()

    def ask() -> None:
        for _ in range(ASKED):
            answers.append(get(port, path) if path else float(over.wait(0.05)))
        over.set()

    thread = threading.Thread(target=ask)
    thread.start()
    waits = loop_waits(node, over)
    thread.join()
    return sorted(answers), sorted(waits)


def handed_over(nodes: Cluster, room: int) -> float:
    """Milliseconds from opening both ends of a hand-over to Success at both."""
    began = time.perf_counter()
    (sender,), (receiver,) = nodes.senders(room), published(nodes.receivers(room))
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send([1, 2, 3])
    until(polls([sender, receiver], KVPoll.SUCCESS))
    took = (time.perf_counter() - began) * 1e3
    receiver.close()
    return took


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the result


def p99(of: list[float]) -> float:
    return quantiles(of, n=100)[98]


def main() -> None:
    """Print a line for each question, and the hand-overs' p99 with and without them."""
    logging.disable()  # at the end, all open hand-overs fail
    with cluster() as nodes:
        (prefill,), (decode,) = nodes.prefills, nodes.decodes
        for room in range(OPEN):
            nodes.receivers(room)
        until(lambda: len(prefill._node.lives) == OPEN)
        with OperatorPort(decode) as port:
            for path in ("", "/metrics", "/ready", "/debug/handoffs", "/debug/handoffs?room=7"):
                took, waits = asked_while_the_loop_is(decode, port, path)
                say(f"{path or 'no question'}: median {took[ASKED // 2]:.1f} ms, slowest "
                    f"{took[-1]:.1f} ms; the loop answers in {waits[len(waits) // 2]:.1f} ms in "
                    f"the median, {p99(waits):.1f} ms at p99, {waits[-1]:.1f} ms at most")
            for asking in (False, True, False, True):
                ending = threading.Event()

                def ask(ending: threading.Event = ending) -> None:
                    while not ending.wait(0.1):
                        get(port, "/metrics")

                thread = threading.Thread(target=ask)
                if asking:
                    thread.start()
                took = [handed_over(nodes, OPEN + n) for n in range(MEASURED)]
                ending.set()
                if asking:
                    thread.join()
                say(f"hand-overs {'with' if asking else 'without'} questions: "
                    f"p50 {sorted(took)[MEASURED // 2]:.1f} ms, p99 {p99(took):.1f} ms")


if __name__ == "__main__":
    main()
