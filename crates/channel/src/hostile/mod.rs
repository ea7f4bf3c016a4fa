//! One end of a connection, used as programs use it, against a peer that scribbles on every shared word.
//!
//! The victim does what the library does: it sends, receives, looks ahead, waits, half-closes, goes back
//! to TCP and closes. The peer behaves for a while, so that deep states are reached, and scribbles in
//! between. Whatever it writes, the victim sees a reset or valid data:
//!
//! * every byte that it copies lies in an area of the region;
//! * no call moves more bytes than it was asked to;
//! * its own indices stay in order, and change by nothing but its own calls;
//! * each call ends after a bounded number of looks.
//!
//! [`run`] panics otherwise. Property tests, fuzz targets and the long run share it.

mod peer;
mod victim;

use peer::wait;
pub use peer::{Choices, OnTcp, Seeded, behave, length, scribble};
use victim::{Ended, Victim};

use crate::end::Path;
use crate::rendezvous::Role;

/// What a run came to: a run that never delivered a byte or never reset has proved nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub steps: u64,
    pub connections: u64,
    pub resets: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub demotions: u64,
}

/// Takes `steps` steps, or as many as there are choices for, on one connection after another.
///
/// # Panics
/// The victim saw something else than a reset or valid data.
pub fn run(choices: &mut impl Choices, steps: u64) -> Tally {
    let mut tally = Tally::default();
    while tally.steps < steps {
        tally.connections += 1;
        let mut victim = Victim::new();
        loop {
            if tally.steps == steps {
                return tally;
            }
            tally.steps += 1;
            match step(&mut victim, choices, &mut tally) {
                None => return tally,
                Some(Ok(())) => victim.check(),
                Some(Err(Ended::Reset)) => {
                    tally.resets += 1;
                    break;
                }
                Some(Err(Ended::Closed)) => break,
            }
        }
    }
    tally
}

/// One step of either side; `None` when the choices are used up.
fn step(victim: &mut Victim, choices: &mut impl Choices, tally: &mut Tally) -> Option<Result<(), Ended>> {
    let kind = choices.below(20)?;
    let bytes = length(choices)?;
    Some(match kind {
        0..3 => {
            scribble(&victim.header, choices)?;
            Ok(())
        }
        3..8 => {
            peer_behaves(victim, choices, bytes)?;
            Ok(())
        }
        8..11 => victim.send(bytes, choices.below(4)? as usize).map(|n| tally.sent_bytes += n as u64),
        11..15 => victim.receive(bytes).map(|n| tally.received_bytes += n as u64),
        15 => victim.look_ahead(bytes),
        16 => victim.poll(),
        17 => {
            wait(&victim.end(), choices.below(4)?);
            Ok(())
        }
        18 => {
            let before = victim.end().tx_path();
            victim.go_back(choices.below(16)?);
            tally.demotions += u64::from(before != Path::Demoted && victim.end().tx_path() == Path::Demoted);
            Ok(())
        }
        _ if choices.below(16)? == 0 => victim.close(),
        _ => Ok(()),
    })
}

/// The peer does something that a correct one does.
fn peer_behaves(victim: &mut Victim, choices: &mut impl Choices, bytes: usize) -> Option<()> {
    match behave(&victim.peer(), victim.wire.peer_written(), bytes, choices)? {
        OnTcp::Nothing => {}
        OnTcp::Bytes(n) => victim.wire.unread += n,
        OnTcp::Finish => victim.wire.finished = true,
    }
    Some(())
}

/// Which end the victim is.
const VICTIM: Role = Role::A;
const PEER: Role = Role::B;

#[cfg(test)]
mod tests;
