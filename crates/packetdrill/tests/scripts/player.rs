//! Plays a script: moves the clock, injects what the peer sends, makes the calls, and compares what comes out.

use std::sync::Arc;

use crate::assertion;
use crate::blocking::Blocked;
use crate::book::Case;
use crate::call::{Call, Fds};
use crate::flow::{Flow, Version, pattern};
use crate::host::Host;
use crate::icmp;
use crate::options::TCP_INFO;
use crate::segment::Segment;
use crate::syntax::{Event, What, When};

/// How far from its time something may happen, as packetdrill has it.
pub(crate) const TOLERANCE_US: u64 = 4_000;

pub(crate) struct Play {
    host: Arc<Host>,
    version: Version,
    flow: Option<Flow>,
    fds: Fds,
    /// When the script began.
    zero: u64,
    /// When the last packet was injected, if that was the last event.
    injected: Option<u64>,
    blocked: Option<Blocked>,
}

impl Play {
    pub(crate) fn new(host: Host, version: Version) -> Play {
        let zero = host.now();
        let fds = Fds::default();
        Play { host: Arc::new(host), version, flow: None, fds, zero, injected: None, blocked: None }
    }

    pub(crate) fn run(mut self, case: &Case) -> Result<(), String> {
        for line in &case.lines {
            let fail = |why| format!("line {}: `{}`: {why}", line.number, line.text);
            let event = Event::parse(&line.text).map_err(fail)?;
            self.step(&event).map_err(fail)?;
        }
        self.finish_blocked()?;
        self.nothing_is_left(case.lenient)
    }

    fn step(&mut self, event: &Event) -> Result<(), String> {
        let injected = self.injected.take();
        let base = match event.what {
            // As packetdrill: injected packets follow each other exactly.
            What::In(_) => injected.unwrap_or_else(|| self.host.now()),
            _ => self.host.now(),
        };
        let span = match event.when {
            When::After(from, until) => Some((base + from, base + until)),
            When::At(at) => Some((self.zero + at, self.zero + at)),
            When::Any => None,
        };
        if let What::Out(text) = &event.what {
            return self.expect(&Segment::parse(text)?, span);
        }
        if let Some((from, _)) = span {
            self.sleep_until(from)?;
        }
        match &event.what {
            What::In(text) => {
                self.injected = span.map(|(from, _)| from);
                self.inject(text)
            }
            What::Assert(code) => self.assert(code),
            What::Call(text) => self.call(&Call::parse(text)?, event.lasts_us),
            What::Out(_) => unreachable!("expected above"),
        }
    }

    fn sleep_until(&mut self, at: u64) -> Result<(), String> {
        let now = self.host.now();
        if at > now {
            self.host.usleep(at - now);
        }
        let late_us = self.host.now().saturating_sub(at);
        if late_us > TOLERANCE_US { Err(format!("happens {late_us} us too late")) } else { Ok(()) }
    }

    fn inject(&mut self, text: &str) -> Result<(), String> {
        let version = self.version;
        let flow = self.flow.get_or_insert_with(|| Flow::to_server(version));
        let packet = match icmp::parse(text, version)? {
            Some(error) => flow.icmp(&error),
            None => {
                let said = Segment::parse(text)?;
                let payload = pattern(said.seq.wrapping_sub(u32::from(!said.has('S'))), said.len);
                flow.tcp(&flow.to_wire(&said), &payload)
            }
        };
        self.host.arrive(&packet);
        Ok(())
    }

    /// One segment comes out, or several that make up what was said.
    fn expect(&mut self, said: &Segment, span: Option<(u64, u64)>) -> Result<(), String> {
        let (mut found, at, mut payload) = self.departure(said)?;
        while found.len < said.len {
            let (next, _, more) = self.departure(said)?;
            if next.seq != found.seq.wrapping_add(found.len) || next.len == 0 {
                return Err(format!("{next} follows {found}"));
            }
            payload.extend(more);
            found = Segment { seq: found.seq, len: found.len + next.len, ..next };
        }
        if !found.matches(said) {
            return Err(format!("found {found}"));
        }
        let first = found.seq.wrapping_sub(u32::from(!found.has('S')));
        if payload != pattern(first, found.len) {
            return Err("the payload is not what was written".into());
        }
        match span {
            Some((from, until)) if at + TOLERANCE_US < from || at > until + TOLERANCE_US => {
                Err(format!("{found} came {} us after the expected time", at as i64 - until as i64))
            }
            _ => Ok(()),
        }
    }

    fn departure(&mut self, said: &Segment) -> Result<(Segment, u64, Vec<u8>), String> {
        let (at, packet) = self.host.departure().ok_or("nothing comes out, and no timer is left")?;
        let flow = self.flow.get_or_insert_with(|| Flow::of_client(&packet));
        let (wire, payload) = flow.read(&packet)?;
        Ok((flow.as_script_says(&wire, said), at, payload))
    }

    fn assert(&mut self, code: &str) -> Result<(), String> {
        let fd = self.fds.under_test.ok_or("no connection to ask")?;
        let (answer, info) = self.host.getsockopt(fd, libc::IPPROTO_TCP, TCP_INFO);
        if answer.value < 0 { Err(format!("TCP_INFO: errno {}", answer.errno)) } else { assertion::check(code, &info) }
    }

    fn call(&mut self, call: &Call, lasts_us: Option<u64>) -> Result<(), String> {
        self.finish_blocked_if_over()?;
        let Some(lasts_us) = lasts_us else {
            let outcome = call.perform(&self.host, &self.fds, self.version);
            return self.fds.settle(call, outcome);
        };
        self.finish_blocked()?;
        let until = self.host.now() + lasts_us;
        self.blocked =
            Some(Blocked::start(call.clone(), Arc::clone(&self.host), self.fds.clone(), self.version, until)?);
        Ok(())
    }

    fn finish_blocked_if_over(&mut self) -> Result<(), String> {
        let over = self.blocked.as_ref().is_some_and(Blocked::is_over);
        if over { self.finish_blocked() } else { Ok(()) }
    }

    /// Waits until the call on the other thread has returned, at the time that the script says.
    fn finish_blocked(&mut self) -> Result<(), String> {
        let Some(blocked) = self.blocked.take() else { return Ok(()) };
        let now = self.host.now();
        if blocked.until > now && !blocked.is_over() {
            self.host.usleep(blocked.until + TOLERANCE_US / 2 - now);
        }
        let (call, outcome) = blocked.join()?;
        self.fds.settle(&call, outcome)
    }

    /// What came out and was not expected.
    fn nothing_is_left(&mut self, lenient: bool) -> Result<(), String> {
        let now = self.host.now();
        match self.host.departure() {
            Some((at, packet)) if at <= now && !lenient => {
                let flow = self.flow.get_or_insert_with(|| Flow::of_client(&packet));
                let (wire, _) = flow.read(&packet)?;
                Err(format!("at the end, this is left: {}", flow.as_script_says(&wire, &Segment::default())))
            }
            _ => Ok(()),
        }
    }
}
