//! What is measured, and by whom.

use std::rc::Rc;

use anyhow::Result;

use super::super::worker::Sample;
use super::routes::Table;
use super::{Setting, devices, rings, routes, tools, vale};

/// A workload, and those who carry it.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) title: String,
    /// What is compared; more is better.
    pub(super) metric: &'static str,
    pub(super) contestants: Vec<Contestant>,
}

type Measure = Box<dyn Fn(&Setting) -> Result<Sample>>;

pub(super) struct Contestant {
    pub(super) name: &'static str,
    pub(super) measure: Measure,
    /// Why it cannot be measured here.
    pub(super) obstacle: Option<&'static str>,
}

impl Contestant {
    fn new(name: &'static str, measure: impl Fn(&Setting) -> Result<Sample> + 'static) -> Contestant {
        Contestant { name, measure: Box::new(measure), obstacle: None }
    }

    /// One that needs network devices.
    fn of_devices(name: &'static str, measure: impl Fn(&Setting) -> Result<Sample> + 'static) -> Contestant {
        Contestant { obstacle: devices::obstacle(), ..Contestant::new(name, measure) }
    }
}

/// Frame lengths in bytes, with the case of each: the shortest, one buffer, a jumbo frame and the longest, in fragments.
const LENGTHS: [(&str, u16); 5] =
    [("switch-60", 60), ("switch-256", 256), ("switch-1500", 1500), ("switch-9000", 9000), ("switch-65535", 65_535)];

impl Case {
    /// All cases, in the order of running.
    pub(super) fn all() -> Vec<Case> {
        let mut cases = vec![pipe()];
        cases.extend(LENGTHS.into_iter().map(|(name, len)| switch(name, len)));
        cases.push(several("broadcast", "one sender's frames to 7 receivers, 60 B, copies counted", 1, 7));
        cases.push(several("gather", "7 senders to one receiver, 60 B", 7, 1));
        cases.push(device("device-60", 60));
        cases.push(device("device-1500", 1500));
        cases.push(forward());
        cases.extend([lookups("routes-random", false), lookups("routes-trace", true), updates()]);
        cases
    }
}

fn pipe() -> Case {
    Case {
        name: "pipe",
        title: "slots through a pipe in batches of 256, packets not touched".to_owned(),
        metric: "packets_per_s",
        contestants: vec![
            Contestant::new("pipe", rings::pipe),
            Contestant::new("pipe, gen and sink", |setting| tools::between("shm:bench", "shm:bench", setting)),
            Contestant::new("slot ring", rings::slots),
        ],
    }
}

fn switch(name: &'static str, len: u16) -> Case {
    let mut contestants = vec![
        Contestant::new("switch", move |setting| vale::one_to_one(len, setting)),
        Contestant::new("switch, isolated", move |setting| vale::isolated(len, setting)),
        Contestant::new("copy limit", move |setting| rings::copying(len, setting)),
        Contestant::new("copy alone", move |setting| rings::copying_alone(len, setting)),
    ];
    if len == 60 {
        let tools = |setting: &Setting| tools::between("valebench:a", "valebench:b", setting);
        contestants.push(Contestant::new("switch, gen and sink", tools));
    }
    if len <= 1500 {
        let bridge = |ends: devices::Ends| move |setting: &Setting| devices::linux_bridge(ends, len, setting);
        contestants.push(Contestant::of_devices("Linux bridge, packet sockets", bridge(devices::Ends::Packet)));
        contestants.push(Contestant::of_devices("Linux bridge, XDP sockets", bridge(devices::Ends::Xdp)));
    }
    let slots = vale::slots_of(len);
    let title = format!("frames of {len} B through the switch, {slots} slots each, receivers look at each frame");
    Case { name, title: title.replace("1 slots", "1 slot"), metric: "packets_per_s", contestants }
}

fn several(name: &'static str, title: &str, senders: usize, receivers: usize) -> Case {
    let switch = move |setting: &Setting| vale::many(senders, receivers, setting);
    Case {
        name,
        title: title.to_owned(),
        metric: "packets_per_s",
        contestants: vec![Contestant::new("switch", switch), Contestant::new("copy limit", |s| rings::copying(60, s))],
    }
}

fn device(name: &'static str, len: u16) -> Case {
    let link = |ends: devices::Ends| move |setting: &Setting| devices::link(ends, len, setting);
    Case {
        name,
        title: format!("frames of {len} B over a veth pair"),
        metric: "packets_per_s",
        contestants: vec![
            Contestant::of_devices("XDP sockets", link(devices::Ends::Xdp)),
            Contestant::of_devices("packet sockets", link(devices::Ends::Packet)),
        ],
    }
}

fn forward() -> Case {
    let ours = |ends: devices::Ends| move |setting: &Setting| devices::forward(ends, setting);
    Case {
        name: "forward",
        title: "frames of 60 B from one veth pair to another, packet sockets at both ends".to_owned(),
        metric: "packets_per_s",
        contestants: vec![
            Contestant::of_devices("XDP sockets", ours(devices::Ends::Xdp)),
            Contestant::of_devices("packet sockets", ours(devices::Ends::Packet)),
            Contestant::of_devices("Linux bridge", |s| devices::linux_bridge(devices::Ends::Packet, 60, s)),
        ],
    }
}

fn lookups(name: &'static str, is_trace: bool) -> Case {
    let keys = if is_trace { "as in a packet trace" } else { "at random" };
    let (v4, v6, narrow) =
        (Rc::new(Table::<u32>::new(20)), Rc::new(Table::<u128>::new(20)), Rc::new(Table::<u32>::new(18)));
    let one_by_one = v4.clone();
    Case {
        name,
        title: format!("longest-prefix match, 500,000 prefixes, keys {keys}"),
        metric: "lookups_per_s",
        contestants: vec![
            Contestant::new("DXR, 20 bits direct", move |setting| Ok(v4.lookups(is_trace, setting))),
            Contestant::new("DXR, 18 bits direct", move |setting| Ok(narrow.lookups(is_trace, setting))),
            Contestant::new("DXR, one by one", move |setting| Ok(one_by_one.single_lookups(is_trace, setting))),
            Contestant::new("DXR, IPv6", move |setting| Ok(v6.lookups(is_trace, setting))),
            Contestant::new("one load", move |setting| Ok(routes::loads(setting))),
        ],
    }
}

fn updates() -> Case {
    let (v4, v6) = (Rc::new(Table::<u32>::new(20)), Rc::new(Table::<u128>::new(20)));
    Case {
        name: "routes-updates",
        title: "changes to a table of 500,000 prefixes, each seen by lookups before the next".to_owned(),
        metric: "updates_per_s",
        contestants: vec![
            Contestant::new("DXR", move |setting| Ok(v4.updates(setting))),
            Contestant::new("DXR, IPv6", move |setting| Ok(v6.updates(setting))),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let cases = Case::all();
        let names: std::collections::BTreeSet<_> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        for case in &cases {
            let contestants: std::collections::BTreeSet<_> = case.contestants.iter().map(|c| c.name).collect();
            assert_eq!(contestants.len(), case.contestants.len(), "{}", case.name);
        }
    }
}
