//! Random ids. They only have to differ.

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
