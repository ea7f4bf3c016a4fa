//! A veth pair whose far end is in a network namespace of its own. Both are gone when this is dropped.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use ringway_stack::Endpoint;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::PORTS;

const NEAR: &str = "10.214.77.1/30";
const FAR: &str = "10.214.77.2/30";
const FAR_ADDRESS: [u8; 4] = [10, 214, 77, 2];

pub(super) struct Veth {
    name: String,
}

impl Veth {
    pub(super) fn new() -> Result<Veth> {
        let name = format!("rwb{}", std::process::id());
        ip(&format!("netns add {name}"))?;
        // From here on it is taken down again.
        let veth = Veth { name };
        let Veth { name } = &veth;
        ip(&format!("link add {name}n type veth peer name {name}f netns {name}"))?;
        ip(&format!("address add {NEAR} dev {name}n"))?;
        ip(&format!("link set {name}n up"))?;
        ip(&format!("-n {name} address add {FAR} dev {name}f"))?;
        ip(&format!("-n {name} link set {name}f up"))?;
        Ok(veth)
    }

    /// Where a server at the far end listens.
    pub(super) fn ports(&self) -> Vec<Endpoint> {
        (0..PORTS as u16).map(|n| Endpoint::new(FAR_ADDRESS.into(), 7000 + n)).collect()
    }

    /// This thread is at the far end from now on.
    pub(super) fn enter(&self) -> Result<()> {
        let path = format!("/run/netns/{}", self.name);
        let file = File::open(&path).with_context(|| format!("cannot open {path}"))?;
        let entered = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
        entered.with_context(|| format!("cannot enter {path}"))
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        // The namespace takes the pair with it. What fails here was not there.
        let _ = ip(&format!("netns delete {}", self.name));
    }
}

fn ip(words: &str) -> Result<()> {
    let done = Command::new("ip").args(words.split(' ')).output().context("cannot run ip (package iproute2)")?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "`ip {words}`: {}; a veth pair needs root", said.trim());
    Ok(())
}
