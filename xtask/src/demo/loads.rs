//! The real programs: how a server is started, which generator loads it, how its output is read.

use std::path::Path;

use anyhow::Result;

use super::samples::{self, Sample};

/// One row of the table.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) packages: &'static [&'static str],
    /// Connections that carry the load.
    pub(crate) connections: u32,
    pub(crate) server: &'static str,
    /// The server's arguments for a folder of its own and a port.
    pub(crate) server_arguments: fn(&Path, u16) -> Result<Vec<String>>,
    pub(crate) client: &'static str,
    /// The generator's arguments for a port.
    pub(crate) arguments: fn(u16) -> Vec<String>,
    pub(crate) parse: fn(&str) -> Option<Sample>,
}

const REDIS: &[&str] = &["redis-server", "redis-tools"];
const NGINX: &[&str] = &["nginx-light", "wrk"];
const MEMCACHED: &[&str] = &["memcached", "libmemcached-tools"];

/// Length of the file that the small nginx load fetches, in bytes.
const SMALL_BYTES: usize = 612;
/// Length of the file that the large nginx load fetches, in bytes.
const LARGE_BYTES: usize = 1 << 20;

pub(crate) const LOADS: &[Load] = &[
    redis("redis GET, 1 connection", 1, |port| redis_client(port, "get", 1, 40_000)),
    redis("redis SET, 1 connection", 1, |port| redis_client(port, "set", 1, 40_000)),
    redis("redis GET, 50 connections", 50, |port| redis_client(port, "get", 50, 150_000)),
    redis("redis SET, 50 connections", 50, |port| redis_client(port, "set", 50, 150_000)),
    nginx("nginx, 612 B file, 16 connections", 16, |port| wrk_client(port, "small.html", 16)),
    nginx("nginx, 1 MiB file, 4 connections", 4, |port| wrk_client(port, "large.bin", 4)),
    Load {
        name: "memcached 90% get, 16 connections",
        packages: MEMCACHED,
        connections: 16,
        server: "memcached",
        server_arguments: memcached_server,
        client: "memcaslap",
        arguments: |port| words(&format!("-s 127.0.0.1:{port} -T 1 -c 16 -t 2s")),
        parse: samples::memcaslap,
    },
];

const fn redis(name: &'static str, connections: u32, arguments: fn(u16) -> Vec<String>) -> Load {
    Load {
        name,
        packages: REDIS,
        connections,
        server: "redis-server",
        server_arguments: redis_server,
        client: "redis-benchmark",
        arguments,
        parse: samples::redis_benchmark,
    }
}

const fn nginx(name: &'static str, connections: u32, arguments: fn(u16) -> Vec<String>) -> Load {
    Load {
        name,
        packages: NGINX,
        connections,
        server: "nginx",
        server_arguments: nginx_server,
        client: "wrk",
        arguments,
        parse: samples::wrk,
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}

fn redis_server(folder: &Path, port: u16) -> Result<Vec<String>> {
    let mut arguments = words(&format!("--port {port} --bind 127.0.0.1 --appendonly no --daemonize no"));
    arguments.extend(["--save".into(), String::new(), "--dir".into(), folder.display().to_string()]);
    Ok(arguments)
}

fn redis_client(port: u16, command: &str, connections: u32, requests: u32) -> Vec<String> {
    words(&format!("-h 127.0.0.1 -p {port} -t {command} -c {connections} -n {requests} --csv"))
}

fn memcached_server(_: &Path, port: u16) -> Result<Vec<String>> {
    let mut arguments = words(&format!("-l 127.0.0.1 -p {port} -U 0 -t 1"));
    if rustix::process::geteuid().is_root() {
        arguments.extend(words("-u root"));
    }
    Ok(arguments)
}

/// One worker that keeps our user: two users are not paired unless the policy says so.
fn nginx_server(folder: &Path, port: u16) -> Result<Vec<String>> {
    std::fs::write(folder.join("small.html"), "x".repeat(SMALL_BYTES))?;
    std::fs::write(folder.join("large.bin"), "x".repeat(LARGE_BYTES))?;
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let place = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("    {kind}_temp_path {place}/{kind};\n"))
        .concat();
    let configuration = format!(
        "{user}\ndaemon off;\nworker_processes 1;\npid {place}/nginx.pid;\nerror_log {place}/error.log;\n\
         events {{ worker_connections 1024; }}\nhttp {{\n    access_log off;\n    sendfile on;\n    \
         keepalive_requests 1000000000;\n{temporary}    \
         server {{ listen 127.0.0.1:{port}; root {place}; }}\n}}\n"
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, configuration)?;
    Ok(vec!["-e".into(), format!("{place}/error.log"), "-c".into(), file.display().to_string()])
}

fn wrk_client(port: u16, file: &str, connections: u32) -> Vec<String> {
    words(&format!("-t 1 -c {connections} -d 2s --latency http://127.0.0.1:{port}/{file}"))
}
