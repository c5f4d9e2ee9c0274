"""Paper 002, 3.8: errors of its pseudo-code that change what happens, each as a run with our rule and as printed.

The numbers are those of ``errata.md``.
"""

from __future__ import annotations

from tests.protocols.dedos.runs import ONE_EACH, DedosRun, crash, fault, messages, modules, simulate, slow


def test_1_a_request_that_comes_twice_is_numbered_once() -> None:
    """Every packet arrives twice."""
    runs = {
        duplicates: simulate(
            "n1.a n2.s",
            messages("n2.s", 300),
            senders=("n2.s",),
            rules={"duplicates": duplicates},
            until=500,
            drain=2500,
            network={"duplicate": 1.0},
        )
        for duplicates in (True, False)
    }
    assert runs[True].is_good
    assert runs[True].ranks("n1.a") == [2]
    assert runs[False].violated == ["integrity"]
    assert runs[False].ranks("n1.a") == [2, 3]


def no_room(*, full_is_asked_again: bool) -> DedosRun:
    return simulate(
        "n1.s n1.a n2.a", messages("n1.s", 300, 12), senders=("n1.s",), network=ONE_EACH, until=500, drain=2500,
        elements=6, reserve=2, rules={"full_is_asked_again": full_is_asked_again}, faults=[slow("n2.a", 299, 8, 60)],
    )  # fmt: skip


def test_3_what_found_the_mailbox_full_is_stored_later() -> None:
    run = no_room(full_is_asked_again=True)
    assert run.is_good
    assert run.states("cannot store: full", "n2.r")
    assert len(run.delivered("n2.a")) == 12


def test_3_otherwise_nobody_asks_for_it_again() -> None:
    run = no_room(full_is_asked_again=False)
    assert run.violated == ["agreement"]
    assert len(run.delivered("n2.a")) < 12


def buffered(*, buffering: bool) -> int:
    """How many numbers are sent again when one of six is lost."""
    run = simulate(
        "n1.s n1.a n2.a", messages("n1.s", 300, 6, rate=2000), senders=("n1.s",), rules={"buffering": buffering}, until=500,
        network=ONE_EACH, faults=[fault("omit", 299, process="n2.r", packet="Multicast")],
    )  # fmt: skip
    assert run.is_good
    return len(run.of("retransmit"))


def test_3_and_4_2_what_comes_early_is_kept() -> None:
    kept, discarded = buffered(buffering=True), buffered(buffering=False)
    assert kept == 1
    assert discarded > kept


def test_5_a_late_acknowledgement_takes_nothing_back() -> None:
    """The acknowledgement of 2 is overtaken by that of 3. Without ``tail`` the distributor does not ask again."""
    runs = {
        maximum: simulate(
            "n1.s n1.a n2.a", messages("n1.s", 300), messages("n1.s", 310), senders=("n1.s",),
            rules={"maximum": maximum, "tail": False}, until=600, drain=2500,
            faults=[fault("clog", 311, source="n2.r", target="n1.r", delay=60, length=5)],
        )
        for maximum in (True, False)
    }  # fmt: skip
    assert runs[True].is_good
    assert runs[False].summary.not_quiet == {"n1.r": "n2 has not acknowledged all of g"}


def test_16_the_last_message_is_lost_and_nobody_sends_another() -> None:
    """Nothing shows n2 that it has missed something, unless the distributor says how far it is."""
    runs = {
        tail: simulate(
            "n1.s n1.a n2.a",
            messages("n1.s", 300),
            senders=("n1.s",),
            rules={"tail": tail},
            until=500,
            drain=2500,
            faults=[fault("omit", 299, process="n2.r", packet="Multicast")],
        )
        for tail in (True, False)
    }
    assert runs[True].is_good
    assert runs[False].violated == ["agreement"]
    assert runs[False].delivered("n2.a") == []


def test_8_who_restores_finds_what_others_have_restored() -> None:
    """n2.a and n2.b have read the same. The one who comes second finds everything there, and has to set its flags."""
    runs = {
        own_flag: simulate(
            "n1.s n1.a n2.a n2.b", messages("n1.s", 300, 3), senders=("n1.s",), network=ONE_EACH, rules={"own_flag": own_flag},
            until=600, faults=[slow("n1.a", 299, 10, 60), *modules(315, "n2/1")], drain=2500,
        )
        for own_flag in (True, False)
    }  # fmt: skip
    assert runs[True].is_good
    assert runs[False].delivered("n2.a") == runs[False].delivered("n2.b") == [("n1.s", seq) for seq in (1, 2, 3)]
    assert runs[False].summary.not_quiet["n2.r"].startswith("receivers of g on n2 have read up to"), "they have read all of it"


def test_9_who_has_crashed_is_deleted_from_all_boxes() -> None:
    runs = {
        delete_everywhere: simulate(
            "n1.s n1.a n2.a n2.b", messages("n1.s", 500), senders=("n1.s",), rules={"delete_everywhere": delete_everywhere},
            until=600, faults=[*crash(300, "n2.b"), *modules(400, "n2/1")], drain=2500,
        )
        for delete_everywhere in (True, False)
    }  # fmt: skip
    assert runs[True].is_good
    assert runs[False].delivered("n2.a") == [], "the spare box waits for n2.b to restore"
    assert runs[False].violated == ["agreement"]


