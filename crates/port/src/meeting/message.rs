//! What is asked of the monitor, and what it answers: one message each way, on a `SOCK_SEQPACKET` socket.
//!
//! ```text
//!   request, 88 bytes                                      answer, 8 to 520 bytes
//!   0   "RWP1"                                             0   "RWP1"
//!   4   version (16 bits), what (16): 1 pool, 2 switch     4   version (16 bits), status (16): 0 met, 1 refused
//!   8   buffers, buffer_bytes, object_pages (32 each)      8   why it is refused, for people (UTF-8)
//!   20  bytes of the name (32)
//!   24  name, zeros behind it                              with "met" come the descriptors: a pool's memfd, and
//!                                                          for a switch its fabric's as well
//! ```
//! Numbers are little endian. Whoever receives a message bounds all of it.

use ringway_mem::pool::{NAME_BYTES, PoolConfig};

/// Changes whenever a message or a shared layout changes.
pub const VERSION: u16 = 1;
/// Length of every request, in bytes.
pub const REQUEST_BYTES: usize = 24 + NAME_BYTES;
/// Longest answer, in bytes.
pub const ANSWER_BYTES_MAX: usize = 8 + REASON_BYTES_MAX;
/// Descriptors that come with an answer at most.
pub const DESCRIPTORS_MAX: usize = 2;

const MAGIC: [u8; 4] = *b"RWP1";
const REASON_BYTES_MAX: usize = 512;

/// What processes share under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum What {
    /// A pool, for pipes and the ports of a device.
    Pool = 1,
    /// A pool for the ports of a switch, and the fabric that joins them.
    Switch = 2,
}

impl What {
    /// Descriptors that stand for it.
    pub fn descriptors(self) -> usize {
        self as usize
    }
}

/// "What is at this name? If nothing is, make it, and the pool of this size."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub what: What,
    pub name: String,
    pub config: PoolConfig,
}

/// The answer, without its descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Met,
    /// Why not, for people.
    Refused(String),
}

impl Request {
    /// The bytes of the request; a name that is too long is cut, and refused by the monitor as another's.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        let name = &self.name.as_bytes()[..self.name.len().min(NAME_BYTES)];
        let PoolConfig { buffers, buffer_bytes, object_pages } = self.config;
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&(self.what as u16).to_le_bytes());
        for (at, word) in [(8, buffers), (12, buffer_bytes), (16, object_pages), (20, name.len() as u32)] {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[24..24 + name.len()].copy_from_slice(name);
        bytes
    }

    /// Reads a request.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn decode(bytes: &[u8]) -> Result<Request, String> {
        let bytes: &[u8; REQUEST_BYTES] = bytes
            .try_into()
            .map_err(|_| format!("a request of {} bytes where {REQUEST_BYTES} are expected", bytes.len()))?;
        let what = match kind(bytes)? {
            1 => What::Pool,
            2 => What::Switch,
            other => return Err(format!("a request for what is not known here ({other})")),
        };
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let config = PoolConfig { buffers: word(8), buffer_bytes: word(12), object_pages: word(16) };
        let name = bytes[24..].get(..word(20) as usize).and_then(|name| std::str::from_utf8(name).ok());
        let is_plain = |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        let name = name.filter(is_plain).ok_or("a name that is none: 1 to 64 visible ASCII characters")?;
        Ok(Request { what, name: name.to_owned(), config })
    }
}

impl Answer {
    /// The bytes of the answer; a reason that is too long is cut.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        match self {
            Answer::Met => bytes.extend(0_u16.to_le_bytes()),
            Answer::Refused(why) => {
                bytes.extend(1_u16.to_le_bytes());
                bytes.extend(why.as_bytes().iter().take(REASON_BYTES_MAX));
            }
        }
        bytes
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn decode(bytes: &[u8]) -> Result<Answer, String> {
        match kind(bytes)? {
            0 => Ok(Answer::Met),
            1 => {
                let why = bytes.get(8..ANSWER_BYTES_MAX.min(bytes.len())).unwrap_or_default();
                Ok(Answer::Refused(String::from_utf8_lossy(why).into_owned()))
            }
            other => Err(format!("an answer that is not known here ({other})")),
        }
    }
}

/// The third field of a message whose first two are right.
fn kind(bytes: &[u8]) -> Result<u16, String> {
    let Some(([a, b, c, d, low, high, kind @ ..], _)) = bytes.split_first_chunk::<8>() else {
        return Err(format!("a message of {} bytes", bytes.len()));
    };
    if [*a, *b, *c, *d] != MAGIC {
        return Err("a message that is none about ports".to_owned());
    }
    match u16::from_le_bytes([*low, *high]) {
        VERSION => Ok(u16::from_le_bytes(*kind)),
        other => Err(format!("version {other} is spoken there, {VERSION} here; both must be of one release")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for what in [What::Pool, What::Switch] {
            let request = Request { what, name: "netmap:x".to_owned(), config: PoolConfig::default() };
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        for answer in [Answer::Met, Answer::Refused("vale0 is another's".to_owned())] {
            assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }
        let long = Answer::Refused("x".repeat(2000)).encode();
        assert_eq!(Answer::decode(&long), Ok(Answer::Refused("x".repeat(REASON_BYTES_MAX))));
    }

    #[test]
    fn bad_requests_are_named() {
        let good = Request { what: What::Pool, name: "vale0".to_owned(), config: PoolConfig::default() }.encode();
        let with = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            Request::decode(&bytes).unwrap_err()
        };
        assert!(with(0, b'X').contains("about ports"));
        assert!(with(4, 9).contains("version 9"));
        assert!(with(6, 3).contains("not known"));
        for name in [with(20, 0), with(20, 65), with(24, b' '), with(24, 0xff), with(20, 6)] {
            assert!(name.contains("1 to 64"), "{name}");
        }
        assert!(Request::decode(&good[1..]).unwrap_err().contains("87 bytes"));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200), whole in any::<bool>()) {
            let mut bytes = bytes;
            if whole {
                bytes.resize(REQUEST_BYTES, 0);
                bytes[..8].copy_from_slice(b"RWP1\x01\0\x01\0");
            }
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
            }
            let _ = Answer::decode(&bytes);
        }
    }
}
