//! Where PSH goes: at the end of what the application gave at once, and now and then within (RFC 9293 3.9.1.2).
//!
//! The receiver hands data on when it sees PSH, so it belongs to the end of a write, not to the end of whatever
//! happened to be buffered when a segment left. Linux cuts writes into pieces of at most half the peer's window
//! (`tcp_xmit_size_goal`); a later write goes on with the last piece while nothing of that was sent, and its end is then
//! the end that counts.

use ringway_wire::SeqNumber;

use super::Conn;

/// Ends of pieces that are remembered; of more, the newest but one is forgotten.
const MARKS_MAX: usize = 4;
/// `sk_gso_max_size`: the largest piece.
pub(super) const PIECE_BYTES_MAX: u32 = 65_215;

/// What of the unsent data ends with PSH.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Push {
    marks: [SeqNumber; MARKS_MAX],
    len: u8,
    /// The newest mark that was ever set (`pushed_seq`).
    newest: SeqNumber,
    /// Where the last piece begins, and how long those before it are.
    piece: SeqNumber,
    piece_bytes: u16,
}

/// The windows' side of a write.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    piece_bytes: u32,
    /// More than this without PSH gets one (`forced_push`).
    unpushed_bytes_max: u32,
}

/// What may leave while a write goes on.
#[derive(Clone, Copy, Debug)]
struct Sending {
    next: SeqNumber,
    bytes: u32,
    /// At a time.
    bundle_bytes: u32,
}

impl Sending {
    /// The piece from `piece` to `full` is complete: a bundle of it leaves if it is next, all that may if `pushed`.
    /// Answers where the rest of the piece begins, which is `piece` if nothing leaves.
    fn go_on(&mut self, piece: SeqNumber, full: SeqNumber, pushed: bool) -> SeqNumber {
        let waiting = (full - self.next).max(0) as u32;
        let most = if pushed { self.bytes } else { self.bytes.min(self.bundle_bytes) };
        let sent = most.min(waiting);
        if sent == 0 || (self.next != piece && !pushed) {
            return piece;
        }
        self.next += sent;
        self.bytes -= sent;
        if self.next > piece { self.next } else { piece }
    }
}

impl Push {
    /// Data begin at `start`: nothing was pushed yet.
    pub(super) fn begin(start: SeqNumber) -> Push {
        Push { newest: start, piece: start, ..Push::default() }
    }

    /// Nothing waits before `from`, and what follows is one piece: as [`Push::written`] would do it.
    fn written_alone(&mut self, from: SeqNumber, end: SeqNumber) {
        self.piece = self.piece.max(from);
        self.newest = end;
        self.mark(end);
    }

    fn written(&mut self, from: SeqNumber, end: SeqNumber, more: bool, mut sending: Sending, sizes: Sizes) {
        self.piece = self.piece.max(sending.next);
        self.piece_bytes = sizes.piece_bytes as u16;
        if self.piece + sizes.piece_bytes > from {
            // Linux (`tcp_sendmsg_locked`): what is appended to takes its PSH along.
            self.len -= u8::from(self.len > 0 && self.marks[usize::from(self.len) - 1] == from);
        } else {
            self.piece = from;
        }
        let mut pushed = false;
        while end - self.piece > sizes.piece_bytes as i32 {
            let full = self.piece + sizes.piece_bytes;
            let overdue = self.is_overdue(full, sizes);
            if overdue {
                (self.newest, pushed) = (full, true);
            }
            // What leaves meanwhile makes room in the same piece.
            let rest = sending.go_on(self.piece, full, overdue);
            if self.piece < rest && rest < full {
                self.piece = rest;
                continue;
            }
            if pushed {
                self.mark(full);
            }
            (self.piece, pushed) = (full, false);
        }
        if !more || pushed || self.is_overdue(end, sizes) {
            self.newest = end;
            self.mark(end);
        }
    }

    fn is_overdue(&self, at: SeqNumber, sizes: Sizes) -> bool {
        at > self.newest + sizes.unpushed_bytes_max
    }

    fn mark(&mut self, at: SeqNumber) {
        self.len = (self.len + 1).min(MARKS_MAX as u8);
        self.marks[usize::from(self.len) - 1] = at;
    }

    /// The next segment ends at `end` and is to carry PSH wherever writes end (Linux: `tcp_write_wakeup`).
    pub(super) fn next_ends(&mut self, end: SeqNumber) {
        if !self.is_due(end) {
            self.len = (self.len + 1).min(MARKS_MAX as u8);
            self.marks[..usize::from(self.len)].rotate_right(1);
            self.marks[0] = end;
        }
    }

    /// Bytes from `from`, which were not sent yet, to the end of their piece.
    pub(super) fn piece_left(&self, from: SeqNumber, write_seq: SeqNumber) -> u32 {
        match self.piece - from {
            before if before > 0 => (before as u32 - 1) % u32::from(self.piece_bytes.max(1)) + 1,
            _ => (write_seq - from).max(0) as u32,
        }
    }

