//! ARP (RFC 826): questions for our address, and ours for others'.

use std::net::Ipv4Addr;

use ringway_tcp::Instant;
use ringway_wire::arp::{self, Operation, Packet, Repr};
use ringway_wire::ethernet::{self, HEADER_LEN};
use ringway_wire::{EtherType, IpAddress, MacAddress};

use super::Host;
use super::counters::DropReason;
use super::outbox::Outgoing;

impl Host {
    pub(super) fn arrive_arp(&mut self, now: Instant, bytes: &[u8]) {
        let repr = match Packet::new_checked(bytes).and_then(|packet| Repr::parse(&packet)) {
            Ok(repr) => repr,
            Err(error) => return self.counters.count_malformed(error),
        };
        let for_us = self.routes.is_ours(repr.target_ip.into());
        let sender = IpAddress::V4(repr.sender_ip);
        // Somebody who claims our own address, or asks whether it is free (RFC 5227), teaches us nothing.
        let is_neighbour = !repr.sender_ip.is_unspecified() && !self.routes.is_ours(sender);
        if is_neighbour && self.routes.next_hop(sender) == Some(super::NextHop::Neighbour(sender)) {
            self.learn(now, sender, repr.sender_mac, for_us);
        }
        if for_us && repr.operation == Operation::Request {
            if !self.outbox.may_answer(now) {
                return self.counters.count(DropReason::AnswerLimit);
            }
            self.say_arp(
                repr.sender_mac,
                Repr {
                    operation: Operation::Reply,
                    sender_mac: self.mac,
                    sender_ip: repr.target_ip,
                    target_mac: repr.sender_mac,
                    target_ip: repr.sender_ip,
                },
            );
        }
    }

    /// Asks all stations, or the one that had the address, who has it.
    pub(super) fn ask_v4(&mut self, address: Ipv4Addr, to: Option<MacAddress>) {
        let Some(IpAddress::V4(sender_ip)) = self.routes.source_for(address.into()) else { return };
        let question = Repr {
            operation: Operation::Request,
            sender_mac: self.mac,
            sender_ip,
            target_mac: MacAddress::default(),
            target_ip: address,
        };
        self.say_arp(to.unwrap_or(MacAddress::BROADCAST), question);
    }

    fn say_arp(&mut self, destination: MacAddress, repr: Repr) {
        let header = ethernet::Repr { destination, source: self.mac, vlan: None, ether_type: EtherType::ARP };
        let mut frame = vec![0; HEADER_LEN + arp::PACKET_LEN];
        if header.emit(&mut frame).and_then(|packet| repr.emit(packet)).is_ok() {
            self.say(Outgoing::Frame(frame));
        }
    }
}
