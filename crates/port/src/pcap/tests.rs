//! What is written is read again, by this reader and as ports; broken files are errors with a name.

use super::*;
use crate::open;
use proptest::prelude::*;

fn written(next_generation: bool, packets: &[Packet]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut writer = if next_generation { Writer::pcapng(&mut bytes) } else { Writer::pcap(&mut bytes) }.unwrap();
    packets.iter().for_each(|p| writer.write(p.time_ns, &p.bytes, p.bytes.len()).unwrap());
    bytes
}

fn read(bytes: &[u8]) -> Result<Vec<Packet>, FileError> {
    let mut reader = Reader::new(bytes)?;
    std::iter::from_fn(|| reader.next_packet().transpose()).collect()
}

#[test]
fn either_byte_order_and_unit_is_read() {
    let big = [
        &[0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4][..],
        &[0; 8],
        &[0, 0, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1, 7],
    ];
    assert_eq!(read(&big.concat()).unwrap(), [Packet { time_ns: 2_000_003_000, bytes: vec![7] }]);
}

#[test]
fn what_is_no_packet_file_is_refused_by_name() {
    assert!(matches!(read(b"ELF file"), Err(FileError::Format(_))));
    assert!(matches!(read(b"abc"), Err(FileError::Broken(_))));
    let mut long = written(false, &[]);
    long.extend([[0; 8], [0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0]].concat());
    assert!(matches!(read(&long), Err(FileError::TooLong("a packet", ..))));
    let error = open("pcap:/nonexistent/file").err().unwrap().to_string();
    assert!(error.starts_with("cannot open /nonexistent/file"), "{error}");
}

#[test]
fn ports_write_and_read_files() {
    let path = std::env::temp_dir().join(format!("ringway-pcap-{}.pcapng", std::process::id()));
    let name = format!("pcap:{}", path.display());
    let packets: Vec<Vec<u8>> = (1..2000usize).map(|n| vec![n as u8; n * 3]).collect();
    let mut sink = open(&format!("{name}/T")).unwrap();
    for packet in &packets {
        let mut batch = sink.tx(0).unwrap();
        let n = batch.put(0, packet).unwrap();
        batch.send(n);
        sink.sync_tx(0).unwrap();
    }
    let (mut source, mut seen) = (open(&name).unwrap(), vec![]);
    while source.sync_rx(0).unwrap() > 0 {
        let (batch, mut at) = (source.rx(0).unwrap(), 0);
        while let Some(n) = (at < batch.len()).then(|| batch.packet_slots(at)).flatten() {
            let mut packet = vec![];
            batch.copy_packet(at, n, &mut packet);
            seen.push(packet);
            at += n;
        }
        batch.release(at);
    }
    std::fs::remove_file(path).unwrap();
    assert!(seen == packets);
}

#[test]
fn what_comes_before_a_break_is_given_before_the_error() {
    let packets: Vec<Packet> = (0..3000).map(|n| Packet { time_ns: n * 1000, bytes: vec![n as u8; 100] }).collect();
    let bytes = written(false, &packets);
    let path = std::env::temp_dir().join(format!("ringway-cut-{}.pcap", std::process::id()));
    std::fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
    let (mut source, mut seen) = (open(&format!("pcap:{}", path.display())).unwrap(), 0);
    let error = loop {
        match source.sync_rx(0) {
            Ok(_) => {
                let batch = source.rx(0).unwrap();
                let all = batch.len();
                seen += all;
                batch.release(all);
            }
            Err(error) => break error.to_string(),
        }
    };
    std::fs::remove_file(path).unwrap();
    assert_eq!(seen, 2999, "{error}");
}

proptest! {
    #[test]
    fn packets_come_back(
        next_generation: bool,
        packets in prop::collection::vec((0u64..4_000_000_000_000_000_000, prop::collection::vec(any::<u8>(), 0..200)), 0..20),
    ) {
        let packets: Vec<Packet> = packets.into_iter().map(|(time_ns, bytes)| Packet { time_ns, bytes }).collect();
        let bytes = written(next_generation, &packets);
        prop_assert_eq!(read(&bytes).unwrap(), packets.clone());
        for cut in [1, 3, 9] {
            let cut = &bytes[..bytes.len() - cut.min(bytes.len())];
            prop_assert!(read(cut).is_err() || packets.len() > read(cut).unwrap().len());
        }
    }

    #[test]
    fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..300), next_generation: bool) {
        let mut file = written(next_generation, &[]);
        file.extend(bytes);
        let _ = read(&file);
    }
}
