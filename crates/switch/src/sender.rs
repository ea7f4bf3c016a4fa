//! One tx ring of a port at the switch: its frames are forwarded in the thread that syncs it.

use std::sync::Arc;

use ringway_port::TxKring;

use crate::batch::Batch;
use crate::fanout::{Delivered, Fanout, Merged, Receivers};
use crate::forward::Source;
use crate::frame::Verdict;
use crate::receiver::Sending;
use crate::switch::{Ports, Switch, owner_of};

/// Forwards what one tx ring sends. Everything it needs is allocated with it.
pub struct Sender {
    switch: Arc<Switch>,
    source: Source,
    reads_user_memory: bool,
    batch: Batch,
    fanout: Fanout,
    ports: Ports,
}

/// The receivers while a batch is delivered.
struct Delivering<'a> {
    switch: &'a Switch,
    ports: &'a Ports,
    sending: Sending<'a>,
}

impl Sender {
    /// For ring `ring` of port `port`. `reads_user_memory`: the ring's user is this very process, so that addresses in
    /// NS_INDIRECT slots mean something here.
    pub fn new(switch: &Arc<Switch>, port: u8, ring: u8, reads_user_memory: bool) -> Sender {
        Sender {
            switch: switch.clone(),
            source: Source { port, ring, memory: 0 },
            reads_user_memory,
            batch: Batch::default(),
            fanout: Fanout::default(),
            ports: Ports::default(),
        }
    }

    /// The number of the ring in its port.
    pub(crate) fn ring(&self) -> u8 {
        self.source.ring
    }

    /// Forwards the whole frames that are pending, in batches, and gives the slots back: at most one ring full, since
    /// the words that say how much is pending may be somebody's who goes on writing them. Never waits: frames for which
    /// a receiver has no room are dropped and counted.
    pub fn forward(&mut self, tx: &TxKring, now_ns: u64) -> Delivered {
        let (mut all, mut slots) = (Delivered::default(), 0);
        loop {
            let collected = self.batch.collect(tx, self.reads_user_memory);
            if collected.slots == 0 || slots >= tx.ring().num_slots() {
                return all;
            }
            slots += collected.slots;
            let done = self.forward_batch(tx, now_ns);
            tx.count(self.batch.frames().len() as u32, self.batch.sum().bytes);
            if collected.bad_slots + done.dropped > 0 {
                tx.count_dropped(collected.bad_slots + done.dropped);
            }
            tx.take(collected.slots);
            all += done;
        }
    }

    /// The sender's own choices of ports; 0 is none (netmap(4), NS_PORT_MASK).
    #[cold]
    fn obey_sender(&mut self) {
        for frame in self.batch.frames_mut() {
            if let port @ 1.. = (frame.flags >> 8) as u8 {
                frame.verdict = Verdict::To { port, ring: self.source.ring };
            }
        }
    }

    fn forward_batch(&mut self, tx: &TxKring, now_ns: u64) -> Delivered {
        self.switch.refresh(&mut self.ports);
        let header_bytes = self.ports.header_bytes(self.source.port);
        let mut whole = if header_bytes == 0 { vec![] } else { self.batch.uncover(tx.ring().pool(), header_bytes) };
        self.switch.module().lookup(&mut self.source, now_ns, self.batch.frames_mut());
        for (frame, bytes) in self.batch.frames().iter().zip(&mut whole) {
            // What the module has made of it is what receivers get.
            let packet = bytes.get_mut(header_bytes as usize..).unwrap_or_default();
            let len = packet.len().min(frame.head().len());
            packet[..len].copy_from_slice(&frame.head()[..len]);
        }
        if self.batch.sum().flags >> 8 != 0 {
            self.obey_sender();
        }
        let (pool, owner) = (tx.ring().pool(), owner_of(self.source.port, self.source.ring));
        let sending = Sending { batch: &self.batch, pool, owner, header_bytes, whole: &whole };
        let mut receivers = Delivering { switch: &self.switch, ports: &self.ports, sending };
        self.fanout.run(self.source.port, self.source.ring, self.batch.frames(), &mut receivers)
    }
}

impl Receivers for Delivering<'_> {
    #[inline]
    fn rings(&self, port: u8) -> u8 {
        self.ports.receivers.get(usize::from(port)).map_or(0, |rings| rings.len() as u8)
    }

    fn ports(&self) -> &[u8] {
        &self.ports.numbers
    }

    fn deliver(&mut self, port: u8, ring: u8, frames: Merged<'_>) -> Delivered {
        let receiver = &self.ports.receivers[usize::from(port)][usize::from(ring)];
        let done = receiver.deliver(&self.sending, frames);
        self.switch.unblock(receiver);
        done
    }
}
