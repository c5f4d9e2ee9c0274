"""Corners of the protocol in which a group could fork, lose what was delivered, or stop for ever.

Each test is a schedule that once did so, packet by packet: who hears what, who crashes, who votes with whom.
"""

from __future__ import annotations

import pytest

from plainchant.core.model import MS
from plainchant.protocols.sequencer.packets import (
    Ack,
    Announce,
    AskJoin,
    AskLeave,
    Broadcast,
    Change,
    Elected,
    Entry,
    Excluded,
    Invite,
    Nack,
)
from tests.protocols.sequencer.by_hand import GROUP, Letter, broadcast, to

from .packets_by_hand import Script, either, of_type, outside


def everything(letter: Letter) -> bool:
    return True


# --- one history ----------------------------------------------------------------------------------------------------


def test_a_winner_whom_the_view_in_force_lets_go_goes() -> None:
    # p3 leaves and holds the view that lets it go, but not the permission. Its coordinator elects it and says that the view
    # is in force. It may leave then, and has no office to begin.
    group = Script("p1", "p2", "p3")
    group.broadcast("a")
    group["p3"].leave(GROUP)
    group.carry(lose=either(of_type(Announce, to="p3"), of_type(Excluded)))
    assert group.views("p2") == [("p1", "p2", "p3"), ("p1", "p2")]
    assert (group["p3"].log.contiguous, group.has_left("p3")) == (2, False)
    group.kill("p1")
    group.bring(Letter("p2", "p3", Invite(GROUP, 2, False)))
    group.bring(Letter("p2", "p3", Elected(GROUP, 2, ("p2", "p3"), 2, 2, 2, "p1 is silent")))
    assert group.has_left("p3")
    assert group.sequencers() == []


def _second_epoch_known_through_the_third() -> Script:
    """All have 1 to 8; a and b have 9 and 10; p1 and N have p1's 11 to 20. c has a's view at 11, of the epoch after the first,
    which it got from b in the third."""
    group = Script("p1", "N", "a", "b", "c", history=64)
    group.broadcast(*"12345678", by="p1")
    group.broadcast("9", "10", by="p1", lose=to("c"))
    group.broadcast(*(str(number) for number in range(11, 21)), by="p1", lose=outside("p1", "N"))
    begins = group.vote("a", "b", "c")
    group.carry_these(begins, lose=lambda letter: (letter.source, letter.target) != ("a", "b"))
    begins = group.vote("b", "a", "c")
    group.carry_these(
        begins, lose=either(outside("b", "c"), lambda letter: isinstance(letter.packet, Broadcast) and letter.packet.number == 12)
    )
    return group


def test_a_history_that_holds_a_later_epoch_wins_over_a_longer_one() -> None:
    # c came through the beginning of a's epoch while it followed b's. Its history is that of a's epoch, not a prefix of p1's,
    # which has something else at number 11; and that epoch may have decided.
    group = _second_epoch_known_through_the_third()
    assert group["c"].status(9, trial=True).synced == (group["a"].epoch, "a")
    group.vote("N", "p1", "c")
    assert group["c"].office is not None
    assert group["N"].office is None


def test_two_views_of_one_number_are_never_installed() -> None:
    # p1 and N delivered other messages at 11 and beyond than the group that went on without them. They must not vote for its
    # views as if they held them, nor deliver its order on top of theirs: they stop, and the majority goes on.
    group = _second_epoch_known_through_the_third()
    group.carry_these(group.vote("N", "p1", "c"), lose=outside("p1", "N", "c"))
    group.pass_time(60, lose=outside("p1", "N", "c"))
    group.assert_one_history()
    assert group.views("c") == [("p1", "N", "a", "b", "c")]
    for name in ("p1", "N"):
        reason = group.halted(name)
        assert reason is not None
        assert reason.code == "diverged"
    group.wait_until(lambda: all(group.last_view(name) == ("a", "b", "c") for name in ("a", "b", "c")))
    group.broadcast("after", by="a")
    group.assert_one_history()
    assert [group.delivered(name)[-1] for name in ("a", "b", "c")] == ["after"] * 3


