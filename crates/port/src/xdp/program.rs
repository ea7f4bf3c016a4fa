//! The BPF programs, put together instruction by instruction: rules become comparisons with constants. A change of
//! rules is another program in the place of the first (a link is updated at once), so no map has to be read for each
//! frame.
//!
//! ```text
//!   r6 context   r7 Ethernet type   r8 IP protocol   r9 destination port   r10 - 16: destination address
//! ```
//! What a frame does not have is a number that no rule names.

use std::net::IpAddr;

use super::Rule;
use crate::sys::device::bpf::Instruction;

/// Verdict of an XDP program: the frame goes on to the host's stack.
pub(super) const XDP_PASS: i32 = 2;

const NO_PROTOCOL: i32 = 1 << 8;
const NO_PORT: i32 = 1 << 16;
const IPV4: i32 = 0x0800;
const IPV6: i32 = 0x86dd;
const HELPER_REDIRECT: i32 = 23;
const HELPER_REDIRECT_MAP: i32 = 51;
/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE_INDEX: i16 = 16;
/// Where the destination address stands on the stack.
const ADDRESS: i16 = -16;

/// Places in the program that jumps lead to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    V4,
    V6,
    Rule(usize),
    Take,
    Pass,
}

#[derive(Default)]
struct Assembler {
    code: Vec<Instruction>,
    places: Vec<(Label, usize)>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn put(&mut self, code: u8, destination: u8, source: u8, offset: i16, immediate: i32) {
        self.code.push(Instruction { code, registers: destination | source << 4, offset, immediate });
    }

    fn jump(&mut self, code: u8, destination: u8, source: u8, immediate: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.put(code, destination, source, 0, immediate);
    }

    fn place(&mut self, label: Label) {
        self.places.push((label, self.code.len()));
    }

    fn copy(&mut self, to: u8, from: u8) {
        self.put(0xbf, to, from, 0, 0);
    }

    fn set(&mut self, to: u8, value: i32) {
        self.put(0xb7, to, 0, 0, value);
    }

    fn add(&mut self, to: u8, value: i32) {
        self.put(0x07, to, 0, 0, value);
    }

    fn load_u8(&mut self, to: u8, from: u8, offset: i16) {
        self.put(0x71, to, from, offset, 0);
    }

    /// Two bytes in network order.
    fn load_be16(&mut self, to: u8, from: u8, offset: i16) {
        self.put(0x69, to, from, offset, 0);
        self.put(0xdc, to, 0, 0, 16);
    }

    fn load_u32(&mut self, to: u8, from: u8, offset: i16) {
        self.put(0x61, to, from, offset, 0);
    }

    fn store_u32(&mut self, to: u8, offset: i16, from: u8) {
        self.put(0x63, to, from, offset, 0);
    }

    /// Goes to `otherwise` if `register` does not hold `value`.
    fn expect(&mut self, register: u8, value: i32, otherwise: Label) {
        self.jump(0x55, register, 0, value, otherwise);
    }

    /// Goes to `otherwise` if the frame (data in r2, end in r3) is shorter than `bytes`; changes r4.
    fn expect_bytes(&mut self, base: u8, bytes: i32, otherwise: Label) {
        self.copy(4, base);
        self.add(4, bytes);
        self.jump(0x2d, 4, 3, 0, otherwise);
    }

    fn call(&mut self, helper: i32) {
        self.put(0x85, 0, 0, 0, helper);
    }

    fn exit(&mut self) {
        self.put(0x95, 0, 0, 0, 0);
    }

    /// The program, with every jump set to its place.
    fn finish(mut self) -> Vec<Instruction> {
        for (at, to) in self.jumps {
            let place = self.places.iter().find(|(label, _)| *label == to).map_or(at, |(_, place)| *place);
            self.code[at].offset = (place as isize - at as isize - 1) as i16;
        }
        self.code
    }
}

/// Hands frames that match one of `rules` (all, if there are none) to the socket of their queue in `map`, and lets all
/// others pass, as well as those of queues without a socket.
pub(super) fn steering(rules: &[Rule], map: i32) -> Vec<Instruction> {
    let mut a = decide(rules);
    a.place(Label::Take);
    // A map's descriptor in a constant of 64 bits.
    a.put(0x18, 1, 1, 0, map);
    a.put(0, 0, 0, 0, 0);
    a.load_u32(2, 6, RX_QUEUE_INDEX);
    a.set(3, XDP_PASS);
    a.call(HELPER_REDIRECT_MAP);
    a.exit();
    a.finish()
}

