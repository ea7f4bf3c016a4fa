//! `ringway port`: ports that stay, ports that are joined, and which there are.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use ringway_port::PortName;

use super::EXIT_NEGATIVE;
use crate::keeper::{Held, Request, Traffic, ask, ask_or_start};
use crate::output::{human_bytes, print_json, print_text, table};
use crate::packets::inventory::{Inventory, Name, PortEntry, Totals};
use crate::packets::meeting;

/// Keep ports open, join them, and show which there are
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway port add tap:t0                         the device stays until `ringway port del tap:t0`
  ringway port attach packet:veth0 shm:capture    packets go on between the two, both ways
  ringway port show -s                            ports at switches and pipes, with what went through them
  ringway port show vale0:a -j

What is added or attached is held by a process in the background (`ringway keeper`), which ends with the last of it.")]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Keep a port open
    Add {
        #[arg(value_name = "PORT")]
        port: String,
    },
    /// Pass packets on between two ports, both ways
    Attach {
        #[arg(value_name = "PORT")]
        port: String,
        #[arg(value_name = "PORT")]
        to: String,
    },
    /// Let go of a port that was added or attached
    Del {
        #[arg(value_name = "PORT")]
        port: String,
    },
    /// List ports
    Show(Show),
}

/// What to list, and how.
#[derive(Args)]
pub(super) struct Show {
    /// Only this one [default: all]
    #[arg(value_name = "NAME")]
    pub(super) name: Option<String>,
    /// With packets, bytes and drops
    #[arg(short, long)]
    pub(super) stats: bool,
    /// JSON instead of text
    #[arg(short, long)]
    pub(super) json: bool,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    match arguments.what {
        What::Add { port } => hold(&Request::AddPort { port: name(&port)? }),
        What::Attach { port, to } => hold(&Request::Attach { port: name(&port)?, to: name(&to)? }),
        What::Del { port } => let_go(port),
        What::Show(show) => show.print(|_| true),
    }
}

/// Names are checked here, so that what is wrong with them is said where they were written.
fn name(text: &str) -> Result<String> {
    text.parse::<PortName>()?;
    Ok(text.to_owned())
}

/// Has the keeper hold something.
pub(super) fn hold(request: &Request) -> Result<ExitCode> {
    ask_or_start(&meeting::place(true)?, request)?;
    Ok(ExitCode::SUCCESS)
}

/// Has the keeper let something go.
pub(super) fn let_go(name: String) -> Result<ExitCode> {
    match ask(&meeting::place(false)?, &Request::Del { name: name.clone() })? {
        Some(_) => Ok(ExitCode::SUCCESS),
        None => bail!("nothing is held by the name {name}: no keeper runs"),
    }
}

impl Show {
    /// Prints what there is at names for which `is_wanted`.
    pub(super) fn print(&self, is_wanted: impl Fn(&Name) -> bool) -> Result<ExitCode> {
        let folder: PathBuf = meeting::place(false)?;
        let mut inventory = Inventory::take(&folder)?;
        inventory.names.retain(is_wanted);
        if let Some(name) = &self.name {
            inventory = inventory.only(name);
        }
        match self.json {
            true => print_json(&inventory)?,
            false => print_text(&text(&inventory, self.stats))?,
        }
        let found_nothing = self.name.is_some() && inventory.is_empty();
        Ok(if found_nothing { ExitCode::from(EXIT_NEGATIVE) } else { ExitCode::SUCCESS })
    }
}

fn text(inventory: &Inventory, stats: bool) -> String {
    let mut text = String::new();
    let rows: Vec<Vec<String>> = inventory.names.iter().flat_map(|name| rows_of(name, stats)).collect();
    if !rows.is_empty() {
        let mut header = vec!["NAME", "PORT", "NUMBER", "RINGS", "SLOTS", "OPEN"];
        header.extend(if stats { &["SENT", "BYTES", "DROPPED", "RECEIVED", "BYTES", "DROPPED"][..] } else { &[] });
        text += &table(&header, &rows, &[2, 6, 7, 8, 9, 10, 11]);
    }
    if !inventory.held.is_empty() {
        let rows: Vec<Vec<String>> = inventory.held.iter().map(|held| held_row(held, stats)).collect();
        let separator = if text.is_empty() { "" } else { "\n" };
        text += separator;
        text += &table(&["KEPT", "AS", "TO", ""], &rows, &[]);
    }
    text
}

fn rows_of(name: &Name, stats: bool) -> Vec<Vec<String>> {
    let title = format!("{} ({})", name.name, human_bytes(name.memory_bytes));
    if let Some(why) = &name.closed {
        let mut row = vec![String::new(); if stats { 12 } else { 6 }];
        (row[0], row[1]) = (title, why.clone());
        return vec![row];
    }
    let rows = name.ports.iter().enumerate();
    rows.map(|(n, port)| row_of(if n == 0 { title.clone() } else { String::new() }, port, stats)).collect()
}

fn row_of(title: String, port: &PortEntry, stats: bool) -> Vec<String> {
    let mut row = vec![
        title,
        port.port.clone(),
        port.number.map_or("-".to_owned(), |number| number.to_string()),
        format!("{}/{}", port.tx_rings, port.rx_rings),
        format!("{}/{}", port.tx_slots, port.rx_slots),
        if port.is_open { "yes" } else { "no" }.to_owned(),
    ];
    if stats {
        let cells = |Totals { packets, bytes, dropped }| [packets.to_string(), human_bytes(bytes), dropped.to_string()];
        row.extend(cells(port.tx).into_iter().chain(cells(port.rx)));
    }
    row
}

fn held_row(held: &Held, stats: bool) -> Vec<String> {
    let traffic = |Traffic { packets, bytes }| format!("{packets} packets, {}", human_bytes(bytes));
    let note = match (&held.failed, held.kind.as_str()) {
        (Some(why), _) => format!("FAILED: {why}"),
        (None, "patch") if stats => format!("forth {}; back {}", traffic(held.forth), traffic(held.back)),
        (None, "isolated") => held.ports.join(", "),
        _ => String::new(),
    };
    vec![held.name.clone(), held.kind.clone(), held.to.clone().unwrap_or_default(), note]
}
