//! Random ids, which only have to differ, and random secrets.

use aws_lc_rs::rand;

/// Returns `N` random bytes in hex.
pub fn hex<const N: usize>() -> String {
    let mut bytes = [0_u8; N];
    // The system's generator does not fail once it has been initialised.
    if rand::fill(&mut bytes).is_err() {
        tracing::error!("the system's random generator failed; ids may repeat");
    }
    hex::encode(bytes)
}

/// Returns a secret of `N` random bytes, in hex.
/// Fails if the system has no random numbers.
pub fn secret<const N: usize>() -> std::io::Result<String> {
    let mut bytes = [0_u8; N];
    rand::fill(&mut bytes).map_err(|_| std::io::Error::other("the system has no random numbers"))?;
    Ok(hex::encode(bytes))
}
