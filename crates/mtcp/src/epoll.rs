//! Epoll sets: interests by socket number, and a queue of those that may be ready. Levels and edges, as Linux's.

use std::collections::VecDeque;

use crate::errno::{Errno, Result};

pub(crate) const ONESHOT: u32 = 1 << 30;
pub(crate) const EDGE: u32 = 1 << 31;
/// Reported even if nobody asks: errors and hang-ups.
const ALWAYS: u32 = 0x018;
/// `IN` and `OUT` by their other names.
const SYNONYMS: [(u32, u32); 2] = [(0x001, 0x040), (0x004, 0x100)];

/// `struct mtcp_epoll_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EpollEvent {
    pub(crate) events: u32,
    pub(crate) data: u64,
}

const _: () = assert!(size_of::<EpollEvent>() == 16);

#[derive(Clone, Copy, Debug)]
struct Interest {
    wanted: EpollEvent,
    /// The ticket of its place in the queue; 0 if it has none.
    ticket: u64,
    /// A one-shot that was reported.
    is_spent: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Epoll {
    interests: Vec<Option<Interest>>,
    /// Members and their tickets. Who leaves does not look for its place: a place whose ticket is another than its
    /// member's is passed over.
    queue: VecDeque<(usize, u64)>,
    last_ticket: u64,
}

impl Epoll {
    fn interest(&mut self, socket: usize) -> Option<&mut Interest> {
        self.interests.get_mut(socket)?.as_mut()
    }

    /// # Errors
    /// `EEXIST`.
    pub(crate) fn add(&mut self, socket: usize, wanted: EpollEvent) -> Result<()> {
        if self.interest(socket).is_some() {
            return Err(Errno(libc::EEXIST));
        }
        if socket >= self.interests.len() {
            self.interests.resize(socket + 1, None);
        }
        self.interests[socket] = Some(Interest { wanted, ticket: 0, is_spent: false });
        self.mark(socket);
        Ok(())
    }

    /// # Errors
    /// `ENOENT`.
    pub(crate) fn change(&mut self, socket: usize, wanted: EpollEvent) -> Result<()> {
        let interest = self.interest(socket).ok_or(Errno(libc::ENOENT))?;
        (interest.wanted, interest.is_spent) = (wanted, false);
        self.mark(socket);
        Ok(())
    }

    /// # Errors
    /// `ENOENT`.
    pub(crate) fn remove(&mut self, socket: usize) -> Result<()> {
        let place = self.interests.get_mut(socket).and_then(Option::take);
        place.map(drop).ok_or(Errno(libc::ENOENT))
    }

    /// Something happened at a socket: it is looked at in the next wait.
    pub(crate) fn mark(&mut self, socket: usize) {
        let ticket = self.last_ticket + 1;
        if let Some(interest) = self.interest(socket)
            && interest.ticket == 0
            && !interest.is_spent
        {
            interest.ticket = ticket;
            self.last_ticket = ticket;
            self.queue.push_back((socket, ticket));
        }
        if self.queue.len() > self.interests.len() * 2 {
            let interests = &self.interests;
            self.queue.retain(|(socket, ticket)| interests[*socket].is_some_and(|i| i.ticket == *ticket));
        }
    }

    /// Reports the sockets in the queue that are ready by `level`; those with levels stay in it.
    pub(crate) fn report(&mut self, out: &mut [EpollEvent], mut level: impl FnMut(usize) -> u32) -> usize {
        let mut count = 0;
        for _ in 0..self.queue.len() {
            if count == out.len() {
                break;
            }
            let Some((socket, ticket)) = self.queue.pop_front() else { break };
            let Some(interest) = self.interest(socket).filter(|interest| interest.ticket == ticket) else { continue };
            interest.ticket = 0;
            let level = level(socket);
            let named = SYNONYMS.iter().filter(|(bit, _)| level & bit != 0).fold(level, |all, (_, more)| all | more);
            let events = named & (interest.wanted.events | ALWAYS);
            if events == 0 {
                continue;
            }
            out[count] = EpollEvent { events, data: interest.wanted.data };
            count += 1;
            interest.is_spent = interest.wanted.events & ONESHOT != 0;
            if interest.wanted.events & EDGE == 0 {
                self.mark(socket);
            }
        }
        count
    }

    /// The sockets of the set.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = usize> {
        self.interests.iter().enumerate().filter_map(|(socket, interest)| interest.map(|_| socket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(events: u32) -> Epoll {
        let mut epoll = Epoll::default();
        epoll.add(3, EpollEvent { events, data: 77 }).unwrap();
        epoll
    }

    fn look(epoll: &mut Epoll, level: u32) -> Vec<u32> {
        let mut out = [EpollEvent::default(); 4];
        let count = epoll.report(&mut out, |_| level);
        out[..count].iter().map(|event| event.events).collect()
    }

    #[test]
    fn a_level_is_reported_as_long_as_it_lasts() {
        let mut epoll = set(1);
        assert_eq!(look(&mut epoll, 1 | 4), [1]);
        assert_eq!(look(&mut epoll, 1), [1]);
        assert_eq!(look(&mut epoll, 4), [0; 0]);
        assert_eq!(look(&mut epoll, 1), [0; 0], "nothing happened since");
        epoll.mark(3);
        assert_eq!(look(&mut epoll, 1), [1]);
    }

    #[test]
    fn an_edge_is_reported_once_with_all_that_is() {
        let mut epoll = set(1 | 4 | EDGE);
        assert_eq!(look(&mut epoll, 1 | 4), [1 | 4]);
        assert_eq!(look(&mut epoll, 1 | 4), [0; 0]);
        epoll.mark(3);
        epoll.mark(3);
        assert_eq!(look(&mut epoll, 4), [4]);
    }

    #[test]
    fn a_one_shot_waits_to_be_armed_again() {
        let mut epoll = set(1 | ONESHOT);
        assert_eq!(look(&mut epoll, 1), [1]);
        epoll.mark(3);
        assert_eq!(look(&mut epoll, 1), [0; 0]);
        epoll.change(3, EpollEvent { events: 1, data: 0 }).unwrap();
        assert_eq!(look(&mut epoll, 1), [1]);
    }

    #[test]
    fn errors_are_reported_unasked_and_other_names_if_asked() {
        assert_eq!(look(&mut set(0), 0x8 | 0x1), [0x8]);
        assert_eq!(look(&mut set(0x40), 0x1), [0x40]);
    }

    #[test]
    fn members_are_added_once_and_removed_once() {
        let mut epoll = set(1);
        assert_eq!(epoll.add(3, EpollEvent::default()), Err(Errno(libc::EEXIST)));
        assert_eq!(epoll.change(4, EpollEvent::default()), Err(Errno(libc::ENOENT)));
        assert_eq!((epoll.remove(3), epoll.remove(3)), (Ok(()), Err(Errno(libc::ENOENT))));
        assert!(look(&mut epoll, 1).is_empty());
    }

    #[test]
    fn who_leaves_and_comes_again_is_reported_once_and_the_queue_stays_short() {
        let mut epoll = set(1);
        for _ in 0..100 {
            epoll.remove(3).unwrap();
            epoll.add(3, EpollEvent { events: 1, data: 0 }).unwrap();
        }
        assert!(epoll.queue.len() <= 8, "{}", epoll.queue.len());
        assert_eq!(look(&mut epoll, 1), [1]);
        assert_eq!(look(&mut epoll, 1), [1]);
    }
}