@pytest.mark.parametrize("holds", [False, True], ids=["knows-of-them", "holds-them"])
def test_a_permission_of_an_earlier_epoch_permits_nothing_in_a_later_one(holds: bool) -> None:
    # X heard from p1 that numbers up to 20 are permitted. Number 11 of epoch 2 is an undecided view: X's vote for epoch 3 must
    # not put it in force, because the others (p1, X and c are a majority too) decide on another.
    group = Script("p1", "X", "a", "b", "c", history=64)
    group.broadcast(*(str(number) for number in range(10)), by="p1")
    group.broadcast(*(str(number) for number in range(10, 20)), by="p1", lose=outside("p1", "X") if holds else everything)
    for _ in range(2):  # a sequencer that is not busy announces its highest number
        group.expire("p1", "tick", lose=either(outside("p1", "X"), of_type(Nack)))
    assert group["X"].allowed == 20
    begins = group.vote("a", "b", "c")
    group.carry_these(begins, lose=lambda letter: (letter.source, letter.target) != ("a", "b"))
    begins = group.vote("b", "a", "X")
    group.carry_these(begins, lose=outside("a", "b"))
    group.pass_time(60, lose=outside("a", "b"))
    assert len(group.views("a")) == len(group.views("b")) == 1
    group.carry_these(group.vote("p1", "X", "c"), lose=outside("p1", "X", "c"))
    group.pass_time(60, lose=outside("p1", "X", "c"))
    assert [group.last_view(name) for name in ("p1", "X", "c")] == [("p1", "X", "c")] * 3
    group.pass_time(2000)
    group.assert_one_history()


def test_numbers_are_accepted_only_from_the_sequencer_that_is_followed() -> None:
    # p4 and p5 leave; p3 has not heard of it and gathers p4 and p5 for an election, while p2 gathers p1, twice. Both
    # make an epoch 7 (of two rounds of three, and of one of five). p1 follows p2 and takes nothing from p4, whose epoch bears the
    # same number.
    group = Script("p1", "p2", "p3", "p4", "p5")
    group.broadcast("a", "b", "c")
    group.leave_together(
        "p1",
        "p4",
        "p5",
        lose=either(to("p3"), of_type(Excluded), lambda letter: isinstance(letter.packet, Announce) and letter.target != "p2"),
    )
    assert [len(group.views(name)) for name in group.members] == [2, 2, 1, 1, 1]
    theirs = group.vote("p3", "p4", "p5")
    group.carry_these(group.vote("p2", "p1"), lose=either(outside("p1", "p2"), of_type(Broadcast, Ack)))
    ours = group.vote("p2", "p1")
    assert group.sequencers() == ["p2", "p4"]
    assert group["p2"].epoch == group["p4"].epoch == 7
    group.carry_these(ours, lose=either(outside("p1", "p2"), of_type(Broadcast, Ack)))
    assert group["p1"].sequencer == "p2"
    group.carry_these(theirs, lose=lambda letter: (letter.source, letter.target) != ("p4", "p1"))
    group.expire("p4", "tick", lose=lambda letter: letter.target != "p1")
    assert (group["p1"].sequencer, group["p1"].log.contiguous, group["p1"].log.highest) == ("p2", 4, 4)
    group.pass_time(100, lose=outside("p1", "p2"))
    assert group.last_view("p1") == group.last_view("p2") == ("p1", "p2")
    group.pass_time(2000)
    group.assert_one_history()


