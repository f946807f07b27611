//! Random ids, which only have to differ, and random secrets.

use ring::rand::{SecureRandom as _, SystemRandom};

/// Returns `N` random bytes in hex.
pub fn hex<const N: usize>() -> String {
    // The system's generator does not fail once it has been initialised.
    let bytes = bytes::<N>().unwrap_or_else(|error| {
        tracing::error!(%error, "ids may repeat");
        [0; N]
    });
    hex::encode(bytes)
}

/// Returns a secret of `N` random bytes, in hex.
/// Fails if the system has no random numbers.
pub fn secret<const N: usize>() -> std::io::Result<String> {
    Ok(hex::encode(bytes::<N>()?))
}

/// Returns `N` random bytes.
/// Fails if the system has no random numbers.
pub fn bytes<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0_u8; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| std::io::Error::other("the system has no random numbers"))?;
    Ok(bytes)
}
