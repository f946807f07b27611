//! Files of a data directory, for its owner alone: what people said is in them, and secrets.
//!
//! What the program makes is private by the process's umask ([`make_private`]), whichever library makes it; what an earlier
//! version made is tightened once (`tighten`).

use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::Context;
use secrecy::SecretString;

use super::{DATABASE_FILES, random_hex};
use crate::aws::{KEY_FILE as AWS_KEY_FILE, SAM_ENV};
use crate::config::KEY_FILE;

/// The other files and folders of a data directory.
#[cfg(unix)]
const NAMES: [&str; 8] =
    ["lock", "s3", "outbox.jsonl", "terminal.json", "terminal-history", KEY_FILE, AWS_KEY_FILE, SAM_ENV];

/// The bits of a mode by which group and others may do something.
#[cfg(unix)]
const OTHERS: u32 = 0o077;

/// Makes every file and folder that this process creates from now on its owner's alone. A program calls it first.
pub fn make_private() {
    #[cfg(unix)]
    nix::sys::stat::umask(nix::sys::stat::Mode::S_IRWXG | nix::sys::stat::Mode::S_IRWXO);
}

/// Takes the rights of group and others from `data_dir`, and from what the program keeps in it. A file that is not the
/// program's stays as it is, in a directory that nobody else may enter. One that cannot be changed is named in the log.
#[cfg(unix)]
pub(super) fn tighten(data_dir: &Path) {
    use std::os::unix::fs::PermissionsExt;

    /// Of a directory such as `/tmp`, which is everybody's on purpose.
    const STICKY: u32 = 0o1000;

    let mode = std::fs::metadata(data_dir).map_or(0, |metadata| metadata.permissions().mode());
    if mode & OTHERS != 0 && mode & STICKY == 0 && close(data_dir, mode) {
        let data_dir = data_dir.display().to_string();
        tracing::warn!(data_dir, "other users could enter the data directory: it is now its owner's alone");
    }
    for name in NAMES.iter().chain(&DATABASE_FILES) {
        tighten_tree(&data_dir.join(name));
    }
}

/// The same for `path`. A folder is closed after what is in it, so that one that is closed needs no second look.
#[cfg(unix)]
fn tighten_tree(path: &Path) {
    use std::os::unix::fs::PermissionsExt;

    let Ok(metadata) = std::fs::symlink_metadata(path) else { return };
    let mode = metadata.permissions().mode();
    if metadata.is_symlink() || mode & OTHERS == 0 {
        return;
    }
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            tighten_tree(&entry.path());
        }
    }
    close(path, mode);
}

#[cfg(unix)]
fn close(path: &Path, mode: u32) -> bool {
    use std::os::unix::fs::PermissionsExt;

    let closed = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & !OTHERS & 0o7777));
    if let Err(error) = &closed {
        let path = path.display().to_string();
        tracing::warn!(
            path,
            %error,
            "failed to take the rights of other users from a file: own it, or move ANNALS_DATA_DIR to another file system"
        );
    }
    closed.is_ok()
}

/// The random secret in the file `path`, which is made if there is none: 40 hex digits, for its owner alone.
pub(crate) fn secret_of(path: &Path) -> anyhow::Result<SecretString> {
    match std::fs::read_to_string(path) {
        Ok(secret) if secret.trim().len() >= 32 => return Ok(secret.trim().into()),
        // Half of one, as a crash leaves it.
        Ok(_) => std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
    let secret = random_hex::<20>()?;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| writeln!(file, "{secret}"));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(secret.into())
}