def _two_others_hold_number_4(last: int) -> Script:
    """With resilience 2. K is number 4 at s1 and s2 alone when epoch 2 puts a view there, at s4. In epoch 3 s1 brings its 4 to
    s3 too, and numbers up to ``last`` to both."""
    group = Script("s1", "s2", "s3", "s4", "s5", resilience=2, history=64)
    group.broadcast("a", "b", "c", by="s2")
    group.broadcast("K", by="s1", lose=lambda letter: letter.target != "s2")
    assert [group[name].log.contiguous for name in group.members] == [4, 4, 3, 3, 3]
    begins = group.vote("s5", "s3", "s4")
    group.carry_these(begins, lose=lambda letter: (letter.source, letter.target) != ("s5", "s4"))
    begins = group.vote("s1", "s2", "s3")
    group.carry_these(
        begins,
        lose=either(
            outside("s1", "s2", "s3"), lambda letter: isinstance(letter.packet, Broadcast) and letter.packet.number > last
        ),
    )
    assert [group[name].log.contiguous for name in ("s1", "s2", "s3", "s4")] == [5, last, last, 4]
    return group


def test_with_resilience_holders_of_an_old_epochs_number_do_not_permit_it() -> None:
    # s2 and s3 hold K but not the beginning of epoch 3. The later epoch of s4's history wins over theirs, and K is lost with
    # s1's crash: nobody may have delivered it (Raft's figure 8).
    group = _two_others_hold_number_4(last=4)
    assert not any("K" in group.delivered(name) for name in group.members)
    group.kill("s1")
    group.carry_these(group.vote("s5", "s2", "s3", "s4"))
    assert group["s4"].office is not None
    assert not any("K" in group.delivered(name) for name in group.members)


def test_with_resilience_nothing_that_anybody_delivered_is_lost() -> None:
    # s2 and s3 hold K and the beginning of epoch 3 after it, a view of s1, s2 and s3: now K is delivered, and outlives s1.
    group = _two_others_hold_number_4(last=5)
    assert group.delivered("s1") == ["a", "b", "c", "K"]
    group.kill("s1")
    group.wait_until(lambda: group.last_view("s2") == group.last_view("s3") == ("s2", "s3"))
    assert group.delivered("s2") == group.delivered("s3") == ["a", "b", "c", "K"]
    group.assert_one_history()


# --- the group lives on ---------------------------------------------------------------------------------------------


def test_a_joiner_that_was_let_in_votes() -> None:
    # q1 and q2 are let in; p1 crashes before they hear that their view is in force. Four of the five members are there: the
    # joiners' votes are needed, and the group lives on.
    group = Script("p1", "p2", "p3")
    group.broadcast("a", "b", "c")
    group.enter("q1")
    group.enter("q2")
    group.carry(lose=either(of_type(Announce, to="q1"), of_type(Announce, to="q2")))
    assert group.last_view("p2") == ("p1", "p2", "p3", "q1", "q2")
    assert group.views("q1") == group.views("q2") == []
    group.kill("p1")
    survivors = ("p2", "p3", "q1", "q2")
    group.wait_until(lambda: all(survivors in group.views(name) for name in survivors))
    group.broadcast("after", by="q1")
    assert [group.delivered(name)[-1] for name in survivors] == ["after"] * 4
    group.assert_one_history()


def test_a_joiner_that_does_not_know_yet_that_it_is_in_is_not_elected() -> None:
    # Of a view with q1 and q2 only q1 has heard that it is in force; p1 and p2, who decided on it, crash. q1 wants to leave and
    # would rather have somebody else elected, but q2 cannot serve yet and p3 lacks the view. The three go on all the same.
    group = Script("p1", "p2", "p3")
    group.enter("q1")
    group.enter("q2")
    group.carry(lose=either(of_type(Announce, to="q2"), of_type(Broadcast, Announce, to="p3")))
    assert [len(group.views(name)) for name in ("p1", "p2", "p3", "q1", "q2")] == [2, 2, 1, 1, 0]
    group.kill("p1")
    group.kill("p2")
    group["q1"].leave(GROUP)
    group.wait_until(lambda: group.has_left("q1"))
    group.wait_until(lambda: group.last_view("p3") == group.last_view("q2") == ("p3", "q2"))
    group.assert_one_history()


