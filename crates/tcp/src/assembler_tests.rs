use proptest::prelude::*;

use super::*;

fn span(start: u64, end: u64) -> Span {
    Span::new(start, end)
}

fn blocks(assembler: &mut Assembler) -> Vec<Span> {
    assembler.sack_blocks(SACK_BLOCKS_MAX).as_slice().to_vec()
}

#[test]
fn in_order_needs_no_blocks() {
    let mut assembler = Assembler::new(100);
    assert_eq!(assembler.insert(span(100, 200)), Arrival::InOrder { next: 200 });
    assert_eq!(blocks(&mut assembler), []);
    assert_eq!(assembler.insert(span(200, 200)), Arrival::Duplicate);
    assert!(!assembler.has_duplicate());
}

/// RFC 2018, case 2 of section 5: the first of eight segments of 500 octets is lost.
#[test]
fn one_growing_block() {
    let mut assembler = Assembler::new(5000);
    for start in (5500..9000).step_by(500) {
        assert_eq!(assembler.insert(span(start, start + 500)), Arrival::Early);
        assert_eq!(blocks(&mut assembler), [span(5500, start + 500)]);
    }
    assert_eq!(assembler.insert(span(5000, 5500)), Arrival::InOrder { next: 9000 });
    assert_eq!(blocks(&mut assembler), []);
}

/// RFC 2018, case 3: the second, fourth, sixth and eighth are lost; then the fourth and the second arrive.
#[test]
fn the_newest_block_is_first() {
    let mut assembler = Assembler::new(5000);
    assembler.insert(span(5000, 5500));
    assembler.insert(span(6000, 6500));
    assert_eq!(blocks(&mut assembler), [span(6000, 6500)]);
    assembler.insert(span(7000, 7500));
    assert_eq!(blocks(&mut assembler), [span(7000, 7500), span(6000, 6500)]);
    assembler.insert(span(8000, 8500));
    assert_eq!(blocks(&mut assembler), [span(8000, 8500), span(7000, 7500), span(6000, 6500)]);
    assembler.insert(span(6500, 7000));
    assert_eq!(blocks(&mut assembler), [span(6000, 7500), span(8000, 8500)]);
    assert_eq!(assembler.insert(span(5500, 6000)), Arrival::InOrder { next: 7500 });
    assert_eq!(blocks(&mut assembler), [span(8000, 8500)]);
}

/// RFC 2883 4.1.1: a segment below the cumulative acknowledgement arrives again.
#[test]
fn a_duplicate_is_reported_once() {
    let mut assembler = Assembler::new(4000);
    assert_eq!(assembler.insert(span(3000, 3500)), Arrival::Duplicate);
    assert_eq!(blocks(&mut assembler), [span(3000, 3500)]);
    assert_eq!(blocks(&mut assembler), []);
}

/// RFC 2883 4.1.3 and 4.2.2: duplicates above the acknowledgement name the interval that holds them second.
#[test]
fn an_early_duplicate_names_its_interval() {
    let mut assembler = Assembler::new(3000);
    assembler.insert(span(3500, 4500));
    assembler.insert(span(5000, 5500));
    assert_eq!(assembler.insert(span(4000, 4500)), Arrival::Duplicate);
    assert_eq!(blocks(&mut assembler), [span(4000, 4500), span(3500, 4500), span(5000, 5500)]);
    assert_eq!(assembler.insert(span(4000, 5200)), Arrival::Early);
    assert_eq!(blocks(&mut assembler), [span(4000, 4500), span(3500, 5500)]);
    assert_eq!(assembler.insert(span(2000, 3600)), Arrival::InOrder { next: 5500 });
    assert_eq!(blocks(&mut assembler), [span(2000, 3000)]);
}

#[test]
fn four_blocks_at_most_and_fewer_if_there_is_no_room() {
    let mut assembler = Assembler::new(0);
    for start in 1..10 {
        assembler.insert(span(start * 10, start * 10 + 5));
    }
    assert_eq!(blocks(&mut assembler), [span(90, 95), span(80, 85), span(70, 75), span(60, 65)]);
    assembler.insert(span(90, 92));
    assert_eq!(assembler.sack_blocks(3).as_slice(), [span(90, 92), span(90, 95), span(80, 85)]);
    assert_eq!(assembler.sack_blocks(0).as_slice(), []);
}

#[test]
fn beyond_the_bound_new_intervals_are_refused_and_others_are_not() {
    let mut assembler = Assembler::new(0);
    for index in 0..INTERVALS_MAX as u64 {
        assert_eq!(assembler.insert(span(index * 10 + 5, index * 10 + 8)), Arrival::Early);
    }
    assert_eq!(assembler.insert(span(1 << 20, (1 << 20) + 1)), Arrival::Refused);
    assert_eq!(assembler.insert(span(8, 9)), Arrival::Early);
    assert_eq!(assembler.insert(span(0, 5)), Arrival::InOrder { next: 9 });
    assert_eq!(assembler.insert(span(1 << 20, (1 << 20) + 1)), Arrival::Early);
}

const OCTETS: u64 = 300;

proptest! {
    /// Against a map of octets: what is next, what is held, what is new, and what the blocks say.
    #[test]
    fn agrees_with_a_bitmap(segments in prop::collection::vec((0..OCTETS, 1u64..40), 1..120)) {
        let mut assembler = Assembler::new(0);
        let mut map = vec![false; OCTETS as usize + 1];
        for (start, len) in segments {
            let segment = span(start, (start + len).min(OCTETS));
            let mut new = 0;
            assembler.for_each_new(segment, |part| {
                assert!((part.start..part.end).all(|octet| !map[octet as usize]));
                new += part.len();
            });
            let octets = || segment.start as usize..segment.end as usize;
            prop_assert_eq!(new as usize, map[octets()].iter().filter(|known| !**known).count());

            let arrival = assembler.insert(segment);
            let before = map.iter().position(|known| !known).unwrap() as u64;
            map[octets()].fill(true);
            let next = map.iter().position(|known| !known).unwrap() as u64;
            prop_assert_eq!(assembler.next(), next);
            let expected = match (new, next > before) {
                (0, _) => Arrival::Duplicate,
                (_, true) => Arrival::InOrder { next },
                (_, false) => Arrival::Early,
            };
            prop_assert_eq!(arrival, expected);
            prop_assert_eq!(assembler.has_duplicate(), new < segment.len());

            let held: Vec<u64> = assembler.held().iter().flat_map(|h| h.start..h.end).collect();
            let known: Vec<u64> = (next..OCTETS).filter(|octet| map[*octet as usize]).collect();
            prop_assert_eq!(held, known);
            prop_assert!(assembler.held().windows(2).all(|pair| pair[0].end < pair[1].start));

            let duplicates = usize::from(assembler.has_duplicate());
            let sacks = assembler.sack_blocks(SACK_BLOCKS_MAX);
            let recent = &sacks.as_slice()[duplicates..];
            prop_assert!(recent.iter().all(|block| assembler.held().contains(block)));
            if expected == Arrival::Early {
                prop_assert!(recent[0].covers(segment));
            }
            for (index, block) in recent.iter().enumerate() {
                prop_assert!(!recent[..index].contains(block));
            }
        }
    }
}
