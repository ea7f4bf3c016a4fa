//! Packet sockets: options, and frames by the batch (packet(7)).

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;

use super::call;
use super::iovecs::Frame;

/// Bytes of the virtio-net header before each frame.
pub(crate) const HEADER_BYTES: usize = 10;
/// Messages of one system call at most.
pub(crate) const BATCH: usize = 32;
/// Longest frame: what a segmentation offload may leave together, its link header, a tag.
const FRAME_BYTES_MAX: usize = 65_536 + 18 + HEADER_BYTES;

const ETH_P_ALL: u16 = 0x0003;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
const ETH_P_8021Q: u16 = 0x8100;

/// A socket that gets and sends whole frames of interface `index`, each behind a virtio-net header; of those that the
/// interface itself sends it gets none. Frames that are sent pass no queueing discipline.
pub(crate) fn open(index: u32, promiscuous: bool) -> Result<OwnedFd, Errno> {
    let fd = call::socket(libc::AF_PACKET, libc::SOCK_RAW)?;
    let on: c_int = 1;
    let options =
        [libc::PACKET_VNET_HDR, libc::PACKET_IGNORE_OUTGOING, libc::PACKET_AUXDATA, libc::PACKET_QDISC_BYPASS];
    for option in options {
        // SAFETY: these options read an int.
        unsafe { call::set(fd.as_fd(), libc::SOL_PACKET, option, &on) }?;
    }
    let buffer_bytes: c_int = 4 << 20;
    // SAFETY: an int. Without the privilege for more, the socket keeps the buffer that it has.
    let _ = unsafe { call::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &buffer_bytes) };
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: ETH_P_ALL.to_be(),
        sll_ifindex: index as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the family's address, without padding.
    unsafe { call::bind(fd.as_fd(), &address) }?;
    if promiscuous {
        let membership = libc::packet_mreq {
            mr_ifindex: index as c_int,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        // SAFETY: a `struct packet_mreq`, without padding. The kernel ends the membership with the socket.
        unsafe { call::set(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership) }?;
    }
    Ok(fd)
}

/// Frames that the socket had no room for since the last question.
pub(crate) fn dropped(fd: &OwnedFd) -> u32 {
    // SAFETY: two numbers, `struct tpacket_stats`.
    let answer = unsafe { call::get::<[u32; 2]>(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS) };
    answer.map_or(0, |[_, dropped]| dropped)
}

/// Sends frames in order; returns how many went.
pub(crate) fn send(fd: &OwnedFd, frames: &mut [Frame<'_>]) -> Result<usize, Errno> {
    let mut messages: Vec<libc::mmsghdr> = frames.iter_mut().map(Frame::message).collect();
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: the messages' parts are borrowed by the frames.
    call::answer(unsafe {
        libc::syscall(libc::SYS_sendmmsg, fd.as_raw_fd(), messages.as_mut_ptr(), messages.len(), flags)
    })
}

/// Room to receive a batch: each frame as long as it may be, and what comes beside it.
pub(crate) struct Inbox {
    frames: Vec<u8>,
    control: Vec<[u64; 8]>,
    lens: Vec<usize>,
    tags: Vec<Option<[u8; 4]>>,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox { frames: vec![0; BATCH * FRAME_BYTES_MAX], control: vec![[0; 8]; BATCH], lens: vec![], tags: vec![] }
    }

    /// Receives what is there; returns how many frames, none if there are none.
    pub(crate) fn receive(&mut self, fd: &OwnedFd) -> Result<usize, Errno> {
        let chunks = self.frames.chunks_exact_mut(FRAME_BYTES_MAX);
        let mut parts: Vec<libc::iovec> =
            chunks.map(|chunk| libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: FRAME_BYTES_MAX }).collect();
        let mut messages: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .zip(&mut self.control)
            .map(|(part, control)| {
                // SAFETY: a structure of numbers and pointers, for which zero is valid.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = part;
                message.msg_hdr.msg_iovlen = 1;
                message.msg_hdr.msg_control = control.as_mut_ptr().cast();
                message.msg_hdr.msg_controllen = size_of_val(control);
                message
            })
            .collect();
        let (flags, forever) = (libc::MSG_DONTWAIT, std::ptr::null::<libc::timespec>());
        // SAFETY: each message's part and control are places of their own in vectors that live on.
        let received = call::answer(unsafe {
            libc::syscall(libc::SYS_recvmmsg, fd.as_raw_fd(), messages.as_mut_ptr(), messages.len(), flags, forever)
        });
        let received = match received {
            Ok(n) => n,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(errno) => return Err(errno),
        };
        self.lens = messages[..received].iter().map(|message| message.msg_len as usize).collect();
        self.tags = messages[..received].iter().map(|message| tag_of(&message.msg_hdr)).collect();
        Ok(received)
    }

    /// The i-th frame of the last batch with its virtio-net header, and the tag that the kernel took out of it.
    pub(crate) fn frame(&mut self, i: usize) -> (&mut [u8], Option<[u8; 4]>) {
        let start = i * FRAME_BYTES_MAX;
        (&mut self.frames[start..start + self.lens[i].min(FRAME_BYTES_MAX)], self.tags[i])
    }
}

/// The VLAN tag that stands beside the frame.
fn tag_of(message: &libc::msghdr) -> Option<[u8; 4]> {
    // SAFETY: the kernel has written control messages into the message's own buffer, and their length.
    let auxdata = unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        let of_packet = |h: &&libc::cmsghdr| h.cmsg_level == libc::SOL_PACKET && h.cmsg_type == libc::PACKET_AUXDATA;
        header.as_ref().filter(of_packet)?;
        libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned()
    };
    let tpid = if auxdata.tp_status & TP_STATUS_VLAN_TPID_VALID != 0 { auxdata.tp_vlan_tpid } else { ETH_P_8021Q };
    let (tpid, tci) = (tpid.to_be_bytes(), auxdata.tp_vlan_tci.to_be_bytes());
    (auxdata.tp_status & TP_STATUS_VLAN_VALID != 0).then_some([tpid[0], tpid[1], tci[0], tci[1]])
}
