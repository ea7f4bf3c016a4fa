use super::*;

/// An rx ring of 8 slots with its books.
#[derive(Default)]
struct Ring {
    hwcur: IndexLine,
    hwtail: IndexLine,
    slots: [AtomicU64; 8],
}

impl Ring {
    fn ends(&self) -> Ends<'_> {
        Ends { hwcur: &self.hwcur, hwtail: &self.hwtail, num_slots: 8 }
    }

    fn fill(&self, lease: &Lease, value: u64) {
        for n in 0..lease.slots {
            self.slots[((lease.first + n) % 8) as usize].store(value, Relaxed);
        }
    }

    /// What the receiver can see, given back at once.
    fn receive(&self) -> Vec<u64> {
        let (mut at, end) = (self.hwcur.get(8), self.hwtail.get(8));
        let mut seen = Vec::new();
        while at != end {
            seen.push(self.slots[at as usize].load(Relaxed));
            at = (at + 1) % 8;
        }
        self.hwcur.set(at);
        seen
    }
}

fn new_leases() -> Leases {
    Leases {
        reserve: AtomicU64::new(0),
        _gap: std::array::from_fn(|_| AtomicU64::new(0)),
        records: std::array::from_fn(|_| AtomicU64::new(0)),
    }
}

#[cfg(not(loom))]
mod plain {
    use super::*;

    #[test]
    fn leases_are_shown_in_their_order_whoever_finishes_first() {
        let (ring, leases) = (Ring::default(), new_leases());
        let epoch = leases.open(ring.ends());
        let a = leases.lease(ring.ends(), epoch, 1, 2).unwrap();
        let b = leases.lease(ring.ends(), epoch, 2, 3).unwrap();
        ring.fill(&b, 20);
        assert!(!leases.finish(ring.ends(), b));
        assert_eq!((ring.receive(), leases.blocker(ring.ends())), (vec![], Some(1)));
        ring.fill(&a, 10);
        assert!(leases.finish(ring.ends(), a));
        assert_eq!(ring.receive(), [10, 10, 20, 20, 20]);
    }

    #[test]
    fn what_is_free_is_leased_and_no_more() {
        let (ring, leases) = (Ring::default(), new_leases());
        let epoch = leases.open(ring.ends());
        let lease = leases.lease(ring.ends(), epoch, 1, 100).unwrap();
        assert_eq!((lease.first, lease.slots), (0, 7));
        assert_eq!(leases.lease(ring.ends(), epoch, 1, 1), Err(Refused::Full));
        leases.finish(ring.ends(), lease);
        assert_eq!(leases.lease(ring.ends(), epoch, 1, 1), Err(Refused::Full));
        assert_eq!(ring.receive().len(), 7);
        // Round the ring many times, past the records' reuse.
        for n in 0..1000 {
            let lease = leases.lease(ring.ends(), epoch, 1, 1 + n as u32 % 7).unwrap();
            let slots = lease.slots as usize;
            ring.fill(&lease, n);
            assert!(leases.finish(ring.ends(), lease));
            assert_eq!(ring.receive(), vec![n; slots]);
        }
    }

    #[test]
    fn the_lease_of_a_dead_owner_is_inherited() {
        let (ring, leases) = (Ring::default(), new_leases());
        let epoch = leases.open(ring.ends());
        let dead = leases.lease(ring.ends(), epoch, 1, 2).unwrap();
        let alive = leases.lease(ring.ends(), epoch, 2, 1).unwrap();
        ring.fill(&alive, 7);
        leases.finish(ring.ends(), alive);
        assert_eq!(leases.inherit(ring.ends(), 3, 2), None);
        let inherited = leases.inherit(ring.ends(), 1, 2).unwrap();
        assert_eq!((inherited.first, inherited.slots), (0, 2));
        ring.fill(&inherited, 0);
        assert!(leases.finish(ring.ends(), inherited));
        assert_eq!(ring.receive(), [0, 0, 7]);
        // One that was wrongly taken for dead changes nothing any more.
        assert!(!leases.finish(ring.ends(), dead));
    }

    #[test]
    fn a_closed_ring_is_quiet_when_the_last_lease_is_done_and_opens_anew() {
        let (first, second, leases) = (Ring::default(), Ring::default(), new_leases());
        assert_eq!(leases.lease(first.ends(), 0, 1, 1), Err(Refused::Closed));
        let epoch = leases.open(first.ends());
        let lease = leases.lease(first.ends(), epoch, 1, 1).unwrap();
        leases.close();
        assert_eq!(leases.lease(first.ends(), epoch, 1, 1), Err(Refused::Closed));
        assert!(!leases.is_quiet());
        leases.finish(first.ends(), lease);
        assert!(leases.is_quiet());
        let next = leases.open(second.ends());
        assert_eq!(leases.lease(first.ends(), epoch, 1, 1), Err(Refused::Closed));
        let lease = leases.lease(second.ends(), next, 1, 1).unwrap();
        second.fill(&lease, 5);
        leases.finish(second.ends(), lease);
        assert_eq!(second.receive(), [5]);
    }

