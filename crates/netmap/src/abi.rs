//! Numbers and layouts of netmap's interface, version 14. All integers are in the machine's order.

use ringway_mem::user;
use rustix::io::Errno;

/// Versions that NIOCCTRL takes.
pub const VERSIONS: std::ops::RangeInclusive<u16> = 14..=15;
pub const NETMAP_API: u16 = 14;
/// Oldest version that NIOCREGIF takes.
pub const LEGACY_API_MIN: u32 = 11;

pub const NIOCGINFO: u32 = 0xc03c_6991;
pub const NIOCREGIF: u32 = 0xc03c_6992;
pub const NIOCTXSYNC: u32 = 0x6994;
pub const NIOCRXSYNC: u32 = 0x6995;
pub const NIOCCTRL: u32 = 0xc058_6997;

/// Bytes of a request with its options at most.
pub const REQUEST_BYTES_MAX: usize = 4096;

/// `nr_reqtype`
pub mod reqtype {
    pub const REGISTER: u16 = 1;
    pub const PORT_INFO_GET: u16 = 2;
    pub const VALE_ATTACH: u16 = 3;
    pub const VALE_DETACH: u16 = 4;
    pub const VALE_LIST: u16 = 5;
    pub const PORT_HDR_SET: u16 = 6;
    pub const PORT_HDR_GET: u16 = 7;
    pub const VALE_NEWIF: u16 = 8;
    pub const VALE_DELIF: u16 = 9;
    pub const VALE_POLLING_ENABLE: u16 = 10;
    pub const VALE_POLLING_DISABLE: u16 = 11;
    pub const POOLS_INFO_GET: u16 = 12;
    pub const SYNC_KLOOP_START: u16 = 13;
    pub const SYNC_KLOOP_STOP: u16 = 14;
    pub const CSB_ENABLE: u16 = 15;
}

/// `nro_reqtype`
pub mod option {
    pub const EXTMEM: u32 = 1;
    pub const SYNC_KLOOP_EVENTFDS: u32 = 2;
    pub const CSB: u32 = 3;
    pub const SYNC_KLOOP_MODE: u32 = 4;
    pub const OFFSETS: u32 = 5;
}

/// `nr_mode`
pub mod mode {
    pub const ALL_NIC: u32 = 1;
    pub const SW: u32 = 2;
    pub const NIC_SW: u32 = 3;
    pub const ONE_NIC: u32 = 4;
    pub const PIPE_MASTER: u32 = 5;
    pub const PIPE_SLAVE: u32 = 6;
    pub const NULL: u32 = 7;
    pub const ONE_SW: u32 = 8;
}

/// `nr_flags`
pub mod flag {
    pub const MONITOR_TX: u64 = 0x100;
    pub const MONITOR_RX: u64 = 0x200;
    pub const ZCOPY_MON: u64 = 0x400;
    pub const EXCLUSIVE: u64 = 0x800;
    pub const RX_RINGS_ONLY: u64 = 0x2000;
    pub const TX_RINGS_ONLY: u64 = 0x4000;
    pub const ACCEPT_VNET_HDR: u64 = 0x8000;
    pub const DO_RX_POLL: u64 = 0x1_0000;
    pub const NO_TX_POLL: u64 = 0x2_0000;
}

