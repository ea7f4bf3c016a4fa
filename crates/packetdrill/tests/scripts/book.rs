//! From a file of cases to cases: names, shared lines, settings.

use std::collections::BTreeMap;
use std::path::Path;

use crate::flow::Version;

/// A line and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) text: String,
}

#[derive(Debug, Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The RFC's section or Linux's function.
    pub(crate) source: String,
    /// Settings, as `name=value`.
    pub(crate) settings: Vec<String>,
    pub(crate) lines: Vec<Line>,
    /// What comes out after the last line does not matter.
    pub(crate) lenient: bool,
    /// `over ipv4` or `over ipv6`: the only version for which it makes sense.
    only: Option<Version>,
}

impl Case {
    pub(crate) fn runs_over(&self, version: Version) -> bool {
        self.only.is_none_or(|only| only == version)
    }
}

/// Lines under a name.
pub(crate) type Shared = BTreeMap<String, Vec<Line>>;

/// The cases of a folder's files; what `shared.drill` defines, all can use.
pub(crate) fn read(folder: &Path) -> Vec<Case> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort_by_key(|path| (!path.ends_with("shared.drill"), path.clone()));
    let (mut shared, mut cases) = (Shared::new(), Vec::new());
    for path in paths {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut here = shared.clone();
        cases.extend(parse(&stem, &std::fs::read_to_string(&path).unwrap(), &mut here));
        if stem == "shared" {
            shared = here;
        }
    }
    cases
}

/// The cases of a text, their names after the file's.
pub(crate) fn parse(stem: &str, text: &str, shared: &mut Shared) -> Vec<Case> {
    let mut defining: Option<String> = None;
    let mut cases: Vec<Case> = Vec::new();
    for (n, raw) in text.lines().enumerate() {
        let text = raw.split("//").next().unwrap_or_default().trim().to_owned();
        let line = Line { number: n + 1, text };
        let (word, rest) = line.text.split_once(' ').unwrap_or((&line.text, ""));
        match word {
            "define" => {
                defining = Some(rest.to_owned());
                shared.insert(rest.to_owned(), Vec::new());
            }
            "case" => {
                let (name, source) = rest.split_once(':').unwrap_or_else(|| panic!("{stem}:{}: no source", n + 1));
                let (name, source) = (format!("{stem}/{}", name.trim()), source.trim().to_owned());
                cases.push(Case { name, source, ..Case::default() });
                defining = None;
            }
            "" if defining.is_some() => defining = None,
            "" => {}
            _ => {
                let lines = match word {
                    "use" => {
                        shared.get(rest).unwrap_or_else(|| panic!("{stem}:{}: nothing named {rest}", n + 1)).clone()
                    }
                    _ => vec![line],
                };
                match &defining {
                    Some(name) => shared.entry(name.clone()).or_default().extend(lines),
                    None => {
                        let case = cases.last_mut().unwrap_or_else(|| panic!("{stem}:{}: no case yet", n + 1));
                        lines.into_iter().for_each(|line| case.take(line));
                    }
                }
            }
        }
    }
    cases
}

impl Case {
    fn take(&mut self, line: Line) {
        let (word, rest) = line.text.split_once(' ').unwrap_or((&line.text, ""));
        match (word, rest) {
            ("set", setting) => self.settings.push(setting.to_owned()),
            ("lenient", "") => self.lenient = true,
            ("over", "ipv4") => self.only = Some(Version::V4),
            ("over", "ipv6") => self.only = Some(Version::V6),
            _ => self.lines.push(line),
        }
    }
}
