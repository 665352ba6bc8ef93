"""The 79 examples of the public collection of TLA+ (github.com/tlaplus/Examples, its table of
validated examples, May 2026), by the names of their folders, and how each one is written here.

An example is natural if each of its variables and each of its actions is a variable and a row
here, with the words of the language and no stand-in. That one that is written is natural was seen;
the others were judged by their variables and actions, or by their description alone.
"""

from dataclasses import dataclass
from typing import Final

NO_STEPS: Final = "it has no steps: it evaluates definitions"
RECURSION: Final = "a recursive definition over the state"


@dataclass(frozen=True, slots=True)
class Example:
    """models: of ours, by name. lacks: the word that the language lacks; "" if it is natural."""

    folder: str
    models: tuple[str, ...] = ()
    lacks: str = ""


EXAMPLES: Final = (
    Example("acp", ("ACP_SB", "ACP_NB")),
    Example("aba-asyn-byz"),
    Example("allocator", ("SimpleAllocator",)),
    Example("Bakery-Boulangerie"),
    Example("barriers", ("Barrier",)),
    Example("bcastByz", ("bcastByz",)),
    Example("bcastFolklore"),
    Example("bosco"),
    Example("braf", lacks="a part of a list replaced by a part of another one"),
    Example("btree", lacks=RECURSION),
    Example("byihive", ("VoucherLifeCycle",)),
    Example("byzpaxos", ("Consensus", "VoteProof")),
    Example("c1cs"),
    Example("CarTalkPuzzle", lacks=NO_STEPS),
    Example("cbc_max"),
    Example("cf1s-folklore"),
    Example("Chameneos", ("Chameneos",)),
    Example("chang_roberts", ("ChangRoberts",)),
    Example("CheckpointCoordination"),
    Example("CigaretteSmokers", ("CigaretteSmokers",)),
    Example("CoffeeCan", ("CoffeeCan",)),
    Example("dag-consensus", lacks=RECURSION),
    Example("detector_chan96", lacks="all messages on their way grow older in one step"),
    Example("DieHard", ("DieHard",)),
    Example("dijkstra-mutex"),
    Example("DiningPhilosophers", ("DiningPhilosophers", "DiningPhilosophers, clean and dirty "
                                   "forks")),
    Example("diskpaxos"),
    Example("Disruptor", ("Disruptor_SPMC",)),
    Example("echo", ("Echo",)),
    Example("EinsteinRiddle", ("EinsteinRiddle",)),
    Example("ewd426", ("EWD426",)),
    Example("ewd687a"),
    Example("ewd840", ("EWD840", "SyncTerminationDetection")),
    Example("ewd998", ("EWD998, 2 nodes", "EWD998, 3 nodes", "EWD998, 3 nodes, published bounds",
                       "AsyncTerminationDetection")),
    Example("FiniteMonotonic", lacks="all numbers less by the least of them in one step"),
    Example("GameOfLife", lacks="an update of all cells by their neighbours: a row has a case for "
                                "each content of the board, so 3 by 3 is the largest"),
    Example("glowingRaccoon", ("glowingRaccoon, clean",)),
    Example("Huang", lacks="fractions, and bags of messages"),
    Example("KeyValueStore", ("KeyValueStore",)),
    Example("KnuthYao", lacks="a probability"),
    Example("lamport_mutex"),
    Example("LearnProofs", ("FindHighest",)),
    Example("LeastCircularSubstring"),
    Example("LevelChecking", lacks=NO_STEPS),
    Example("locks_auxiliary_vars", (
        "Lock", "LockHS, which refines Peterson", "Peterson", "Peterson with auxiliary steps")),
    Example("LoopInvariance", ("BinarySearch",)),
    Example("Majority", ("Majority",)),
    Example("MisraReachability", ("ParReach",)),
    Example("MissionariesAndCannibals", ("MissionariesAndCannibals",)),
    Example("Moving_Cat_Puzzle", ("Moving_Cat_Puzzle, 5 boxes", "Moving_Cat_Puzzle, 6 boxes")),
    Example("MultiCarElevator", ("Elevator, safety",)),
    Example("MultiPaxos-SMR", lacks="a message that carries a map"),
    Example("N-Queens", lacks="a set of lists as a value"),
    Example("NanoBlockchain", lacks="blocks that hold hashes of blocks: " + RECURSION),
    Example("nbacc_ray97", ("nbacc_ray97",)),
    Example("nbacg_guer01", ("nbacg_guer01",)),
    Example("Paxos", ("Consensus", "Voting, up to names")),
    Example("PaxosHowToWinATuringAward", (
        "Paxos", "Voting, which refines Consensus", "Consensus")),
    Example("Prisoners", ("Prisoners",)),
    Example("Prisoners_Single_Switch", (
        "Prisoners_Single_Switch", "Prisoners_Single_Switch, unknown light")),
    Example("ReadersWriters", ("ReadersWriters", "ReadersWriters, 2 actors")),
    Example("SDP_Verification", lacks="a message inside a message, as a value"),
    Example("SimplifiedFastPaxos", ("SimplifiedFastPaxos, its Paxos",)),
    Example("SingleLaneBridge", ("SingleLaneBridge",)),
    Example("SlidingPuzzles", ("SlidingPuzzles, 3 by 2",)),
    Example("SlushProtocol"),
    Example("spanning"),
    Example("SpanningTree", ("SpanningTree",)),
    Example("SpecifyingSystems", ("ABCorrectness", "AlternatingBit", "AsynchInterface",
                                  "HourClock", "InnerFIFO", "InternalMemory")),
    Example("Stones", lacks=NO_STEPS),
    Example("sums_even", lacks=NO_STEPS),
    Example("tcp"),
    Example("TeachingConcurrency", ("TeachingConcurrency, Simple",)),
    Example("TLC"),
    Example("tower_of_hanoi", ("TowerOfHanoi",)),
    Example("transaction_commit", ("TCommit", "TwoPhase")),
    Example("TransitiveClosure", lacks=NO_STEPS),
    Example("TwoPhase", ("TwoPhase, a handshake",)),
    Example("YoYo"),
)
