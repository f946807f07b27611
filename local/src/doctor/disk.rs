//! Checks that the data directory takes what is written to it.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use annals_channel::finding::{Finding, Words};
use indicatif::BinaryBytes;

/// Size of the file that is written. More than a file system stores beside a file's name.
const WRITTEN: usize = 64 * 1024;
/// With less free space, messages are soon refused; with less than the second, a busy bot's are within days.
const LEAST: u64 = 64 * 1024 * 1024;
const LITTLE: u64 = 1024 * 1024 * 1024;

/// Writes a file to `dir`, which exists, reads it back and deletes it; and checks the free space.
pub(super) fn check(dir: &Path) -> Finding {
    const CHECK: &str = "disk";
    let written = write_and_read(dir);
    let free = free(dir);
    let shown = free.map(|free| BinaryBytes(free).to_string()).unwrap_or_default();
    match (written, free) {
        (Err(error), Some(free)) if free < LEAST => {
            Finding::fault(CHECK, Words::DiskFull { free: shown, error: error.to_string() })
        }
        (Err(error), _) => {
            let dir = dir.display().to_string();
            Finding::fault(CHECK, Words::DiskUnusable { dir, error: error.to_string() })
        }
        (Ok(()), Some(free)) if free < LEAST => Finding::fault(CHECK, Words::DiskAlmostFull { free: shown }),
        (Ok(()), Some(free)) if free < LITTLE => Finding::warning(CHECK, Words::DiskLow { free: shown }),
        (Ok(()), free) => Finding::ok(CHECK, Words::DiskOk { free: free.map(|_| shown) }),
    }
}

fn write_and_read(dir: &Path) -> std::io::Result<()> {
    let path = dir.join(format!("doctor-{}", std::process::id()));
    // Different in each block, so that no file system stores one for all.
    let content: Vec<u8> =
        (0..WRITTEN).map(|at| (at.wrapping_mul(2_654_435_761) >> 11).to_le_bytes()[0]).collect();
    let result = (|| {
        let mut file = File::create_new(&path)?;
        file.write_all(&content)?;
        file.sync_all()?;
        let mut read = Vec::with_capacity(WRITTEN);
        File::open(&path)?.read_to_end(&mut read)?;
        if read == content {
            Ok(())
        } else {
            Err(std::io::Error::other("it was read otherwise than written"))
        }
    })();
    let removed = std::fs::remove_file(&path);
    result.and(removed)
}

/// Returns the free bytes of the file system of `dir` for this user, if it tells them.
#[cfg(unix)]
fn free(dir: &Path) -> Option<u64> {
    let of = nix::sys::statvfs::statvfs(dir).ok()?;
    // Their sizes differ between systems.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "needed where they are smaller")]
    Some((of.blocks_available() as u64).saturating_mul(of.fragment_size() as u64))
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}