/// Everything up to the label `Take`.
fn decide(rules: &[Rule]) -> Assembler {
    let mut a = Assembler::default();
    a.copy(6, 1);
    if rules.is_empty() {
        return a;
    }
    read_headers(&mut a);
    for (i, rule) in rules.iter().enumerate() {
        a.place(Label::Rule(i));
        compare(&mut a, rule, Label::Rule(i + 1));
        a.jump(0x05, 0, 0, 0, Label::Take);
    }
    a.place(Label::Rule(rules.len()));
    a.place(Label::Pass);
    a.set(0, XDP_PASS);
    a.exit();
    a
}

/// Loads what rules compare, as far as the frame has it, and ends at the first rule.
fn read_headers(a: &mut Assembler) {
    let rules = Label::Rule(0);
    a.load_u32(2, 6, DATA);
    a.load_u32(3, 6, DATA_END);
    a.expect_bytes(2, 14, Label::Pass);
    a.load_be16(7, 2, 12);
    a.set(8, NO_PROTOCOL);
    a.set(9, NO_PORT);
    a.put(0x7a, 10, 0, ADDRESS, 0);
    a.put(0x7a, 10, 0, ADDRESS + 8, 0);
    a.jump(0x15, 7, 0, IPV4, Label::V4);
    a.jump(0x15, 7, 0, IPV6, Label::V6);
    a.jump(0x05, 0, 0, 0, rules);

    a.place(Label::V4);
    a.expect_bytes(2, 34, rules);
    a.load_u8(8, 2, 23);
    a.load_u32(4, 2, 30);
    a.store_u32(10, ADDRESS, 4);
    // Fragments have no port, not even the first: the host puts datagrams together.
    a.load_be16(4, 2, 20);
    a.put(0x57, 4, 0, 0, 0x3fff);
    a.expect(4, 0, rules);
    a.load_u8(5, 2, 14);
    a.put(0x57, 5, 0, 0, 0xf);
    a.put(0x67, 5, 0, 0, 2);
    a.put(0x0f, 5, 2, 0, 0);
    a.expect_bytes(5, 18, rules);
    a.load_be16(9, 5, 16);
    a.jump(0x05, 0, 0, 0, rules);

    a.place(Label::V6);
    a.expect_bytes(2, 54, rules);
    a.load_u8(8, 2, 20);
    for word in (0..16).step_by(4) {
        a.load_u32(4, 2, 38 + word);
        a.store_u32(10, ADDRESS + word, 4);
    }
    a.expect_bytes(2, 58, rules);
    a.load_be16(9, 2, 56);
}

/// Goes on only if the frame is what `rule` says.
fn compare(a: &mut Assembler, rule: &Rule, otherwise: Label) {
    if let Some(ether_type) = rule.ether_type {
        a.expect(7, ether_type.into(), otherwise);
    }
    if let Some(protocol) = rule.protocol {
        a.expect(8, protocol.into(), otherwise);
    }
    if let Some(port) = rule.port {
        a.expect(9, port.into(), otherwise);
    }
    let (ether_type, octets) = match rule.destination {
        Some(IpAddr::V4(address)) => (IPV4, address.octets().to_vec()),
        Some(IpAddr::V6(address)) => (IPV6, address.octets().to_vec()),
        None => return,
    };
    a.expect(7, ether_type, otherwise);
    for (n, word) in octets.as_chunks::<4>().0.iter().enumerate() {
        a.load_u32(4, 10, ADDRESS + 4 * n as i16);
        // Compares 32 bits: the constant must not be extended by its sign.
        a.jump(0x56, 4, 0, i32::from_ne_bytes(*word), otherwise);
    }
}

/// Sends every frame out by another interface.
pub(crate) fn redirect_to(interface: u32) -> Vec<Instruction> {
    redirect(interface, 0)
}

/// Has every frame arrive at another interface.
pub(crate) fn redirect_to_ingress(interface: u32) -> Vec<Instruction> {
    redirect(interface, 1)
}