def left(*, leave_restores: bool) -> DedosRun:
    """n1.b has read what n1.a has not, and n2 has not got; it leaves, and the box, the distributor and the sender crash."""
    return simulate(
        "n1.a n1.b n2.a n2.s", messages("n2.s", 300), senders=("n2.s",), rules={"leave_restores": leave_restores}, until=700,
        faults=[
            fault("cut", 299, source="n1.r", target="n2.r", length=50), slow("n1.a", 299, 8, 40),
            fault("leave", 304, process="n1.b"), *modules(315, "n1/1"), *crash(315, "n1.r", "n2.s"),
        ],
    )  # fmt: skip


def test_9_who_leaves_restores_what_it_keeps() -> None:
    run = left(leave_restores=True)
    assert run.is_good
    assert [run.delivered(process) for process in ("n1.b", "n1.a", "n2.a")] == [[("n2.s", 1)]] * 3
    assert run.summary.processes["n1.b"].state == "left"


def test_9_otherwise_it_takes_a_message_along() -> None:
    run = left(leave_restores=False)
    assert [run.delivered(process) for process in ("n1.b", "n1.a", "n2.a")] == [[("n2.s", 1)], [], []]


def test_11_a_node_acknowledges_up_to_the_first_number_that_somebody_lacks() -> None:
    """n2.a leaves and is slow: what comes after its leave is for nobody on n2, and so has been read by all."""
    runs = {
        contiguous: simulate(
            "n1.s n1.a n2.a", messages("n1.s", 300), messages("n1.s", 310), messages("n1.s", 320), senders=("n1.s",), until=700,
            drain=2500, rules={"contiguous": contiguous},
            faults=[fault("leave", 300, process="n2.a"), slow("n2.a", 300.3, 20, 200)],
        )
        for contiguous in (True, False)
    }  # fmt: skip
    assert runs[True].is_good
    assert runs[True].delivered("n2.a") == [("n1.s", 1)]
    assert runs[False].violated == ["agreement"]
    assert runs[False].delivered("n2.a") == []


def test_11_a_node_without_receivers_acknowledges_too() -> None:
    runs = {
        senderless: simulate(
            "n1.a n2.s",
            messages("n2.s", 300, 12),
            senders=("n2.s",),
            network=ONE_EACH,
            rules={"senderless_acks": senderless},
            history=4,
            until=500,
            drain=2500,
        )
        for senderless in (True, False)
    }
    assert runs[True].is_good
    assert runs[False].violated == ["validity"]
    assert len(runs[False].delivered("n1.a")) == 3, "the history is full for ever"


def test_11_what_only_the_local_receivers_have_read_is_kept() -> None:
    """n1.a has read it, and n2 has not got it, when distributor and sender crash."""
    runs = {
        wait_for_all: simulate(
            "n1.a n2.a n2.s", messages("n2.s", 300), senders=("n2.s",), rules={"wait_for_all": wait_for_all}, until=700,
            faults=[fault("cut", 299, source="n1.r", target="n2.r", length=50), *crash(340, "n1.r", "n2.s")],
        )
        for wait_for_all in (True, False)
    }  # fmt: skip
    assert runs[True].is_good
    assert runs[True].delivered("n2.a") == [("n2.s", 1)]
    assert runs[False].delivered("n2.a") == [], "nobody has it any more"
    assert runs[False].halted() == ["n2.a"], "and so n2 cannot go on"


def test_12_messages_without_a_number_go_with_their_sender() -> None:
    """The request is lost, sender and distributor crash: nobody will ever number it, and it would stay in all boxes."""
    runs = {
        drop: simulate(
            "n1.a n2.a n2.s",
            messages("n2.s", 300),
            senders=("n2.s",),
            rules={"drop_unnumbered": drop},
            until=700,
            drain=2500,
            faults=[fault("omit", 299, process="n1.r", packet="McRequest"), *crash(305, "n2.s", "n1.r")],
        )
        for drop in (True, False)
    }
    assert runs[True].is_good
    assert runs[False].summary.not_quiet == {"n2.r": "1 messages of g on n2 have no number"}


def test_12_who_dies_between_request_and_multicast_is_heard_like_one_from_elsewhere() -> None:
    runs = {
        late_sender: simulate(
            "n1.a n2.a n2.s",
            messages("n2.s", 300),
            senders=("n2.s",),
            rules={"late_sender": late_sender},
            until=700,
            drain=2500,
            faults=[fault("clog", 299, source="n1.r", target="n2.r", delay=20, length=5), *crash(302, "n2.s")],
        )
        for late_sender in (True, False)
    }
    assert runs[True].is_good
    assert runs[True].delivered("n2.a") == [("n2.s", 1)]
    assert runs[False].violated == ["agreement"]
    assert runs[False].delivered("n2.a") == []


def test_13_only_uptodate_ends_the_synchronisation_phase() -> None:
    """n2 cannot hear the distributor for 60 ms; what it says meanwhile does not mean that it has everything."""
    runs = {
        only: simulate(
            "n1.s n1.a n2.a", messages("n1.s", 300, 10), senders=("n1.s",), rules={"only_up_to_date": only}, until=500,
            history=3, elements=8, reserve=2, network=ONE_EACH,
            faults=[fault("cut", 300.9, source="n1.r", target="n2.r", length=60)],
        )
        for only in (True, False)
    }  # fmt: skip
    assert runs[True].is_good
    assert runs[False].is_good
    ended = {only: [sync["at"] for sync in run.details("sync") if sync["stage"] == "end"] for only, run in runs.items()}
    cut_off = {only: [at for at in times if 303 < at < 360] for only, times in ended.items()}
    assert cut_off[True] == []
    assert cut_off[False], "a phase ends while n2 is cut off"
