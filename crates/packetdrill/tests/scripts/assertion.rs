//! `%{ assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd }%`: what TCP_INFO must say. Comparisons of sums and products, joined by
//! `and`; what follows a comma is for people.

/// Names, offsets and widths in the kernel's `struct tcp_info`.
const MEMBERS: &[(&str, usize, usize)] = &[
    ("tcpi_state", 0, 1),
    ("tcpi_ca_state", 1, 1),
    ("tcpi_retransmits", 2, 1),
    ("tcpi_probes", 3, 1),
    ("tcpi_backoff", 4, 1),
    ("tcpi_options", 5, 1),
    ("tcpi_rto", 8, 4),
    ("tcpi_ato", 12, 4),
    ("tcpi_snd_mss", 16, 4),
    ("tcpi_rcv_mss", 20, 4),
    ("tcpi_unacked", 24, 4),
    ("tcpi_sacked", 28, 4),
    ("tcpi_lost", 32, 4),
    ("tcpi_retrans", 36, 4),
    ("tcpi_pmtu", 60, 4),
    ("tcpi_rtt", 68, 4),
    ("tcpi_rttvar", 72, 4),
    ("tcpi_snd_ssthresh", 76, 4),
    ("tcpi_snd_cwnd", 80, 4),
    ("tcpi_advmss", 84, 4),
    ("tcpi_reordering", 88, 4),
    ("tcpi_total_retrans", 100, 4),
    ("tcpi_bytes_acked", 120, 8),
    ("tcpi_bytes_received", 128, 8),
    ("tcpi_segs_out", 136, 4),
    ("tcpi_segs_in", 140, 4),
    ("tcpi_notsent_bytes", 144, 4),
    ("tcpi_min_rtt", 148, 4),
    ("tcpi_data_segs_in", 152, 4),
    ("tcpi_data_segs_out", 156, 4),
    ("tcpi_delivered", 192, 4),
    ("tcpi_delivered_ce", 196, 4),
    ("tcpi_bytes_sent", 200, 8),
    ("tcpi_bytes_retrans", 208, 8),
    ("tcpi_dsack_dups", 216, 4),
    ("tcpi_reord_seen", 220, 4),
    ("tcpi_rcv_ooopack", 224, 4),
    ("tcpi_snd_wnd", 228, 4),
];

const WORDS: &[(&str, i64)] = &[
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCPI_OPT_SYN_DATA", 32),
];

/// Checks every `assert` of `code` against a TCP_INFO.
pub(crate) fn check(code: &str, info: &[u8]) -> Result<(), String> {
    for statement in code.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let expression = statement.strip_prefix("assert").ok_or_else(|| format!("`{statement}` is no assertion"))?;
        let expression = crate::syntax::split(expression, ',')[0];
        for comparison in expression.split(" and ") {
            compare(comparison.trim(), info)?;
        }
    }
    Ok(())
}

fn compare(text: &str, info: &[u8]) -> Result<(), String> {
    let text = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(text);
    for (sign, holds) in [
        ("==", (|a, b| a == b) as fn(i64, i64) -> bool),
        ("!=", |a, b| a != b),
        ("<=", |a, b| a <= b),
        (">=", |a, b| a >= b),
        ("<", |a, b| a < b),
        (">", |a, b| a > b),
    ] {
        if let Some((left, right)) = text.split_once(sign) {
            let (left, right) = (sum(left, info)?, sum(right, info)?);
            return if holds(left, right) { Ok(()) } else { Err(format!("assert {text}: {left} {sign} {right}")) };
        }
    }
    Err(format!("`{text}` is no comparison"))
}

fn sum(text: &str, info: &[u8]) -> Result<i64, String> {
    text.split('+').map(|part| product(part, info)).sum()
}

fn product(text: &str, info: &[u8]) -> Result<i64, String> {
    text.split('*').map(|part| masked(part, info)).product()
}

fn masked(text: &str, info: &[u8]) -> Result<i64, String> {
    text.split('&').map(|part| atom(part.trim(), info)).try_fold(-1, |all, value| Ok(all & value?))
}

fn atom(text: &str, info: &[u8]) -> Result<i64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    if let Some((_, value)) = WORDS.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let (_, at, width) =
        MEMBERS.iter().find(|(name, ..)| *name == text).ok_or_else(|| format!("`{text}` is unknown"))?;
    let bytes = info.get(*at..at + width).ok_or_else(|| format!("TCP_INFO has no {text}"))?;
    Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | i64::from(*byte)))
}
