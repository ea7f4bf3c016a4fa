//! A batch of frames, collected from a tx ring.
//!
//! Collecting is where a sender's words are checked: afterwards every frame is a whole chain of fragments that lie
//! within buffers which its sender may use. The first bytes of each are copied, the next slots' fetched ahead.

use ringway_mem::pool::{LINE_BYTES, Pool, Ring};
use ringway_mem::slot::{NETMAP_MAX_FRAGS, NS_INDIRECT, Slot};
use ringway_mem::user;
use ringway_port::TxKring;

use crate::frame::{Frame, HEAD_BYTES, Verdict};

/// Slots of a batch at most, without the fragments that end its last frame. A sync with more has several batches:
/// what a batch of VALE's 1024 keeps for each frame would leave the first-level cache.
pub const BATCH_SLOTS: usize = 256;
/// Frames shorter than an Ethernet header go nowhere.
const FRAME_BYTES_MIN: u32 = 14;
/// Bytes of user memory (NS_INDIRECT) that a batch takes in; what exceeds it waits for the next.
const INDIRECT_BYTES_MAX: usize = 1 << 20;
/// How many slots ahead of the one that is read the memory is asked for.
const AHEAD: u32 = 8;

/// Part of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    /// Number of a buffer of the sender's pool; or where it begins in the batch's own memory.
    place: u32,
    pub(crate) len: u16,
    is_own: bool,
}

/// Frames and their fragments; reused from batch to batch.
pub struct Batch {
    /// Room for a full batch; the first `len` are its frames.
    frames: Box<[Frame]>,
    len: usize,
    fragments: Vec<Fragment>,
    /// What NS_INDIRECT slots pointed to.
    own: Vec<u8>,
    sum: Sum,
}

/// What is known of all frames together, so that nobody needs to look at each for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) bytes: u64,
    /// Of the longest frame, in bytes.
    pub(crate) longest: u32,
    /// Some frame has more fragments than one.
    pub(crate) has_fragments: bool,
    /// All flags of all slots.
    pub(crate) flags: u16,
}

/// What collecting took from the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub slots: u32,
    /// Of these, slots of impossible frames: too many fragments, a wrong length or buffer, a wild address.
    pub bad_slots: u32,
}

impl Default for Batch {
    fn default() -> Self {
        Batch {
            frames: vec![Frame::EMPTY; BATCH_SLOTS].into(),
            len: 0,
            fragments: Vec::with_capacity(BATCH_SLOTS + NETMAP_MAX_FRAGS),
            own: Vec::new(),
            sum: Sum::default(),
        }
    }
}

impl Batch {
    pub fn frames(&self) -> &[Frame] {
        &self.frames[..self.len]
    }

    pub fn frames_mut(&mut self) -> &mut [Frame] {
        &mut self.frames[..self.len]
    }

    pub(crate) fn sum(&self) -> Sum {
        self.sum
    }

    /// Takes whole frames from the beginning of what is pending. A chain whose end is not there yet stays.
    ///
    /// `reads_user_memory`: NS_INDIRECT addresses are of this process; otherwise such frames are impossible.
    pub fn collect(&mut self, tx: &TxKring, reads_user_memory: bool) -> Collected {
        self.len = 0;
        self.fragments.clear();
        self.own.clear();
        self.sum = Sum::default();
        let (ring, pool) = (tx.ring(), tx.ring().pool());
        let pending = tx.pending();
        let mut done = Collected::default();
        let mut at = ring.kring().hwcur.get(ring.num_slots());
        while done.slots < pending && self.fragments.len() < BATCH_SLOTS && self.own.len() < INDIRECT_BYTES_MAX {
            let first_fragment = self.fragments.len();
            let (mut slots, mut is_sound, mut flags) = (0, true, 0);
            loop {
                if done.slots + slots == pending {
                    self.fragments.truncate(first_fragment);
                    return done;
                }
                let ahead = ring.advance(at, AHEAD.min(ring.num_slots() - 1));
                pool.prefetch(ring.slots()[ahead as usize].load_word().buf_idx, 0);
                let slot = ring.slots()[at as usize].load_word();
                is_sound = is_sound && self.take_fragment(ring, at, slot, reads_user_memory);
                at = ring.next(at);
                slots += 1;
                flags |= slot.flags;
                if !slot.more_fragments() || slots as usize == NETMAP_MAX_FRAGS {
                    is_sound &= !slot.more_fragments();
                    break;
                }
            }
            done.slots += slots;
            if !(is_sound && self.finish_frame(pool, first_fragment, flags)) {
                self.fragments.truncate(first_fragment);
                done.bad_slots += slots;
            }
        }
        done
    }

