//! Redis, memcached, nginx and HAProxy: servers on a path, and who loads them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path as FilePath;
use std::time::Duration;

use anyhow::{Context, Result};

use super::bed::{Bed, Member, STEP_LIMIT};
use super::case::Kind;
use super::path::Path;
use super::worker::{Address, Sample, Task};
use super::{outputs, pairs};

/// Requests of redis-benchmark in a second, at most, so that a run ends in time.
const REDIS_RATE: f64 = 400_000.0;
/// Redis requests per connection in a second, guessed low: a run must not take much longer than it should.
const REDIS_RATE_ONE: f64 = 60_000.0;
/// Value that is stored in memcached, in bytes.
const VALUE_BYTES: usize = 64;

/// Measures once.
pub(super) fn measure(bed: &Bed, kind: Kind, path: Path, duration: Duration) -> Result<Sample> {
    match kind {
        Kind::Redis { command, connections } => redis(bed, command, connections, path, duration),
        Kind::Memcached { connections } => memcached(bed, connections, path, duration),
        Kind::Nginx { bytes, connections } => {
            let (server, port) = nginx(bed, path, bytes)?;
            wrk(bed, path, &server, port, connections, duration)
        }
        Kind::Haproxy { connections } => {
            let (origin, origin_port) = nginx(bed, path, SMALL_BYTES)?;
            let (proxy, port) = haproxy(bed, path, origin_port)?;
            let sample = wrk(bed, path, &proxy, port, connections, duration)?;
            // The proxy shares connections to its origin among its clients.
            expect_upgraded(bed, &[&origin], 1)?;
            Ok(sample)
        }
        _ => unreachable!("our own workers have a module of their own"),
    }
}

/// Length of the file behind the proxy, in bytes.
const SMALL_BYTES: usize = 612;

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A free place to listen at, of the path's family.
fn free_address(bed: &Bed, path: Path) -> Result<Address> {
    Ok(match path {
        Path::Unix => Address::Unix(bed.new_path("socket")),
        _ => Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?))),
    })
}

fn serve(bed: &Bed, path: Path, program: &str, arguments: &[String], address: &Address) -> Result<Member> {
    let mut server = bed.program(path, program, arguments)?;
    let listens = || match address {
        Address::Tcp(address) => TcpStream::connect(address).is_ok(),
        Address::Unix(path) => UnixStream::connect(path).is_ok(),
    };
    server.process.wait_until(STEP_LIMIT, listens).with_context(|| program.to_owned())?;
    Ok(server)
}

fn redis(bed: &Bed, command: &str, connections: usize, path: Path, duration: Duration) -> Result<Sample> {
    let address = free_address(bed, path)?;
    let (listen, connect) = match &address {
        Address::Tcp(a) => (format!("--port {} --bind 127.0.0.1", a.port()), format!("-h 127.0.0.1 -p {}", a.port())),
        Address::Unix(file) => (format!("--port 0 --unixsocket {}", file.display()), format!("-s {}", file.display())),
    };
    let mut arguments = words(&format!("{listen} --appendonly no --daemonize no"));
    arguments.extend(["--save".into(), String::new()]);
    let server = serve(bed, path, "redis-server", &arguments, &address)?;
    let rate = (REDIS_RATE_ONE * connections as f64).min(REDIS_RATE / 2.0);
    let requests = (rate * duration.as_secs_f64()) as usize;
    let line = format!("{connect} -t {command} -c {connections} -n {requests} --csv");
    let mut client = bed.program(path, "redis-benchmark", &words(&line))?;
    let output = client.process.finish(STEP_LIMIT + duration * 20).context("redis-benchmark")?;
    expect_upgraded(bed, &[&server, &client], connections)?;
    outputs::redis_benchmark(&output).with_context(|| format!("redis-benchmark printed {output:?}"))
}

fn memcached(bed: &Bed, connections: usize, path: Path, duration: Duration) -> Result<Sample> {
    let address = free_address(bed, path)?;
    let listen = match &address {
        Address::Tcp(a) => format!("-l 127.0.0.1 -p {} -U 0", a.port()),
        Address::Unix(file) => format!("-s {}", file.display()),
    };
    let user = if rustix::process::geteuid().is_root() { "-u root" } else { "" };
    let server = serve(bed, path, "memcached", &words(&format!("{listen} -t 1 {user}")), &address)?;
    store(&address)?;
    let request = "get key\r\n".to_owned();
    let response_bytes = format!("VALUE key 0 {VALUE_BYTES}\r\n\r\nEND\r\n").len() + VALUE_BYTES;
    let task = Task::Load { connections, window: pairs::WINDOW, request, response_bytes };
    let sample = pairs::load(bed, path, &address, task, connections as u64, duration)?;
    expect_upgraded(bed, &[&server], connections)?;
    Ok(sample)
}

