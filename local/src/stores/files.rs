//! Names of the files in a data directory.

/// Held by the one program that writes there.
pub(crate) const LOCK: &str = "lock";
/// The buckets.
pub(crate) const S3: &str = "s3";
/// The DynamoDB engine's database, as `SQLite` stores it.
pub(crate) const DATABASE: [&str; 3] = ["dynamodb.db", "dynamodb.db-wal", "dynamodb.db-shm"];
/// The pending turns, as `SQLite` stores them.
pub(crate) const QUEUE: [&str; 3] = ["queue.db", "queue.db-wal", "queue.db-shm"];
/// Replies of channels that are not set up.
pub(crate) const OUTBOX: &str = "outbox.jsonl";
/// Lines typed into `annals chat`.
pub(crate) const TERMINAL_HISTORY: &str = "terminal-history";
/// The socket of `annals chat`.
pub(crate) const TERMINAL_SOCKET: &str = "terminal.sock";
/// The key in place of each secret that is not set.
pub(crate) const KEY: &str = "api-key";
/// The secret of `AWS_SECRET_ACCESS_KEY`.
pub(crate) const AWS_KEY: &str = "aws-secret-key";
/// Variables for `sam local --env-vars`.
pub(crate) const SAM_ENV: &str = "sam-env.json";
