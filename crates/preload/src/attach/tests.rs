//! A descriptor is closed while its connection is being upgraded.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::time::Duration;

use super::*;
use crate::hooks::fd as fd_hooks;
use crate::hostile::{CONNECTION, answered_pair, become_a_program};
use crate::table::{self, Entry};
use crate::testing::{in_child, until};

/// Long enough for a call that does not wait to come back.
const WHILE: Duration = Duration::from_millis(100);

#[test]
fn a_close_waits_for_the_thread_that_attaches() {
    in_child(|| {
        become_a_program();
        let (fd, _peer, answer) = answered_pair(&TcpListener::bind("127.0.0.1:0").unwrap());
        let (_, c) = upgrade::connection(fd).unwrap();
        let cookie = kernel::cookie(fd);
        let page = Region::open(answer.page.as_fd(), END_REGION_BYTES, END_REGION_BYTES).unwrap();
        // SAFETY: as long as `page` lives; all fields are atomic.
        let page = unsafe { page.base().cast::<EndPage>().as_ref() };
        page.initialised.store(FILLING, SeqCst);
        std::thread::scope(|scope| {
            scope.spawn(|| answer.arrive(fd));
            until(|| c.is_attaching());
            // SAFETY: the test's own descriptor.
            let closer = scope.spawn(|| assert_eq!(unsafe { fd_hooks::close(fd) }, 0));
            until(|| table::get(fd) == Entry::Unknown);
            std::thread::sleep(WHILE);
            assert!(!closer.is_finished() && kernel::cookie(fd) == cookie, "closed while it is used");
            page.connection.store(CONNECTION, SeqCst);
            page.initialised.store(READY, SeqCst);
            until(|| closer.is_finished());
            assert_eq!(kernel::cookie(fd), None);
        });
    });
}