/// Stores the value that is asked for.
fn store(address: &Address) -> Result<()> {
    use std::io::{Read, Write};
    let request = format!("set key 0 0 {VALUE_BYTES}\r\n{}\r\n", "v".repeat(VALUE_BYTES));
    let mut answer = [0; 8];
    match address {
        Address::Tcp(address) => {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(request.as_bytes())?;
            stream.read_exact(&mut answer)?;
        }
        Address::Unix(path) => {
            let mut stream = UnixStream::connect(path)?;
            stream.write_all(request.as_bytes())?;
            stream.read_exact(&mut answer)?;
        }
    }
    anyhow::ensure!(&answer == b"STORED\r\n", "memcached answered {:?}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// One worker that keeps our user: two users are not paired unless the policy says so.
fn nginx(bed: &Bed, path: Path, bytes: usize) -> Result<(Member, u16)> {
    let (folder, port) = (bed.new_path("nginx"), free_port()?);
    std::fs::create_dir(&folder)?;
    std::fs::write(folder.join("file"), "x".repeat(bytes))?;
    let place = folder.display();
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("    {kind}_temp_path {place}/{kind};\n"))
        .concat();
    let configuration = format!(
        "{user}\ndaemon off;\nworker_processes 1;\npid {place}/nginx.pid;\nerror_log {place}/error.log;\n\
         events {{ worker_connections 1024; }}\nhttp {{\n    access_log off;\n    sendfile on;\n    \
         keepalive_requests 1000000000;\n{temporary}    \
         server {{ listen 127.0.0.1:{port}; root {place}; }}\n}}\n"
    );
    serve_file(bed, path, "nginx", &folder, &configuration, port, |file| {
        vec!["-e".into(), format!("{place}/error.log"), "-c".into(), file]
    })
}

fn haproxy(bed: &Bed, path: Path, origin_port: u16) -> Result<(Member, u16)> {
    let (folder, port) = (bed.new_path("haproxy"), free_port()?);
    std::fs::create_dir(&folder)?;
    let configuration = format!(
        "global\n    nbthread 1\n    maxconn 1024\ndefaults\n    mode http\n    timeout connect 5s\n    \
         timeout client 30s\n    timeout server 30s\n    http-reuse always\nfrontend front\n    \
         bind 127.0.0.1:{port}\n    default_backend origin\nbackend origin\n    \
         server nginx 127.0.0.1:{origin_port}\n"
    );
    serve_file(bed, path, "haproxy", &folder, &configuration, port, |file| vec!["-db".into(), "-f".into(), file])
}

fn serve_file(
    bed: &Bed,
    path: Path,
    program: &str,
    folder: &FilePath,
    configuration: &str,
    port: u16,
    arguments: impl FnOnce(String) -> Vec<String>,
) -> Result<(Member, u16)> {
    let file = folder.join("configuration");
    std::fs::write(&file, configuration)?;
    let address = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    Ok((serve(bed, path, program, &arguments(file.display().to_string()), &address)?, port))
}

/// Loads `server` at `port` with HTTP requests.
fn wrk(bed: &Bed, path: Path, server: &Member, port: u16, connections: usize, duration: Duration) -> Result<Sample> {
    // wrk counts whole seconds.
    let seconds = duration.as_secs().max(1);
    let line = format!("-t 1 -c {connections} -d {seconds}s --latency http://127.0.0.1:{port}/file");
    let mut client = bed.program(path, "wrk", &words(&line))?;
    let output = client.process.finish(STEP_LIMIT + duration * 4).context("wrk")?;
    expect_upgraded(bed, &[server, &client], connections)?;
    outputs::wrk(&output).with_context(|| format!("wrk printed {output:?}"))
}

fn expect_upgraded(bed: &Bed, members: &[&Member], connections: usize) -> Result<()> {
    members.iter().try_for_each(|member| bed.expect_upgraded(member, connections as u64))
}
