//! Compiles the protocol with `protox`, in Rust: no `protoc` is needed to build.

use std::error::Error;
use std::path::PathBuf;

const SOURCES: [&str; 3] = ["fleetcal/v1/types.proto", "fleetcal/v1/session.proto", "fleetcal/v1/control.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    let mut compiler = protox::Compiler::new(["."])?;
    compiler.include_imports(true).include_source_info(true).open_files(SOURCES)?;

    let out_folder = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR for build scripts")?);
    std::fs::write(out_folder.join("fleetcal_descriptor.bin"), compiler.encode_file_descriptor_set())?;
    // Ordered maps: what is sent does not depend on a hash seed.
    tonic_prost_build::configure().btree_map(".").compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
