//! DynamoDB and S3 inside the process: the deployed code with the AWS SDK, whose HTTP client calls the engines directly.
//!
//! *Architecture Invariant:* no socket leads to them. Apart from this process, only callers of `annals aws` that sign with the
//! data directory's key reach them ([`crate::aws`]).
//!
//! ```text
//! .annals/lock          held by the one program that writes here
//! .annals/dynamodb.db   the DynamoDB engine's SQLite database
//! .annals/queue.db      the turns that wait, see `queue.rs`
//! .annals/s3/annals/…   the bucket
//! ```

mod due_index;
pub mod engine;
pub(crate) mod files;
pub mod folder;
mod in_process;
pub mod private;

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use annals_aws::SdkConfig;
use annals_aws::bucket::Bucket;
use annals_core::chat_key::ChatKey;
use annals_store::history::due;
use anyhow::{Context, anyhow, ensure};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::types::{BillingMode, ScalarAttributeType, TableDescription};
use tokio::sync::Mutex;

use self::engine::Engine;
use self::folder::Folder;
use self::in_process::InProcess;
use crate::errors::aws_message;

/// Name of the table.
pub const TABLE: &str = "annals";
/// Name of the bucket.
pub const BUCKET: &str = "annals";

/// Longest wait for readers before the write-ahead log is emptied.
const CHECKPOINT_PATIENCE: Duration = Duration::from_secs(3);

/// Region of all services, which signatures need.
pub const REGION: &str = "us-east-1";

/// The two stores.
#[derive(Clone, Debug)]
pub struct Stores {
    /// A client of the DynamoDB engine.
    pub dynamodb: aws_sdk_dynamodb::Client,
    /// The bucket in the S3 service.
    pub bucket: Bucket,
    /// Configuration of clients of both.
    pub aws: SdkConfig,
    /// The DynamoDB engine itself.
    pub engine: Engine,
    /// The folder of the S3 service.
    pub folder: Folder,
    /// The files of the DynamoDB engine's database and of the queue's.
    databases: [PathBuf; 2],
    /// Held while deleted text is removed from them.
    cleaning: Arc<Mutex<()>>,
}

/// Lock of a data directory, held until it is dropped. Its holder may write there.
#[derive(Debug)]
pub struct DataLock(#[expect(dead_code, reason = "held, never read")] File);

/// Takes the lock of `data_dir`. Creates the directory if it does not exist.
pub fn lock(data_dir: &Path) -> anyhow::Result<DataLock> {
    try_lock(data_dir)?.with_context(|| {
        format!(
            "another Annals works on {} already: stop it, or set ANNALS_DATA_DIR and ANNALS_PORT to others",
            data_dir.display()
        )
    })
}

/// Takes the lock of `data_dir`, or returns `None` if another program holds it.
pub fn try_lock(data_dir: &Path) -> anyhow::Result<Option<DataLock>> {
    make(data_dir)?;
    check_writable(data_dir)?;
    let path = data_dir.join(files::LOCK);
    // Does not truncate a file that is not the program's.
    let file = File::options()
        .create(true)
        .write(true)
        .truncate(false)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(DataLock(file))),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(error)) => Err(error).context("cannot lock the data directory"),
    }
}

