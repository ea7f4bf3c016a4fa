//! Ports of a switch that another process serves: their users map their own pool and nothing else, publish head and cur
//! in CSB cells, and whoever has all pools forwards for them. For users that do not trust each other; [`isolated`](crate::isolated)
//! is how the two find each other.
//!
//! What users write is hostile: a head outside of what was given out changes nothing and is counted; frames and buffers are
//! checked as everywhere ([`Batch::collect`](crate::Batch::collect)), and addresses (NS_INDIRECT) mean nothing here.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ringway_mem::csb::{AppCell, ServerCell};
use ringway_mem::pool::{Kind, Pool, PortId, Ring};
use ringway_port::TxKring;

use crate::sender::Sender;
use crate::switch::{Switch, SwitchError};

/// A port that this process serves. Dropping it detaches the port.
pub struct Served {
    switch: Arc<Switch>,
    number: u8,
    pool: u64,
    tx: Vec<(TxKring, Sender)>,
    rx: Vec<Ring>,
}

impl Served {
    /// Attaches a port of `pool` to be served here.
    ///
    /// # Errors
    /// As [`Switch::attach`].
    pub fn new(switch: &Arc<Switch>, pool: &Arc<Pool>, port: PortId) -> Result<Served, SwitchError> {
        let number = switch.attach(pool, port)?;
        let rings = |kind| (0..).map_while(move |index| pool.ring(port, kind, index));
        let sender = |(n, ring)| (TxKring::new(ring), Sender::new(switch, number, n as u8, false));
        let tx = rings(Kind::Tx).take(usize::from(u8::MAX)).enumerate().map(sender).collect();
        Ok(Served { switch: switch.clone(), number, pool: pool.id(), tx, rx: rings(Kind::Rx).collect() })
    }

    /// Number of the port at the switch.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Number of its pool.
    pub(crate) fn pool(&self) -> u64 {
        self.pool
    }

    /// How many tx rings are served; their numbers are 0 up to that.
    pub fn tx_rings(&self) -> usize {
        self.tx.len()
    }

    /// The same for rx rings.
    pub fn rx_rings(&self) -> usize {
        self.rx.len()
    }

    /// Forwards what tx ring `ring` has pending, and wakes who waits for room. Returns whether there was
    /// a whole frame.
    pub fn serve_tx(&mut self, ring: usize, app: &AppCell, server: &ServerCell, now_ns: u64) -> bool {
        let Some((tx, sender)) = self.tx.get_mut(ring) else { return false };
        let (ring, kring) = (tx.ring(), tx.ring().kring());
        let n = ring.num_slots();
        let (head, _) = app.read();
        let (hwcur, hwtail) = (kring.hwcur.get(n), kring.hwtail.get(n));
        if head >= n || ring.distance(hwcur, head) > ring.distance(hwcur, hwtail) {
            kring.own.reinits.fetch_add(1, Relaxed);
            return false;
        }
        kring.own.rhead.store(head, Relaxed);
        if head == hwcur {
            return false;
        }
        sender.forward(tx, now_ns);
        publish(ring, server);
        ring.wake();
        // The beginning of a chain whose end is missing stays.
        kring.hwcur.get(n) != hwcur
    }

    /// Takes back what the user of rx ring `ring` has released, and shows what has come.
    pub fn serve_rx(&mut self, ring: usize, app: &AppCell, server: &ServerCell) {
        let Some(ring) = self.rx.get(ring) else { return };
        let (kring, n) = (ring.kring(), ring.num_slots());
        let (head, _) = app.read();
        let (hwcur, hwtail) = (kring.hwcur.get(n), kring.hwtail.get(n));
        if head >= n || ring.distance(hwcur, head) > ring.distance(hwcur, hwtail) {
            kring.own.reinits.fetch_add(1, Relaxed);
            return;
        }
        kring.hwcur.set(head);
        publish(ring, server);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A stopped sender keeps the place; the next port that attaches tries again to free it.
        if self.switch.detach(self.number).is_ok() {
            self.switch.forget_pool(self.pool);
        }
    }
}

fn publish(ring: &Ring, server: &ServerCell) {
    let (kring, n) = (ring.kring(), ring.num_slots());
    server.publish(kring.hwcur.get(n), kring.hwtail.get(n));
}

#[cfg(test)]
mod tests {
    use ringway_mem::fabric::Fabric;
    use ringway_mem::pool::{PoolConfig, Registration, RingCounts, Sharing};
    use ringway_mem::slot::{NS_INDIRECT, Slot};

    use super::*;
    use crate::modules::hub::Hub;

    const SLOTS: u32 = 8;

    /// A user with a pool of its own, and its cells.
    struct User {
        pool: Arc<Pool>,
        registration: Registration,
        cells: [(AppCell, ServerCell); 2],
    }

