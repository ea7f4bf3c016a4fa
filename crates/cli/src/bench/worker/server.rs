//! Servers with blocking calls.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use anyhow::Result;

use super::net::{Address, Listener};
use super::say;

/// Largest piece that is received or echoed at once, in bytes.
pub(super) const BUFFER_BYTES: usize = 64 << 10;

/// A greeting that is sent back.
pub(super) const HELLO: [u8; 8] = [0; 8];
/// A greeting after which the sink only takes.
pub(super) const TAKE: [u8; 8] = [1; 8];

/// Listens, tells where, and serves until the bench closes our standard input.
pub(super) fn serve(address: &Address, service: impl FnOnce(Listener) -> Result<()>) -> Result<()> {
    let (listener, bound) = address.listen()?;
    say(&serde_json::to_string(&bound)?)?;
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(0);
    });
    service(listener)?;
    // Exiting is for the bench to decide: it may still ask the monitor about us.
    loop {
        std::thread::park();
    }
}

pub(super) fn echo(listener: Listener, bytes: usize) -> Result<()> {
    let mut stream = listener.accept()?;
    let mut message = vec![0; bytes];
    while receive(&mut stream, &mut message)? {
        stream.write_all(&message)?;
    }
    Ok(())
}

pub(super) fn sink(listener: Listener) -> Result<()> {
    let mut stream = listener.accept()?;
    let mut greeting = HELLO;
    while receive(&mut stream, &mut greeting)? {
        stream.write_all(&greeting)?;
        if greeting == TAKE {
            let taken = take_all(&mut stream)?;
            return Ok(stream.write_all(&taken.to_le_bytes())?);
        }
    }
    Ok(())
}

fn take_all(stream: &mut TcpStream) -> Result<u64> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut taken = 0;
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(taken),
            n => taken += n as u64,
        }
    }
}

/// One request and one answer for each connection; the client closes first.
pub(super) fn short(listener: Listener) -> Result<()> {
    let mut buffer = [0; 64];
    loop {
        let mut stream = listener.accept()?;
        while receive(&mut stream, &mut buffer)? {
            stream.write_all(&buffer)?;
        }
    }
}

/// One whole message; `false` at the orderly end.
fn receive(stream: &mut TcpStream, message: &mut [u8]) -> Result<bool> {
    match stream.read_exact(message) {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
