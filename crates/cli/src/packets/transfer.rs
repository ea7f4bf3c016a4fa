//! Passing packets on from one port's ring to another's: buffers change places where both ports share a pool, and are
//! copied where they do not.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ringway_port::{Port, Ready, RxBatch, TxBatch};

use super::meter::Count;
use super::stop::{NAP, Stop};

/// Slots moved at a time; what is left waits for the next turn.
const BATCH: u32 = 1024;
/// How long a port may take nothing of what was handed over before that is called a failure.
const STALL_MAX: Duration = Duration::from_secs(30);

/// Moves what has come in on a ring of `from` to a ring of `to`, at most `most` slots and whole packets only; the
/// caller syncs. What finds no room stays where it is.
pub(crate) fn forward(
    from: &mut Port,
    rx: usize,
    to: &mut Port,
    tx: usize,
    most: u32,
    count: &mut Count,
) -> Result<u32> {
    let (mut received, mut free) = (from.rx(rx)?, to.tx(tx)?);
    let (mut at, mut filled) = (0, 0);
    while let Some(slots) = (at < received.len().min(most)).then(|| received.packet_slots(at)).flatten() {
        let Some(used) = pass_packet(&mut received, at, slots, &mut free, filled) else { break };
        let bytes: usize = (at..at + slots).map(|i| usize::from(received.slot(i).len)).sum();
        count.add(bytes);
        (at, filled) = (at + slots, filled + used);
    }
    received.release(at);
    free.send(filled);
    Ok(at)
}

/// Everything that has come in at one port goes out at the other, at most [`BATCH`] slots of each ring; returns how many.
/// What finds no room waits.
pub(crate) fn pass_on(from: &mut Port, to: &mut Port, count: &mut Count) -> Result<u32> {
    let mut moved = 0;
    for rx in 0..from.rx_rings() {
        let tx = rx % to.tx_rings();
        from.sync_rx(rx)?;
        moved += forward(from, rx, to, tx, BATCH, count)?;
        to.sync_tx(tx)?;
    }
    Ok(moved)
}

/// Moves what has come in on a ring of `port` to one of its own tx rings, with the hardware addresses exchanged.
pub(crate) fn turn_round(port: &mut Port, rx: usize, tx: usize, count: &mut Count) -> Result<u32> {
    let (mut received, mut free) = port.both(rx, tx)?;
    let (mut at, mut filled) = (0, 0);
    while let Some(slots) = (at < received.len()).then(|| received.packet_slots(at)).flatten() {
        let bytes: usize = (at..at + slots).map(|i| usize::from(received.slot(i).len)).sum();
        if let Some((addresses, _)) = received.bytes_mut(at).split_first_chunk_mut::<12>() {
            addresses.rotate_left(6);
        }
        let Some(used) = pass_packet(&mut received, at, slots, &mut free, filled) else {
            // It stays, so its addresses are as they were.
            received.bytes_mut(at).split_first_chunk_mut::<12>().into_iter().for_each(|(a, _)| a.rotate_left(6));
            break;
        };
        count.add(bytes);
        (at, filled) = (at + slots, filled + used);
    }
    received.release(at);
    free.send(filled);
    Ok(at)
}

/// One packet of `slots` slots; how many slots it takes at the other side, none if there is no room.
pub(crate) fn pass_packet(
    from: &mut RxBatch<'_>,
    at: u32,
    slots: u32,
    to: &mut TxBatch<'_>,
    filled: u32,
) -> Option<u32> {
    if filled + slots > to.len() {
        return None;
    }
    if (0..slots).all(|n| from.swap(at + n, to, filled + n)) {
        return Some(slots);
    }
    if slots == 1 && from.bytes(at).len() <= to.bytes_mut(filled).len() {
        let bytes = from.bytes(at);
        to.bytes_mut(filled)[..bytes.len()].copy_from_slice(bytes);
        to.set(filled, bytes.len() as u16, 0);
        return Some(1);
    }
    let mut packet = Vec::new();
    from.copy_packet(at, slots, &mut packet);
    to.put(filled, &packet)
}

