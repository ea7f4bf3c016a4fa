//! A refused system call in words: what was asked, what the kernel said, what to try.

use rustix::io::Errno;

use crate::error::PortError;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Interface,
    Up,
    TapDevice,
    TapOffload,
    PacketSocket,
    XdpSocket,
    XdpMemory,
    XdpRings,
    XdpBind,
    Map,
    Program,
    Attach,
    Redirect,
    BusyPoll,
}

impl Step {
    /// Continues "cannot".
    fn asked(self) -> &'static str {
        match self {
            Step::Interface => "find the interface",
            Step::Up => "bring the interface up",
            Step::TapDevice => "make or attach to the TAP device",
            Step::TapOffload => "set the TAP device's offloads",
            Step::PacketSocket => "open a packet socket",
            Step::XdpSocket => "open an XDP socket",
            Step::XdpMemory => "register the pool's buffers with the kernel",
            Step::XdpRings => "make the XDP socket's rings",
            Step::XdpBind => "bind an XDP socket to the queue",
            Step::Map => "make a BPF map",
            Step::Program => "load the BPF program",
            Step::Attach => "attach the BPF program",
            Step::Redirect => "attach the host rings' BPF program",
            Step::BusyPoll => "have the device polled",
        }
    }

    /// What to try.
    fn remedy(self, errno: Errno) -> &'static str {
        let bpf = matches!(self, Step::Map | Step::Program | Step::Attach | Step::Redirect);
        match (self, errno) {
            (Step::Interface, _) => "`ip link` lists this namespace's interfaces",
            (_, Errno::PERM | Errno::ACCESS) if bpf => "needs CAP_BPF and CAP_NET_ADMIN (or root)",
            (Step::TapDevice | Step::TapOffload | Step::Up | Step::BusyPoll, Errno::PERM | Errno::ACCESS) => {
                "needs CAP_NET_ADMIN, or for a TAP device one that belongs to you (`ip tuntap add NAME mode tap user ...`)"
            }
            (_, Errno::PERM | Errno::ACCESS) => "needs CAP_NET_RAW (or root)",
            (Step::TapDevice, Errno::BUSY) => "another program is attached; end it, or take another name",
            (Step::TapDevice, Errno::NOENT | Errno::NODEV) => {
                "there is no /dev/net/tun, or the name is too long (15 bytes)"
            }
            (Step::TapDevice, Errno::INVAL) => "an interface of that name is no TAP device, or one without multi_queue",
            (Step::XdpMemory | Step::XdpRings | Step::Map, Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN) => {
                "raise RLIMIT_MEMLOCK (`ulimit -l`), or use fewer buffers"
            }
            (Step::XdpBind, Errno::BUSY) => "another XDP socket has the queue; end that program, or take another queue",
            (Step::XdpBind, Errno::INVAL) => "the queue does not exist; `ethtool -l` shows how many there are",
            (Step::XdpBind, Errno::NETDOWN) => "bring the interface up: `ip link set IF up`",
            (Step::Attach, Errno::BUSY | Errno::EXIST) => {
                "another XDP program is attached; `ip link show` names it, `ip link set IF xdp off` removes it"
            }
            (Step::XdpSocket | Step::PacketSocket, Errno::AFNOSUPPORT) => "this kernel was built without them",
            (_, Errno::NOSYS | Errno::OPNOTSUPP) => "this kernel or driver cannot do it; packet:IF works everywhere",
            _ => "the kernel's log (`dmesg`) may say more",
        }
    }
}

/// The refusal of `step` for the port or interface `name`.
pub(crate) fn refusal(name: &str, step: Step, errno: Errno) -> PortError {
    PortError::refused(name, format!("cannot {}: {errno}; {}", step.asked(), step.remedy(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_what_was_asked_what_was_said_and_what_to_try() {
        let cases = [
            (Step::PacketSocket, Errno::PERM, "CAP_NET_RAW"),
            (Step::XdpSocket, Errno::PERM, "CAP_NET_RAW"),
            (Step::Program, Errno::PERM, "CAP_BPF"),
            (Step::Map, Errno::PERM, "CAP_BPF"),
            (Step::TapDevice, Errno::PERM, "CAP_NET_ADMIN"),
            (Step::XdpMemory, Errno::NOBUFS, "RLIMIT_MEMLOCK"),
            (Step::Interface, Errno::NODEV, "ip link"),
            (Step::XdpBind, Errno::INVAL, "ethtool -l"),
            (Step::XdpBind, Errno::BUSY, "another XDP socket"),
            (Step::Attach, Errno::BUSY, "another XDP program"),
            (Step::Attach, Errno::EXIST, "another XDP program"),
        ];
        for (step, errno, remedy) in cases {
            let text = refusal("xdp:eth9/0", step, errno).to_string();
            assert!(text.starts_with("xdp:eth9/0: cannot "), "{text}");
            assert!(text.contains(&errno.to_string()) && text.contains(remedy), "{text}");
        }
    }
}
