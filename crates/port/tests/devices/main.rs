//! Ports of real devices, in network namespaces made for each test.
//!
//! ```text
//!   namespace a          namespace middle              namespace b
//!   stack -- ka ====== pa -- bridge of two ports -- pb ====== kb -- stack
//! ```
//! `====` is a veth pair, or the TAP device of a port. The bridge is `examples/bridge.rs`, a process of its own, so that
//! it can be killed. Without the privilege to make namespaces, each test says so by name and does nothing.

mod bed;
mod talk;

use bed::{Bed, skip};

/// What carries a stack's frames to the bridge.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Xdp,
    Packet,
    Tap,
}

impl End {
    fn port(self, side: char) -> String {
        match self {
            End::Xdp => format!("xdp:p{side}"),
            End::Packet => format!("packet:p{side}"),
            End::Tap => format!("tap:k{side}"),
        }
    }
}

/// Two stacks see each other through a bridge of these ports.
fn stacks_meet(test: &str, left: End, right: End, options: &[&str], transport: &str) {
    let Some(bed) = Bed::new(test) else { return skip(test) };
    let sides = [('a', left), ('b', right)];
    sides.iter().filter(|(_, end)| *end != End::Tap).for_each(|(side, _)| bed.veth(*side));
    let bridge = bed.bridge(options, &[&left.port('a'), &right.port('b')]);
    assert!(bridge.said.contains(transport), "{}", bridge.said);
    for (side, end) in sides {
        if end == End::Tap {
            bed.ip(&["-n", &bed.middle(), "link", "set", &format!("k{side}"), "netns", &bed.stack(side)]);
        }
        bed.raise(side);
        if options.contains(&"--generic") {
            // As the port's limits say: no segmentation offload.
            bed.ip(&["-n", &bed.stack(side), "link", "set", &format!("k{side}"), "gso_max_segs", "1"]);
        }
    }
    talk::ping(&bed);
    talk::datagrams(&bed);
    talk::streams(&bed);
    drop(bridge);
    bed.assert_nothing_is_left();
}

#[test]
fn xdp_to_xdp() {
    stacks_meet("xdp_to_xdp", End::Xdp, End::Xdp, &[], "copied by the kernel, native");
}

#[test]
fn xdp_generic_to_xdp_generic() {
    stacks_meet("xdp_generic", End::Xdp, End::Xdp, &["--generic"], "copied by the kernel, generic");
}

#[test]
fn packet_to_packet() {
    stacks_meet("packet_to_packet", End::Packet, End::Packet, &[], "a packet socket");
}

#[test]
fn tap_to_tap() {
    stacks_meet("tap_to_tap", End::Tap, End::Tap, &[], "a TAP device, made now");
}

#[test]
fn tap_to_xdp() {
    stacks_meet("tap_to_xdp", End::Tap, End::Xdp, &[], "all frames that arrive are taken");
}

#[test]
fn packet_to_xdp() {
    stacks_meet("packet_to_xdp", End::Packet, End::Xdp, &[], "all frames that arrive are taken");
}

#[test]
fn xdp_with_checksums_left_to_the_kernel() {
    let limit = "slots of sent frames hold 2016 bytes at most";
    stacks_meet("xdp_partial", End::Xdp, End::Xdp, &["--partial-checksums"], limit);
}

/// Frames are longer than a buffer.
#[test]
fn xdp_with_jumbo_frames() {
    let Some(bed) = Bed::new("jumbo") else { return skip("xdp_with_jumbo_frames") };
    for side in ['a', 'b'] {
        bed.veth(side);
        bed.ip(&["-n", &bed.stack(side), "link", "set", &format!("k{side}"), "mtu", "9000"]);
        bed.ip(&["-n", &bed.middle(), "link", "set", &format!("p{side}"), "mtu", "9000"]);
        bed.raise(side);
    }
    let bridge = bed.bridge(&[], &["xdp:pa", "xdp:pb"]);
    assert!(bridge.said.contains("frames up to 9018 bytes"), "{}", bridge.said);
    talk::ping(&bed);
    talk::datagrams(&bed);
    talk::streams(&bed);
}