    /// Whether the new segment up to `end` is to carry PSH.
    pub(super) fn is_due(&self, end: SeqNumber) -> bool {
        self.len > 0 && self.marks[0] <= end
    }

    /// What lies before `end` was sent.
    pub(super) fn on_sent(&mut self, end: SeqNumber) {
        if self.len == 1 && self.marks[0] <= end {
            self.len = 0;
            return;
        }
        let marks = &mut self.marks[..usize::from(self.len)];
        let sent = marks.iter().take_while(|mark| **mark <= end).count();
        marks.rotate_left(sent);
        self.len -= sent as u8;
    }
}

impl Conn<'_> {
    /// The application gave what lies between `from` and `write_seq`; `more` is to follow soon.
    pub(super) fn push_written(&mut self, from: SeqNumber, more: bool) {
        let window = self.cold.max_window;
        let bytes = self.hot.write_seq.offset_from(from);
        if from == self.hot.snd_nxt && bytes <= u32::from(self.hot.mss) && !more {
            // One segment's worth when nothing else waits: no piece is that small.
            return self.cold.push.written_alone(from, self.hot.write_seq);
        }
        let bound = match window {
            0 => PIECE_BYTES_MAX,
            small if small <= u32::from(super::window::MSS_DEFAULT) => small,
            large => (large / 2).min(PIECE_BYTES_MAX),
        };
        let mss = u32::from(self.hot.mss).max(1);
        let piece_bytes = (bound / mss).max(1) * mss;
        let sizes = Sizes { piece_bytes, unpushed_bytes_max: window / 2 };
        let next = self.hot.snd_nxt;
        let opening = !self.state().may_transmit();
        let room = if opening { 0 } else { self.cold.recovery.room().saturating_mul(mss) };
        let peer_room = ((self.hot.snd_una + self.hot.snd_wnd) - next).max(0) as u32;
        let bytes = room.min(peer_room / mss * mss);
        let bundle_bytes = self.bundle_segments(mss) * mss;
        let sending = Sending { next, bytes, bundle_bytes };
        self.cold.push.written(from, self.hot.write_seq, more, sending, sizes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { piece_bytes: 1000, unpushed_bytes_max: 2500 };

    fn at(n: u32) -> SeqNumber {
        SeqNumber(n)
    }

    /// Nothing may leave.
    fn idle(next: u32) -> Sending {
        Sending { next: at(next), bytes: 0, bundle_bytes: 0 }
    }

    /// Segments of 500 bytes up to `end`; answers the ends of those with PSH.
    fn pushed(push: &mut Push, from: u32, end: u32) -> Vec<u32> {
        let ends = (from + 500..=end).step_by(500);
        let due = |end: &u32| {
            let due = push.is_due(at(*end));
            push.on_sent(at(*end));
            due
        };
        ends.filter(due).collect()
    }

    #[test]
    fn the_end_of_a_write_is_pushed_and_a_continued_one_is_not() {
        let mut push = Push::begin(at(0));
        push.written(at(0), at(500), false, idle(0), SIZES);
        push.written(at(500), at(1000), false, idle(0), SIZES);
        push.written(at(1000), at(1500), false, idle(0), SIZES);
        assert_eq!(pushed(&mut push, 0, 1500), [1000, 1500]);
    }

    #[test]
    fn what_was_sent_is_not_continued() {
        let mut push = Push::begin(at(0));
        push.written(at(0), at(500), false, idle(0), SIZES);
        assert_eq!(pushed(&mut push, 0, 500), [500]);
        push.written(at(500), at(1000), true, idle(500), SIZES);
        assert_eq!(pushed(&mut push, 500, 1000), []);
    }

    #[test]
    fn a_long_write_is_pushed_when_half_a_window_went_without() {
        let mut push = Push::begin(at(0));
        push.written(at(0), at(7500), false, idle(0), SIZES);
        assert_eq!(pushed(&mut push, 0, 7500), [3000, 6000, 7500]);
    }

    /// The piece that is being sent takes in more, and its PSH moves to its end.
    #[test]
    fn what_leaves_meanwhile_makes_the_piece_longer() {
        let mut push = Push::begin(at(0));
        let sending = Sending { next: at(0), bytes: 1000, bundle_bytes: 500 };
        push.written(at(0), at(10_000), false, sending, Sizes { unpushed_bytes_max: 1400, ..SIZES });
        assert_eq!(pushed(&mut push, 0, 10_000), [2000, 3000, 5000, 10_000]);
    }

    #[test]
    fn of_too_many_marks_the_ends_stay() {
        let mut push = Push::begin(at(0));
        push.written(at(0), at(60_000), false, idle(0), SIZES);
        let ends = pushed(&mut push, 0, 60_000);
        assert_eq!((ends.len(), ends[0], ends[3]), (4, 3000, 60_000));
    }
}
