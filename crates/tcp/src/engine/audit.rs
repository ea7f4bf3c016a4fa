//! What must hold of an engine at any time, for simulations and fuzzing. Slow: looks at every connection.

use super::Engine;
use crate::conn::state::State;
use crate::conn::{Cold, Flags, Hot};

impl Engine {
    /// Looks at everything that the engine keeps; says what does not hold, if anything does not.
    ///
    /// # Errors
    /// One sentence, with the number of the connection that it is about.
    pub fn audit(&self) -> Result<(), String> {
        if self.buffer_bytes() > self.shared.config.buffer_bytes_max as usize {
            return Err(format!("{} bytes in buffers", self.buffer_bytes()));
        }
        let slots = (0..).map_while(|index| Some((index, self.hot.get(index)?, self.cold.get(index)?)));
        for (index, hot, cold) in slots.filter(|(_, hot, _)| hot.flags.contains(Flags::IN_TABLE)) {
            audit_connection(hot, cold).map_err(|what| format!("connection {index} in {:?}: {what}", hot.state))?;
            let deadline = cold.timers.earliest();
            if deadline.is_some_and(|at| self.wheel.armed(index).is_none_or(|tick| tick > at.us().div_ceil(1000))) {
                return Err(format!("connection {index}: the wheel does not know of the timer at {deadline:?}"));
            }
        }
        Ok(())
    }
}

fn audit_connection(hot: &Hot, cold: &Cold) -> Result<(), &'static str> {
    if matches!(hot.state, State::Closed | State::Listen | State::SynSent | State::SynReceived) {
        return Ok(());
    }
    cold.recovery.audit()?;
    let board = &cold.recovery.board;
    let (flight, recorded) = (u64::from(hot.flight()), board.nxt() - board.una());
    if flight != recorded {
        return Err("the scoreboard does not hold what is in flight");
    }
    if (hot.write_seq - hot.snd_nxt) < -1 || (hot.snd_nxt - hot.snd_una) < 0 {
        return Err("what is sent is not what was written");
    }
    if (hot.rcv_nxt - hot.copied) < 0 || (hot.rcv_nxt - hot.rcv_wup) < 0 {
        return Err("what was read, told or received is out of order");
    }
    Ok(())
}
