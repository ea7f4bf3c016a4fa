//! Random traffic over pipes and switches: frames of 50 to 10,049 bytes in random pieces, read in part, watched by monitors,
//! while buffers are swapped with extra ones and others try to open the ports. Every byte and every sequence number is
//! compared, and at the end every buffer is accounted for.

use proptest::prelude::*;
use ringway_mem::slot::{NETMAP_MAX_FRAGS, NS_BUF_CHANGED, NS_MOREFRAG, Slot};

use super::*;

const EXTRA_BUFFERS: u32 = 8;

#[derive(Clone, Debug)]
enum Step {
    /// A frame of so many bytes, in pieces of so many.
    Send { from: usize, bytes: usize, piece: usize },
    /// So many slots at most, wherever a frame ends.
    Receive { at: usize, slots: u32 },
    /// The same by a monitor.
    Watch { monitor: usize },
    /// Somebody wants a port for himself.
    OpenExclusively { at: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2_usize, 50..=10_049_usize, 160..=2048_usize)
            .prop_map(|(from, bytes, piece)| Step::Send { from, bytes, piece }),
        4 => (0..2_usize, 1..80_u32).prop_map(|(at, slots)| Step::Receive { at, slots }),
        2 => (0..3_usize).prop_map(|monitor| Step::Watch { monitor }),
        1 => (0..2_usize).prop_map(|at| Step::OpenExclusively { at }),
    ]
}

/// The `number`-th frame of an end.
fn frame(from: usize, number: usize, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, from as u8, 8, 0];
    frame.extend((number as u32).to_be_bytes());
    let mut state = (from * 7919 + number) as u32 | 1;
    frame.resize_with(bytes, || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    frame
}

/// Who receives: what he expects, and the beginning of a frame whose end he has not read.
struct Reader {
    device: Device,
    partial: Vec<u8>,
    /// Frames read, by their sender.
    next: [usize; 2],
    /// Buffers in his hands, to be swapped into slots.
    held: Vec<u32>,
}

impl Reader {
    fn new(name: &str, nr_flags: u64, nr_extra_bufs: u32) -> Reader {
        let device = Device::default();
        let request = Register { nr_mode: mode::ALL_NIC, nr_flags, nr_extra_bufs, ..Register::default() };
        register_with(&device, name, request, 0).unwrap();
        let mut reader = Reader { device, partial: vec![], next: [0; 2], held: vec![] };
        reader.take_list();
        reader
    }

    /// Takes the list of extra buffers into his hands.
    fn take_list(&mut self) {
        let mut next = self.list(0);
        let pool = ring(&self.device, Kind::Rx).pool().clone();
        while next != 0 {
            self.held.push(next);
            let mut bytes = [0; 4];
            pool.copy_out(next, 0, &mut bytes);
            next = u32::from_ne_bytes(bytes);
        }
    }

    /// Puts the buffers in his hands back into the list, as a program must before it closes.
    fn give_list(&mut self) {
        let pool = ring(&self.device, Kind::Rx).pool().clone();
        let mut head = 0_u32;
        for buffer in self.held.drain(..) {
            pool.copy_in(buffer, 0, &head.to_ne_bytes());
            head = buffer;
        }
        self.list(head);
    }

    /// The head of the list; another one from now on.
    fn list(&self, head: u32) -> u32 {
        self.device.with_binding(|binding| {
            let (_, interface) = binding.port.registration_mut().own_interface().unwrap();
            interface.bufs_head.swap(head, Relaxed)
        })
    }

    /// Reads up to `slots` slots, checks each frame that ends among them against `sent`, and gives them back.
    fn read(&mut self, slots: u32, sent: &[Vec<Vec<u8>>; 2]) {
        self.device.ioctl(abi::NIOCRXSYNC, 0).unwrap();
        let ring = ring(&self.device, Kind::Rx);
        let (mut head, tail) = (ring.header().head.load(Relaxed), ring.header().tail.load(Relaxed));
        for _ in 0..slots.min(ring.distance(head, tail)) {
            let cell = &ring.slots()[head as usize];
            let slot = cell.load();
            let before = self.partial.len();
            self.partial.resize(before + usize::from(slot.len), 0);
            assert_eq!(ring.pool().copy_out(slot.buf_idx, 0, &mut self.partial[before..]), usize::from(slot.len));
            if slot.flags & NS_MOREFRAG == 0 {
                let from = usize::from(self.partial[11]);
                let number = self.next[from];
                assert!(self.partial == sent[from][number], "frame {number} of end {from} has other bytes");
                self.next[from] += 1;
                self.partial.clear();
            }
            if let Some(extra) = self.held.first_mut() {
                cell.store(Slot { buf_idx: *extra, flags: NS_BUF_CHANGED, ..slot });
                *extra = slot.buf_idx;
                self.held.rotate_left(1);
            }
            head = ring.next(head);
        }
        ring.header().head.store(head, Relaxed);
        ring.header().cur.store(head, Relaxed);
        self.device.ioctl(abi::NIOCRXSYNC, 0).unwrap();
    }

