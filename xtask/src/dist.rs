//! `cargo xtask dist`: the release as a tar archive and a Debian package, in `target/dist`.
//!
//! Both hold the same tree. Paths of this machine are mapped away, times are those of the last
//! commit (or `SOURCE_DATE_EPOCH`), owners are root: two builds of one commit give the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::workspace::Workspace;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const LIMIT: Duration = Duration::from_secs(1800);

/// Units and the commented policy, and where they go.
const SYSTEMD: [(&str, &str); 3] = [
    ("ringway.service", "usr/lib/systemd/system"),
    ("ringway-user.service", "usr/lib/systemd/user"),
    ("policy.toml", "etc/ringway"),
];

/// For programs in C: headers go to `usr/include/ringway`, libraries to `usr/lib/ringway`.
const HEADERS: [&str; 6] =
    ["libnetmap.h", "mtcp_api.h", "mtcp_epoll.h", "net/netmap.h", "net/netmap_legacy.h", "net/netmap_user.h"];
const LIBRARIES: [&str; 5] = ["libringway.so", "libnetmap.so", "libnetmap.a", "libmtcp.so", "libmtcp.a"];
const PACKAGES: [&str; 2] = ["ringway-netmap.pc", "ringway-mtcp.pc"];

/// Builds archive and package; says where they are.
pub(crate) fn run(workspace: &Workspace) -> Result<bool> {
    let folder = workspace.target.join("dist");
    let epoch = source_date(workspace)?;
    let built = build(workspace, &folder, &epoch)?;
    let name = format!("ringway-{VERSION}-{}-linux", std::env::consts::ARCH);
    let tree = folder.join(&name);
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    stage(workspace, &built, &tree)?;
    let archive = archive(&folder, &name, &epoch)?;
    println!("{}", workspace.relative(&archive));
    let package = debian_package(&folder, &tree, &epoch)?;
    println!("{}", workspace.relative(&package));
    Ok(true)
}

/// Seconds since 1970 that every file of the release bears.
fn source_date(workspace: &Workspace) -> Result<String> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let mut command = Command::new("git");
    command.args(["log", "-1", "--format=%ct"]).current_dir(&workspace.root);
    let output = command.output().context("cannot run git; set SOURCE_DATE_EPOCH")?;
    ensure!(output.status.success(), "no commit to date the release by; set SOURCE_DATE_EPOCH");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// A release build of its own, because its flags differ from those of everyday builds.
fn build(workspace: &Workspace, folder: &Path, epoch: &str) -> Result<PathBuf> {
    let target = folder.join("build");
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let flags = format!(
        "--remap-path-prefix={}=/ringway --remap-path-prefix={}=/cargo --remap-path-prefix={}=/builder",
        workspace.root.display(),
        cargo_home.unwrap_or_else(|| home.join(".cargo")).display(),
        home.display()
    );
    let mut command = workspace.cargo(&["build", "--release", "--locked", "--workspace", "--exclude", "xtask"]);
    command.env("CARGO_PROFILE_RELEASE_STRIP", "true");
    command.arg("--target-dir").arg(&target).env("RUSTFLAGS", flags).env("SOURCE_DATE_EPOCH", epoch);
    process::run_visibly(&mut command, LIMIT)?;
    Ok(target.join("release"))
}

