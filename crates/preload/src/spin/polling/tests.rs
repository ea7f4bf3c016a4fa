//! The policy with a clock that moves only when it is read, or by what the test lets happen.

use core::cell::Cell;

use super::*;

/// Reading the clock takes this long: with `LOOKS` looks in between, as on a real machine.
const STEP: u64 = 500;

#[derive(Default)]
struct Fake {
    now: Cell<u64>,
    /// What a yield takes, in cycles.
    yield_takes: u64,
    yields: Cell<u32>,
    contended_until: AtomicU64,
}

impl Machine for Fake {
    fn now(&self) -> u64 {
        self.now.set(self.now.get() + STEP);
        self.now.get()
    }

    fn yield_cpu(&self) {
        self.yields.set(self.yields.get() + 1);
        self.now.set(self.now.get() + self.yield_takes);
    }
}

impl Fake {
    /// A wait in which `ready` becomes true at the time `at`. Whether it did, and how long the wait was.
    fn wait(&self, profile: Profile, state: &SpinState, shares_cpu: bool, at: u64) -> (bool, u64) {
        let start = self.now.get();
        let hit = self.poll(profile, state, shares_cpu, || self.now.get() >= at);
        (hit, self.now.get() - start)
    }

    fn poll(&self, profile: Profile, state: &SpinState, shares_cpu: bool, ready: impl FnMut() -> bool) -> bool {
        let (machine, contended_until) = (self, &self.contended_until);
        Polling { machine, contended_until, profile: profile as usize }.poll(state, shares_cpu, ready)
    }

    fn sleep(&self, cycles: u64) {
        self.now.set(self.now.get() + cycles);
    }

    /// A wait during which another thread has the CPU for `lost` cycles.
    fn be_preempted(&self, profile: Profile, state: &SpinState, lost: u64) {
        let mut looks = 0;
        let hit = self.poll(profile, state, false, || {
            looks += 1;
            self.sleep(if looks == 3 { lost } else { 0 });
            false
        });
        assert!(!hit && looks == LOOKS, "it polled on after losing the CPU");
    }
}

const NEVER: u64 = u64::MAX;

#[test]
fn polls_for_the_profiles_budget_and_no_longer() {
    for (profile, max_us) in [(Profile::Latency, 200), (Profile::Balanced, 100)] {
        let (fake, state) = (Fake::default(), SpinState::new());
        let (hit, took) = fake.wait(profile, &state, false, NEVER);
        assert!(!hit && took > cycles(max_us) && took <= cycles(max_us) + 3 * STEP, "{profile:?}: {took}");
        let (hit, took) = fake.wait(profile, &state, false, fake.now.get() + cycles(20));
        assert!(hit && took <= cycles(20) + STEP, "{profile:?}: {took}");
    }
    let (fake, state) = (Fake::default(), SpinState::new());
    assert_eq!(fake.wait(Profile::Efficient, &state, false, NEVER), (false, 0));
    assert_eq!(fake.wait(Profile::Efficient, &state, true, NEVER), (false, 0));
}

#[test]
fn balanced_gives_up_what_does_not_pay_and_tries_again() {
    let (fake, state) = (Fake::default(), SpinState::new());
    let took: Vec<u64> = (0..40).map(|_| fake.wait(Profile::Balanced, &state, false, NEVER).1).collect();
    assert!(took[3] < took[2] && took[2] < took[1] && took[1] < took[0]);
    // From then on every sixteenth wait is a full try.
    let tries = took[4..].iter().filter(|t| **t > cycles(99)).count();
    let idle = took[4..].iter().filter(|t| **t == STEP).count();
    assert_eq!((tries, idle), (3, 33));
    // A try that pays brings polling back.
    while !fake.wait(Profile::Balanced, &state, false, fake.now.get() + cycles(50)).0 {}
    assert!(fake.wait(Profile::Balanced, &state, false, fake.now.get() + cycles(50)).0);
}

#[test]
fn latency_never_gives_up() {
    let (fake, state) = (Fake::default(), SpinState::new());
    assert!((0..100).all(|_| fake.wait(Profile::Latency, &state, false, NEVER).1 > cycles(200)));
}

#[test]
fn after_losing_the_cpu_nobody_polls_for_a_multiple_of_the_time_lost() {
    let ms = cycles(1_000);
    for profile in [Profile::Latency, Profile::Balanced] {
        for (lost, pause) in [(cycles(26), ms / 2), (4 * ms, 64 * ms), (60 * ms, 200 * ms)] {
            let (fake, state, other) = (Fake::default(), SpinState::new(), SpinState::new());
            fake.be_preempted(profile, &state, lost);
            let over = fake.now.get() + pause;
            for waiter in [&state, &other] {
                assert_eq!(fake.wait(profile, waiter, false, NEVER), (false, STEP));
                assert_eq!(fake.wait(profile, waiter, true, NEVER), (false, STEP));
            }
            assert_eq!(fake.yields.get(), 0);
            fake.now.set(over - 20 * STEP);
            assert_eq!(fake.wait(profile, &other, false, NEVER), (false, STEP), "{profile:?} after {lost}");
            fake.now.set(over + 20 * STEP);
            assert!(fake.wait(profile, &other, false, NEVER).1 > cycles(99), "{profile:?} after {lost}");
        }
    }
}

#[test]
fn a_peer_on_this_cpu_gets_it() {
    let fake = Fake { yield_takes: cycles(2), ..Fake::default() };
    let state = SpinState::new();
    assert!(fake.wait(Profile::Balanced, &state, true, cycles(20)).0);
    assert!((2..=10).contains(&fake.yields.get()), "{}", fake.yields.get());
    // One that does not answer gets it for as long as polling would last.
    let (hit, took) = fake.wait(Profile::Balanced, &state, true, NEVER);
    assert!(!hit && took < cycles(105));
    assert_eq!(fake.contended_until.load(Relaxed), 0);
}

#[test]
fn a_yield_that_goes_to_a_stranger_is_the_last_for_a_while() {
    let slice = cycles(4_000);
    for profile in [Profile::Latency, Profile::Balanced] {
        let fake = Fake { yield_takes: slice, ..Fake::default() };
        let state = SpinState::new();
        // The answer has come meanwhile, and all the same the time was lost.
        assert!(fake.wait(profile, &state, true, cycles(10)).0);
        assert_eq!(fake.yields.get(), 1);
        for _ in 0..100 {
            assert_eq!(fake.wait(profile, &state, true, NEVER), (false, STEP));
        }
        fake.sleep(TIMES_LOST * slice);
        fake.wait(profile, &state, true, NEVER);
        assert_eq!(fake.yields.get(), 2);
    }
}
