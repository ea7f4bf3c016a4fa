//! Why a connection is on plain TCP: one list for the library, the monitor and the tools.

/// The reason that a connection is not carried over shared memory.
///
/// The numbers travel in messages and statistics pages; never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
pub enum Reason {
    /// Not on plain TCP at all, or nothing has been decided yet.
    None = 0,
    /// The other end has not been offered: its program does not run under Ringway.
    NoPartner = 1,
    /// The policy file denies it.
    PolicyDenied = 2,
    /// The ends belong to different users and the policy does not allow the pair.
    ForeignUid = 3,
    /// The uid has used up the memory that the policy grants it.
    MemoryCap = 4,
    /// One of the monitor's bounded tables is full.
    TableFull = 5,
    /// Library and monitor speak different protocol versions.
    VersionMismatch = 6,
    /// The offered descriptor is no TCP socket.
    NotTcp = 7,
    /// The socket is not connected (any more).
    NotConnected = 8,
    /// The peer's address is not on this host.
    NotLocal = 9,
    /// The ends sit in different network namespaces and the policy does not allow the pair.
    ForeignNamespace = 10,
    /// More than one socket matches across namespaces.
    Ambiguous = 11,
    /// No monitor answers.
    MonitorAbsent = 12,
    /// The connection has not carried enough traffic to be worth an upgrade.
    TooShort = 13,
    /// The memory that the monitor handed out failed its checks (size, seals, header).
    RegionInvalid = 14,
    /// The peer wrote impossible values into the shared memory; the connection was reset.
    RingViolation = 15,
    /// The monitor does not know this connection.
    UnknownConnection = 16,
    /// The process ran out of descriptors, mappings or table entries.
    ResourceLimit = 17,
    /// Ringway is switched off by `RINGWAY_DISABLE`.
    Disabled = 18,
    /// The peer has closed or shut down; what is left goes by TCP.
    PeerFinished = 19,
    /// The program that holds the socket does not run under Ringway.
    WithoutLibrary = 20,
    /// The program makes its system calls itself (Go), past the library.
    BareCalls = 21,
    /// Whoever asks may not look into the programs that hold the socket: whether it is on TCP is not known.
    Unseen = 22,
    /// Urgent data was sent (`MSG_OOB`).
    UrgentData = 32,
    /// `splice`, `tee` or `vmsplice` moves the bytes inside the kernel.
    Splice = 33,
    /// The socket became a standard stream that the C library reads or writes by itself.
    Stdio = 34,
    /// An upper layer protocol (kernel TLS) was attached.
    KernelTls = 35,
    /// Packet time stamps were asked for (`SO_TIMESTAMP` and relatives).
    Timestamps = 36,
    /// `io_uring` operates on the socket.
    IoUring = 37,
    /// The process executed a program without the library.
    ExecWithoutLibrary = 38,
    /// Signal-driven I/O was asked for (`F_SETOWN`, `F_SETSIG`, `O_ASYNC`).
    SignalIo = 39,
    /// A socket option that only the kernel's data path can honour.
    SocketOption = 40,
    /// Kernel zero copy was asked for (`SO_ZEROCOPY`, `TCP_ZEROCOPY_RECEIVE`).
    ZeroCopy = 41,
    /// The socket was shared in a way that the library cannot follow.
    Shared = 42,
    /// Another process had moved the connection to a ring that this one could not get; the connection was reset.
    RingOutOfReach = 43,
    /// The program has installed a seccomp filter of its own, which the library's system calls may not pass.
    SeccompFilter = 44,
}

impl Reason {
    /// Every reason, in the order of the numbers.
    pub const ALL: [Reason; 36] = [
        Reason::None,
        Reason::NoPartner,
        Reason::PolicyDenied,
        Reason::ForeignUid,
        Reason::MemoryCap,
        Reason::TableFull,
        Reason::VersionMismatch,
        Reason::NotTcp,
        Reason::NotConnected,
        Reason::NotLocal,
        Reason::ForeignNamespace,
        Reason::Ambiguous,
        Reason::MonitorAbsent,
        Reason::TooShort,
        Reason::RegionInvalid,
        Reason::RingViolation,
        Reason::UnknownConnection,
        Reason::ResourceLimit,
        Reason::Disabled,
        Reason::PeerFinished,
        Reason::WithoutLibrary,
        Reason::BareCalls,
        Reason::Unseen,
        Reason::UrgentData,
        Reason::Splice,
        Reason::Stdio,
        Reason::KernelTls,
        Reason::Timestamps,
        Reason::IoUring,
        Reason::ExecWithoutLibrary,
        Reason::SignalIo,
        Reason::SocketOption,
        Reason::ZeroCopy,
        Reason::Shared,
        Reason::RingOutOfReach,
        Reason::SeccompFilter,
    ];

    /// The reason with this number; `None` for a number that nobody has given out.
    pub fn from_number(number: u16) -> Option<Reason> {
        Self::ALL.into_iter().find(|r| *r as u16 == number)
    }

