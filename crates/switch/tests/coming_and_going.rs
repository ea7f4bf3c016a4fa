//! Ports that come and go while others send.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use common::{assert_all_is_free, open, pool, receive, send};
use ringway_mem::fabric::Fabric;
use ringway_switch::Switch;
use ringway_switch::modules::hub::Hub;

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn ports_come_and_go_while_others_send() {
    let (pool, switch) = (pool(), Switch::new(Fabric::create().unwrap(), Arc::new(Hub)));
    let stop = AtomicBool::new(false);
    let mut watcher = open(&switch, &pool, "vale:watcher");
    std::thread::scope(|scope| {
        for sender in 1..=2_u8 {
            let mut port = open(&switch, &pool, &format!("vale:sender{sender}"));
            let stop = &stop;
            scope.spawn(move || {
                let mut number = 0;
                while !stop.load(Relaxed) {
                    number = send(&mut port, sender, number);
                    // Senders hear each other, too.
                    receive(&mut port, &mut [0; 256]);
                }
            });
        }
        // Also when an assertion fails.
        let _stop = StopOnDrop(&stop);
        let (mut seen, mut frames) = ([0; 256], 0);
        for round in 0..100 {
            let mut guest = open(&switch, &pool, "vale:guest");
            let (mut seen_by_guest, mut frames_by_guest) = ([0; 256], 0);
            while frames_by_guest < round % 7 {
                frames_by_guest += receive(&mut guest, &mut seen_by_guest);
                frames += receive(&mut watcher, &mut seen);
                std::thread::yield_now();
            }
        }
        assert!(frames > 0);
    });
    drop(watcher);
    assert_eq!(switch.fabric().seats().iter().filter(|seat| seat.occupant().is_some()).count(), 0);
    assert_all_is_free(&pool);
}