/// Lays the files out below `tree` as they lie below `/`.
fn stage(workspace: &Workspace, built: &Path, tree: &Path) -> Result<()> {
    let root = &workspace.root;
    let documents = Path::new("usr/share/doc/ringway");
    install(&built.join("ringway"), &tree.join("usr/bin/ringway"))?;
    for name in LIBRARIES {
        install(&built.join(name), &tree.join("usr/lib/ringway").join(name))?;
    }
    for name in HEADERS {
        install(&root.join("include").join(name), &tree.join("usr/include/ringway").join(name))?;
    }
    for name in PACKAGES {
        let package = fs::read_to_string(root.join("dist/pkgconfig").join(name))?;
        write(&tree.join("usr/lib/pkgconfig").join(name), package.replace("@VERSION@", VERSION).as_bytes())?;
    }
    for name in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        install(&root.join(name), &tree.join(documents).join(name))?;
    }
    install(&root.join("LICENSE-MIT"), &tree.join(documents).join("copyright"))?;
    for (file, folder) in SYSTEMD {
        install(&root.join("dist/systemd").join(file), &tree.join(folder).join(file))?;
    }
    let ringway = built.join("ringway");
    let manuals = tree.join("usr/share/man");
    process::run_visibly(Command::new(&ringway).arg("man").arg("--dir").arg(&manuals), LIMIT)?;
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/ringway"),
        ("zsh", "usr/share/zsh/vendor-completions/_ringway"),
        ("fish", "usr/share/fish/vendor_completions.d/ringway.fish"),
    ] {
        let output = Command::new(&ringway).args(["completions", shell]).output()?;
        ensure!(output.status.success(), "ringway completions {shell}: {}", String::from_utf8_lossy(&output.stderr));
        write(&tree.join(path), &output.stdout)?;
    }
    Ok(())
}

fn install(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("no parent folder")?)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().context("no parent folder")?)?;
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

fn archive(folder: &Path, name: &str, epoch: &str) -> Result<PathBuf> {
    let path = folder.join(format!("{name}.tar.gz"));
    let mut command = Command::new("tar");
    command
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+rwX,go=rX"])
        .arg(format!("--mtime=@{epoch}"))
        // Neither name nor time of the archive itself goes into the gzip header.
        .args(["--use-compress-program", "gzip -n -9", "-cf"])
        .arg(&path)
        .arg("-C")
        .arg(folder)
        .arg(name);
    process::run_visibly(&mut command, LIMIT)?;
    Ok(path)
}

fn debian_package(folder: &Path, tree: &Path, epoch: &str) -> Result<PathBuf> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let control = tree.join("DEBIAN/control");
    write(&control, control_file(architecture).as_bytes())?;
    // dpkg asks before it replaces a policy that somebody has edited.
    write(&tree.join("DEBIAN/conffiles"), b"/etc/ringway/policy.toml\n")?;
    let path = folder.join(format!("ringway_{VERSION}_{architecture}.deb"));
    let mut command = Command::new("dpkg-deb");
    command.args(["--root-owner-group", "--build", "-Zxz"]).arg(tree).arg(&path).env("SOURCE_DATE_EPOCH", epoch);
    process::run_visibly(command.stdout(std::io::stderr()), LIMIT)?;
    fs::remove_dir_all(tree.join("DEBIAN"))?;
    Ok(path)
}

fn control_file(architecture: &str) -> String {
    format!(
        "Package: ringway\nVersion: {VERSION}\nArchitecture: {architecture}\nSection: net\nPriority: optional\n\
         Maintainer: The Ringway authors <maintainers@example.org>\nDepends: libc6 (>= 2.36), libgcc-s1\n\
         Description: local TCP connections over shared memory\n \
         Programs run under `ringway run` carry their TCP connections inside one host\n \
         over shared memory. They stay unchanged, and so do their sockets: what cannot\n \
         be accelerated correctly goes through the kernel as before.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_file_has_what_dpkg_asks_for() {
        let text = control_file("amd64");
        for field in ["Package", "Version", "Architecture", "Maintainer", "Description"] {
            assert!(text.lines().any(|l| l.starts_with(&format!("{field}: "))), "{field}");
        }
        let folded = text.lines().skip_while(|l| !l.starts_with("Description")).skip(1);
        assert!(folded.into_iter().all(|l| l.starts_with(' ')));
    }

    #[test]
    fn all_headers_and_package_files_are_installed() {
        let root = Workspace::find().unwrap().root;
        let below = |folder: &str| {
            let files = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
            let named = files.filter(|path| path.is_file());
            named.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let (mut headers, mut packages) = (below("include"), below("dist/pkgconfig"));
        headers.extend(below("include/net").iter().map(|name| format!("net/{name}")));
        headers.sort();
        packages.sort_by(|a, b| b.cmp(a));
        assert_eq!((headers, packages), (HEADERS.map(str::to_owned).into(), PACKAGES.map(str::to_owned).into()));
    }
}
