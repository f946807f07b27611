//! Compresses the built console, `console/dist`, into the program.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> io::Result<()> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console/dist");
    println!("cargo::rerun-if-changed={}", dist.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(&dist)? {
        let entry = entry?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?);
    }
    let mut table = String::from("[");
    for (name, content) in &files {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(content)?;
        let path = out.join(format!("{name}.gz")).display().to_string();
        fs::write(&path, gzip.finish()?)?;
        let mut hasher = DefaultHasher::new();
        hasher.write(content);
        let etag = format!("\"{:016x}\"", hasher.finish());
        write!(table, "File {{ name: {name:?}, etag: {etag:?}, gzip: include_bytes!({path:?}) }},")
            .map_err(io::Error::other)?;
    }
    table.push(']');
    fs::write(out.join("console.rs"), table)
}
