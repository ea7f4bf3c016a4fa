//! `ringway bench tcp`: one client against servers on our TCP, on the kernel's and on others', interleaved in one run.
//!
//! ```text
//!   client, on a CPU of its own           server, on the other one
//!   load generator on our TCP  <- shm: -> our TCP, smoltcp             the same shared-memory pipe
//!   load generator, kernel's   <- lo, veth -> the kernel's TCP
//! ```
//! - `duel`: two threads, one on each CPU. `client`: what asks and what is counted. `server`: what answers.
//! - `hosts`: our TCP's two ends of a pipe. `netns`: the far end of a veth pair, in a network namespace of its own.
//! - `smoltcp`: smoltcp at the pipe's other end; only with the feature `comparators`, so that nobody else has to build it.

mod client;
mod duel;
mod hosts;
mod netns;
mod server;
#[cfg(feature = "comparators")]
mod smoltcp;

use anyhow::{Context, Result, ensure};
use ringway_stack::{Endpoint, KernelSockets, Sockets};

use super::case::{Case, Kind};
use super::machine::{Load, Machine, two_cpus};
use super::path::Path;
use super::report::{CaseResult, Report};
use super::worker::Sample;
use super::{DESCRIPTORS_SPARE, Plan, raise_descriptor_limit, targets, turns};
use duel::{Ends, duel};
use netns::Veth;
use server::Service;

/// Ports that each server listens at: between two addresses and one port there are too few connections for the largest case.
const PORTS: usize = 4;

/// Runs `cases`; `progress` hears what is going on.
pub(crate) fn run(cases: &[Case], plan: Plan, mut progress: impl FnMut(&str)) -> Result<Report> {
    let descriptors = raise_descriptor_limit();
    let cpus = if plan.pinned { two_cpus() } else { None };
    let load_before = Load::now();
    let veth = Veth::new();
    let sample = |kind: Kind, path| {
        let needed = 2 * kind.connections() as u64 + DESCRIPTORS_SPARE;
        ensure!(
            needed <= descriptors || !matches!(path, Path::Tcp | Path::Veth),
            "the kernel's connections need {needed} descriptors and {descriptors} are allowed; raise it with `ulimit -Hn`"
        );
        measure(kind, path, &veth, plan, cpus)
    };
    let results: Vec<CaseResult> = cases.iter().map(|case| turns(case, plan, &mut progress, sample)).collect();
    Ok(Report {
        schema: super::report::SCHEMA,
        bench: "tcp".into(),
        machine: Machine::this(),
        rounds: plan.rounds,
        duration_s: plan.duration.as_secs_f64(),
        cpus,
        load_before,
        load_after: Load::now(),
        targets: targets::judge(&results),
        cases: results,
    })
}

/// One measurement.
fn measure(kind: Kind, path: Path, veth: &Result<Veth>, plan: Plan, cpus: Option<[usize; 2]>) -> Result<Sample> {
    let service = Service::of(kind)?;
    let ends = Ends::new(cpus);
    match path {
        Path::Engine => {
            let (mut server, mut client, at) = hosts::two()?;
            duel(
                &ends,
                |ready| server::serve(&mut server, &at, service, &ends, ready),
                || client::run(&mut client, &at, kind, plan.duration, &ends),
            )
        }
        Path::Smoltcp => on_smoltcp(kind, service, plan, &ends),
        Path::Tcp => {
            let at = free_ports([127, 0, 0, 1].into())?;
            let (mut server, mut client) = (KernelSockets::new()?, KernelSockets::new()?);
            duel(
                &ends,
                |ready| server::serve(&mut server, &at, service, &ends, ready),
                || client::run(&mut client, &at, kind, plan.duration, &ends),
            )
        }
        _ => {
            let veth = veth.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
            let mut client = KernelSockets::new()?;
            duel(
                &ends,
                |ready| {
                    veth.enter()?;
                    server::serve(&mut KernelSockets::new()?, &veth.ports(), service, &ends, ready)
                },
                || client::run(&mut client, &veth.ports(), kind, plan.duration, &ends),
            )
        }
    }
}

#[cfg(feature = "comparators")]
fn on_smoltcp(kind: Kind, service: Service, plan: Plan, ends: &Ends) -> Result<Sample> {
    let (port, mut client, at) = hosts::one()?;
    let connections = kind.connections();
    duel(
        ends,
        |ready| smoltcp::serve(port, &at, connections, service, ends, ready),
        || client::run(&mut client, &at, kind, plan.duration, ends),
    )
}

#[cfg(not(feature = "comparators"))]
fn on_smoltcp(_: Kind, _: Service, _: Plan, _: &Ends) -> Result<Sample> {
    anyhow::bail!("smoltcp is not built in; build with `cargo build --release -p ringway-cli --features comparators`")
}

/// Ports at `address` that nobody has.
fn free_ports(address: std::net::IpAddr) -> Result<Vec<Endpoint>> {
    let held: Vec<_> = (0..PORTS).map(|_| std::net::TcpListener::bind((address, 0))).collect::<Result<_, _>>()?;
    held.iter().map(|listener| Ok(listener.local_addr().context("cannot find free ports")?.into())).collect()
}

/// Listens at all of `at`.
fn listen_at(sockets: &mut impl Sockets, at: &[Endpoint]) -> Result<()> {
    const BACKLOG: u32 = 4096;
    at.iter().try_for_each(|at| {
        let listener = sockets.listen(*at, BACKLOG);
        listener.map(drop).with_context(|| format!("cannot listen at {at:?}"))
    })
}