/// Returns true if a program uses `data_dir`, as far as this user can tell. Changes nothing.
pub fn is_worked_on(data_dir: &Path) -> bool {
    match File::open(data_dir.join(files::LOCK)) {
        Ok(file) => matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Creates `data_dir`, private to its owner since it contains messages. Removes the permissions of others from an existing
/// one.
pub fn make(data_dir: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot make the data directory {}", data_dir.display());
    if let Some(parent) = data_dir.parent() {
        std::fs::create_dir_all(parent).with_context(cannot)?;
    }
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(data_dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && data_dir.is_dir() => {
            #[cfg(unix)]
            private::tighten(data_dir);
            Ok(())
        }
        made => made.with_context(cannot),
    }
}

/// Checks that this user may write in `data_dir`, if it exists.
///
/// # Errors
/// Names the first file that this user may not write.
pub fn check_writable(data_dir: &Path) -> anyhow::Result<()> {
    #[cfg(unix)]
    {
        use nix::errno::Errno;
        use nix::unistd::{AccessFlags, access};
        let s3 = data_dir.join(files::S3);
        let parts = [data_dir.to_owned(), data_dir.join(files::LOCK), s3.join(BUCKET), s3];
        let databases = files::DATABASE.iter().chain(&files::QUEUE).map(|name| data_dir.join(name));
        for path in parts.into_iter().chain(databases) {
            match access(&path, AccessFlags::W_OK) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(error) => {
                    let error = std::io::Error::from(error);
                    return Err(error)
                        .with_context(|| format!("{} cannot be written by this user", path.display()));
                }
            }
        }
    }
    #[cfg(not(unix))]
    let _ = data_dir;
    Ok(())
}

impl Stores {
    /// Opens the stores of `data_dir`. Creates table and bucket if they do not exist.
    pub async fn open(data_dir: &Path) -> anyhow::Result<Self> {
        // The engine writes even for a command that only reads, unless another process has the data open.
        Self::opened(data_dir).await.map_err(|error| check_writable(data_dir).err().unwrap_or(error))
    }

    async fn opened(data_dir: &Path) -> anyhow::Result<Self> {
        let s3 = data_dir.join(files::S3);
        let bucket = s3.join(BUCKET);
        std::fs::create_dir_all(&bucket)
            .with_context(|| format!("cannot make the data directory {}", bucket.display()))?;
        let database = data_dir.join(files::DATABASE[0]);
        let path = database.to_str().context("the data directory's path is not UTF-8")?;
        let engine =
            dynoxide::Database::new(path).map_err(|error| cannot_open(&database, &error.to_string()))?;
        let engine = Engine::new(engine);
        let folder = Folder::new(&s3);
        let aws = InProcess { dynamodb: engine.clone(), s3: folder.service(None)? }.config();
        let (dynamodb, bucket) = (dynamodb_client(&aws), Bucket::new(&aws, BUCKET));
        let databases = [database, data_dir.join(files::QUEUE[0])];
        let stores = Self { dynamodb, bucket, aws, engine, folder, databases, cleaning: Arc::default() };
        stores.make_table().await?;
        Ok(stores)
    }

    /// Removes deleted rows from the database files. `SQLite` overwrites them, but leaves copies of some that it has moved, about
    /// one in a thousand, in the unused parts of pages, so the table's file is rebuilt. Takes time in proportion to the table,
    /// and blocks every other operation on it meanwhile.
    pub(crate) async fn purge(&self) -> anyhow::Result<()> {
        let _alone = self.cleaning.lock().await;
        let engine = self.engine.clone();
        let rebuilt = tokio::task::spawn_blocking(move || engine.vacuum()).await?;
        rebuilt.map_err(|error| anyhow!("failed to rebuild the table: {error}"))?;
        self.empty_logs().await
    }

    /// Removes the text of deleted rows from the write-ahead logs.
    pub(crate) async fn clean(&self) -> anyhow::Result<()> {
        // `SQLite` refuses a second checkpoint at once.
        let _alone = self.cleaning.lock().await;
        self.empty_logs().await
    }

    async fn empty_logs(&self) -> anyhow::Result<()> {
        let databases = self.databases.clone();
        tokio::task::spawn_blocking(move || {
            for path in databases {
                let own = rusqlite::Connection::open(&path)?;
                own.busy_timeout(CHECKPOINT_PATIENCE)?;
                let is_busy: bool = own.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
                ensure!(!is_busy, "failed to empty the write-ahead log of {}: it is in use", path.display());
            }
            Ok(())
        })
        .await?
    }

    /// Returns all chats: each has an item in the index of due chats.
    pub(crate) async fn chats(&self) -> anyhow::Result<BTreeSet<ChatKey>> {
        let scan = self.dynamodb.scan().table_name(TABLE).index_name(due::INDEX);
        let mut items = scan.into_paginator().items().send();
        let mut chats = BTreeSet::new();
        while let Some(item) = items.next().await {
            let item = item.context("failed to read the index of due chats")?;
            chats.extend(item.get("pk").and_then(|pk| pk.as_s().ok()?.parse::<ChatKey>().ok()));
        }
        Ok(chats)
    }

    /// Creates the table with the index of due chats.
    async fn make_table(&self) -> anyhow::Result<()> {
        if let Ok(described) = self.dynamodb.describe_table().table_name(TABLE).send().await {
            let table = described.table();
            let indexes = table.map(TableDescription::global_secondary_indexes).unwrap_or_default();
            if !indexes.iter().any(|index| index.index_name() == Some(due::INDEX)) {
                due_index::add(&self.dynamodb, TABLE)
                    .await
                    .context("failed to upgrade the data directory of an earlier version; no data is lost")?;
            }
            return Ok(());
        }
        let mut request = self
            .dynamodb
            .create_table()
            .table_name(TABLE)
            .billing_mode(BillingMode::PayPerRequest)
            .set_attribute_definitions(Some(due_index::attributes()?))
            .global_secondary_indexes(due_index::index()?);
        for key in ["pk", "sk"] {
            request = request.attribute_definitions(due_index::attribute(key, ScalarAttributeType::S)?);
        }
        let request = request.set_key_schema(Some(due_index::schema("pk", "sk")?));
        match request.send().await {
            Ok(_) => Ok(()),
            Err(SdkError::ServiceError(error))
                if matches!(error.err(), CreateTableError::ResourceInUseException(_)) =>
            {
                Ok(())
            }
            Err(error) => Err(anyhow!("failed to create the table: {}", aws_message(&error))),
        }
    }
}

/// Returns the error of a database that cannot be opened.
fn cannot_open(database: &Path, error: &str) -> anyhow::Error {
    let database = database.display();
    // The engine's words are about encryption, which it is built without.
    if error.contains("not a valid SQLite database") || error.contains("malformed") {
        return anyhow!(
            "{database} is damaged: stop Annals, move the whole data directory aside, and put back a copy of all of it"
        );
    }
    anyhow!("cannot open {database}: {error}")
}

/// Returns a client of DynamoDB that signs nothing.
pub fn dynamodb_client(aws: &SdkConfig) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::config::Builder::from(aws).allow_no_auth().build();
    aws_sdk_dynamodb::Client::from_conf(config)
}
