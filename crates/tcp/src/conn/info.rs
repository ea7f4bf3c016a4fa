//! What `TCP_INFO` tells of a connection (Linux: `tcp_get_info`).

use super::{Conn, Flags};
use crate::info::{TcpInfo, option_bits};
use crate::time::Instant;

/// What is counted for `TCP_INFO` alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) segments_in: u32,
    pub(crate) segments_out: u32,
    pub(crate) data_segments_in: u32,
    pub(crate) data_segments_out: u32,
    pub(crate) early_segments: u32,
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_resent: u64,
    pub(crate) marked_acks: u32,
}

impl Conn<'_> {
    pub(crate) fn info(&self) -> TcpInfo {
        let (cold, now) = (&*self.cold, self.shared.now);
        let (recovery, tally) = (&cold.recovery, &cold.tally);
        let since_ms = |at: Instant| (now.since_us(at) / 1000) as u32;
        let (board, window, totals) = (&recovery.board, &recovery.congestion.window, recovery.totals());
        let mss = u32::from(self.hot.mss);
        let best = recovery.rate.best();
        TcpInfo {
            state: self.state().linux_number(),
            ca_state: recovery.state() as u8,
            retransmits: cold.timeouts.min(255) as u8,
            probes: cold.probes.min(255) as u8,
            backoff: cold.timeouts.max(cold.probe_backoff.into()).min(255) as u8,
            options: self.info_options(),
            snd_wscale: self.hot.snd_wscale,
            rcv_wscale: self.hot.rcv_wscale,
            delivery_rate_app_limited: best.is_some_and(|sample| sample.app_limited),
            rto: self.rto_us(),
            ato: cold.answering.delay_us(),
            snd_mss: mss,
            rcv_mss: u32::from(cold.window.mss),
            unacked: board.segments() + u32::from(!self.state().is_synchronized()),
            sacked: board.sacked_out(),
            lost: board.lost_out(),
            retrans: board.retransmitted_out(),
            last_data_sent: since_ms(cold.last_sent),
            last_data_recv: since_ms(cold.answering.last_data()),
            last_ack_recv: since_ms(cold.last_ack_received),
            pmtu: u32::from(cold.path_mtu),
            rcv_ssthresh: cold.window.threshold,
            rtt: self.srtt_us().unwrap_or(0),
            rttvar: recovery.rtt.mdev_us(),
            snd_ssthresh: window.ssthresh(),
            snd_cwnd: window.cwnd(),
            advmss: u32::from(cold.window.advertised_mss),
            reordering: recovery.reordering().degree,
            rcv_rtt: self.receive_rtt_us(),
            rcv_space: self.receive_space(),
            total_retrans: totals.retransmitted,
            pacing_rate: self.rate_bytes_per_s().unwrap_or(u64::MAX),
            max_pacing_rate: if cold.options.pacing_rate_max == 0 { u64::MAX } else { cold.options.pacing_rate_max },
            bytes_acked: tally.bytes_acked,
            bytes_received: tally.bytes_received,
            segs_out: tally.segments_out,
            segs_in: tally.segments_in,
            notsent_bytes: (self.hot.write_seq - self.hot.snd_nxt).max(0) as u32,
            min_rtt: recovery.rtt.min_rtt_us().unwrap_or(u32::MAX),
            data_segs_in: tally.data_segments_in,
            data_segs_out: tally.data_segments_out,
            delivery_rate: best.map_or(0, |sample| sample.bytes_per_s(mss)),
            delivered: recovery.rate.delivered(),
            delivered_ce: tally.marked_acks,
            bytes_sent: tally.bytes_sent,
            bytes_retrans: tally.bytes_resent,
            dsack_dups: totals.duplicates,
            reord_seen: recovery.reordering().seen,
            rcv_ooopack: tally.early_segments,
            snd_wnd: self.hot.snd_wnd,
            rcv_wnd: self.hot.rcv_wnd,
            total_rto: totals.timeouts.min(65_535) as u16,
            ..TcpInfo::default()
        }
    }

    fn info_options(&self) -> u8 {
        let flags = self.hot.flags;
        let scaled = self.cold.peer.window_scale.is_some() && self.shared.config.tcp_window_scaling;
        [
            (flags.contains(Flags::TIMESTAMPS), option_bits::TIMESTAMPS),
            (flags.contains(Flags::SACK), option_bits::SACK),
            (scaled, option_bits::WINDOW_SCALE),
            (self.cold.ecn.is_agreed(), option_bits::ECN),
            (self.cold.ecn.is_seen(), option_bits::ECN_SEEN),
        ]
        .into_iter()
        .filter(|(holds, _)| *holds)
        .fold(0, |bits, (_, bit)| bits | bit)
    }
}
