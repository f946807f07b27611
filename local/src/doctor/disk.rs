//! Checks that the data directory takes what is written to it.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use annals_channel::finding::Finding;
use annals_channel::words;
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
    let remedy = words!(
        "delete or move other files, or stop Annals, move the folder to a larger disk and set ANNALS_DATA_DIR to it",
        "请删除或移走其他文件；或停止 Annals，把文件夹移到更大的磁盘，并让 ANNALS_DATA_DIR 指向它"
    );
    match (written, free) {
        (Err(error), Some(free)) if free < LEAST => {
            let words = words!(
                "full ({shown} free), so no message can be stored ({error})",
                "磁盘已满（剩余 {shown}），无法保存消息（{error}）"
            );
            Finding::fault(CHECK, words.followed_by(&remedy))
        }
        (Err(error), _) => {
            let dir = dir.display();
            let words = words!(
                "a file in {dir} cannot be written and read again ({error})",
                "{dir} 中的文件无法写入并读回（{error}）"
            );
            Finding::fault(CHECK, words.followed_by(&remedy))
        }
        (Ok(()), Some(free)) if free < LEAST => {
            let words = words!("almost full ({shown} free)", "磁盘快满了（剩余 {shown}）");
            Finding::fault(CHECK, words.followed_by(&remedy))
        }
        (Ok(()), Some(free)) if free < LITTLE => {
            Finding::warning(CHECK, words!("{shown} free", "剩余 {shown}").followed_by(&remedy))
        }
        (Ok(()), Some(_)) => Finding::ok(
            CHECK,
            words!("{shown} free; a file was written and read", "剩余 {shown}；写入并读回了一个文件"),
        ),
        (Ok(()), None) => Finding::ok(CHECK, words!("a file was written and read", "写入并读回了一个文件")),
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