    #[inline]
    fn take_fragment(&mut self, ring: &Ring, at: u32, slot: Slot, reads_user_memory: bool) -> bool {
        if slot.flags & NS_INDIRECT != 0 {
            let address = ring.slots()[at as usize].load().ptr;
            return reads_user_memory && self.take_indirect(Slot { ptr: address, ..slot });
        }
        let pool = ring.pool();
        let is_sound = u32::from(slot.len) <= pool.config().buffer_bytes && pool.may_use(ring.port(), slot.buf_idx);
        self.fragments.push(Fragment { place: slot.buf_idx, len: slot.len, is_own: false });
        is_sound
    }

    #[cold]
    fn take_indirect(&mut self, slot: Slot) -> bool {
        let place = self.own.len();
        self.own.resize(place + usize::from(slot.len), 0);
        self.fragments.push(Fragment { place: place as u32, len: slot.len, is_own: true });
        user::read(slot.ptr, &mut self.own[place..]).is_ok()
    }

    /// Makes a frame of the fragments from `first_fragment` on.
    #[inline]
    fn finish_frame(&mut self, pool: &Pool, first_fragment: usize, flags: u16) -> bool {
        let fragments = &self.fragments[first_fragment..];
        let len = fragments.iter().map(|fragment| u32::from(fragment.len)).sum();
        if len < FRAME_BYTES_MIN {
            return false;
        }
        let frame = &mut self.frames[self.len];
        frame.len = len;
        frame.flags = flags;
        frame.first_fragment = first_fragment as u16;
        frame.fragments = fragments.len() as u8;
        frame.verdict = Verdict::Drop;
        self.sum.bytes += u64::from(len);
        self.sum.longest = self.sum.longest.max(len);
        self.sum.has_fragments |= fragments.len() > 1;
        self.sum.flags |= flags;
        if let [Fragment { place, is_own: false, .. }] = fragments
            && len <= LINE_BYTES as u32
            && let Some(line) = frame.bytes.first_chunk_mut::<LINE_BYTES>()
        {
            // Short frames are most of what must be fast: a copy of constant length needs no call.
            pool.copy_out_line(*place, line);
            frame.head_bytes = len as u8;
        } else {
            let mut filled = 0;
            for fragment in fragments {
                let want = usize::from(fragment.len).min(HEAD_BYTES - filled);
                read(pool, &self.own, *fragment, &mut frame.bytes[filled..filled + want]);
                filled += want;
            }
            frame.head_bytes = filled as u8;
        }
        self.len += 1;
        true
    }

    /// The fragments of a frame, in order.
    #[inline]
    pub fn fragments_of(&self, frame: &Frame) -> &[Fragment] {
        let first = usize::from(frame.first_fragment);
        &self.fragments[first..first + usize::from(frame.fragments)]
    }

    /// Copies `len` bytes from `offset` on of a fragment into a buffer of the pool `to`.
    #[inline]
    pub(crate) fn copy(
        &self,
        from: &Pool,
        fragment: Fragment,
        offset: usize,
        to: &Pool,
        place: (u32, usize),
        len: usize,
    ) {
        if fragment.is_own {
            let start = fragment.place as usize + offset;
            to.copy_in(place.0, place.1, &self.own[start..start + len]);
        } else {
            to.copy_from(place, from, (fragment.place, offset), len);
        }
    }

    /// Has the modules see what follows a header of so many bytes in each frame. Returns the frames' bytes, headers and all.
    #[cold]
    pub(crate) fn uncover(&mut self, from: &Pool, header_bytes: u32) -> Vec<Vec<u8>> {
        let whole: Vec<Vec<u8>> = self.frames().iter().map(|frame| self.bytes_of(from, frame)).collect();
        for (frame, bytes) in self.frames_mut().iter_mut().zip(&whole) {
            let packet = bytes.get(header_bytes as usize..).unwrap_or_default();
            let shown = Frame::of(packet);
            // Modules may read an Ethernet header in any frame: zeros, where none came.
            let head_bytes = shown.head_bytes.max(FRAME_BYTES_MIN as u8);
            (frame.bytes, frame.head_bytes, frame.len) = (shown.bytes, head_bytes, shown.len);
        }
        whole
    }

    /// All bytes of a frame: the head as the module left it, the rest as it lies in the sender's memory.
    pub fn bytes_of(&self, from: &Pool, frame: &Frame) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(frame.len());
        for fragment in self.fragments_of(frame) {
            let before = bytes.len();
            bytes.resize(before + usize::from(fragment.len), 0);
            read(from, &self.own, *fragment, &mut bytes[before..]);
        }
        bytes[..frame.head().len()].copy_from_slice(frame.head());
        bytes
    }
}

/// The first bytes of a fragment.
#[inline]
fn read(pool: &Pool, own: &[u8], fragment: Fragment, to: &mut [u8]) {
    if fragment.is_own {
        let start = fragment.place as usize;
        to.copy_from_slice(&own[start..start + to.len()]);
    } else {
        pool.copy_out(fragment.place, 0, to);
    }
}
