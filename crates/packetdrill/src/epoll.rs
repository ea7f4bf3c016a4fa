//! epoll sets: levels, edges and one-shots over whatever readiness their members have.

use crate::errno::{Errno, Result};

const ET: u32 = libc::EPOLLET as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;
/// Told whether asked for or not.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
/// Flags of the request, not kinds of readiness.
const MODES: u32 = ET | ONESHOT | libc::EPOLLEXCLUSIVE as u32 | libc::EPOLLWAKEUP as u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Modify,
    Remove,
}

struct Member {
    fd: i32,
    events: u32,
    data: u64,
    /// Something happened since it was last reported.
    edge: bool,
    /// A one-shot that has been reported.
    spent: bool,
}

/// One set; members in the order in which they came.
#[derive(Default)]
pub(crate) struct EpollSet {
    members: Vec<Member>,
}

impl EpollSet {
    pub(crate) fn change(&mut self, change: Change, fd: i32, events: u32, data: u64) -> Result<()> {
        let place = self.members.iter().position(|member| member.fd == fd);
        match (change, place) {
            (Change::Add, None) => self.members.push(Member { fd, events, data, edge: true, spent: false }),
            (Change::Add, Some(_)) => return Err(Errno(libc::EEXIST)),
            (_, None) => return Err(Errno(libc::ENOENT)),
            (Change::Modify, Some(at)) => self.members[at] = Member { fd, events, data, edge: true, spent: false },
            (Change::Remove, Some(at)) => {
                self.members.remove(at);
            }
        }
        Ok(())
    }

    /// Something new happened to `fd`.
    pub(crate) fn notice(&mut self, fd: i32) {
        self.members.iter_mut().filter(|member| member.fd == fd).for_each(|member| member.edge = true);
    }

    pub(crate) fn forget(&mut self, fd: i32) {
        self.members.retain(|member| member.fd != fd);
    }

    /// At most `max` members that are ready, as (events, data); `readiness` tells a descriptor's level.
    pub(crate) fn collect(&mut self, max: usize, mut readiness: impl FnMut(i32) -> u32) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        for member in self.members.iter_mut().filter(|member| !member.spent) {
            if found.len() == max {
                break;
            }
            let ready = readiness(member.fd) & (member.events & !MODES | ALWAYS);
            if ready == 0 || member.events & ET != 0 && !member.edge {
                continue;
            }
            member.edge = false;
            member.spent = member.events & ONESHOT != 0;
            found.push((ready, member.data));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: u32 = libc::EPOLLIN as u32;

    #[test]
    fn an_edge_is_told_once_and_a_level_as_long_as_it_holds() {
        let mut set = EpollSet::default();
        set.change(Change::Add, 3, IN | ET, 30).unwrap();
        set.change(Change::Add, 4, IN, 40).unwrap();
        assert_eq!(set.collect(9, |_| IN), [(IN, 30), (IN, 40)]);
        assert_eq!(set.collect(9, |_| IN), [(IN, 40)]);
        set.notice(3);
        assert_eq!(set.collect(1, |_| IN), [(IN, 30)]);
        assert_eq!(set.collect(9, |_| 0), []);
    }

    #[test]
    fn a_one_shot_sleeps_until_it_is_changed() {
        let mut set = EpollSet::default();
        set.change(Change::Add, 3, IN | ONESHOT, 30).unwrap();
        assert_eq!(set.collect(9, |_| IN | ALWAYS).len(), 1);
        assert_eq!(set.collect(9, |_| IN | ALWAYS), []);
        set.change(Change::Modify, 3, IN, 31).unwrap();
        assert_eq!(set.collect(9, |_| IN), [(IN, 31)]);
        assert_eq!(set.change(Change::Add, 3, IN, 0), Err(Errno(libc::EEXIST)));
        set.forget(3);
        assert_eq!(set.change(Change::Remove, 3, 0, 0), Err(Errno(libc::ENOENT)));
    }
}
