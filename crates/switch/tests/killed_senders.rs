//! Senders that are killed while they deliver. A file of its own: a process that forks holds the ports of its other threads
//! open until it has become the child.

mod common;

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use common::{assert_all_is_free, open, pool, receive, send};
use ringway_mem::fabric::Fabric;
use ringway_mem::pool::Pool;
use ringway_switch::Switch;
use ringway_switch::modules::hub::Hub;

/// What a child needs to map the parent's memory.
const ENVIRONMENT: &str = "RINGWAY_SWITCH_TEST_CHILD";

fn spawn_child(pool: &Arc<Pool>, switch: &Arc<Switch>) -> Child {
    let (pool, fabric) = (pool.fd().as_raw_fd(), switch.fabric().fd().as_raw_fd());
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(ENVIRONMENT, format!("/proc/{}/fd/ {pool} {fabric}", std::process::id()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test of its own: sends until it is killed, when `a_killed_sender_blocks_nobody` starts it.
#[test]
fn child() {
    let Ok(text) = std::env::var(ENVIRONMENT) else { return };
    let [folder, pool, fabric] = text.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let map =
        |fd: &str| OwnedFd::from(OpenOptions::new().read(true).write(true).open(format!("{folder}{fd}")).unwrap());
    let pool = Pool::attach(map(pool)).unwrap();
    let switch = Switch::new(Fabric::attach(map(fabric)).unwrap(), Arc::new(Hub));
    let mut port = open(&switch, &pool, "vale:child");
    let mut number = 0;
    // Ends on its own if the parent does.
    while File::open(folder).is_ok() {
        number = send(&mut port, 9, number);
        receive(&mut port, &mut [0; 256]);
    }
}

/// kill -9 at many points (30, or RINGWAY_SWITCH_KILLS): receivers go on, the place and the memory of the dead come back.
#[test]
fn a_killed_sender_blocks_nobody() {
    let rounds = std::env::var("RINGWAY_SWITCH_KILLS").map_or(30, |kills| kills.parse().expect("a number of kills"));
    let (pool, switch) = (pool(), Switch::new(Fabric::create().unwrap(), Arc::new(Hub)));
    let (mut sender, mut receiver) = (open(&switch, &pool, "vale:sender"), open(&switch, &pool, "vale:receiver"));
    let (mut number, mut seen) = (0, [0; 256]);
    for round in 0..rounds {
        let mut child = spawn_child(&pool, &switch);
        seen[9] = 0;
        // Until the child has been heard of, then some more: it dies at another point each time.
        while seen[9] == 0 {
            number = send(&mut sender, 1, number);
            receive(&mut receiver, &mut seen);
            assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
        }
        for _ in 0..round * 37 % 101 {
            number = send(&mut sender, 1, number);
            receive(&mut receiver, &mut seen);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        switch.sweep().unwrap();
        receive(&mut receiver, &mut seen);
        receive(&mut sender, &mut [0; 256]);
        // The next batch gets through to its last frame.
        number = send(&mut sender, 1, number);
        receive(&mut receiver, &mut seen);
        assert_eq!(seen[1], number, "round {round}");
        assert_eq!(switch.fabric().seats().iter().filter(|seat| seat.occupant().is_some()).count(), 2);
    }
    drop((sender, receiver));
    assert_all_is_free(&pool);
}