def test_a_late_request_of_an_old_incarnation_evicts_nobody() -> None:
    # p3 crashes, comes back as p3#1, which crashes too, and as p3#2, which is let in. Then the AskJoin of p3#1 arrives. It is
    # a packet from the dead: p3#2 stays.
    group = Script("p1", "p2", "p3")
    group.pass_time(100)  # they have heard of each other
    group.kill("p3")
    group.enter("p3#1")
    late = [letter for letter in group.mail if letter.target == "p1"]
    group.mail.clear()
    group.kill("p3#1")
    group.pass_time(400)
    group.enter("p3#2")
    group.carry()
    group.pass_time(200)
    members = ("p1", "p2", "p3#2")
    assert [group.last_view(name) for name in members] == [members] * 3
    group.carry_these(late)
    group.pass_time(300)
    assert [group.last_view(name) for name in members] == [members] * 3
    assert group.halted("p3#2") is None


def test_a_process_that_is_let_in_twice_goes_out() -> None:
    # q was a member, was excluded for its silence, and does not know; then a late copy of its AskJoin lets it in again. What
    # was delivered between the two it can never get: it stops instead of going on with a hole.
    group = Script("p1", "p2", "p3")
    group.enter("q")
    again = [letter for letter in group.mail if letter.target == "p1"]
    group.carry()
    assert group.last_view("q") == ("p1", "p2", "p3", "q")
    group.wait_until(lambda: group.last_view("p1") == ("p1", "p2", "p3"), lose=outside("p1", "p2", "p3"))
    group.carry_these(again)
    reason = group.halted("q")
    assert reason is not None
    assert reason.code == "restarted"
    group.wait_until(lambda: all(group.last_view(name) == ("p1", "p2", "p3") for name in ("p1", "p2", "p3")))
    group.assert_one_history()


def test_a_history_that_is_full_while_a_view_is_proposed_does_not_block_for_ever() -> None:
    # p4 hears nothing, so that the history fills up. The time for a synchronisation phase comes while p5's leaving is being
    # decided. There has to be a phase afterwards: it excludes p4, and everything gets its number.
    group = Script("p1", "p2", "p3", "p4", "p5", history=8)

    def deaf(letter: Letter) -> bool:
        return (letter.source, letter.target) == ("p1", "p4")

    group.broadcast(*"0123", lose=deaf)
    group["p5"].leave(GROUP)
    group.say("p2", *(str(number) for number in range(4, 20)))
    leaving = group.carry(lose=deaf, keep=of_type(AskLeave))
    assert "sync" in group.hosts["p1"].timers
    late = either(deaf, of_type(Ack, to="p1"))
    group.carry_these(leaving, lose=late)
    group.expire("p1", "sync", lose=late)
    office = group["p1"].office
    assert office is not None
    assert office.proposed
    group.wait_until(lambda: group.last_view("p1") == ("p1", "p2", "p3"), lose=deaf)
    group.pass_time(100, lose=deaf)
    everybody_has = [str(number) for number in range(20)]
    assert [group.delivered(name) for name in ("p1", "p2", "p3")] == [everybody_has] * 3


def test_leavers_alone_do_not_decide_a_view() -> None:
    # p4 and p5 leave in one view, which p2 and p3 have not got. p1, p4 and p5 are a majority of the old view, but two of them
    # go: if p1 crashes now, nobody who stays knows. So they wait, and the four who are left go on together.
    group = Script("p1", "p2", "p3", "p4", "p5")
    group.broadcast("a", "b", "c")
    group.leave_together("p1", "p4", "p5", lose=to("p2", "p3"))
    assert len(group.views("p1")) == 1
    assert not group.has_left("p4")
    group.kill("p1")
    group.wait_until(lambda: group.has_left("p4") and group.has_left("p5"))
    group.wait_until(lambda: group.last_view("p2") == group.last_view("p3") == ("p2", "p3"))
    group.assert_one_history()


# --- late, lost and slow --------------------------------------------------------------------------------------------


