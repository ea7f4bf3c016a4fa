//! The library's own name, by which the loader knows it again however it was found.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmtcp.so");
}
