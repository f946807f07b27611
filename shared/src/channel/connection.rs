//! An HTTP client that is made when it is first used: that reads and parses the system's certificates, and most
//! invocations of a webhook send nothing.

use std::sync::{Arc, OnceLock};

use reqwest::Client;

/// A line to a platform. Clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    made: Arc<OnceLock<Client>>,
    make: fn() -> reqwest::Result<Client>,
}

impl Connection {
    /// One that `make` makes.
    pub(crate) fn new(make: fn() -> reqwest::Result<Client>) -> Self {
        Self { made: Arc::default(), make }
    }

    /// The client. A failure to make it is not kept: the next call tries again.
    pub(crate) fn client(&self) -> reqwest::Result<&Client> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let made = (self.make)()?;
        Ok(self.made.get_or_init(|| made))
    }
}

#[cfg(test)]
impl From<Client> for Connection {
    fn from(client: Client) -> Self {
        Self { made: Arc::new(OnceLock::from(client)), make: || Client::builder().build() }
    }
}