def test_a_joiner_that_lost_patience_takes_the_next_welcome() -> None:
    # q is let in, but then hears nothing for so long that it gives its sequencer up; for the group it is a member. When it
    # hears the repeated welcome it has to listen again, not only to say that it has it.
    group = Script("p1", "p2", "p3")
    group.enter("q")
    group.carry(lose=either(of_type(Announce, to="q"), lambda letter: letter.source == "q" and isinstance(letter.packet, Ack)))
    group.pass_time(120, lose=outside("p1", "p2", "p3"))
    group["q"].follow_none()
    group.pass_time(500)
    assert group.views("q") == [("p1", "p2", "p3", "q")]
    assert group.views("p1") == [("p1", "p2", "p3"), ("p1", "p2", "p3", "q")]


def test_a_late_word_of_an_earlier_exclusion_does_not_deafen_a_joiner() -> None:
    # q has been let in and waits to hear that its view is in force. A late packet says that it was excluded in an earlier view.
    # That was another life.
    group = Script("p1", "p2", "p3")
    group.enter("q")
    group.carry(lose=of_type(Announce, to="q"))
    group.bring(Letter("p2", "q", Excluded(GROUP, 1, "not heard", "p2 speaks of an earlier view")))
    assert group["q"].follows
    assert group.sent("q", AskJoin) == [AskJoin(GROUP)]
    group.pass_time(100)
    assert group.views("q") == [("p1", "p2", "p3", "q")]


def test_a_coordinator_that_was_stopped_does_not_take_itself_for_a_minority() -> None:
    # p1 has crashed, and p2 coordinates. In its last round the whole machine room stops for longer than anybody's patience.
    # That time does not count: p3 is there, and both go on.
    group = Script("p1", "p2", "p3")
    group.broadcast("a")
    group.kill("p1")

    group.let_one_expire("p2", until=lambda: group["p2"].election is not None)
    election = group["p2"].election
    assert election is not None
    group.let_one_expire("p2", until=lambda: election.due >= election.deadline)
    group.time += 1500 * MS
    group.expire("p2", "election")
    assert group.halted("p2") is None
    group.wait_until(lambda: group.last_view("p2") == group.last_view("p3") == ("p2", "p3"))


def test_a_view_forgets_the_requests_of_those_who_left_and_of_nobody_else() -> None:
    # After a message of p4, p2 gets p4's leaving, q's joining and q's first message before it may install the first view. q is
    # not in that view, but its message is in the order: p2 must know it again if it is elected. p4 does not come back.
    group = Script("p1", "p2", "p3", "p4")
    leaves = Change(2, ("p1", "p2", "p3"), (), (("p4", "left", "p4 asked to leave"),), 0)
    joins = Change(3, ("p1", "p2", "p3", "q"), ("q",), (), 0)
    group.bring(Letter("p1", "p2", broadcast(1, "p4", "x")))
    for number, change in enumerate((leaves, joins), 2):
        group.bring(Letter("p1", "p2", Broadcast(GROUP, 1, number, 0, 0, Entry("p1", 0, None, change))))
    group.bring(Letter("p1", "p2", broadcast(4, "q", "a", request=1)))
    group.bring(Letter("p1", "p2", Announce(GROUP, 1, -1, (), ("p1", "p2", "p3", "p4"), 4, 0, 4, 0)))
    assert group.last_view("p2") == ("p1", "p2", "p3", "q")
    assert group["p2"].log.table == {"q": 1}


def test_a_joiner_that_was_let_in_is_as_patient_as_an_election_takes() -> None:
    # As before, but the joiners' clocks tick a moment before the members': they give their dead sequencer up first. They must
    # still be there when the members call the election, or nobody ever is a majority.
    group = Script("p1", "p2", "p3")
    group.broadcast("a", "b", "c")
    group.enter("a1")
    group.enter("a2")
    group.carry(lose=either(of_type(Announce, to="a1"), of_type(Announce, to="a2")))
    group.kill("p1")
    survivors = ("p2", "p3", "a1", "a2")
    group.wait_until(lambda: all(survivors in group.views(name) for name in survivors))