    #[test]
    fn at_most_64_are_outstanding() {
        let (hwcur, hwtail, leases) = (IndexLine::default(), IndexLine::default(), new_leases());
        let ends = Ends { hwcur: &hwcur, hwtail: &hwtail, num_slots: 1024 };
        let epoch = leases.open(ends);
        let held: Vec<Lease> = (0..64).map(|_| leases.lease(ends, epoch, 1, 1).unwrap()).collect();
        assert_eq!(leases.lease(ends, epoch, 1, 1), Err(Refused::Busy));
        for lease in held.into_iter().rev() {
            leases.finish(ends, lease);
        }
        assert!(leases.lease(ends, epoch, 1, 1).is_ok());
    }

    /// Threads that lease, fill and finish as fast as they can: each frame comes once, each sender's in order.
    #[test]
    fn threads_share_a_ring() {
        let (ring, leases) = (Ring::default(), new_leases());
        let epoch = leases.open(ring.ends());
        const EACH: u64 = 20_000;
        let mut next = [0; 3];
        std::thread::scope(|scope| {
            for sender in 0..3_u64 {
                let (ring, leases) = (&ring, &leases);
                scope.spawn(move || {
                    let mut sent = 0;
                    while sent < EACH {
                        let wanted = (EACH - sent).min(3) as u32;
                        let Ok(lease) = leases.lease(ring.ends(), epoch, sender as u32 + 1, wanted) else {
                            std::thread::yield_now();
                            continue;
                        };
                        for n in 0..lease.slots {
                            let value = sender << 32 | sent;
                            ring.slots[((lease.first + n) % 8) as usize].store(value, Relaxed);
                            sent += 1;
                        }
                        leases.finish(ring.ends(), lease);
                    }
                });
            }
            while next.iter().sum::<u64>() < 3 * EACH {
                for value in ring.receive() {
                    let sender = (value >> 32) as usize;
                    assert_eq!(value & 0xffff_ffff, next[sender], "sender {sender}");
                    next[sender] += 1;
                }
                std::thread::yield_now();
            }
        });
    }
}

#[cfg(loom)]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Two senders finish at the same time: everything is shown, filled, and once.
    #[test]
    fn nothing_that_is_done_stays_hidden() {
        loom::model(|| {
            let shared = Arc::new((Ring::default(), new_leases()));
            let epoch = shared.1.open(shared.0.ends());
            let theirs = shared.clone();
            let send = move |(ring, leases): &(Ring, Leases), owner: u32| {
                let lease = leases.lease(ring.ends(), epoch, owner, 1).unwrap();
                ring.fill(&lease, owner.into());
                leases.finish(ring.ends(), lease);
            };
            let other = thread::spawn(move || send(&theirs, 2));
            send(&shared, 1);
            let early = shared.0.receive();
            assert!(early.iter().all(|value| *value != 0));
            other.join().unwrap();
            let mut all = [early, shared.0.receive()].concat();
            all.sort_unstable();
            assert_eq!(all, [1, 2]);
        });
    }

    /// A lease is either refused by the closing or seen by who waits for quiet.
    #[test]
    fn no_lease_survives_a_quiet_ring() {
        loom::model(|| {
            let shared = Arc::new((Ring::default(), new_leases()));
            let epoch = shared.1.open(shared.0.ends());
            let theirs = shared.clone();
            let sender = thread::spawn(move || {
                let (ring, leases) = &*theirs;
                let Ok(lease) = leases.lease(ring.ends(), epoch, 2, 1) else { return false };
                ring.fill(&lease, 2);
                leases.finish(ring.ends(), lease);
                true
            });
            let (ring, leases) = &*shared;
            leases.close();
            if leases.is_quiet() {
                // Nobody writes from here on.
                let slot = ring.slots[0].load(Relaxed);
                let sent = sender.join().unwrap();
                assert_eq!(slot, if sent { 2 } else { 0 });
                assert_eq!(ring.receive().len(), usize::from(sent));
            } else {
                assert!(sender.join().unwrap());
            }
        });
    }

    /// A sender dies with its claim made; another one's frames come through nevertheless.
    #[test]
    fn a_dead_claim_is_booked_by_others() {
        loom::model(|| {
            let shared = Arc::new((Ring::default(), new_leases()));
            let epoch = shared.1.open(shared.0.ends());
            let theirs = shared.clone();
            let dying = thread::spawn(move || {
                let (ring, leases) = &*theirs;
                // The claim as `lease` makes it, and no more.
                let reserve = leases.reserve();
                let record = leases.record(reserve.number());
                let seen = Record(record.load(Acquire));
                if seen.number() != reserve.number() {
                    let claim = Record::new(1, 2, reserve.number());
                    let _ = record.compare_exchange(seen.0, claim.0, AcqRel, Relaxed);
                }
                let _ = ring;
            });
            let (ring, leases) = &*shared;
            let lease = leases.lease(ring.ends(), epoch, 1, 1).unwrap();
            ring.fill(&lease, 1);
            leases.finish(ring.ends(), lease);
            dying.join().unwrap();
            while leases.blocker(ring.ends()) == Some(2) {
                if let Some(inherited) = leases.inherit(ring.ends(), 2, 1) {
                    ring.fill(&inherited, 9);
                    leases.finish(ring.ends(), inherited);
                }
            }
            assert_eq!(ring.receive().into_iter().filter(|value| *value == 1).count(), 1);
        });
    }
}
