//! An HTTP client that is created at its first use: creating it reads and parses the system's certificates, and most
//! invocations of a webhook send nothing.

use std::sync::{Arc, OnceLock};

use reqwest::Client;

use crate::tls;

/// A connection to a platform, a model, a tool server or AWS. Clones share it.
#[derive(Clone, Debug)]
pub struct Connection {
    made: Arc<OnceLock<Client>>,
    make: fn() -> reqwest::Result<Client>,
}

impl Connection {
    /// Creates a connection whose client `make` creates.
    pub fn new(make: fn() -> reqwest::Result<Client>) -> Self {
        Self { made: Arc::default(), make }
    }

    /// Returns the client. A failure to create it is not kept: the next call tries again.
    pub fn client(&self) -> reqwest::Result<&Client> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let made = (self.make)()?;
        Ok(self.made.get_or_init(|| made))
    }
}

/// Wraps an existing client, for tests.
impl From<Client> for Connection {
    fn from(client: Client) -> Self {
        Self { made: Arc::new(OnceLock::from(client)), make: || tls::client().build() }
    }
}