    /// A short name for tables, metrics labels and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Reason::None => "none",
            Reason::NoPartner => "no-partner",
            Reason::PolicyDenied => "policy-denied",
            Reason::ForeignUid => "foreign-uid",
            Reason::MemoryCap => "memory-cap",
            Reason::TableFull => "table-full",
            Reason::VersionMismatch => "version-mismatch",
            Reason::NotTcp => "not-tcp",
            Reason::NotConnected => "not-connected",
            Reason::NotLocal => "not-local",
            Reason::ForeignNamespace => "foreign-namespace",
            Reason::Ambiguous => "ambiguous",
            Reason::MonitorAbsent => "monitor-absent",
            Reason::TooShort => "too-short",
            Reason::RegionInvalid => "region-invalid",
            Reason::RingViolation => "ring-violation",
            Reason::UnknownConnection => "unknown-connection",
            Reason::ResourceLimit => "resource-limit",
            Reason::Disabled => "disabled",
            Reason::PeerFinished => "peer-finished",
            Reason::WithoutLibrary => "without-library",
            Reason::BareCalls => "bare-calls",
            Reason::Unseen => "unseen",
            Reason::UrgentData => "urgent-data",
            Reason::Splice => "splice",
            Reason::Stdio => "stdio",
            Reason::KernelTls => "kernel-tls",
            Reason::Timestamps => "timestamps",
            Reason::IoUring => "io-uring",
            Reason::ExecWithoutLibrary => "exec-without-library",
            Reason::SignalIo => "signal-io",
            Reason::SocketOption => "socket-option",
            Reason::ZeroCopy => "zero-copy",
            Reason::Shared => "shared",
            Reason::RingOutOfReach => "ring-out-of-reach",
            Reason::SeccompFilter => "seccomp-filter",
        }
    }

    /// One sentence for people: what happened and what they can do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Reason::None => "nothing to mend",
            Reason::NoPartner => "start the other program with `ringway run` as well",
            Reason::PolicyDenied => "allow the pair in the policy file (`ringway config explain allow`)",
            Reason::ForeignUid => "the two programs run as different users; allow the pair in the policy file",
            Reason::MemoryCap => "raise `memory_per_uid_bytes` in the policy file",
            Reason::TableFull => "raise the table's bound in the policy file or close idle connections",
            Reason::VersionMismatch => "restart the monitor and the programs with the same release of Ringway",
            Reason::NotTcp => "only TCP sockets can be upgraded",
            Reason::NotConnected => "the connection ended before it could be upgraded",
            Reason::NotLocal => "only connections inside this host can be upgraded",
            Reason::ForeignNamespace => "allow pairs across network namespaces in the policy file",
            Reason::Ambiguous => "the same addresses exist in several namespaces; give them distinct addresses",
            Reason::MonitorAbsent => "start the monitor (`ringway daemon`); `ringway doctor` shows the socket",
            Reason::TooShort => "nothing to mend: short connections gain nothing from an upgrade",
            Reason::RegionInvalid => "update the monitor; if it is current, report this as a bug",
            Reason::RingViolation => "the peer process is broken or hostile; look at it",
            Reason::UnknownConnection => "the monitor was restarted since; reconnect",
            Reason::ResourceLimit => "raise the limit on open files (`ulimit -n`) or `vm.max_map_count`",
            Reason::Disabled => "unset RINGWAY_DISABLE",
            Reason::PeerFinished => "nothing to mend: the peer is done",
            Reason::WithoutLibrary => "start this program with `ringway run` (static and set-uid programs cannot be)",
            Reason::BareCalls => "nothing to mend: Go programs make their system calls themselves",
            Reason::Unseen => "ask as the user of these programs, or as root",
            Reason::UrgentData => "urgent data has no place in a ring; avoid MSG_OOB",
            Reason::Splice => "use read and write, or sendfile, instead of splice",
            Reason::Stdio => "do not use the socket as a standard stream of the program",
            Reason::KernelTls => "switch kernel TLS off in the TLS library",
            Reason::Timestamps => "do without SO_TIMESTAMP on local connections",
            Reason::IoUring => "let the program use ordinary calls (for libuv: UV_USE_IO_URING=0)",
            Reason::ExecWithoutLibrary => "keep LD_PRELOAD in the environment of the executed program",
            Reason::SignalIo => "do without signal-driven I/O on local connections",
            Reason::SocketOption => "do without this socket option on local connections",
            Reason::ZeroCopy => "do without kernel zero copy on local connections",
            Reason::Shared => {
                "nothing to mend: the socket came from another process (fork and exec, as sshd does) before its upgrade"
            }
            Reason::RingOutOfReach => {
                "keep the monitor running while connections pass between processes (fork, exec, SCM_RIGHTS)"
            }
            Reason::SeccompFilter => "switch the program's own sandbox off (its system call filter)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ascending_and_found_again() {
        assert!(Reason::ALL.windows(2).all(|w| (w[0] as u16) < w[1] as u16));
        for reason in Reason::ALL {
            assert_eq!(Reason::from_number(reason as u16), Some(reason));
        }
        assert_eq!(Reason::from_number(9999), None);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Reason::ALL.iter().map(|r| r.name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