    /// Sends a frame if the ring has room; whether it had.
    fn send(&self, bytes: &[u8], piece: usize) -> bool {
        let ring = ring(&self.device, Kind::Tx);
        let (mut head, tail) = (ring.header().head.load(Relaxed), ring.header().tail.load(Relaxed));
        let pieces = bytes.len().div_ceil(piece);
        assert!(pieces <= NETMAP_MAX_FRAGS);
        if (ring.distance(head, tail) as usize) < pieces {
            return false;
        }
        for (n, part) in bytes.chunks(piece).enumerate() {
            let cell = &ring.slots()[head as usize];
            ring.pool().copy_in(cell.load().buf_idx, 0, part);
            let flags = if n + 1 < pieces { NS_MOREFRAG } else { 0 };
            cell.store(Slot { len: part.len() as u16, flags, ..cell.load() });
            head = ring.next(head);
        }
        ring.header().head.store(head, Relaxed);
        ring.header().cur.store(head, Relaxed);
        self.device.ioctl(abi::NIOCTXSYNC, 0).unwrap();
        true
    }
}

fn exchange(names: [&str; 2], steps: &[Step]) {
    // Only one end swaps buffers: what the other gives back is seen by a monitor, as it is then.
    let mut ends = [Reader::new(names[0], 0, EXTRA_BUFFERS), Reader::new(names[1], 0, 0)];
    let pool = ring(&ends[0].device, Kind::Rx).pool().clone();
    // What end 0 sends, what end 1 receives, and the same once it is given back.
    let mut monitors = [(names[0], flag::MONITOR_TX), (names[1], flag::MONITOR_RX), (names[1], flag::ZCOPY_MON)]
        .map(|(name, flags)| Reader::new(name, flags, 0));
    let mut sent: [Vec<Vec<u8>>; 2] = [vec![], vec![]];
    // Slots that are on their way to each end, so that nothing is dropped where senders do not wait.
    let room = 1023;
    for step in steps {
        match step {
            Step::Send { from, bytes, piece } => {
                let to = ring(&ends[1 - from].device, Kind::Rx);
                let kring = to.kring();
                let waiting = to.distance(kring.hwcur.get(to.num_slots()), kring.hwtail.get(to.num_slots()));
                if waiting as usize + bytes.div_ceil(*piece) > room {
                    continue;
                }
                let frame = frame(*from, sent[*from].len(), *bytes);
                if ends[*from].send(&frame, *piece) {
                    sent[*from].push(frame);
                }
                // A monitor that is not read loses frames: these are read in time.
                monitors[0].read(u32::MAX, &sent);
                monitors[2].read(u32::MAX, &sent);
            }
            Step::Receive { at, slots } => {
                ends[*at].read(*slots, &sent);
                monitors[1].read(u32::MAX, &sent);
                monitors[2].read(u32::MAX, &sent);
            }
            Step::Watch { monitor } => monitors[*monitor].read(u32::MAX, &sent),
            Step::OpenExclusively { at } => {
                let refused = register(&Device::default(), names[*at], mode::ALL_NIC, flag::EXCLUSIVE);
                assert_eq!(refused, Err(Errno::BUSY));
            }
        }
    }
    for _ in 0..2 {
        ends.iter_mut().for_each(|end| end.read(u32::MAX, &sent));
        monitors.iter_mut().for_each(|monitor| monitor.read(u32::MAX, &sent));
    }
    let counts = [sent[0].len(), sent[1].len()];
    assert_eq!((ends[0].next, ends[1].next), ([0, counts[1]], [counts[0], 0]));
    assert_eq!(monitors[0].next, [counts[0], 0]);
    assert_eq!(monitors[1].next, [counts[0], 0]);
    assert_eq!(monitors[2].next, counts);
    ends.iter_mut().for_each(Reader::give_list);
    let account = pool.account();
    assert_eq!((account.lost, account.doubled), (0, 0), "{account:?}");
    drop((ends, monitors));
    let account = pool.account();
    assert_eq!((account.free, pool.ports().count()), (account.total, 0), "{account:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_once_in_order_and_unchanged(steps in prop::collection::vec(step(), 1..200), of_switch: bool) {
        if of_switch {
            exchange(["valeRandom:a", "valeRandom:b"], &steps);
        } else {
            exchange(["random{1", "random}1"], &steps);
        }
    }
}