/// A C structure of integers: parsed from bytes, written as bytes, copied from and to a program's memory.
macro_rules! record {
    ($(#[$about:meta])* $name:ident [$bytes:literal] { $($field:ident: $t:ty = $at:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are the interface's")]
        pub struct $name { $(pub $field: $t,)* }

        impl $name {
            pub const BYTES: usize = $bytes;

            pub fn from_bytes(bytes: &[u8; $bytes]) -> $name {
                let mut value = $name::default();
                $(
                    let mut field = [0; size_of::<$t>()];
                    field.copy_from_slice(&bytes[$at..$at + size_of::<$t>()]);
                    value.$field = <$t>::from_ne_bytes(field);
                )*
                value
            }

            pub fn to_bytes(&self) -> [u8; $bytes] {
                let mut bytes = [0; $bytes];
                $( bytes[$at..$at + size_of::<$t>()].copy_from_slice(&self.$field.to_ne_bytes()); )*
                bytes
            }

            /// Copies it from a program's memory; `EFAULT` if it cannot be read.
            pub fn read(address: u64) -> Result<$name, Errno> {
                let mut bytes = [0; $bytes];
                user::read(address, &mut bytes)?;
                Ok($name::from_bytes(&bytes))
            }

            /// Copies it to a program's memory; `EFAULT` if it cannot be written.
            pub fn write(&self, address: u64) -> Result<(), Errno> {
                user::write(address, &self.to_bytes())
            }
        }
    };
}

/// `char nr_name[64]` of a header, at its place.
pub const HEADER_NAME: std::ops::Range<usize> = 8..72;

record! {
    /// `struct nmreq_header`, but for the name.
    Header [88] {
        nr_version: u16 = 0,
        nr_reqtype: u16 = 2,
        nr_reserved: u32 = 4,
        nr_options: u64 = 72,
        nr_body: u64 = 80,
    }
}

record! {
    /// `struct nmreq_option`
    OptionHeader [24] {
        nro_next: u64 = 0,
        nro_reqtype: u32 = 8,
        nro_status: u32 = 12,
        nro_size: u64 = 16,
    }
}

/// Where `nro_status` stands in an option.
pub const OPTION_STATUS_AT: u64 = 12;

record! {
    /// `struct nmreq_register`
    Register [56] {
        nr_offset: u64 = 0,
        nr_memsize: u64 = 8,
        nr_tx_slots: u32 = 16,
        nr_rx_slots: u32 = 20,
        nr_tx_rings: u16 = 24,
        nr_rx_rings: u16 = 26,
        nr_host_tx_rings: u16 = 28,
        nr_host_rx_rings: u16 = 30,
        nr_mem_id: u16 = 32,
        nr_ringid: u16 = 34,
        nr_mode: u32 = 36,
        nr_extra_bufs: u32 = 40,
        nr_flags: u64 = 48,
    }
}

record! {
    /// `struct nmreq_port_info_get`
    PortInfo [32] {
        nr_memsize: u64 = 0,
        nr_tx_slots: u32 = 8,
        nr_rx_slots: u32 = 12,
        nr_tx_rings: u16 = 16,
        nr_rx_rings: u16 = 18,
        nr_host_tx_rings: u16 = 20,
        nr_host_rx_rings: u16 = 22,
        nr_mem_id: u16 = 24,
    }
}

record! {
    /// `struct nmreq_pools_info`
    PoolsInfo [64] {
        nr_memsize: u64 = 0,
        nr_mem_id: u16 = 8,
        nr_if_pool_offset: u64 = 16,
        nr_if_pool_objtotal: u32 = 24,
        nr_if_pool_objsize: u32 = 28,
        nr_ring_pool_offset: u64 = 32,
        nr_ring_pool_objtotal: u32 = 40,
        nr_ring_pool_objsize: u32 = 44,
        nr_buf_pool_offset: u64 = 48,
        nr_buf_pool_objtotal: u32 = 56,
        nr_buf_pool_objsize: u32 = 60,
    }
}

record! {
    /// `struct nmreq_opt_offsets`
    Offsets [64] {
        nro_max_offset: u64 = 24,
        nro_initial_offset: u64 = 32,
        nro_offset_bits: u32 = 40,
        nro_tx_align: u64 = 48,
        nro_min_gap: u64 = 56,
    }
}

record! {
    /// `struct nmreq_vale_list`
    ValeList [8] {
        nr_bridge_idx: u16 = 0,
        nr_port_idx: u32 = 4,
    }
}

record! {
    /// `struct nmreq_port_hdr`
    PortHeader [8] {
        nr_hdr_len: u32 = 0,
    }
}

record! {
    /// `struct nmreq_vale_newif`
    NewInterface [16] {
        nr_tx_slots: u32 = 0,
        nr_rx_slots: u32 = 4,
        nr_tx_rings: u16 = 8,
        nr_rx_rings: u16 = 10,
        nr_mem_id: u16 = 12,
    }
}

record! {
    /// `struct nmreq_vale_polling`
    Polling [16] {
        nr_mode: u32 = 0,
        nr_first_cpu_id: u32 = 4,
        nr_num_polling_cpus: u32 = 8,
    }
}

record! {
    /// `struct nmreq_opt_csb`
    CsbOption [40] {
        csb_atok: u64 = 24,
        csb_ktoa: u64 = 32,
    }
}

record! {
    /// `struct nmreq_opt_sync_kloop_mode`
    KloopMode [32] {
        mode: u32 = 24,
    }
}

/// Bits of [`KloopMode`]: have the rings synced by who kicks. Ours are synced by the loop, which is as good to see.
pub mod kloop_mode {
    pub const DIRECT_TX: u32 = 0x1;
    pub const DIRECT_RX: u32 = 0x2;
    pub const ALL: u32 = DIRECT_TX | DIRECT_RX;
}

record! {
    /// `struct nmreq_sync_kloop_start`
    KloopStart [8] {
        sleep_us: u32 = 0,
    }
}

/// `char nr_name[16]` of a `struct nmreq`, at its place.
pub const LEGACY_NAME: std::ops::Range<usize> = 0..16;

record! {
    /// `struct nmreq` of the interface before version 12, but for the name.
    Legacy [60] {
        nr_version: u32 = 16,
        nr_offset: u32 = 20,
        nr_memsize: u32 = 24,
        nr_tx_slots: u32 = 28,
        nr_rx_slots: u32 = 32,
        nr_tx_rings: u16 = 36,
        nr_rx_rings: u16 = 38,
        nr_ringid: u16 = 40,
        nr_cmd: u16 = 42,
        nr_arg1: u16 = 44,
        nr_arg2: u16 = 46,
        nr_arg3: u32 = 48,
        nr_flags: u32 = 52,
    }
}

record! {
    /// `struct netmap_pools_info`, the answer to CMD_POOLS_INFO.
    LegacyPools [48] {
        memsize: u64 = 0,
        memid: u32 = 8,
        if_pool_offset: u32 = 12,
        if_pool_objtotal: u32 = 16,
        if_pool_objsize: u32 = 20,
        ring_pool_offset: u32 = 24,
        ring_pool_objtotal: u32 = 28,
        ring_pool_objsize: u32 = 32,
        buf_pool_offset: u32 = 36,
        buf_pool_objtotal: u32 = 40,
        buf_pool_objsize: u32 = 44,
    }
}

/// Bits of a `struct nmreq`'s `nr_ringid`, and its `nr_cmd`.
pub mod legacy {
    pub const HW_RING: u16 = 0x4000;
    pub const SW_RING: u16 = 0x2000;
    pub const NO_TX_POLL: u16 = 0x1000;
    pub const DO_RX_POLL: u16 = 0x8000;
    pub const RING_MASK: u16 = 0x0fff;
    /// Mode bits of `nr_flags`.
    pub const MODE_MASK: u32 = 0xf;

    pub const CMD_NONE: u16 = 0;
    pub const CMD_ATTACH: u16 = 1;
    pub const CMD_DETACH: u16 = 2;
    pub const CMD_LIST: u16 = 4;
    pub const CMD_VNET_HDR: u16 = 5;
    pub const CMD_NEWIF: u16 = 6;
    pub const CMD_DELIF: u16 = 7;
    pub const CMD_POLLING_ON: u16 = 10;
    pub const CMD_POLLING_OFF: u16 = 11;
    pub const CMD_VNET_HDR_GET: u16 = 12;
    pub const CMD_POOLS_INFO: u16 = 13;
    /// `nr_arg1` of CMD_ATTACH: the host rings, too.
    pub const ATTACH_HOST: u16 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ioctl_numbers_are_what_the_c_macros_make_of_the_sizes() {
        let read_write = |number: u32, bytes: usize| 3 << 30 | (bytes as u32) << 16 | u32::from(b'i') << 8 | number;
        assert_eq!(NIOCCTRL, read_write(151, Header::BYTES));
        assert_eq!(NIOCGINFO, read_write(145, Legacy::BYTES));
        assert_eq!(NIOCREGIF, read_write(146, Legacy::BYTES));
    }

    #[test]
    fn a_record_survives_its_bytes() {
        let register = Register { nr_offset: 1, nr_mem_id: 2, nr_extra_bufs: 3, nr_flags: 4, ..Register::default() };
        assert_eq!(Register::from_bytes(&register.to_bytes()), register);
        assert_eq!(Register::read(0x10), Err(Errno::FAULT));
    }
}
