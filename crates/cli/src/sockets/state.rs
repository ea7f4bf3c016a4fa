//! TCP states and the names that ss gives them.

/// A TCP state, by the kernel's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    Established = 1,
    SynSent = 2,
    SynRecv = 3,
    FinWait1 = 4,
    FinWait2 = 5,
    TimeWait = 6,
    Closed = 7,
    CloseWait = 8,
    LastAck = 9,
    Listening = 10,
    Closing = 11,
}

/// Each state with its column text, its filter words and its number.
const NAMES: [(State, &str, &[&str]); 11] = [
    (State::Established, "ESTAB", &["established", "estab"]),
    (State::SynSent, "SYN-SENT", &["syn-sent"]),
    (State::SynRecv, "SYN-RECV", &["syn-recv"]),
    (State::FinWait1, "FIN-WAIT-1", &["fin-wait-1"]),
    (State::FinWait2, "FIN-WAIT-2", &["fin-wait-2"]),
    (State::TimeWait, "TIME-WAIT", &["time-wait"]),
    (State::Closed, "UNCONN", &["closed", "unconnected", "close"]),
    (State::CloseWait, "CLOSE-WAIT", &["close-wait"]),
    (State::LastAck, "LAST-ACK", &["last-ack"]),
    (State::Listening, "LISTEN", &["listening", "listen"]),
    (State::Closing, "CLOSING", &["closing"]),
];

impl State {
    pub(crate) fn from_number(number: u8) -> Option<State> {
        // 12 is the kernel's second kind of SYN-RECV (NEW_SYN_RECV).
        let number = if number == 12 { 3 } else { number };
        NAMES.iter().map(|(state, _, _)| *state).find(|state| *state as u8 == number)
    }

    /// As ss prints it.
    pub(crate) fn column(self) -> &'static str {
        NAMES.iter().find(|(state, _, _)| *state == self).map_or("UNKNOWN", |(_, column, _)| column)
    }
}

/// A set of states, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct States(u16);

impl States {
    pub(crate) const NONE: States = States(0);
    pub(crate) const ALL: States = States(0b1111_1111_1110);

    pub(crate) const fn of(state: State) -> States {
        States(1 << state as u16)
    }

    pub(crate) fn contains(self, state: State) -> bool {
        self.0 & Self::of(state).0 != 0
    }

    pub(crate) fn with(self, other: States) -> States {
        States(self.0 | other.0)
    }

    pub(crate) fn without(self, other: States) -> States {
        States(self.0 & !other.0)
    }

    /// What ss shows without options: everything that has a peer or had one.
    pub(crate) fn shown_by_default() -> States {
        let hidden = [State::Listening, State::Closed, State::TimeWait, State::SynRecv];
        hidden.into_iter().fold(States::ALL, |set, state| set.without(States::of(state)))
    }

    /// The states that a word of the filter means: a state or one of ss's groups.
    pub(crate) fn named(word: &str) -> Option<States> {
        let few = States::of(State::TimeWait).with(States::of(State::SynRecv));
        let connected = States::ALL.without(States::of(State::Listening)).without(States::of(State::Closed));
        match word {
            "all" => Some(States::ALL),
            "connected" => Some(connected),
            "synchronized" => Some(connected.without(States::of(State::SynSent))),
            "bucket" => Some(few),
            "big" => Some(States::ALL.without(few)),
            _ => {
                let state = NAMES.iter().find(|(_, _, words)| words.contains(&word))?;
                Some(States::of(state.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_columns_and_words_agree() {
        for (state, column, words) in NAMES {
            assert_eq!(State::from_number(state as u8), Some(state));
            assert_eq!(state.column(), column);
            assert!(words.iter().all(|w| States::named(w) == Some(States::of(state))));
        }
        assert_eq!(State::from_number(12), Some(State::SynRecv));
        assert_eq!(State::from_number(0), None);
        assert_eq!(State::from_number(13), None);
    }

    #[test]
    fn groups_are_those_of_ss() {
        assert!(States::named("connected").unwrap().contains(State::TimeWait));
        assert!(!States::named("connected").unwrap().contains(State::Listening));
        assert!(!States::named("synchronized").unwrap().contains(State::SynSent));
        assert!(!States::named("big").unwrap().contains(State::TimeWait));
        assert!(!States::shown_by_default().contains(State::Listening));
        assert_eq!(States::named("nonsense"), None);
    }
}
