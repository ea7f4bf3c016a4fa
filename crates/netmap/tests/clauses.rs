//! Holds `docs/netmap-clauses.md` to the tests that it names: each exists, and each clause that is served names one.

use std::path::Path;

#[test]
fn every_clause_names_a_test_that_exists() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = std::fs::read_to_string(crates.parent().unwrap().join("docs/netmap-clauses.md")).unwrap();
    let (mut tests, mut without) = (0, vec![]);
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| clause ")) {
        let named: Vec<(&str, &str)> = row.split('`').filter_map(|word| word.split_once(".rs::")).collect();
        if named.is_empty() {
            without.push(row.split('|').nth(1).unwrap().trim().to_owned());
        }
        for (file, test) in named {
            let text = std::fs::read_to_string(crates.join(format!("{file}.rs"))).expect(file);
            assert!(text.contains(&format!("fn {test}()")), "{file}.rs has no test {test}");
            tests += 1;
        }
    }
    assert!(tests > 50, "{tests}");
    assert_eq!(without, ["NS_FORWARD, NR_FORWARD (transparent mode)", "NS_REPORT"], "clauses without a test");
}
