//! Becoming a process that nothing ties to where it was started.

use std::io::Result;

use ringway_daemon::surroundings;

/// Leaves session, terminal, folder, limits, priority and every inherited descriptor but the standard three (which the
/// starter has pointed to `/dev/null`). Call it first, while the process has opened nothing itself.
pub(crate) fn from_caller() -> Result<()> {
    // Fails only for the leader of a process group, which a freshly started process is not.
    rustix::process::setsid()?;
    surroundings::reset();
    std::env::set_current_dir("/")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let descriptors: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for fd in descriptors {
        // The one that listed the folder is closed already.
        let _ = nix::unistd::close(fd);
    }
    Ok(())
}
