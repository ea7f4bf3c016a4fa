//! Which crate may lean on which, and how many packages the data plane may bring along.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::tree::Tree;
use crate::workspace::Workspace;

/// Every crate with the crates that it may depend on (beyond tests): the picture in ARCHITECTURE.md.
const ARROWS: &[(&str, &[&str])] = &[
    ("mem", &[]),
    ("channel", &["mem"]),
    ("preload", &["netmap", "channel", "mem"]),
    ("wire", &[]),
    ("tcp", &["wire"]),
    ("port", &["wire", "mem"]),
    ("switch", &["port", "wire", "mem"]),
    ("netmap", &["switch", "port", "mem"]),
    ("sched", &["port", "mem"]),
    ("stack", &["tcp", "wire", "switch", "port", "channel", "mem"]),
    ("capi", &["netmap", "mem"]),
    ("mtcp", &["stack", "tcp", "switch", "port"]),
    ("daemon", &["stack", "switch", "sched", "port", "channel", "mem"]),
    ("cli", &["daemon", "stack", "switch", "sched", "port", "wire", "channel", "mem"]),
    ("packetdrill", &["tcp", "wire"]),
    ("sim", &["stack", "tcp", "wire", "switch", "sched", "port", "mem"]),
];

/// Crates that run inside other people's programs.
const DATA_PLANE: &[&str] = &["mem", "channel", "preload", "wire", "port", "switch", "netmap", "tcp", "stack"];
/// Packages that these may bring along together, their own not counted.
const DATA_PLANE_PACKAGES_MAX: usize = 20;

pub(crate) fn arrows(workspace: &Workspace, _: &Tree) -> Result<Vec<String>> {
    let output = workspace.cargo(&["metadata", "--format-version", "1", "--no-deps", "--locked"]).output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let root = metadata["workspace_root"].as_str().context("metadata without workspace_root")?;
    let packages = metadata["packages"].as_array().context("metadata without packages")?;
    Ok(packages.iter().flat_map(|package| package_problems(root, package)).collect())
}

fn package_problems(root: &str, package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let manifest = package["manifest_path"].as_str().unwrap_or_default();
    let short = name.strip_prefix("ringway-").unwrap_or(name);
    if short == "xtask" {
        return vec![];
    }
    if manifest != format!("{root}/crates/{short}/Cargo.toml") {
        return vec![format!("package `{name}` belongs into crates/{short}, not {manifest}")];
    }
    let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == short) else {
        return vec![format!("crate `{short}` is missing in the table ARROWS of xtask/src/tidy/layers.rs")];
    };
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = dependencies.iter().filter(|d| d["kind"] != "dev").filter_map(|d| d["name"].as_str());
    ours.filter_map(|d| d.strip_prefix("ringway-"))
        .filter(|d| !allowed.contains(d))
        .map(|d| format!("crates/{short}/Cargo.toml: {short} must not depend on {d}"))
        .collect()
}

pub(crate) fn data_plane_budget(workspace: &Workspace, _: &Tree) -> Result<Vec<String>> {
    let mut command = workspace.cargo(&["tree", "--locked", "--edges", "normal", "--prefix", "none"]);
    command.args(["--format", "{p}"]);
    for name in DATA_PLANE {
        command.args(["-p", &format!("ringway-{name}")]);
    }
    let output = command.output()?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let packages = foreign_packages(&String::from_utf8_lossy(&output.stdout));
    if packages.len() <= DATA_PLANE_PACKAGES_MAX {
        return Ok(vec![]);
    }
    let names = packages.into_iter().collect::<Vec<_>>();
    Ok(vec![format!("{} packages, at most {DATA_PLANE_PACKAGES_MAX}: {}", names.len(), names.join(", "))])
}

/// The names in `cargo tree`'s lines, without our own crates.
fn foreign_packages(tree: &str) -> BTreeSet<String> {
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    names.filter(|name| !name.is_empty() && !name.starts_with("ringway-")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, folder: &str, dependencies: Value) -> Value {
        json!({"name": name, "manifest_path": format!("/r/crates/{folder}/Cargo.toml"), "dependencies": dependencies})
    }

    #[test]
    fn an_arrow_upwards_is_found() {
        let up = package("ringway-mem", "mem", json!([{"name": "ringway-channel", "kind": null}]));
        assert_eq!(package_problems("/r", &up), ["crates/mem/Cargo.toml: mem must not depend on channel"]);
        let down = package("ringway-channel", "channel", json!([{"name": "ringway-mem", "kind": null}]));
        assert!(package_problems("/r", &down).is_empty());
        let test = package("ringway-mem", "mem", json!([{"name": "ringway-channel", "kind": "dev"}]));
        assert!(package_problems("/r", &test).is_empty());
    }

    #[test]
    fn a_crate_in_the_wrong_folder_or_unknown_is_found() {
        assert_eq!(package_problems("/r", &package("ringway-mem", "memory", json!([]))).len(), 1);
        assert_eq!(package_problems("/r", &package("ringway-new", "new", json!([]))).len(), 1);
    }

    #[test]
    fn the_table_itself_has_no_cycle() {
        let below = |name: &str| ARROWS.iter().find(|(from, _)| *from == name).unwrap().1;
        fn reaches(from: &str, to: &str, below: &dyn Fn(&str) -> &'static [&'static str]) -> bool {
            below(from).iter().any(|next| *next == to || reaches(next, to, below))
        }
        assert!(ARROWS.iter().all(|(name, _)| !reaches(name, name, &below)));
    }

    #[test]
    fn packages_are_counted_once_and_ours_are_not() {
        let tree = "ringway-mem v0.1.0 (x)\nlibc v0.2.186\nrustix v1.1.4\nlibc v0.2.186 (*)\n\n";
        assert_eq!(foreign_packages(tree).len(), 2);
    }
}
