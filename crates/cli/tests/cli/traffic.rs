//! ss, top and pcap over a connection that was really paired.

use std::process::{Command, Output, Stdio};

use pcap_file::pcapng::{Block, PcapNgReader};
use serde_json::Value;

use crate::harness::{Monitor, Upgraded, have, stderr, stdout, wait_until};

#[test]
fn ss_shows_ring_queues_of_both_ends_and_plain_sockets_beside_them() {
    let monitor = Monitor::start();
    let mut upgraded = Upgraded::new(&monitor, "127.0.0.1:0");
    upgraded.send(0, b"twelve bytes");
    let (a, b) = (upgraded.a.local_addr().unwrap(), upgraded.b.local_addr().unwrap());
    let filter = format!(
        "( sport = :{} and dport = :{} ) or ( sport = :{} and dport = :{} )",
        a.port(),
        b.port(),
        b.port(),
        a.port()
    );
    let text = stdout(&monitor.run(&["ss", "-tn", &filter]));
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 3, "{text}");
    assert_eq!(rows[0][..3], ["State", "Recv-Q", "Send-Q"]);
    assert!(rows.contains(&vec!["ESTAB", "0", "12", &a.to_string(), &b.to_string(), "ring"]), "{text}");
    assert!(rows.contains(&vec!["ESTAB", "12", "0", &b.to_string(), &a.to_string(), "ring"]), "{text}");

    let detail = stdout(&monitor.run(&["ss", "-tnpiH", "via", "ring", "and", "sport", "=", &format!(":{}", a.port())]));
    assert!(detail.contains(&format!("ring:{}a bytes_sent:12 bytes_received:0", upgraded.number)), "{detail}");
    assert!(detail.contains(&format!("pid={}", std::process::id())), "{detail}");

    let document: Value = serde_json::from_str(&stdout(&monitor.run(&["ss", "-j", &filter]))).unwrap();
    assert_eq!(document["schema"], 1);
    let sockets = document["sockets"].as_array().unwrap();
    assert_eq!(sockets.len(), 2);
    assert!(sockets.iter().all(|s| s["via"] == "ring" && s["ring"]["connection"] == upgraded.number));
    assert!(sockets.iter().any(|s| s["send_queue_bytes"] == 12 && s["state"] == "established"));
}

#[test]
fn ss_lists_listeners_and_works_without_a_monitor() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut command = crate::harness::ringway();
    command.env("RINGWAY_SOCKET", "/proc/nonexistent/monitor.sock").args(["ss", "-tln", &format!("sport = :{port}")]);
    let output = command.output().unwrap();
    assert!(output.status.success());
    assert!(stdout(&output).contains(&format!("LISTEN       0       0  127.0.0.1:{port}")), "{}", stdout(&output));
    assert!(stderr(&output).contains("no monitor answers"));
}

#[test]
fn a_wrong_filter_is_underlined() {
    let output = crate::harness::run(&["ss", "sport = :http80x"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("\n  sport = :http80x\n          ^^^^^^^^\n"), "{}", stderr(&output));
}

#[test]
fn top_prints_programs_and_connections() {
    let monitor = Monitor::start();
    let upgraded = Upgraded::new(&monitor, "127.0.0.1:0");
    let text = stdout(&monitor.run(&["top", "--once", "-d", "0.1"]));
    assert!(text.starts_with("PID") || text.trim_start().starts_with("PID"), "{text}");
    assert!(text.contains(&upgraded.a.local_addr().unwrap().to_string()), "{text}");
    let document: Value = serde_json::from_str(&stdout(&monitor.run(&["top", "--once", "-j", "-d", "0.1"]))).unwrap();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["connections"][0]["connection"], upgraded.number);
    assert_eq!(document["processes"][0]["pid"], std::process::id());
    let piped = monitor.run(&["top"]);
    assert_eq!(piped.status.code(), Some(2));
    assert!(stderr(&piped).contains("--once or -j"));
}

/// Payloads of a capture, each with its interface and its packet's first byte.
fn packets(capture: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut reader = PcapNgReader::new(capture).unwrap();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            packets.push((packet.interface_id, packet.data.to_vec()));
        }
    }
    packets
}

