//! What a receiver of numbered frames finds: gaps, repeats, frames out of order, wrong bytes.

use serde::Serialize;

use super::frame;

/// Numbers behind the newest one that are remembered, to tell a late frame from a repeated one.
const WINDOW: u64 = 64 * 64;

/// The findings; a number that comes after a later one was counted as lost and is taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Findings {
    /// Numbers that have not come.
    pub(crate) lost: u64,
    /// Frames that came after one with a higher number.
    pub(crate) reordered: u64,
    pub(crate) duplicated: u64,
    /// Frames whose filling is not the one of their number.
    pub(crate) corrupt: u64,
    /// Frames that the generator did not make.
    pub(crate) foreign: u64,
}

/// One stream of numbers.
pub(crate) struct Order {
    pub(crate) findings: Findings,
    /// The number that comes next in order; none before the first frame.
    next: Option<u64>,
    /// Which of the last WINDOW numbers have come.
    seen: Box<[u64]>,
    check_bytes: bool,
}

impl Order {
    pub(crate) fn new(check_bytes: bool) -> Order {
        Order { findings: Findings::default(), next: None, seen: vec![0; (WINDOW / 64) as usize].into(), check_bytes }
    }

    /// A frame has come. Returns when it was sent, if it is one of ours.
    #[inline]
    pub(crate) fn frame(&mut self, bytes: &[u8]) -> Option<u64> {
        let Some(tag) = frame::tag(bytes) else {
            self.findings.foreign += 1;
            return None;
        };
        if self.check_bytes && !frame::is_filled(bytes, tag.number) {
            self.findings.corrupt += 1;
        }
        let next = self.next.unwrap_or(tag.number);
        if tag.number == next {
            self.mark(next);
            self.next = Some(next.wrapping_add(1));
        } else {
            self.out_of_order(tag.number, next);
        }
        Some(tag.sent_ns)
    }

    #[cold]
    fn out_of_order(&mut self, number: u64, next: u64) {
        if number > next {
            let gap = number - next;
            (next..next + gap.min(WINDOW)).for_each(|missing| self.forget(missing));
            self.findings.lost += gap;
            self.mark(number);
            self.next = Some(number.wrapping_add(1));
        } else if next - number > WINDOW || self.has_come(number) {
            self.findings.duplicated += 1;
        } else {
            self.mark(number);
            self.findings.reordered += 1;
            // What came before the first frame that was seen was never missed.
            self.findings.lost = self.findings.lost.saturating_sub(1);
        }
    }

    fn cell(number: u64) -> (usize, u64) {
        ((number % WINDOW / 64) as usize, 1 << (number % 64))
    }

    fn mark(&mut self, number: u64) {
        let (word, bit) = Order::cell(number);
        self.seen[word] |= bit;
    }

    fn forget(&mut self, number: u64) {
        let (word, bit) = Order::cell(number);
        self.seen[word] &= !bit;
    }

    fn has_come(&self, number: u64) -> bool {
        let (word, bit) = Order::cell(number);
        self.seen[word] & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;
    use ringway_wire::MacAddress;

    use super::frame::{Addresses, Tag, Template};
    use super::*;

    fn template() -> Template {
        let end = (Ipv4Addr::LOCALHOST, 9);
        let (source_mac, destination_mac) = (MacAddress([2; 6]), MacAddress([4; 6]));
        Template::new(&Addresses { source_mac, destination_mac, source: end, destination: end }, 80, 1).unwrap()
    }

    fn findings(numbers: impl IntoIterator<Item = u64>) -> Findings {
        let (mut order, mut template) = (Order::new(true), template());
        for number in numbers {
            template.fill(number);
            assert_eq!(order.frame(template.number(Tag { number, sent_ns: 5 })), Some(5));
        }
        order.findings
    }

    #[test]
    fn gaps_repeats_and_late_frames_are_told_apart() {
        assert_eq!(findings(0..10_000), Findings::default());
        assert_eq!(findings([0, 1, 5]), Findings { lost: 3, ..Findings::default() });
        assert_eq!(findings([0, 1, 1, 2]), Findings { duplicated: 1, ..Findings::default() });
        assert_eq!(findings([0, 2, 1, 3]), Findings { reordered: 1, ..Findings::default() });
        assert_eq!(findings([0, 9_000, 1]), Findings { lost: 8_999, duplicated: 1, ..Findings::default() });
        let mut order = Order::new(true);
        assert_eq!(order.frame(&[0; 100]), None);
        order.frame(template().number(Tag { number: 3, sent_ns: 0 }));
        assert_eq!(order.findings, Findings { foreign: 1, corrupt: 1, ..Findings::default() });
    }

    proptest! {
        /// Every order of some numbers with repeats, none further apart than the window.
        #[test]
        fn nothing_is_counted_twice(numbers in prop::collection::vec(1u64..500, 1..300)) {
            let found = findings(std::iter::once(0).chain(numbers.iter().copied()));
            let mut distinct = numbers.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(found.duplicated as usize, numbers.len() - distinct.len());
            prop_assert_eq!(found.lost, distinct.last().unwrap() - distinct.len() as u64);
        }
    }
}
