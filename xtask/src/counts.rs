//! Passed, failed, skipped: read from what test programs print, and added up.

use std::fmt;
use std::ops::AddAssign;

/// How many tests ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    pub(crate) fn one_passed() -> Counts {
        Counts { passed: 1, ..Counts::default() }
    }

    pub(crate) fn one_failed() -> Counts {
        Counts { failed: 1, ..Counts::default() }
    }

    pub(crate) fn one_skipped() -> Counts {
        Counts { skipped: 1, ..Counts::default() }
    }

    pub(crate) fn total(self) -> u64 {
        self.passed + self.failed + self.skipped
    }

    /// The sum of all `test result:` lines of `cargo test`.
    pub(crate) fn from_cargo(output: &str) -> Counts {
        let mut sum = Counts::default();
        for line in output.lines().filter(|l| l.trim_start().starts_with("test result:")) {
            let before = |word: &str| number_before(line, word).unwrap_or(0);
            sum += Counts { passed: before(" passed"), failed: before(" failed"), skipped: before(" ignored") };
        }
        sum
    }

    /// The last line of the form `N passed, N failed, N skipped`.
    pub(crate) fn from_program(output: &str) -> Option<Counts> {
        output.lines().rev().find_map(|line| {
            let mut parts = line.trim().split(", ");
            let mut part = |word: &str| parts.next()?.strip_suffix(word)?.trim_end().parse().ok();
            let counts = Counts { passed: part("passed")?, failed: part("failed")?, skipped: part("skipped")? };
            parts.next().is_none().then_some(counts)
        })
    }
}

fn number_before(line: &str, word: &str) -> Option<u64> {
    let head = &line[..line.find(word)?];
    head.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The lines that name a skipped test: `test NAME ... ignored, REASON` and `SKIP NAME: REASON`.
pub(crate) fn skipped_lines(output: &str) -> Vec<&str> {
    let cargo = |l: &&str| l.starts_with("test ") && l.contains(" ... ignored");
    let program = |l: &&str| {
        let first = l.split([' ', ':']).next().unwrap_or("");
        ["skip", "skipped"].iter().any(|word| first.eq_ignore_ascii_case(word))
    };
    output.lines().map(str::trim).filter(|l| cargo(l) || program(l)).collect()
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_results_are_summed() {
        let output = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
                      noise\n\
                      test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 3 filtered out\n";
        assert_eq!(Counts::from_cargo(output), Counts { passed: 15, failed: 2, skipped: 1 });
        assert_eq!(Counts::from_cargo("error: could not compile"), Counts::default());
    }

    #[test]
    fn the_last_counts_line_of_a_program_counts() {
        let output = "1 passed, 0 failed, 0 skipped\nmore\n7 passed, 1 failed, 2 skipped\nbye\n";
        assert_eq!(Counts::from_program(output), Some(Counts { passed: 7, failed: 1, skipped: 2 }));
        assert_eq!(Counts::from_program("3 passed"), None);
        assert_eq!(Counts::from_program("3 passed, 1 failed, 0 skipped, 9 lost"), None);
    }

    #[test]
    fn what_we_print_is_what_we_read() {
        let counts = Counts { passed: 1, failed: 2, skipped: 3 };
        assert_eq!(Counts::from_program(&counts.to_string()), Some(counts));
    }

    #[test]
    fn skipped_tests_are_found_by_name() {
        let output = "test a ... ok\ntest b ... ignored, needs root\nSKIP haproxy: not installed\nskipping rope\n";
        assert_eq!(skipped_lines(output), ["test b ... ignored, needs root", "SKIP haproxy: not installed"]);
    }
}
