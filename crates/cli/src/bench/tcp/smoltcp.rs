//! smoltcp 0.14 as a server at one end of a pipe: its frames are read and written in the rings' slots, like ours.

use std::sync::atomic::Ordering;

use anyhow::{Result, anyhow};
use ringway_port::{Port, RxBatch, TxBatch, clock};
use ringway_stack::Endpoint;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};

use super::duel::Ends;
use super::server::Service;

/// For each direction of a connection; more only in the bulk case.
const BUFFER_BYTES: usize = 4096;
const BULK_BUFFER_BYTES: usize = 4 << 20;
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 77];
const MTU: usize = 1514;
/// Sockets that listen beyond the client's connections. Where these come and go there are twice as many as connections, as each
/// needs time to listen again.
const SPARE: usize = 16;

struct Pipe(Port);

struct Received<'a>(RxBatch<'a>);

struct Sending<'a>(TxBatch<'a>);

impl Device for Pipe {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Sending<'_>)> {
        let (rx, tx) = self.0.both(0, 0).ok()?;
        (!rx.is_empty() && !tx.is_empty()).then_some((Received(rx), Sending(tx)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        self.0.tx(0).ok().filter(|tx| !tx.is_empty()).map(Sending)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ethernet, MTU);
        capabilities
    }
}

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        let result = take(self.0.bytes(0));
        self.0.release(1);
        result
    }
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(mut self, len: usize, fill: F) -> R {
        let result = fill(&mut self.0.bytes_mut(0)[..len]);
        self.0.set(0, len as u16, 0);
        self.0.send(1);
        result
    }
}

/// Serves until the client is done.
pub(super) fn serve(
    port: Port,
    at: &[Endpoint],
    connections: usize,
    service: Service,
    ends: &Ends,
    ready: &dyn Fn(),
) -> Result<()> {
    let mut pipe = Pipe(port);
    let now = || Instant::from_micros(clock::monotonic_ns() as i64 / 1000);
    let hardware = HardwareAddress::Ethernet(EthernetAddress(STATION));
    let mut interface = Interface::new(Config::new(hardware), &mut pipe, now());
    let std::net::IpAddr::V4(address) = at[0].address else { return Err(anyhow!("an IPv4 address")) };
    interface.update_ip_addrs(|addresses| {
        // The list has room for one.
        let _ = addresses.push(IpCidr::new(address.into(), 24));
    });
    let mut sockets = SocketSet::new(Vec::new());
    let handles: Vec<(SocketHandle, u16)> = (0..connections
        + if service == Service::EchoOnce { connections } else { SPARE })
        .map(|n| {
            let port = at[n % at.len()].port;
            (sockets.add(socket(service)), port)
        })
        .collect();
    let mut buffer = vec![0; 64 << 10];
    ready();
    while !ends.is_over() {
        for (handle, port) in &handles {
            answer(sockets.get_mut(*handle), *port, service, &mut buffer, ends)?;
        }
        pipe.0.sync_rx(0)?;
        interface.poll(now(), &mut pipe, &mut sockets);
        pipe.0.sync_tx(0)?;
    }
    Ok(())
}

fn socket(service: Service) -> Socket<'static> {
    let bytes = if service == Service::Sink { BULK_BUFFER_BYTES } else { BUFFER_BYTES };
    let storage = || SocketBuffer::new(vec![0; bytes]);
    let mut socket = Socket::new(storage(), storage());
    socket.set_nagle_enabled(false);
    socket.set_congestion_control(CongestionControl::Cubic);
    socket
}

fn answer(socket: &mut Socket, port: u16, service: Service, buffer: &mut [u8], ends: &Ends) -> Result<()> {
    if !socket.is_open() {
        return socket.listen(port).map_err(|error| anyhow!("smoltcp: {error}"));
    }
    if socket.can_recv() {
        let bytes = socket.recv_slice(buffer).map_err(|error| anyhow!("smoltcp: {error}"))?;
        if service == Service::Sink {
            ends.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            return Ok(());
        }
        socket.send_slice(&buffer[..bytes]).map_err(|error| anyhow!("smoltcp: {error}"))?;
        if service == Service::EchoOnce {
            socket.close();
        }
    }
    match socket.state() {
        State::CloseWait => socket.close(),
        // Ours are ended for good at once: nobody waits here for old segments, as they would in a fair comparison.
        State::TimeWait => socket.abort(),
        _ => {}
    }
    Ok(())
}
