//! What the kernel says of an interface.

use crate::error::PortError;
use crate::sys::device::interface::Asker;

use super::{Step, refusal};

/// An interface, as it was when it was asked about.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
    /// Empty if it has none that says so.
    pub(crate) driver: String,
    pub(crate) rx_queues: u32,
    pub(crate) tx_queues: u32,
}

impl Interface {
    /// Asks about interface `name` in this thread's network namespace.
    pub(crate) fn find(name: &str) -> Result<Interface, PortError> {
        let refused = |errno| refusal(name, Step::Interface, errno);
        let asker = Asker::new().map_err(refused)?;
        let index = asker.index(name).map_err(refused)?;
        let (rx_queues, tx_queues) = asker.queues(name);
        Ok(Interface {
            name: name.to_owned(),
            index,
            mtu: asker.mtu(name).map_err(refused)?,
            is_up: asker.is_up(name).map_err(refused)?,
            driver: asker.driver(name),
            rx_queues,
            tx_queues,
        })
    }

    /// Whether there is such an interface.
    pub(crate) fn exists(name: &str) -> bool {
        Asker::new().is_ok_and(|asker| asker.index(name).is_ok())
    }

    /// Brings it up if `up`; says what to do if it is down.
    pub(crate) fn settle(&mut self, up: bool, limits: &mut Vec<String>) -> Result<(), PortError> {
        if !self.is_up && up {
            let raised = Asker::new().and_then(|asker| asker.bring_up(&self.name));
            raised.map_err(|errno| refusal(&self.name, Step::Up, errno))?;
            self.is_up = true;
        }
        if !self.is_up {
            limits.push(format!("{0} is down and carries nothing; `ip link set {0} up` changes that", self.name));
        }
        Ok(())
    }

    /// Longest frame that it carries: the MTU, the link header, a tag.
    pub(crate) fn frame_bytes_max(&self) -> u32 {
        self.mtu + 18
    }

    /// Whether a default route leads through it: then this machine may be out of reach without it.
    pub(crate) fn has_default_route(&self) -> bool {
        let table = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        default_v4(&table("route"), &self.name) || default_v6(&table("ipv6_route"), &self.name)
    }
}

/// Columns: interface, destination, gateway, flags, three counters, mask.
fn default_v4(table: &str, name: &str) -> bool {
    let routes = table.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    routes.into_iter().any(|r| r.len() > 7 && r[0] == name && r[1] == "00000000" && r[7] == "00000000")
}

/// Columns: destination, its prefix length, source, its length, next hop, metric, two counters, flags, interface. The
/// kernel's own reject route is on `lo`.
fn default_v6(table: &str, name: &str) -> bool {
    let routes = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let everything = "0".repeat(32);
    routes.into_iter().any(|r| r.len() > 9 && r[9] == name && name != "lo" && r[0] == everything && r[1] == "00")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_are_found_in_both_tables() {
        let v4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                  eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                  eth1\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert!(default_v4(v4, "eth0") && !default_v4(v4, "eth1") && !default_v4("", "eth0"));
        let zero = "0".repeat(32);
        let row = |to: &str, bits: &str, name: &str| {
            format!("{to} {bits} {zero} 00 {zero} 00000400 00000001 00000000 00000003 {name}\n")
        };
        let v6 = row(&zero, "00", "eth0") + &row(&zero, "00", "lo") + &row("fe80", "40", "eth1");
        assert!(default_v6(&v6, "eth0") && !default_v6(&v6, "eth1") && !default_v6(&v6, "lo"));
    }

    #[test]
    fn an_interface_that_does_not_exist_is_refused_by_name() {
        let text = Interface::find("rw-none").unwrap_err().to_string();
        assert!(text.starts_with("rw-none: cannot find the interface"), "{text}");
        assert!(text.contains("ip link"), "{text}");
        assert!(Interface::find("a-name-that-is-too-long").is_err());
        assert!(Interface::exists("lo") && !Interface::exists("rw-none"));
    }
}
