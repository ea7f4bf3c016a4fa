//! Passes frames between two ports until its standard input ends:
//! `bridge [--up] [--generic] [--force] [--partial-checksums] [--steer RULE]... PORT PORT`
//!
//! Says first what the ports are and cannot do, then `ready`.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use ringway_port::device::{DeviceOptions, open_device};
use ringway_port::{Port, PortError, Ready, open};

/// How long to sleep for one port before looking at the other.
const NAP: Duration = Duration::from_micros(200);

fn main() {
    if let Err(problem) = run() {
        eprintln!("{problem}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let (mut options, mut names) = (DeviceOptions::default(), vec![]);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--up" => options.up = true,
            "--generic" => options.generic = true,
            "--force" => options.force = true,
            "--partial-checksums" => options.partial_checksums = true,
            "--steer" => options.steering.push(arguments.next().unwrap_or_default().parse()?),
            _ => names.push(argument),
        }
    }
    let [left, right] = names.as_slice() else { return Err("two ports are wanted".into()) };
    let (mut left, mut right) = (open_any(left, &options)?, open_any(right, &options)?);
    for port in [&left, &right] {
        let info = port.info();
        println!("{}: {}, frames up to {} bytes", info.name, info.transport, info.packet_bytes_max);
        info.limits.iter().for_each(|limit| println!("  {limit}"));
    }
    println!("ready");
    let over = Arc::new(AtomicBool::new(false));
    let ends = over.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut vec![]);
        ends.store(true, Relaxed);
    });
    while !over.load(Relaxed) {
        let moved = pass(&mut left, &mut right)? + pass(&mut right, &mut left)?;
        if moved == 0 {
            left.wait(Ready::RX, Some(NAP))?;
            right.wait(Ready::RX, Some(NAP))?;
        }
    }
    Ok(())
}

fn open_any(name: &str, options: &DeviceOptions) -> Result<Port, PortError> {
    let is_device = ["xdp:", "tap:", "packet:", "netmap:"].iter().any(|scheme| name.starts_with(scheme));
    if is_device { open_device(name, options) } else { open(name) }
}

/// Copies received frames to the other port, all rings of it to its first; returns how many.
fn pass(from: &mut Port, to: &mut Port) -> Result<u32, PortError> {
    let (mut moved, mut packet) = (0, vec![]);
    to.sync_tx(0)?;
    for ring in 0..from.rx_rings() {
        from.sync_rx(ring)?;
        let (batch, mut out) = (from.rx(ring)?, to.tx(0)?);
        let (mut read, mut written) = (0, 0);
        while let Some(slots) = Some(read).filter(|i| *i < batch.len()).and_then(|i| batch.packet_slots(i)) {
            packet.clear();
            batch.copy_packet(read, slots, &mut packet);
            match out.put(written, &packet) {
                Some(n) => written += n,
                None => break,
            }
            read += slots;
            moved += 1;
        }
        batch.release(read);
        out.send(written);
        to.sync_tx(0)?;
    }
    Ok(moved)
}
