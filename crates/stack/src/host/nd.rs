//! Neighbor discovery (RFC 4861): what ARP does for IPv4. Routers are configured, so their advertisements are not used.

use std::net::Ipv6Addr;

use ringway_tcp::Instant;
use ringway_wire::nd::{HOP_LIMIT, NdOption, Options, Repr};
use ringway_wire::{Fill, IpAddress, MacAddress, Protocol, ipv6};

use super::Host;
use super::counters::DropReason;
use super::outbox::Outgoing;
use crate::config::Prefix;

/// fe80::/64 with the identifier made of the station's address (RFC 4291, appendix A).
pub(super) fn link_local(mac: MacAddress) -> Prefix {
    let [a, b, c, d, e, f] = mac.0;
    let word = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    let address = Ipv6Addr::new(0xfe80, 0, 0, 0, word(a ^ 2, b), word(c, 0xff), word(0xfe, d), word(e, f));
    Prefix { address: address.into(), len: 64 }
}

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

impl Host {
    pub(super) fn arrive_nd(&mut self, now: Instant, source: Ipv6Addr, message: Repr) {
        match message {
            Repr::NeighborSolicit { target, options } if self.routes.is_ours(target.into()) => {
                // RFC 4861 7.2.3: "If the Source Address is not the unspecified address... the recipient SHOULD create or
                // update the Neighbor Cache entry".
                if let Some(mac) =
                    options.source_link_layer().filter(|mac| mac.is_unicast() && !source.is_unspecified())
                {
                    self.learn(now, source.into(), mac, true);
                }
                if !self.outbox.may_answer(now) {
                    return self.counters.count(DropReason::AnswerLimit);
                }
                self.advertise(target, source);
            }
            Repr::NeighborAdvert { target, options, .. } if !self.routes.is_ours(target.into()) => {
                if let Some(mac) = options.target_link_layer().filter(|mac| mac.is_unicast()) {
                    self.learn(now, target.into(), mac, false);
                }
            }
            _ => self.counters.count(DropReason::Icmp),
        }
    }

    /// RFC 4861 7.2.4: to all if the question came from nobody, as in duplicate address detection.
    fn advertise(&mut self, target: Ipv6Addr, asker: Ipv6Addr) {
        let mut option = [0; 8];
        if NdOption::TargetLinkLayer(self.mac).emit(&mut option).is_err() {
            return;
        }
        let Ok(options) = Options::new_checked(&option) else { return };
        let solicited = !asker.is_unspecified();
        let advert = Repr::NeighborAdvert { router: false, solicited, overrides: true, target, options };
        self.say_nd(target, if solicited { asker } else { ALL_NODES }, advert);
    }

    /// Asks all that may have the address, or the one that had it.
    pub(super) fn ask_v6(&mut self, address: Ipv6Addr, to: Option<MacAddress>) {
        let Some(IpAddress::V6(source)) = self.routes.source_for(address.into()) else { return };
        let mut option = [0; 8];
        if NdOption::SourceLinkLayer(self.mac).emit(&mut option).is_err() {
            return;
        }
        let Ok(options) = Options::new_checked(&option) else { return };
        let destination = if to.is_some() { address } else { ipv6::solicited_node(address) };
        self.say_nd(source, destination, Repr::NeighborSolicit { target: address, options });
    }

    fn say_nd(&mut self, source: Ipv6Addr, destination: Ipv6Addr, message: Repr) {
        let len = message.message_len();
        let mut repr = ipv6::Repr::new(source, destination, Protocol::ICMPV6, len);
        repr.hop_limit = HOP_LIMIT;
        let mut packet = vec![0; ipv6::HEADER_LEN + len];
        let written = repr.emit(&mut packet).and_then(|body| message.emit(body, repr.pseudo(), Fill::Complete));
        if written.is_ok() {
            self.say(Outgoing::Packet(packet));
        }
    }
}
