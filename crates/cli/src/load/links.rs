//! The connections: by their number among ours, and by the id that events name.

use ringway_stack::{ConnId, Ready};

use super::answer::Answer;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is no connection; one is opened when its time has come.
    Absent,
    Opening,
    /// Open, with nothing to do.
    Idle,
    /// A request is under way.
    Asking,
    /// Answered; the other side ends the connection.
    Ending,
}

pub(super) struct Link {
    pub(super) id: ConnId,
    pub(super) stage: Stage,
    /// Bytes of the request that are sent.
    pub(super) sent: u32,
    pub(super) answer: Answer,
    /// When the request was due, and when the present stage must be over.
    pub(super) due_ns: u64,
}

#[derive(Default)]
pub(super) struct Links {
    links: Vec<Link>,
    /// Links by the index of their connection.
    by_connection: Vec<u32>,
}

impl Links {
    pub(super) fn new(count: u32) -> Links {
        let id = ConnId { index: NONE, generation: 0 };
        let absent = || Link { id, stage: Stage::Absent, sent: 0, answer: Answer::None, due_ns: 0 };
        Links { links: (0..count).map(|_| absent()).collect(), by_connection: Vec::new() }
    }

    pub(super) fn len(&self) -> u32 {
        self.links.len() as u32
    }

    #[inline]
    pub(super) fn get(&mut self, number: u32) -> &mut Link {
        &mut self.links[number as usize]
    }

    /// Link `number` has a connection now.
    pub(super) fn bind(&mut self, number: u32, id: ConnId) {
        let index = id.index as usize;
        if index >= self.by_connection.len() {
            self.by_connection.resize(index + 1, NONE);
        }
        self.by_connection[index] = number;
        self.links[number as usize].id = id;
    }

    /// The link whose connection this is.
    #[inline]
    pub(super) fn find(&self, id: ConnId) -> Option<u32> {
        let number = *self.by_connection.get(id.index as usize)?;
        self.links
            .get(number as usize)
            .is_some_and(|link| link.id == id && link.stage != Stage::Absent)
            .then_some(number)
    }

    /// Links whose stage should be over by `now_ns`.
    pub(super) fn overdue(&self, now_ns: u64, timeout_ns: u64) -> Vec<u32> {
        let waits = |link: &Link| matches!(link.stage, Stage::Opening | Stage::Asking | Stage::Ending);
        let late = |link: &Link| waits(link) && now_ns.saturating_sub(link.due_ns) > timeout_ns;
        (0..self.len()).filter(|number| late(&self.links[*number as usize])).collect()
    }
}

impl Link {
    /// What is worth doing when this has happened.
    #[inline]
    pub(super) fn is_concerned(&self, ready: Ready) -> bool {
        match self.stage {
            Stage::Opening => ready.intersects(Ready::WRITABLE | Ready::ERROR | Ready::HANGUP),
            _ => true,
        }
    }
}
