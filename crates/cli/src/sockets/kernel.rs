//! The kernel's list of TCP sockets in the caller's network namespace.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Socket, State, Via};

/// Reads `/proc/net/tcp` and, where IPv6 exists, `/proc/net/tcp6`.
pub(crate) fn sockets() -> io::Result<Vec<Socket>> {
    let mut sockets = parse(&std::fs::read_to_string("/proc/self/net/tcp")?);
    if let Ok(text) = std::fs::read_to_string("/proc/self/net/tcp6") {
        sockets.extend(parse(&text));
    }
    Ok(sockets)
}

fn parse(text: &str) -> Vec<Socket> {
    text.lines().skip(1).filter_map(parse_line).collect()
}

/// `sl local peer state tx:rx timer:when retransmits uid timeout inode ...`, numbers in hex but for
/// uid and inode.
fn parse_line(line: &str) -> Option<Socket> {
    let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let [_, local, peer, state, queues, _, _, uid, _, inode] = fields.try_into().ok()?;
    let (send, receive) = queues.split_once(':')?;
    Some(Socket {
        state: State::from_number(u8::from_str_radix(state, 16).ok()?)?,
        recv_queue_bytes: u64::from_str_radix(receive, 16).ok()?,
        send_queue_bytes: u64::from_str_radix(send, 16).ok()?,
        local: address(local)?,
        peer: address(peer)?,
        uid: uid.parse().ok()?,
        inode: inode.parse().ok()?,
        via: Via::Tcp,
        reason: None,
        remedy: None,
        processes: Vec::new(),
        ring: None,
    })
}

/// `0100007F:1B58`: each 32-bit word of the address as the host's number, the port as a number.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words = address.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        Some(u32::from_str_radix(word, 16).ok()?.to_ne_bytes())
    });
    let bytes: Vec<u8> = words.collect::<Option<Vec<_>>>()?.concat();
    let ip = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(octets) => IpAddr::V4(Ipv4Addr::from(octets)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?)),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Names of TCP ports, from `/etc/services`.
#[derive(Default)]
pub(crate) struct Services {
    ports: HashMap<String, u16>,
    names: HashMap<u16, String>,
}

impl Services {
    /// A missing file means no names.
    pub(crate) fn load() -> Services {
        Services::parse(&std::fs::read_to_string("/etc/services").unwrap_or_default())
    }

    fn parse(text: &str) -> Services {
        let mut services = Services::default();
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
            let (Some(name), Some(port)) = (words.next(), words.next().and_then(|w| w.strip_suffix("/tcp"))) else {
                continue;
            };
            let Ok(port) = port.parse() else { continue };
            services.names.entry(port).or_insert_with(|| name.into());
            for alias in std::iter::once(name).chain(words) {
                services.ports.entry(alias.into()).or_insert(port);
            }
        }
        services
    }

    pub(crate) fn port(&self, name: &str) -> Option<u16> {
        self.ports.get(name).copied()
    }

    pub(crate) fn name(&self, port: u16) -> Option<&str> {
        self.names.get(&port).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn lines_of_both_families_are_read() {
        let v4 = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                  0: 0100007F:1B58 0100007F:9C40 01 0000000A:00000003 00:00000000 00000000  1000        0 4242 1 0 20 4 30 10 -1\n\
                  garbage\n";
        let sockets = parse(v4);
        assert_eq!(sockets.len(), 1);
        let s = &sockets[0];
        assert_eq!((s.local.to_string(), s.peer.to_string()), ("127.0.0.1:7000".into(), "127.0.0.1:40000".into()));
        assert_eq!((s.state, s.recv_queue_bytes, s.send_queue_bytes), (State::Established, 3, 10));
        assert_eq!((s.uid, s.inode, s.via), (1000, 4242, Via::Tcp));
        let v6 = address("00000000000000000000000001000000:0050").unwrap();
        assert_eq!(v6.to_string(), "[::1]:80");
        assert_eq!(address("0000000000000000FFFF00000100007F:0050").unwrap().to_string(), "[::ffff:127.0.0.1]:80");
    }

    #[test]
    fn own_listener_is_in_the_list() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let local = listener.local_addr().unwrap();
        let found = sockets().unwrap().into_iter().find(|s| s.local == local).unwrap();
        assert_eq!(found.state, State::Listening);
    }

    #[test]
    fn services_have_names_aliases_and_comments() {
        let services = Services::parse("# x\nhttp 80/tcp www # web\nntp 123/udp\nfoo bar\n");
        assert_eq!((services.port("www"), services.name(80)), (Some(80), Some("http")));
        assert_eq!((services.port("ntp"), services.name(123)), (None, None));
    }
}
