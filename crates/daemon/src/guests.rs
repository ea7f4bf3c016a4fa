//! Serves `ports.sock`: processes that ask for the memory behind a name (`ringway_port::meeting` is their side).
//!
//! A guest asks once. As long as its connection stands the name keeps its memory; it closes the connection when its port
//! is open, and then the port does that.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ringway_port::meeting::message::{Answer, DESCRIPTORS_MAX, REQUEST_BYTES, Request};
use rustix::io::{Errno, IoSlice};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};

use crate::meetings::Meeting;
use crate::monitor::Monitor;
use crate::peer::Peer;
use crate::policy::Party;
use crate::poller::{Ready, Source};

/// A guest that has not opened its port by then is sent away.
pub(crate) const GUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A connected process.
pub(crate) struct Guest {
    socket: OwnedFd,
    peer: Peer,
    since: Instant,
    /// The name that it was given the memory of.
    at: Option<String>,
}

impl Monitor {
    pub(crate) fn accept_guests(&mut self, now: Instant) {
        while let Some(socket) = self.accept(Source::Ports, now) {
            let Ok(peer) = Peer::of(&socket) else { continue };
            let most = self.budget.guests_max;
            let mine = self.guests.values().filter(|guest| guest.peer.uid == peer.uid).count();
            // No single user may keep the others out.
            if self.guests.len() >= most || (peer.uid != 0 && mine >= most.div_ceil(2)) {
                self.throttle.warn(now, format_args!("uid {}: no room for another guest at {most}", peer.uid));
                answer(&socket, &Answer::Refused("too many processes ask at once; try again".to_owned()), &[]);
                continue;
            }
            let id = self.next_id();
            if self.poller.add(&socket, Source::Guest(id)).is_ok() {
                self.guests.insert(id, Guest { socket, peer, since: now, at: None });
                self.idle_since = None;
            }
        }
    }

    /// Answers a guest's only request. Whatever else comes ends the connection.
    pub(crate) fn on_guest(&mut self, id: u64, event: Ready, now: Instant) {
        let Some(mut guest) = self.guests.remove(&id) else { return };
        if guest.at.is_none() && event.readable && self.serve_guest(&mut guest, now) {
            self.guests.insert(id, guest);
            return;
        }
        self.leave(guest, now);
    }

    /// Whether the guest stays.
    fn serve_guest(&mut self, guest: &mut Guest, now: Instant) -> bool {
        let mut bytes = [0; REQUEST_BYTES + 1];
        // Descriptors that come along, uninvited, the kernel closes.
        let got = match recv(&guest.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((got @ 1.., _)) => got,
            Err(Errno::AGAIN | Errno::INTR) => return true,
            _ => return false,
        };
        let request = match Request::decode(&bytes[..got]) {
            Ok(request) => request,
            Err(why) => return refuse(guest, why),
        };
        if let Err(why) = self.provide(&guest.peer, &request, now) {
            return refuse(guest, why);
        }
        let Some(meeting) = self.meetings.get_mut(&request.name) else { return false };
        if !answer(&guest.socket, &Answer::Met, &meeting.descriptors()) {
            return false;
        }
        meeting.guests += 1;
        guest.at = Some(request.name);
        true
    }

    /// Sees to it that the table has what the guest asks for, and that it may have it.
    ///
    /// # Errors
    /// Why not, for the guest.
    fn provide(&mut self, peer: &Peer, request: &Request, now: Instant) -> Result<(), String> {
        let name = &request.name;
        self.meetings.tidy(name, now);
        if let Some(meeting) = self.meetings.get(name) {
            self.may_join(peer, name, meeting)?;
            // A port more is memory more, charged to who made the name.
            self.has_memory_left(meeting.owner.uid)?;
            return match meeting.what == request.what {
                true => Ok(()),
                false => Err(format!("{name} is of another kind")),
            };
        }
        if !self.has_room_for_name_of(peer.uid) {
            let most = self.budget.meetings_max;
            return Err(format!("no room for another name: at most {most} are in use at once, 3/4 of them one user's"));
        }
        self.has_memory_left(peer.uid)?;
        let meeting = Meeting::create(request, peer)?;
        self.meetings.insert(name.clone(), meeting);
        Ok(())
    }

    /// What a user's names and connections take together is bounded.
    fn has_memory_left(&self, uid: u32) -> Result<(), String> {
        let used = self.meetings.memory_bytes(uid) + self.connections.charged_bytes(uid);
        let allowed = self.policy.memory_per_uid_bytes;
        if used < allowed {
            return Ok(());
        }
        Err(format!("uid {uid} uses {used} bytes of {allowed} (memory_per_uid_bytes)"))
    }

    /// Whether a user may have one more name. No single one may keep the others out.
    pub(crate) fn has_room_for_name_of(&self, uid: u32) -> bool {
        let most = self.budget.meetings_max;
        self.meetings.len() < most && (uid == 0 || self.meetings.names_of(uid) < (most * 3).div_ceil(4))
    }

    fn may_join(&self, peer: &Peer, name: &str, meeting: &Meeting) -> Result<(), String> {
        let party = |peer| Party::here(peer, self.own_netns);
        let judged = self.policy.judge(&party(&meeting.owner), &party(peer), [0, 0]);
        judged.map_err(|reason| {
            let owner = meeting.owner.uid;
            format!("{name} is uid {owner}'s ({}); take another name, or have the policy allow both", reason.name())
        })
    }

    fn leave(&mut self, guest: Guest, now: Instant) {
        let Some(name) = guest.at else { return };
        if let Some(meeting) = self.meetings.get_mut(&name) {
            meeting.guests = meeting.guests.saturating_sub(1);
        }
        self.meetings.tidy(&name, now);
    }

    /// Sends away guests that take too long, and forgets names at which nobody is any more.
    pub(crate) fn sweep_meetings(&mut self, now: Instant) {
        let slow = |guest: &Guest| now.saturating_duration_since(guest.since) > GUEST_TIMEOUT;
        let slow: Vec<u64> = self.guests.iter().filter(|(_, guest)| slow(guest)).map(|(id, _)| *id).collect();
        for id in slow {
            if let Some(guest) = self.guests.remove(&id) {
                self.leave(guest, now);
            }
        }
        self.meetings.tidy_all(now);
    }
}

fn refuse(guest: &Guest, why: String) -> bool {
    answer(&guest.socket, &Answer::Refused(why), &[]);
    false
}

/// Whether the answer is on its way; a socket that takes no answer belongs to nobody who waits for one.
fn answer(socket: &OwnedFd, answer: &Answer, fds: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return false;
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(&answer.encode())], &mut control, flags).is_ok()
}