/// Waits until a port has taken what was handed over to it, or until it is time to end.
///
/// # Errors
/// The port has taken nothing for [`STALL_MAX`].
pub(crate) fn drain(port: &mut Port, stop: &mut Stop) -> Result<()> {
    for ring in 0..port.tx_rings() {
        let (mut left, mut since) = (port.unsent(ring)?, Instant::now());
        while left > 0 && !stop.reached(Instant::now()) {
            ensure!(
                since.elapsed() < STALL_MAX,
                "{}: {left} packets have not left for {} s; is the link up at both ends (`ip link`), and does somebody receive?",
                port.info().name,
                STALL_MAX.as_secs()
            );
            port.wait(Ready::TX, Some(NAP))?;
            let now_left = port.unsent(ring)?;
            if now_left != left {
                (left, since) = (now_left, Instant::now());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    fn pair(name: &str) -> (Port, Port) {
        let open = || ringway_port::open(&format!("shm:{name}")).unwrap();
        (open(), open())
    }

    fn put(port: &mut Port, packets: &[&[u8]]) {
        let mut batch = port.tx(0).unwrap();
        let mut at = 0;
        packets.iter().for_each(|packet| at += batch.put(at, packet).unwrap());
        batch.send(at);
        port.sync_tx(0).unwrap();
    }

    fn take(port: &mut Port) -> Vec<Vec<u8>> {
        port.sync_rx(0).unwrap();
        let batch = port.rx(0).unwrap();
        let (mut packets, mut at) = (vec![], 0);
        while let Some(slots) = (at < batch.len()).then(|| batch.packet_slots(at)).flatten() {
            let mut packet = vec![];
            batch.copy_packet(at, slots, &mut packet);
            packets.push(packet);
            at += slots;
        }
        batch.release(at);
        packets
    }

    #[test]
    fn packets_go_on_whole_and_wait_for_room() {
        let ((mut outside, mut left), (mut right, mut far)) = (pair("transfer1"), pair("transfer2"));
        let (small, large) = ([1; 60], [2; 5000]);
        put(&mut outside, &[&small, &large]);
        left.sync_rx(0).unwrap();
        let mut count = Count::default();
        assert_eq!(forward(&mut left, 0, &mut right, 0, 1, &mut count).unwrap(), 1);
        assert_eq!(forward(&mut left, 0, &mut right, 0, 64, &mut count).unwrap(), 3);
        assert_eq!((count.packets, count.bytes), (2, 5060));
        right.sync_tx(0).unwrap();
        assert_eq!(take(&mut far), [small.to_vec(), large.to_vec()]);

        let mut many = 0;
        while let free @ 1.. = right.tx(0).unwrap().len() {
            put(&mut right, &vec![&small[..]; free as usize]);
            many += free as usize;
        }
        put(&mut outside, &[&small]);
        left.sync_rx(0).unwrap();
        assert_eq!(forward(&mut left, 0, &mut right, 0, 64, &mut count).unwrap(), 0, "no room, and nothing lost");
        let mut taken = 0;
        while let some @ 1.. = take(&mut far).len() {
            taken += some;
            far.sync_rx(0).unwrap();
            right.sync_tx(0).unwrap();
        }
        assert_eq!(taken, many);
        assert_eq!(forward(&mut left, 0, &mut right, 0, 64, &mut count).unwrap(), 1);
    }

    #[test]
    fn an_answer_goes_back_with_addresses_exchanged() {
        let (mut outside, mut inside) = pair("transfer3");
        let packet: Vec<u8> = (0..60).collect();
        put(&mut outside, &[&packet]);
        inside.sync_rx(0).unwrap();
        assert_eq!(turn_round(&mut inside, 0, 0, &mut Count::default()).unwrap(), 1);
        inside.sync_tx(0).unwrap();
        let answer = take(&mut outside).remove(0);
        assert_eq!((&answer[..6], &answer[6..12], &answer[12..]), (&packet[6..12], &packet[..6], &packet[12..]));
    }
}
