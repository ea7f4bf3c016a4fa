//! Keeps the end regions' descriptors out of the monitor's own descriptor table.
//!
//! Each connection has three regions, and the limit on open files is often 20,000 or less. It counts for
//! a descriptor *table*, and a thread may have a table of its own: so the ring regions stay with the
//! monitor, which reads them for display, and the end regions, needed again only when a process attaches,
//! lie in the tables of a few sleeping threads.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Descriptors of a vault's table that are not for keeping.
const SPARE: u64 = 16;
/// Descriptors under one number.
const EACH: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Order {
    Put = 0,
    Get = 1,
    Forget = 2,
}

/// Where a pair of descriptors lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    room: usize,
    number: u64,
}

#[derive(Debug)]
struct Room {
    socket: OwnedFd,
    pairs: u64,
}

/// Pairs of descriptors by number. See the module.
#[derive(Debug)]
pub(crate) struct Vault {
    rooms: Vec<Room>,
    pairs_per_room: u64,
}

impl Vault {
    /// A vault for `pairs` pairs, where a table has room for `table` descriptors.
    pub(crate) fn open(pairs: u64, table: u64) -> io::Result<Vault> {
        let pairs_per_room = (table.saturating_sub(SPARE) / EACH as u64).max(1);
        let rooms = (0..pairs.div_ceil(pairs_per_room).max(1)).map(|_| Room::open()).collect::<io::Result<_>>()?;
        Ok(Vault { rooms, pairs_per_room })
    }

    /// Lays a pair down.
    ///
    /// # Errors
    /// `MFILE` when the vault is full; whatever sending a descriptor can end in.
    pub(crate) fn put(&mut self, number: u64, fds: [BorrowedFd<'_>; EACH]) -> Result<Slot, Errno> {
        let emptiest = self.rooms.iter_mut().enumerate().min_by_key(|(_, room)| room.pairs);
        let (index, room) = emptiest.filter(|(_, room)| room.pairs < self.pairs_per_room).ok_or(Errno::MFILE)?;
        send(&room.socket, Order::Put, number, &fds)?;
        room.pairs += 1;
        Ok(Slot { room: index, number })
    }

    /// A copy of a pair.
    pub(crate) fn get(&self, slot: Slot) -> Option<[OwnedFd; EACH]> {
        let socket = &self.rooms.get(slot.room)?.socket;
        send(socket, Order::Get, slot.number, &[]).ok()?;
        let (_, number, fds) = receive(socket).ok()?;
        fds.try_into().ok().filter(|_| number == slot.number)
    }

    /// Lets a pair go.
    pub(crate) fn forget(&mut self, slot: Slot) {
        if let Some(room) = self.rooms.get_mut(slot.room) {
            room.pairs -= 1;
            let _ = send(&room.socket, Order::Forget, slot.number, &[]);
        }
    }
}

impl Room {
    fn open() -> io::Result<Room> {
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let (ready, opened) = std::sync::mpsc::channel();
        let keep = move || {
            let outcome = leave_table(&theirs);
            let separate = outcome.is_ok();
            let _ = ready.send(outcome);
            if separate {
                serve(&theirs);
            }
        };
        std::thread::Builder::new().name("ringway-vault".into()).spawn(keep)?;
        opened.recv().map_err(io::Error::other)??;
        Ok(Room { socket, pairs: 0 })
    }
}

/// Gives the calling thread a descriptor table of its own with nothing in it but the standard streams
/// and `socket`.
fn leave_table(socket: &OwnedFd) -> io::Result<()> {
    let keep = socket.as_fd().as_raw_fd() as u32;
    // SAFETY: this thread runs nothing but `serve` from here on, which uses `socket` only; what is closed
    // below are this table's copies, the owners' descriptors live in the other table.
    unsafe {
        unshare_unsafe(UnshareFlags::FILES)?;
        for (first, last) in [(3, keep.saturating_sub(1)), (keep + 1, u32::MAX)] {
            if first <= last && libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

/// Follows orders until the monitor is gone.
fn serve(socket: &OwnedFd) {
    let mut kept: HashMap<u64, Vec<OwnedFd>> = HashMap::new();
    while let Ok((order, number, fds)) = receive(socket) {
        match order {
            Order::Put => drop(kept.insert(number, fds)),
            Order::Forget => drop(kept.remove(&number)),
            Order::Get => {
                let fds: Vec<_> = kept.get(&number).into_iter().flatten().map(|fd| fd.as_fd()).collect();
                if send(socket, Order::Get, number, &fds).is_err() && send(socket, Order::Get, number, &[]).is_err() {
                    return;
                }
            }
        }
    }
}

fn send(socket: &OwnedFd, order: Order, number: u64, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut bytes = [order as u8; 9];
    bytes[1..].copy_from_slice(&number.to_ne_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(EACH))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    rustix::io::retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

fn receive(socket: &OwnedFd) -> Result<(Order, u64, Vec<OwnedFd>), Errno> {
    let mut bytes = [0u8; 9];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(EACH))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = rustix::io::retry_on_intr(|| recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags))?;
    let mut fds = Vec::with_capacity(EACH);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    let order = match (got.bytes, bytes[0]) {
        (9, 0) => Order::Put,
        (9, 1) => Order::Get,
        (9, 2) => Order::Forget,
        _ => return Err(Errno::PIPE),
    };
    Ok((order, u64::from_ne_bytes(std::array::from_fn(|i| bytes[1 + i])), fds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memfd(byte: u8) -> OwnedFd {
        let fd = rustix::fs::memfd_create("vault-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::pwrite(&fd, &[byte], 0).unwrap();
        fd
    }

    fn content(fd: &OwnedFd) -> u8 {
        let mut byte = [0];
        rustix::io::pread(fd, &mut byte, 0).unwrap();
        byte[0]
    }

    #[test]
    fn what_is_put_comes_back_until_it_is_forgotten_and_the_vault_fills_up() {
        // Tables with room for two pairs each.
        let mut vault = Vault::open(3, SPARE + 4).unwrap();
        assert_eq!(vault.rooms.len(), 2);
        let mut slots = Vec::new();
        for number in 0..4u8 {
            let (a, b) = (memfd(number), memfd(100 + number));
            slots.push(vault.put(number.into(), [a.as_fd(), b.as_fd()]).unwrap());
        }
        let (a, b) = (memfd(9), memfd(9));
        assert_eq!(vault.put(9, [a.as_fd(), b.as_fd()]), Err(Errno::MFILE));
        for (number, slot) in (0..4u8).zip(&slots) {
            let pair = vault.get(*slot).unwrap();
            assert_eq!((content(&pair[0]), content(&pair[1])), (number, 100 + number));
        }
        vault.forget(slots[1]);
        assert!(vault.get(slots[1]).is_none());
        assert!(vault.put(9, [a.as_fd(), b.as_fd()]).is_ok());
    }
}