/// The bridge takes one port's datagrams; everything else still reaches the middle's own stack.
#[test]
fn steering_leaves_other_traffic_alone() {
    let Some(bed) = Bed::new("steering") else { return skip("steering_leaves_other_traffic_alone") };
    bed.veth('a');
    bed.raise('a');
    bed.ip(&["-n", &bed.middle(), "addr", "add", "10.77.0.9/24", "dev", "pa"]);
    bed.ip(&["-n", &bed.middle(), "link", "set", "pa", "up"]);
    let answered = |port: u16| talk::asks(&bed, 'a', &bed.middle(), port);
    assert!(answered(7000) && answered(7001), "before");
    let bridge = bed.bridge(&["--steer", "udp,port=7000"], &["xdp:pa", "null:"]);
    assert!(bridge.said.contains("only frames that match udp,port=7000"), "{}", bridge.said);
    talk::ping_to(&bed, 'a', "10.77.0.9");
    assert!(!answered(7000), "steered frames must not reach the host");
    assert!(answered(7001), "other frames must");
    drop(bridge);
    assert!(answered(7000), "and all again once the port is closed");
    bed.assert_nothing_is_left();
}

/// The interface's own stack goes on through its host rings while all its frames are taken.
#[test]
fn host_rings_are_the_interface_s_stack() {
    let Some(bed) = Bed::new("hostrings") else { return skip("host_rings_are_the_interface_s_stack") };
    bed.veth('a');
    bed.raise('a');
    bed.ip(&["-n", &bed.middle(), "addr", "add", "10.77.0.9/24", "dev", "pa"]);
    bed.ip(&["-n", &bed.middle(), "link", "set", "pa", "up"]);
    let bridge = bed.bridge(&[], &["netmap:pa", "netmap:pa^"]);
    assert!(bridge.said.contains("goes to the host rings"), "{}", bridge.said);
    talk::ping_to(&bed, 'a', "10.77.0.9");
    assert!(talk::asks(&bed, 'a', &bed.middle(), 7000));
    let idle = bed.bridge_stopped(bridge);
    assert!(!talk::asks(&bed, 'a', &bed.middle(), 7000), "the bridge is what carried them");
    drop(idle);
    assert!(talk::asks(&bed, 'a', &bed.middle(), 7000));
    bed.assert_nothing_is_left();
}

/// A killed program leaves no program, no device, and a queue that can be opened again.
#[test]
fn nothing_is_left_behind_by_a_killed_process() {
    let Some(bed) = Bed::new("killed") else { return skip("nothing_is_left_behind_by_a_killed_process") };
    bed.veth('a');
    bed.raise('a');
    for _ in 0..5 {
        let bridge = bed.bridge(&["--up"], &["netmap:pa*", "tap:rwt0"]);
        assert!(bed.links().contains("rwt0") && bed.links().contains("rwhost") && bed.links().contains("prog/xdp"));
        bridge.kill();
        bed.assert_nothing_is_left();
    }
}

#[test]
fn refusals_say_what_to_do() {
    let Some(bed) = Bed::new("refusals") else { return skip("refusals_say_what_to_do") };
    bed.veth('a');
    bed.ip(&["-n", &bed.middle(), "addr", "add", "10.77.0.9/24", "dev", "pa"]);
    bed.ip(&["-n", &bed.middle(), "link", "set", "pa", "up"]);
    let refused = |names: &[&str]| bed.refused(&[], names);
    let text = refused(&["xdp:none", "null:"]);
    assert!(text.contains("cannot find the interface") && text.contains("ip link"), "{text}");
    let text = refused(&["xdp:pa/7", "null:"]);
    assert!(text.contains("there is no queue 7") && text.contains("ethtool -l pa"), "{text}");
    let text = refused(&["tap:pa", "null:"]);
    assert!(text.contains("is no TAP device"), "{text}");
    let held = bed.bridge(&[], &["xdp:pa", "null:"]);
    let text = refused(&["xdp:pa", "null:"]);
    assert!(text.contains("another XDP program is attached") && text.contains("xdp off"), "{text}");
    drop(held);
    bed.ip(&["-n", &bed.middle(), "route", "add", "default", "via", "10.77.0.1"]);
    let text = refused(&["xdp:pa", "null:"]);
    assert!(text.contains("the default route leads through this interface"), "{text}");
    drop(bed.bridge(&["--force"], &["xdp:pa", "null:"]));
    bed.ip(&["-n", &bed.middle(), "route", "del", "default"]);
    let text = bed.refused_unprivileged(&["xdp:pa", "null:"]);
    assert!(text.contains("CAP_BPF"), "{text}");
    let text = bed.refused_unprivileged(&["packet:pa", "null:"]);
    assert!(text.contains("CAP_NET_RAW"), "{text}");
    let text = bed.refused_unprivileged(&["tap:rwt1", "null:"]);
    assert!(text.contains("/dev/net/tun") || text.contains("CAP_NET_ADMIN"), "{text}");
    bed.assert_nothing_is_left();
}
