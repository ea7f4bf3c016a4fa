//! Calls as scripts write them: `write(4, ..., 1000) = 1000`, `read(4, ..., 1) = -1 EAGAIN`.

use std::collections::BTreeMap;

use crate::flow::{Version, pattern};
use crate::host::{Answer, Host};
use crate::options;
use crate::words::{member, number};

/// A call, its arguments still text, and what it must answer.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    arguments: Vec<String>,
    value: i64,
    errno: Option<i32>,
}

/// What a call did.
pub(crate) struct Outcome {
    answer: Answer,
    /// What it gave back beside the answer is not what the script says.
    problem: Result<(), String>,
}

/// Descriptors of the script and those of the host, and how far their streams are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fds {
    pub(crate) map: BTreeMap<i64, i32>,
    /// The one that assertions ask.
    pub(crate) under_test: Option<i32>,
    written: BTreeMap<i32, u32>,
    read: BTreeMap<i32, u32>,
}

impl Fds {
    fn host(&self, fd: i64) -> i32 {
        self.map.get(&fd).copied().unwrap_or(-1)
    }

    /// Compares what a call did with what the script says, and remembers what it opened.
    pub(crate) fn settle(&mut self, call: &Call, outcome: Outcome) -> Result<(), String> {
        let Answer { value, errno } = outcome.answer;
        let opens = matches!(call.name.as_str(), "socket" | "accept" | "epoll_create");
        if opens && value >= 0 && call.value >= 0 {
            self.map.insert(call.value, value as i32);
        } else if value != call.value || call.errno.is_some_and(|expected| value < 0 && expected != errno) {
            return Err(format!("answered {value} (errno {errno})"));
        }
        if value < 0 {
            return Ok(());
        }
        let fd = self.host(call.number(0).unwrap_or(-1));
        match call.name.as_str() {
            "accept" => self.under_test = Some(value as i32),
            "connect" => self.under_test = Some(fd),
            "write" | "send" | "sendto" => *self.written.entry(fd).or_default() += value as u32,
            "read" => *self.read.entry(fd).or_default() += value as u32,
            "recv" if call.number(3)? & i64::from(libc::MSG_PEEK | libc::MSG_OOB) == 0 => {
                *self.read.entry(fd).or_default() += value as u32;
            }
            _ => {}
        }
        outcome.problem
    }
}

impl Call {
    pub(crate) fn parse(text: &str) -> Result<Call, String> {
        let wrong = || format!("`{text}` is no call");
        let (before, result) = text.rsplit_once(") = ").ok_or_else(wrong)?;
        let (name, arguments) = before.split_once('(').ok_or_else(wrong)?;
        let arguments = crate::syntax::split(arguments, ',').into_iter().map(str::to_owned).collect();
        let mut words = result.split_whitespace();
        let value = number(words.next().ok_or_else(wrong)?)?;
        let errno = words.next().filter(|word| !word.starts_with('(')).map(number).transpose()?;
        Ok(Call { name: name.trim().to_owned(), arguments, value, errno: errno.map(|errno| errno as i32) })
    }

    fn text(&self, at: usize) -> Result<&str, String> {
        self.arguments.get(at).map(String::as_str).ok_or_else(|| format!("{} wants more arguments", self.name))
    }

    fn number(&self, at: usize) -> Result<i64, String> {
        number(self.text(at)?)
    }

    pub(crate) fn perform(&self, host: &Host, fds: &Fds, version: Version) -> Outcome {
        let done = self.try_perform(host, fds, version);
        done.unwrap_or_else(|problem| Outcome { answer: Answer { value: self.value, errno: 0 }, problem: Err(problem) })
    }

    fn try_perform(&self, host: &Host, fds: &Fds, version: Version) -> Result<Outcome, String> {
        let int = |at: usize| self.number(at).map(|value| value as i32);
        let fd = || int(0).map(|fd| fds.host(fd.into()));
        let mut problem = Ok(());
        let answer = match self.name.as_str() {
            "socket" => host.socket(version.domain(), int(1)?, int(2)?),
            "bind" => host.bind(fd()?, &version.socket_address(false)),
            "listen" => host.listen(fd()?, int(1)?),
            "accept" => {
                let (answer, peer) = host.accept(fd()?);
                let address = &version.socket_address(true)[4..8];
                if answer.value >= 0 && &peer[4..8] != address {
                    problem = Err(format!("the peer is {peer:?}"));
                }
                answer
            }
            "connect" => host.connect(fd()?, &version.socket_address(true)),
            "read" | "recv" => {
                let flags = if self.name == "recv" { int(3)? } else { 0 };
                let (answer, bytes) = host.recv(fd()?, int(2)? as usize, flags);
                let at = fds.read.get(&fd()?).copied().unwrap_or(0);
                if flags & libc::MSG_OOB == 0 && bytes != pattern(at, bytes.len() as u32) {
                    problem = Err("the bytes are not what the peer sent".into());
                }
                answer
            }
            "write" | "send" | "sendto" => {
                let bytes = pattern(fds.written.get(&fd()?).copied().unwrap_or(0), int(2)? as u32);
                match self.name.as_str() {
                    "sendto" => host.sendto(fd()?, &bytes, int(3)?, &version.socket_address(true)),
                    "send" => host.send(fd()?, &bytes, int(3)?),
                    _ => host.send(fd()?, &bytes, 0),
                }
            }
            "close" => host.close(fd()?),
            "shutdown" => host.shutdown(fd()?, int(1)?),
            "fcntl" => host.fcntl(fd()?, int(1)?, self.number(2).unwrap_or(0)),
            _ => return self.ask(host, fds),
        };
        Ok(Outcome { answer, problem })
    }

    /// Calls that tell something beside their answer.
    fn ask(&self, host: &Host, fds: &Fds) -> Result<Outcome, String> {
        let int = |at: usize| self.number(at).map(|value| value as i32);
        let fd = fds.host(self.number(0).unwrap_or(-1));
        let same = |found: i64, said: i64| if found == said { Ok(()) } else { Err(format!("{found}, not {said}")) };
        let (answer, problem) = match self.name.as_str() {
            "ioctl" => {
                let (answer, value) = host.ioctl(fd, self.number(1)? as u64);
                (answer, same(value, self.number(2)?))
            }
            "getsockopt" => {
                let (answer, value) = host.getsockopt(fd, int(1)?, int(2)?);
                (answer, options::check(self.text(3)?, &value))
            }
            "setsockopt" => (host.setsockopt(fd, int(1)?, int(2)?, &options::encode(self.text(3)?)?), Ok(())),
            "poll" => {
                let said = self.text(0)?;
                let (fd, events) = (fds.host(member(said, "fd")?), member(said, "events")? as i16);
                let mut asked = [libc::pollfd { fd, events, revents: 0 }];
                let answer = host.poll(&mut asked, int(2)?);
                (answer, same(asked[0].revents.into(), member(said, "revents")?))
            }
            "epoll_create" => (host.epoll_create(), Ok(())),
            "epoll_ctl" => {
                let events = self.text(3).map_or(Ok(0), |said| member(said, "events"))?;
                (host.epoll_ctl(fd, int(1)?, fds.host(self.number(2)?), events as u32), Ok(()))
            }
            "epoll_wait" => {
                let (answer, (events, _)) = host.epoll_wait(fd, int(3)?);
                (answer, same(events.into(), member(self.text(1)?, "events")?))
            }
            name => return Err(format!("`{name}` is unknown")),
        };
        Ok(Outcome { answer, problem })
    }
}
