use proptest::prelude::*;

use super::*;

fn at(us: u64) -> Instant {
    Instant::from_us(us)
}

fn board(segments: u64) -> Scoreboard {
    let mut board = Scoreboard::new(1);
    for us in 0..segments {
        board.push(1000, at(us), SendSnapshot::default(), false).unwrap();
    }
    board
}

fn by_time(board: &Scoreboard) -> Vec<u32> {
    let mut found = Vec::new();
    let mut next = board.oldest_sent();
    while let Some(number) = next {
        found.push(number);
        next = board.sent_next(number);
    }
    found
}

#[test]
fn counts_follow_a_segments_life() {
    let mut board = board(5);
    assert_eq!((board.pipe(), board.nxt()), (5, 5001));
    assert!(board.mark_lost(0));
    assert!(!board.mark_lost(0), "no news");
    board.mark_sacked(2);
    assert_eq!((board.pipe(), board.lost_out(), board.sacked_out(), board.highest_sacked()), (3, 1, 1, 3001));
    assert_eq!(board.next_waiting(), Some(0));
    board.retransmitted(0, at(9), SendSnapshot::default(), false);
    assert_eq!((board.pipe(), board.retransmitted_out(), board.next_waiting()), (4, 1, None));
    assert_eq!(by_time(&board), [1, 3, 4, 0]);
    assert!(board.mark_lost(0), "the retransmission was lost too");
    assert_eq!((board.pipe(), board.lost_out(), board.retransmitted_out()), (3, 1, 0));
    board.pop_first();
    assert_eq!((board.una(), board.pipe(), board.lost_out()), (1001, 3, 0));
    board.trim_first(1501);
    assert_eq!((board.una(), board.span(1)), (1501, Span::new(1501, 2001)));
}

#[test]
fn a_late_original_forgets_the_loss() {
    let mut board = board(3);
    board.mark_lost(0);
    board.mark_lost(1);
    board.retransmitted(0, at(10), SendSnapshot::default(), false);
    board.forget_losses();
    assert_eq!((board.pipe(), board.lost_out(), board.waiting_out()), (4, 0, 0));
    assert_eq!(by_time(&board), [1, 2, 0]);
    // Its retransmission is still on the way when the original is SACKed.
    board.mark_sacked(0);
    assert_eq!((board.pipe(), board.retransmitted_out()), (3, 1));
    board.retransmission_arrived(0);
    assert_eq!((board.pipe(), board.retransmitted_out()), (2, 0));
}

#[test]
fn reneging_forgets_what_was_sacked() {
    let mut board = board(4);
    board.mark_sacked(0);
    board.mark_sacked(1);
    board.forget_sacks();
    assert_eq!((board.pipe(), board.sacked_out(), board.highest_sacked()), (4, 0, 1));
    assert_eq!(by_time(&board), [0, 1, 2, 3]);
    assert_eq!(board.next_missing(0, 4), Some(0));
}

#[test]
fn duplicate_acks_count_for_receivers_without_sack() {
    let mut board = board(4);
    assert!(!board.add_reno_sacks(3));
    assert_eq!(board.pipe(), 1);
    assert!(board.add_reno_sacks(1), "one segment at least is missing");
    assert_eq!(board.sacked_out(), 3);
    assert!(!board.remove_reno_sacks(3));
    assert_eq!(board.sacked_out(), 1);
}

#[test]
fn the_bound_is_refused_by_name() {
    let mut board = board(u64::from(SEGMENTS_MAX));
    assert_eq!(board.push(1, at(0), SendSnapshot::default(), false), Err(ScoreboardFull));
    board.pop_first();
    assert_eq!(board.push(1, at(0), SendSnapshot::default(), false), Ok(()));
    assert!(board.memory_bytes() < 2_700_000);
}

#[test]
fn memory_goes_back_when_nothing_is_in_flight() {
    let mut board = board(40);
    board.release_memory();
    assert!(board.memory_bytes() > 0);
    (0..40).for_each(|_| board.pop_first());
    board.release_memory();
    assert_eq!(board.memory_bytes(), 0);
    assert_eq!((board.next_waiting(), board.oldest_sent(), board.first()), (None, None, None));
    board.push(7, at(0), SendSnapshot::default(), false).unwrap();
    assert_eq!((board.nxt(), board.pipe()), (40_008, 1));
}

/// The same facts, kept plainly.
#[derive(Clone, Copy, Default)]
struct Plain {
    start: u64,
    len: u16,
    sacked: bool,
    lost: bool,
    retransmitted: bool,
    order: Option<u64>,
}

