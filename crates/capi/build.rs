//! Gives the shared library the name that programs linked with it look for.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnearwire.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