    impl User {
        fn new() -> User {
            let pool = Pool::create(PoolConfig { buffers: 64, buffer_bytes: 256, object_pages: 16 }).unwrap();
            let registration = pool.open("user", RingCounts::pairs(1, SLOTS), Sharing::Exclusive).unwrap();
            User { pool, registration, cells: Default::default() }
        }

        fn ring(&self, kind: Kind) -> Ring {
            self.pool.ring(self.registration.port(), kind, 0).unwrap()
        }

        fn put(&self, at: u32, bytes: &[u8], flags: u16) {
            let cell = &self.ring(Kind::Tx).slots()[at as usize].load();
            self.pool.copy_in(cell.buf_idx, 0, bytes);
            self.ring(Kind::Tx).slots()[at as usize].store(Slot { len: bytes.len() as u16, flags, ..*cell });
        }
    }

    #[test]
    fn users_with_pools_of_their_own_exchange_frames_through_cells() {
        let switch = Switch::new(Fabric::create().unwrap(), Arc::new(Hub));
        let (a, b) = (User::new(), User::new());
        let mut serve_a = Served::new(&switch, &a.pool, a.registration.port()).unwrap();
        let mut serve_b = Served::new(&switch, &b.pool, b.registration.port()).unwrap();
        for n in 0..100_u32 {
            let (at, next) = (n % SLOTS, (n + 1) % SLOTS);
            a.put(at, &[n as u8; 60], 0);
            a.cells[0].0.publish(next, next);
            assert!(serve_a.serve_tx(0, &a.cells[0].0, &a.cells[0].1, 0));
            assert!(!serve_a.serve_tx(0, &a.cells[0].0, &a.cells[0].1, 0));
            assert_eq!(a.cells[0].1.read(), (next, (next + SLOTS - 1) % SLOTS));
            serve_b.serve_rx(0, &b.cells[1].0, &b.cells[1].1);
            assert_eq!(b.cells[1].1.read(), (at, next));
            let mut bytes = [0; 60];
            b.pool.copy_out(b.ring(Kind::Rx).slots()[at as usize].load().buf_idx, 0, &mut bytes);
            assert_eq!(bytes, [n as u8; 60]);
            b.cells[1].0.publish(next, next);
            serve_b.serve_rx(0, &b.cells[1].0, &b.cells[1].1);
        }
    }

    #[test]
    fn impossible_heads_and_addresses_change_nothing() {
        let switch = Switch::new(Fabric::create().unwrap(), Arc::new(Hub));
        let (a, b) = (User::new(), User::new());
        let mut serve_a = Served::new(&switch, &a.pool, a.registration.port()).unwrap();
        let _serve_b = Served::new(&switch, &b.pool, b.registration.port()).unwrap();
        for wild in [SLOTS, u32::MAX] {
            a.cells[0].0.publish(wild, wild);
            a.cells[1].0.publish(wild, wild);
            assert!(!serve_a.serve_tx(0, &a.cells[0].0, &a.cells[0].1, 0));
            serve_a.serve_rx(0, &a.cells[1].0, &a.cells[1].1);
        }
        // Nothing was received, so nothing can be released.
        a.cells[1].0.publish(3, 3);
        serve_a.serve_rx(0, &a.cells[1].0, &a.cells[1].1);
        assert_eq!(a.ring(Kind::Rx).kring().own.reinits.load(Relaxed), 3);
        a.put(0, &[1; 60], NS_INDIRECT);
        a.cells[0].0.publish(1, 1);
        serve_a.serve_tx(0, &a.cells[0].0, &a.cells[0].1, 0);
        let kring = b.ring(Kind::Rx);
        assert_eq!((kring.kring().hwtail.get(SLOTS), a.ring(Kind::Tx).kring().own.dropped.load(Relaxed)), (0, 1));
    }

    /// Whatever a user writes into the words of its rings, its port can be taken away.
    #[test]
    fn a_user_that_spoils_its_ring_can_be_detached() {
        let switch = Switch::new(Fabric::create().unwrap(), Arc::new(Hub));
        let (a, b) = (User::new(), User::new());
        let mut serve_a = Served::new(&switch, &a.pool, a.registration.port()).unwrap();
        let serve_b = Served::new(&switch, &b.pool, b.registration.port()).unwrap();
        for spoilt in [3, u32::MAX] {
            b.ring(Kind::Rx).kring().hwtail.set_stamped(spoilt, spoilt);
            b.ring(Kind::Rx).kring().hwcur.set(spoilt);
            a.put(0, &[1; 60], 0);
            let head = (serve_a.tx[0].0.ring().kring().hwcur.get(SLOTS) + 1) % SLOTS;
            a.cells[0].0.publish(head, head);
            serve_a.serve_tx(0, &a.cells[0].0, &a.cells[0].1, 0);
        }
        assert_eq!(switch.detach(serve_b.number()), Ok(()));
    }
}
