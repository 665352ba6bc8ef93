"""Results that are hard to draw: many lanes, texts that break a renderer, and long names."""

from pdproto.check.result import (
    Arrow,
    Blocked,
    CheckResult,
    Finding,
    Lane,
    PropertyKind,
    Trace,
    Verdict,
)
from pdproto.spec.language.place import Place
from tests.check.report.made import change, result, step


def crowd(*, lanes: int = 12, steps: int = 60) -> CheckResult:
    """Many lanes, many steps: a token runs round a ring and is refused now and then."""
    names = [f"node n{number}" for number in range(lanes)]
    taken = []
    for number in range(steps):
        here, there = names[number % lanes], names[(number + 1) % lanes]
        before = None
        if number:
            before = Arrow(f"token({number - 1})", names[(number - 1) % lanes], (here,))
        taken.append(
            step(
                "pass on",
                here,
                parameters=f"n{number % lanes}",
                trigger=f"on token({number - 1})" if number else "",
                path="spec/examples/ring_election.py",
                received=before,
                sent=(Arrow(f"token({number})", here, (there,)),),
                changes=(change(here, f"seen[n{number % lanes}]", str(number), str(number + 1)),),
                holds={"one leader": number < steps - 1},
            )
        )
    trace = Trace(
        tuple(Lane(name, "node") for name in names),
        tuple(change(name, f"seen[{name.split()[-1]}]", "", "0") for name in names),
        tuple(taken),
    )
    return result(
        Finding(
            name="one leader",
            kind=PropertyKind.ALWAYS,
            claim="no two nodes lead",
            verdict=Verdict.VIOLATED,
            assurance=f"exhaustive for Node={lanes}",
            place=Place("spec/examples/ring_election.py", 33),
            trace=trace,
        ),
        system="ring-election",
        description="Nodes on a ring elect the one with the highest number.",
        sizes={"Node": lanes},
        depth=steps + 4,
    )


HOSTILE = (
    "</script><script>alert('x')</script>",
    "quote \" ' ` & <b>bold</b> ]]> <!-- -->",
    "two\nlines\r\nand\ta tab",
    "non-ASCII: naïve → 日本語 😀",
    "mermaid; end %% # : $$ @{ }->>+ <br/>",
    "escape \x1b[31mred\x1b[0m \x00 bell\x07",
    "direction \u202eleft, lone \ud800 half",
    "[bold]markup[/bold] \\[x] {{ braces }} ${x}",
)


def hostile() -> CheckResult:
    """Every text of a result is something that breaks a careless renderer."""
    script, quotes, lines, letters, mermaid, escapes, direction, markup = HOSTILE
    lanes = (Lane(script, mermaid), Lane(quotes, letters), Lane(lines, script))
    arrow = Arrow(mermaid, script, (quotes, lines))
    trace = Trace(
        lanes=lanes,
        start=(change(script, markup, "", escapes),),
        steps=(
            step(
                script,
                script,
                parameters=quotes,
                trigger=markup,
                why=mermaid,
                path=f"{letters}.py",
                fault=lines,
                sent=(arrow,),
                changes=(change(script, escapes, direction, mermaid),),
                holds={direction: True, mermaid: True},
            ),
            step(
                mermaid,
                quotes,
                why=escapes,
                path=f"{script}.py",
                received=arrow,
                lost=(Arrow(letters, quotes, (lines,)),),
                changes=(change(lines, markup, quotes, script),),
                holds={direction: False, mermaid: False},
            ),
        ),
        loop=1,
        blocked=(Blocked(markup, lines, lines, (script, escapes, letters)),),
        start_holds={direction: True},
    )
    return result(
        Finding(
            name=mermaid,
            kind=PropertyKind.ALWAYS,
            claim=script,
            verdict=Verdict.VIOLATED,
            assurance=quotes,
            place=Place(f"{quotes}.py", 1),
            trace=trace,
            instance=lines,
            note=direction,
        ),
        system=script,
        description=quotes,
        sizes={script: 2, letters: 3},
        faults=(lines,),
        rows_never_fired=(script, markup),
        row_places={script: Place(quotes, 7)},
        stopped=escapes,
        complete=False,
        reductions=(markup,),
    )


def long_names() -> CheckResult:
    """Names too long for any column."""
    sender = "transfer endpoint of prefill rank (stage 1, tensor 3), incarnation 2"
    receiver = "receiver of decode rank 7 for hand-off 12 of room 4096, second life"
    message = "publish_destinations_with_attachments(rank1, handoff12, life2, chunk31)"
    variable = "destination_pages_still_owned_by_the_previous_incarnation[rank1, handoff12]"
    trace = Trace(
        (Lane(sender, "source"), Lane(receiver, "sink")),
        (change(sender, variable, "", "true"),),
        (
            step(
                "introduce_the_receiver_before_it_has_any_memory",
                receiver,
                parameters="rank1, handoff12, life2, chunk31",
                trigger="timer waiting_for_the_registry_to_answer",
                why="a source must be able to tell this receiver about an abort or a timeout "
                "within one message delay, long before there is memory to write to",
                path="spec/handoff/sink_receiver_of_the_direct_mode.py",
                sent=(Arrow(message, receiver, (sender,)),),
                changes=(change(receiver, variable, "unknown_to_everyone", "registered"),),
            ),
            step(
                "accept_destinations",
                sender,
                received=Arrow(message, receiver, (sender,)),
                changes=(change(sender, variable, "true", "false"),),
                holds={"no remote writer ever touches a page that somebody else owns": False},
            ),
        ),
    )
    return result(
        Finding(
            name="no remote writer ever touches a page that somebody else owns",
            kind=PropertyKind.ALWAYS,
            claim="for each page g and lives l, m: written[g, l] and owned[g, m] implies l = m",
            verdict=Verdict.VIOLATED,
            assurance="exhaustive for Source=2, Sink=2, Life=2, Page=2, Chunk=2, Handoff=1",
            place=Place("spec/handoff/properties.py", 410),
            trace=trace,
            instance="g=page1, l=life1, m=life2",
        ),
        system="handoff-direct",
        description="One hand-off of a KV cache, written straight into pages.",
        sizes={"Source": 2, "Sink": 2, "Life": 2, "Page": 2, "Chunk": 2, "Handoff": 1},
    )
