//! What `recvmsg` adds to the bytes: how much is left to read, and notices about data that were lent (`MSG_ZEROCOPY`).
//!
//! The engine copies what it is given, so a notice says `SO_EE_CODE_ZEROCOPY_COPIED`; it comes when the data are
//! acknowledged, as it would without the copy.

use crate::address::Family;
use crate::errno::{Errno, Result};
use crate::socket::Lent;
use crate::stack::Stack;

const TCP_CM_INQ: i32 = 36;
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

/// A control message: level, type, data.
pub(crate) struct Control {
    pub(crate) level: i32,
    pub(crate) kind: i32,
    pub(crate) data: Vec<u8>,
}

impl Stack {
    /// What is left to read, if the socket asked to be told; the peer's end counts for one byte (`tcp_inq`).
    pub(crate) fn unread_note(&mut self, fd: i32) -> Option<Control> {
        let socket = self.socket_at(fd).ok().filter(|socket| socket.tells_unread)?;
        let id = socket.connection()?;
        let unread = self.unread(fd).ok()?;
        let ended = self.engine.readiness(id).ok()?.contains(ringway_tcp::Ready::READ_HANGUP);
        let told = if unread == 0 { u32::from(ended) } else { unread as u32 };
        Some(Control { level: libc::IPPROTO_TCP, kind: TCP_CM_INQ, data: told.to_ne_bytes().to_vec() })
    }

    /// Remembers that the bytes sent so far end with some that were lent.
    pub(crate) fn lend(&mut self, fd: i32) {
        let Ok(socket) = self.socket_at(fd) else { return };
        if socket.tells_sent {
            socket.lent.push_back(Lent { number: socket.lent_next, end: socket.sent });
            socket.lent_next = socket.lent_next.wrapping_add(1);
        }
    }

    /// The numbers of the oldest sends that are acknowledged, first and last of an unbroken row.
    pub(crate) fn lent_back(&mut self, fd: i32) -> Option<(u32, u32)> {
        let socket = self.socket_at(fd).ok()?;
        let (id, first) = (socket.connection()?, socket.lent.front()?.number);
        let acked = self.engine.tcp_info(self.now, id).ok()?.bytes_acked;
        let last = self.socket_at(fd).ok()?.lent.iter().take_while(|lent| lent.end <= acked).last()?.number;
        Some((first, last))
    }

    /// Takes the notice about data that came back (`recvmsg` with `MSG_ERRQUEUE`).
    pub(crate) fn take_notice(&mut self, fd: i32) -> Result<Control> {
        let (first, last) = self.lent_back(fd).ok_or(Errno::AGAIN)?;
        let socket = self.socket_at(fd)?;
        socket.lent.retain(|lent| lent.number > last);
        let (level, kind) = match socket.family {
            Family::V4 => (libc::IPPROTO_IP, libc::IP_RECVERR),
            Family::V6 => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        };
        // struct sock_extended_err: errno, origin, type, code, pad, info, data.
        let mut data = 0_u32.to_ne_bytes().to_vec();
        data.extend([ORIGIN_ZEROCOPY, 0, CODE_COPIED, 0]);
        data.extend(first.to_ne_bytes());
        data.extend(last.to_ne_bytes());
        Ok(Control { level, kind, data })
    }

    /// Sockets with a notice that epoll has not been told of.
    pub(crate) fn notices_to_tell(&mut self) -> Vec<i32> {
        let lending: Vec<i32> = self.sockets().filter(|(_, s)| !s.lent.is_empty()).map(|(fd, _)| fd).collect();
        let mut news = Vec::new();
        for fd in lending {
            let last = self.lent_back(fd).map(|(_, last)| last);
            let Ok(socket) = self.socket_at(fd) else { continue };
            if last.is_some() && socket.lent_told != last {
                socket.lent_told = last;
                news.push(fd);
            }
        }
        news
    }
}
