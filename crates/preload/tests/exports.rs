//! The names that the library exports: everything of glibc's that touches a descriptor, and nothing else.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names by which programs reach descriptors and processes, aliases and fortified variants included.
const CONCERNED: &str = "
    open __open open64 __open64 openat openat64 __open_2 __open64_2 __openat_2 __openat64_2
    read __read __read_chk readv preadv2 preadv64v2 __pread_chk __pread64_chk
    write __write writev pwritev2 pwritev64v2
    recv __recv __recv_chk recvfrom __recvfrom_chk recvmsg recvmmsg
    send __send sendto sendmsg sendmmsg __sendmmsg
    sendfile sendfile64 splice tee vmsplice copy_file_range
    socket __socket socketpair sockatmark connect __connect accept accept4 shutdown setsockopt getsockopt
    close __close close_range closefrom dup dup2 __dup2 dup3 fcntl fcntl64 __fcntl ioctl pidfd_getfd
    poll __poll __poll_chk ppoll __ppoll_chk select __select pselect __fdelt_chk
    epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
    fdopen _IO_fdopen dprintf __dprintf_chk vdprintf __vdprintf_chk
    fork __fork __libc_fork _Fork vfork __vfork clone __clone unshare prctl
    execve execv execvp execvpe execl execlp execle fexecve execveat
    posix_spawn posix_spawnp posix_spawn_file_actions_adddup2
    _exit _Exit syscall
    sigaction __sigaction signal bsd_signal ssignal sysv_signal __sysv_signal sigset sigignore siginterrupt
    sigprocmask pthread_sigmask
";

/// Names that need no hook, and why.
const EXEMPT: &[(&str, &[&str])] = &[
    ("they have a position, and refuse sockets", &["__pread_chk", "__pread64_chk"]),
    ("they refuse sockets", &["tee", "vmsplice", "copy_file_range"]),
    ("it only checks a number", &["__fdelt_chk"]),
    ("they run the fork handlers", &["fork", "__fork", "__libc_fork"]),
];

/// The library as it is now: cargo builds no cdylib for a test.
fn library() -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--lib"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "the library does not build");
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).expect("tests lie in target/PROFILE/deps");
    folder.join("libringway.so")
}

fn exports(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
    let output = output.expect("`nm` is missing: install binutils");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split_whitespace().last().unwrap().to_string()).collect()
}

fn libc_has(name: &str) -> bool {
    let name = CString::new(name).unwrap();
    // SAFETY: a terminated name; the answer is only compared.
    unsafe { !libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()).is_null() }
}

#[test]
fn every_name_that_touches_a_descriptor_is_hooked() {
    let exported = exports(&library());
    let exempt: BTreeSet<_> = EXEMPT.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let concerned = CONCERNED.split_whitespace();
    let missing: Vec<_> =
        concerned.filter(|name| libc_has(name) && !exported.contains(*name) && !exempt.contains(name)).collect();
    assert!(missing.is_empty(), "not hooked: {missing:?}");
    let needless: Vec<_> = exempt.iter().filter(|name| exported.contains(**name)).collect();
    assert!(needless.is_empty(), "hooked, though listed as exempt: {needless:?}");
}

#[test]
fn nothing_else_leaks_out() {
    let known: BTreeSet<_> = CONCERNED.split_whitespace().collect();
    let leaked: Vec<_> = exports(&library()).into_iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(leaked.is_empty(), "exported, though no name of libc's that is hooked: {leaked:?}");
}