#[test]
fn pcap_shows_what_waits_and_what_comes() {
    let monitor = Monitor::start();
    let mut upgraded = Upgraded::new(&monitor, "127.0.0.1:0");
    upgraded.send(0, b"GET /waits");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ring.pcapng");
    let mut capture = monitor
        .ringway()
        .args(["pcap", "-c", "3", "--connection", &upgraded.number.to_string(), "-w"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let written = |text: &[u8]| std::fs::read(&file).is_ok_and(|bytes| bytes.windows(text.len()).any(|w| w == text));
    wait_until("the first packet", || written(b"GET /waits"));
    upgraded.send(1, b"200 OK");
    wait_until("the answer", || written(b"200 OK"));
    upgraded.send(0, b"GET /more");
    assert!(capture.wait().unwrap().success());
    let bytes = std::fs::read(&file).unwrap();
    let packets = packets(&bytes);
    let payloads: Vec<&[u8]> = packets.iter().map(|(_, packet)| &packet[40..]).collect();
    assert_eq!(payloads, [b"GET /waits".as_slice(), b"200 OK", b"GET /more"]);
    let sequence = |i: usize| u32::from_be_bytes(packets[i].1[24..28].try_into().unwrap());
    let acknowledgement = |i: usize| u32::from_be_bytes(packets[i].1[28..32].try_into().unwrap());
    // A hundred bytes went by TCP before each ring began.
    assert_eq!([sequence(0), sequence(1), sequence(2)], [101, 101, 111]);
    assert_eq!([acknowledgement(1), acknowledgement(2)], [111, 107]);
}

#[test]
fn tshark_and_tcpdump_read_captures_of_both_families() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let monitor = Monitor::start();
        let mut upgraded = Upgraded::new(&monitor, address);
        upgraded.send(0, b"hello from the ring");
        upgraded.send(1, b"and back");
        let output = monitor.run(&["pcap", "-c", "2", "-w", "-"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).contains("2 packets, 27 bytes captured, 0 bytes lost"), "{}", stderr(&output));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ring.pcapng");
        std::fs::write(&file, &output.stdout).unwrap();
        if have("tcpdump") {
            let read = Command::new("tcpdump").args(["-n", "-A", "-vv", "-r"]).arg(&file).output().unwrap();
            let text = stdout(&read);
            assert!(read.status.success() && text.contains("hello from the ring"), "{text}{}", stderr(&read));
            assert!(text.contains("(correct)") && !text.contains("incorrect") && !text.contains("bad cksum"), "{text}");
        }
        if have("tshark") {
            let options = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-T", "fields"];
            let fields = ["-e", "tcp.checksum.status", "-e", "tcp.len", "-e", "tcp.dstport", "-e", "frame.comment"];
            let read = Command::new("tshark").arg("-r").arg(&file).args(options).args(fields).output().unwrap();
            let port = upgraded.b.local_addr().unwrap().port();
            let first = format!("1\t19\t{port}\tringway: connection {},", upgraded.number);
            assert!(stdout(&read).starts_with(&first), "{}{}", stdout(&read), stderr(&read));
        }
    }
}

#[test]
fn tcpdump_reads_captures_of_several_connections_and_of_none() {
    let monitor = Monitor::start();
    let read = |output: Output| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ring.pcapng");
        std::fs::write(&file, &output.stdout).unwrap();
        let read = Command::new("tcpdump").args(["-n", "-A", "-r"]).arg(&file).output().unwrap();
        assert!(read.status.success(), "{}", stderr(&read));
        stdout(&read)
    };
    if !have("tcpdump") {
        return;
    }
    assert_eq!(read(monitor.run(&["pcap", "--duration", "1"])), "");
    let mut connections = [Upgraded::new(&monitor, "127.0.0.1:0"), Upgraded::new(&monitor, "127.0.0.1:0")];
    connections[0].send(0, b"by the first");
    connections[1].send(0, b"by the second");
    let text = read(monitor.run(&["pcap", "-c", "2", "-w", "-"]));
    assert!(text.contains("by the first") && text.contains("by the second"), "{text}");
}

#[test]
fn pcap_filters_connections_and_ends_with_them() {
    let monitor = Monitor::start();
    let mut kept = Upgraded::new(&monitor, "127.0.0.1:0");
    let mut other = Upgraded::new(&monitor, "127.0.0.1:0");
    kept.send(0, b"kept");
    other.send(0, b"other");
    let filter = format!("dport = :{}", kept.b.local_addr().unwrap().port());
    let output = monitor.run(&["pcap", "--duration", "1", &filter]);
    let packets = packets(&output.stdout);
    assert_eq!(packets.len(), 1);
    assert!(packets[0].1.ends_with(b"kept"));
    let absent = monitor.run(&["pcap", "--connection", "999"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(stderr(&absent).contains("no connection 999"), "{}", stderr(&absent));
    let nobody =
        crate::harness::ringway().env("RINGWAY_SOCKET", "/proc/nonexistent/monitor.sock").arg("pcap").output().unwrap();
    assert_eq!(nobody.status.code(), Some(2));
}
