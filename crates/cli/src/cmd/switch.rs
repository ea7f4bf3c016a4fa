//! `ringway switch`: switches that stay, isolated ones, and devices at them.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use ringway_port::PortName;
use ringway_port::name::Scheme;

use super::port::{Show, hold, let_go};
use crate::keeper::Request;

/// Keep switches, attach devices to them, and show what is at them
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway switch add vale0                        stays although no port is open at it
  ringway switch add vale1 --isolated             its ports do not share memory; a process of its own copies
  ringway switch attach vale0:eth1                the interface eth1 (netmap:eth1) is a port of the switch
  ringway switch attach vale0:up tap:t0           so is the TAP device t0
  ringway switch del vale0:eth1
  ringway switch show -s

A switch is a learning bridge; it is there as soon as a port of it is opened (vale0:a), so `add` is needed only to keep one \
or to isolate it. What is added or attached is held by a process in the background (`ringway keeper`).")]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Keep a switch
    Add {
        /// As vale0
        #[arg(value_name = "SWITCH")]
        switch: String,
        /// Its ports get memory of their own, and a process of the switch's copies between them
        #[arg(long)]
        isolated: bool,
        /// Other users' programs may be at it, too (with --isolated)
        #[arg(long, requires = "isolated")]
        anyone: bool,
    },
    /// Make a device, or any other port, a port of a switch
    Attach {
        /// As vale0:eth1
        #[arg(value_name = "SWITCH:PORT")]
        port: String,
        /// What to attach [default: the interface netmap:PORT]
        #[arg(value_name = "DEVICE")]
        device: Option<String>,
    },
    /// Let go of a switch or of a port that was attached
    Del {
        #[arg(value_name = "SWITCH[:PORT]")]
        name: String,
    },
    /// List switches and their ports
    Show(Show),
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    match arguments.what {
        What::Add { switch, isolated, anyone } => {
            // The part before the colon; the error shows the grammar.
            let name: PortName = format!("{switch}:port").parse()?;
            match name.scheme {
                Scheme::Vale { .. } => hold(&Request::AddSwitch { switch, isolated, anyone }),
                _ => bail!("{switch} is no switch: their names begin with vale, as vale0"),
            }
        }
        What::Attach { port, device } => {
            let name: PortName = port.parse()?;
            if !matches!(name.scheme, Scheme::Vale { .. }) {
                bail!("{port} is no port of a switch: write SWITCH:PORT, as vale0:eth1");
            }
            let device =
                device.unwrap_or_else(|| format!("netmap:{}", name.port.rsplit(':').next().unwrap_or(&name.port)));
            device.parse::<PortName>()?;
            hold(&Request::Attach { port, to: device })
        }
        What::Del { name } => let_go(name),
        What::Show(show) => show.print(|name| name.is_switch),
    }
}
