//! Keeps the files of a data directory private to its owner: they contain messages and secrets.
//!
//! The process's umask makes new files private ([`make_private`]), whichever library creates them. `tighten` closes the files
//! that an earlier version created.

use std::io::{ErrorKind, Write};
use std::path::Path;

use annals_io::random;
use anyhow::{Context, ensure};
use secrecy::SecretString;

use super::files;

/// Files and folders of a data directory beside the databases. `terminal.json` is an earlier version's.
#[cfg(unix)]
const NAMES: [&str; 8] = [
    files::LOCK,
    files::S3,
    files::OUTBOX,
    "terminal.json",
    files::TERMINAL_HISTORY,
    files::KEY,
    files::AWS_KEY,
    files::SAM_ENV,
];

/// Permission bits of group and others.
#[cfg(unix)]
const OTHERS: u32 = 0o077;

/// Makes every file and folder that this process creates from now on private to its owner. Call it first.
pub fn make_private() {
    #[cfg(unix)]
    nix::sys::stat::umask(nix::sys::stat::Mode::S_IRWXG | nix::sys::stat::Mode::S_IRWXO);
}

/// Returns true if the file may be read or changed by other users than its owner.
pub fn is_open_to_others(path: &Path) -> std::io::Result<bool> {
    let metadata = std::fs::metadata(path)?;
    #[cfg(unix)]
    let is_open = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & OTHERS != 0;
    #[cfg(not(unix))]
    let is_open = {
        drop(metadata);
        false
    };
    Ok(is_open)
}

/// Removes the permissions of group and others from `data_dir` and from the program's files in it. Other files stay as they are,
/// in a directory that nobody else may enter. Logs each file that cannot be changed.
#[cfg(unix)]
pub(super) fn tighten(data_dir: &Path) {
    use std::os::unix::fs::PermissionsExt;

    /// The mode of a shared directory such as `/tmp`.
    const STICKY: u32 = 0o1000;

    let mode = std::fs::metadata(data_dir).map_or(0, |metadata| metadata.permissions().mode());
    if mode & OTHERS != 0 && mode & STICKY == 0 && close(data_dir, mode) {
        let data_dir = data_dir.display().to_string();
        tracing::warn!(
            data_dir,
            "other users could enter the data directory: it is private to its owner now"
        );
    }
    for name in NAMES.iter().chain(&files::DATABASE).chain(&files::QUEUE) {
        tighten_tree(&data_dir.join(name));
    }
}

/// Removes the permissions from `path`. Closes a folder after its content, so that the content of a closed one needs no check.
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
            "failed to remove the permissions of other users from a file: become its owner, or move ANNALS_DATA_DIR to another \
             file system"
        );
    }
    closed.is_ok()
}

/// Returns the random secret in the file `path`: 40 hex digits. Creates the file if it does not exist, private to its owner.
pub(crate) fn secret_of(path: &Path) -> anyhow::Result<SecretString> {
    match std::fs::read_to_string(path) {
        Ok(secret) if secret.trim().len() >= 32 => return Ok(secret.trim().into()),
        Ok(secret) => {
            // An incomplete one, which a crash leaves behind; any other is an operator's.
            let is_incomplete = secret.trim().bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            ensure!(
                is_incomplete,
                "{} must have at least 32 characters: correct it, or remove it for a new one",
                path.display()
            );
            std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
    let secret = random::secret::<20>()?;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| writeln!(file, "{secret}"));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(secret.into())
}
