//! `TCP_INFO`: what is known of a connection, as Linux's `struct tcp_info` lists it (`include/uapi/linux/tcp.h`).

/// All durations but `last_*` (milliseconds) are microseconds; windows of the sender are segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    /// `TCPI_OPT_` bits.
    pub options: u8,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub delivery_rate_app_limited: bool,
    pub rto: u32,
    pub ato: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub last_data_sent: u32,
    pub last_data_recv: u32,
    pub last_ack_recv: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub rehash: u32,
    pub total_rto: u16,
    pub total_rto_recoveries: u16,
    pub total_rto_time: u32,
}

/// Bits of [`TcpInfo::options`].
pub mod option_bits {
    pub const TIMESTAMPS: u8 = 1;
    pub const SACK: u8 = 2;
    pub const WINDOW_SCALE: u8 = 4;
    pub const ECN: u8 = 8;
    pub const ECN_SEEN: u8 = 16;
    /// Data in our SYN were acknowledged, or data in theirs accepted.
    pub const SYN_DATA: u8 = 32;
}

/// Length of the kernel's structure up to and with `tcpi_total_rto_time`.
pub const TCP_INFO_BYTES: usize = 248;

impl TcpInfo {
    /// The kernel's layout (little-endian machines).
    pub fn to_bytes(&self) -> [u8; TCP_INFO_BYTES] {
        let mut out = Layout::default();
        let flags = u8::from(self.delivery_rate_app_limited);
        out.put(&[self.state, self.ca_state, self.retransmits, self.probes, self.backoff, self.options]);
        out.put(&[self.snd_wscale | self.rcv_wscale << 4, flags]);
        out.u32s(&[self.rto, self.ato, self.snd_mss, self.rcv_mss]);
        // The fifth was tcpi_fackets, unused since Linux 4.15; so is tcpi_last_ack_sent.
        out.u32s(&[self.unacked, self.sacked, self.lost, self.retrans, 0]);
        out.u32s(&[self.last_data_sent, 0, self.last_data_recv, self.last_ack_recv]);
        out.u32s(&[self.pmtu, self.rcv_ssthresh, self.rtt, self.rttvar, self.snd_ssthresh, self.snd_cwnd]);
        out.u32s(&[self.advmss, self.reordering, self.rcv_rtt, self.rcv_space, self.total_retrans]);
        out.u64s(&[self.pacing_rate, self.max_pacing_rate, self.bytes_acked, self.bytes_received]);
        out.u32s(&[self.segs_out, self.segs_in, self.notsent_bytes, self.min_rtt]);
        out.u32s(&[self.data_segs_in, self.data_segs_out]);
        out.u64s(&[self.delivery_rate, self.busy_time, self.rwnd_limited, self.sndbuf_limited]);
        out.u32s(&[self.delivered, self.delivered_ce]);
        out.u64s(&[self.bytes_sent, self.bytes_retrans]);
        out.u32s(&[self.dsack_dups, self.reord_seen, self.rcv_ooopack, self.snd_wnd, self.rcv_wnd, self.rehash]);
        out.put(&self.total_rto.to_le_bytes());
        out.put(&self.total_rto_recoveries.to_le_bytes());
        out.u32s(&[self.total_rto_time]);
        out.bytes
    }
}

struct Layout {
    bytes: [u8; TCP_INFO_BYTES],
    at: usize,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout { bytes: [0; TCP_INFO_BYTES], at: 0 }
    }
}

impl Layout {
    fn put(&mut self, value: &[u8]) {
        self.bytes[self.at..self.at + value.len()].copy_from_slice(value);
        self.at += value.len();
    }

    fn u32s(&mut self, values: &[u32]) {
        values.iter().for_each(|value| self.put(&value.to_le_bytes()));
    }

    fn u64s(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.put(&value.to_le_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets from the kernel's header, as `pahole` shows them.
    #[test]
    fn members_lie_where_the_kernel_has_them() {
        let info = TcpInfo { state: 1, rto: 7, rtt: 8, snd_cwnd: 9, pacing_rate: 10, ..TcpInfo::default() };
        let bytes = TcpInfo { min_rtt: 11, delivery_rate: 12, snd_wnd: 13, total_rto_time: 14, ..info }.to_bytes();
        let at = |offset: usize| u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap());
        let found = [0, 8, 68, 80, 104, 148, 160, 228, 244].map(at);
        assert_eq!(found, [1, 7, 8, 9, 10, 11, 12, 13, 14]);
    }
}