#[derive(Clone, Debug)]
enum Step {
    Push(u16),
    Lose(u8),
    Sack(u8),
    Retransmit,
    Pop,
    Trim(u16),
    ForgetLosses,
    ForgetSacks,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u16..2000).prop_map(Step::Push),
        4 => any::<u8>().prop_map(Step::Lose),
        4 => any::<u8>().prop_map(Step::Sack),
        4 => Just(Step::Retransmit),
        3 => Just(Step::Pop),
        1 => (1u16..100).prop_map(Step::Trim),
        1 => Just(Step::ForgetLosses),
        1 => Just(Step::ForgetSacks),
    ]
}

/// Every count, place and order of the board against the plain list, of which `popped` went before.
fn compare(board: &Scoreboard, plain: &[Plain], popped: u32) -> Result<(), TestCaseError> {
    let count = |of: fn(&Plain) -> bool| plain.iter().filter(|s| of(s)).count() as u32;
    prop_assert_eq!(board.segments() as usize, plain.len());
    prop_assert_eq!(board.sacked_out(), count(|s| s.sacked));
    prop_assert_eq!(board.lost_out(), count(|s| s.lost));
    prop_assert_eq!(board.retransmitted_out(), count(|s| s.retransmitted));
    prop_assert_eq!(board.waiting_out(), count(|s| s.lost && !s.retransmitted));
    for (index, segment) in plain.iter().enumerate() {
        let number = popped.wrapping_add(index as u32);
        let span = Span::new(segment.start, segment.start + u64::from(segment.len));
        prop_assert_eq!(board.span(number), span);
        prop_assert_eq!(board.first_from(span.start), number);
    }
    let missing = plain.iter().position(|s| !s.sacked).map(|index| popped.wrapping_add(index as u32));
    let end = popped.wrapping_add(plain.len() as u32);
    prop_assert_eq!(board.next_missing(popped, end), missing);
    // The list holds what has an order; what was never forgotten stands in that order.
    let listed: Vec<u64> =
        by_time(board).iter().map(|n| plain[n.wrapping_sub(popped) as usize].order.unwrap()).collect();
    prop_assert_eq!(listed.len(), plain.iter().filter(|s| s.order.is_some()).count());
    prop_assert!(listed.iter().filter(|o| **o > 0).is_sorted());
    Ok(())
}

proptest! {
    /// Random lives of segments against a list that keeps every fact plainly; offsets cross 2^32.
    #[test]
    fn agrees_with_a_plain_list(steps in prop::collection::vec(step(), 1..300)) {
        let begin = (1u64 << 32) - 5000;
        let mut board = Scoreboard::new(begin);
        let mut plain: Vec<Plain> = Vec::new();
        let (mut now, mut popped) = (0u64, 0u32);
        for step in steps {
            now += 1;
            let pick = |index: u8| (!plain.is_empty()).then(|| usize::from(index) % plain.len().max(1));
            match step {
                Step::Push(len) => {
                    plain.push(Plain { start: board.nxt(), len, order: Some(now), ..Plain::default() });
                    board.push(len, at(now), SendSnapshot::default(), false).unwrap();
                }
                Step::Lose(index) => if let Some(index) = pick(index) {
                    let segment = &mut plain[index];
                    let news = !segment.sacked && (!segment.lost || segment.retransmitted);
                    prop_assert_eq!(board.mark_lost(popped.wrapping_add(index as u32)), news);
                    if news {
                        (segment.lost, segment.retransmitted, segment.order) = (true, false, None);
                    }
                },
                Step::Sack(index) => if let Some(index) = pick(index) {
                    board.mark_sacked(popped.wrapping_add(index as u32));
                    let segment = &mut plain[index];
                    if !segment.sacked {
                        segment.retransmitted &= !segment.lost;
                        (segment.sacked, segment.lost, segment.order) = (true, false, None);
                    }
                },
                Step::Retransmit => if let Some(number) = board.next_waiting() {
                    let index = plain.iter().position(|s| s.lost && !s.retransmitted).unwrap();
                    prop_assert_eq!(number, popped.wrapping_add(index as u32));
                    board.retransmitted(number, at(now), SendSnapshot::default(), false);
                    (plain[index].retransmitted, plain[index].order) = (true, Some(now));
                },
                Step::Pop => if !plain.is_empty() {
                    board.pop_first();
                    plain.remove(0);
                    popped = popped.wrapping_add(1);
                },
                Step::Trim(cut) => if plain.first().is_some_and(|s| s.len > cut) {
                    plain[0].start += u64::from(cut);
                    plain[0].len -= cut;
                    board.trim_first(plain[0].start);
                },
                Step::ForgetLosses => {
                    board.forget_losses();
                    for segment in plain.iter_mut().filter(|s| s.lost) {
                        segment.lost = false;
                        segment.order = segment.order.or(Some(0));
                    }
                }
                Step::ForgetSacks => {
                    board.forget_sacks();
                    for segment in plain.iter_mut().filter(|s| s.sacked) {
                        (segment.sacked, segment.order) = (false, Some(0));
                    }
                }
            }
            compare(&board, &plain, popped)?;
        }
    }
}