fn redirect(interface: u32, flags: i32) -> Vec<Instruction> {
    let mut a = Assembler::default();
    a.set(1, interface as i32);
    a.set(2, flags);
    a.call(HELPER_REDIRECT);
    a.exit();
    a.finish()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys::device::bpf::{self, Kind};

    const XDP_DROP: i32 = 1;

    /// Whether a program of these rules takes the frame; None where programs cannot be loaded.
    fn takes(rules: &[&str], frame: &[u8]) -> Option<bool> {
        let rules: Vec<Rule> = rules.iter().map(|text| text.parse().unwrap()).collect();
        let mut a = decide(&rules);
        a.place(Label::Take);
        a.set(0, XDP_DROP);
        a.exit();
        match bpf::load(Kind::Xdp, &a.finish()) {
            Ok(program) => Some(bpf::run(program.as_fd(), frame).unwrap() == XDP_DROP as u32),
            Err((rustix::io::Errno::PERM | rustix::io::Errno::NOSYS, _)) => None,
            Err((errno, log)) => panic!("{errno}: {log}"),
        }
    }

    fn v4(protocol: u8, destination: [u8; 4], port: u16, fragment: u16, options: usize) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + options + 20];
        frame[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
        frame[14] = 0x45 + (options / 4) as u8;
        frame[20..22].copy_from_slice(&fragment.to_be_bytes());
        frame[23] = protocol;
        frame[30..34].copy_from_slice(&destination);
        frame[36 + options..38 + options].copy_from_slice(&port.to_be_bytes());
        frame
    }

    fn v6(protocol: u8, destination: [u8; 16], port: u16) -> Vec<u8> {
        let mut frame = vec![0; 14 + 40 + 20];
        frame[12..14].copy_from_slice(&0x86dd_u16.to_be_bytes());
        frame[20] = protocol;
        frame[38..54].copy_from_slice(&destination);
        frame[56..58].copy_from_slice(&port.to_be_bytes());
        frame
    }

    #[test]
    fn frames_are_taken_by_rule() {
        let address = [200, 0, 0, 2];
        let mut address6 = [0xfd; 16];
        address6[15] = 1;
        let rule6 = format!("udp,dst={},port=9", std::net::Ipv6Addr::from(address6));
        let cases: &[(&[&str], Vec<u8>, bool)] = &[
            (&[], vec![0; 60], true),
            (&["udp"], v4(17, address, 9, 0, 0), true),
            (&["udp"], v4(6, address, 9, 0, 0), false),
            (&["udp,port=9"], v4(17, address, 9, 0, 0), true),
            (&["udp,port=9"], v4(17, address, 10, 0, 0), false),
            (&["udp,port=9"], v4(17, address, 9, 0, 12), true),
            (&["udp,port=9"], v4(17, address, 9, 0x2000, 0), false),
            (&["udp,port=9"], v4(17, address, 9, 7, 0), false),
            (&["udp"], v4(17, address, 9, 7, 0), true),
            (&["dst=200.0.0.2"], v4(1, address, 9, 0, 0), true),
            (&["dst=200.0.0.3"], v4(1, address, 9, 0, 0), false),
            (&["tcp", "udp,port=9"], v4(17, address, 9, 0, 0), true),
            (&["ether=0x88b5"], v4(17, address, 9, 0, 0), false),
            (&["ether=0x0000"], vec![0; 14], true),
            (&["proto=0"], vec![0; 14], false),
            (&[&rule6], v6(17, address6, 9), true),
            (&[&rule6], v6(17, [0xfd; 16], 9), false),
            (&["udp,port=9"], v6(17, address6, 9), true),
            (&["dst=200.0.0.2"], v6(17, address6, 9), false),
            (&["udp"], v4(17, address, 9, 0, 0)[..33].to_vec(), false),
        ];
        for (i, (rules, frame, taken)) in cases.iter().enumerate() {
            let Some(found) = takes(rules, frame) else {
                println!("SKIP frames_are_taken_by_rule: needs CAP_BPF");
                return;
            };
            assert_eq!(found, *taken, "case {i}: {rules:?}");
        }
    }

    #[test]
    fn sixteen_rules_pass_the_verifier() {
        let rule = format!("udp,dst={},port=9", std::net::Ipv6Addr::from([0xfd; 16]));
        if let Some(taken) = takes(&[rule.as_str(); super::super::RULES_MAX], &v6(17, [0xfd; 16], 9)) {
            assert!(taken);
        } else {
            println!("SKIP sixteen_rules_pass_the_verifier: needs CAP_BPF");
        }
    }

    #[test]
    fn a_refused_program_is_refused_with_the_verifier_s_reason() {
        // Exit without a verdict.
        let mut a = Assembler::default();
        a.exit();
        match bpf::load(Kind::Xdp, &a.finish()) {
            Err((rustix::io::Errno::PERM, _)) => println!("SKIP a_refused_program: needs CAP_BPF"),
            Err((_, log)) => assert!(log.contains("R0"), "{log}"),
            Ok(_) => panic!("loaded"),
        }
    }
}
