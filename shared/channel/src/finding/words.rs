//! The statements of findings: [`Words`].

use crate::setup::Unreachable;

/// Details of a finding, without a language. Errors, ids and commands are the same in each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named in the English text, `finding/en.rs`")]
pub enum Words {
    /// An error of another system or of the settings, as it came.
    Error(String),
    /// A name, an address or a number that says all.
    Value(String),
    /// The channel is not set up.
    NotSetUp,
    /// Number of faults, which ends a report.
    Faults(usize),

    /// The data directory's disk takes no more.
    DiskFull { free: String, error: String },
    /// A file could not be written and read again.
    DiskUnusable { dir: String, error: String },
    /// So little space is left that messages are soon refused.
    DiskAlmostFull { free: String },
    /// Little space is left.
    DiskLow { free: String },
    /// A file was written and read; the free space, if it is known.
    DiskOk { free: Option<String> },

    /// The settings are valid. The models' names, the channels' states, and the API keys.
    Settings {
        model: Option<String>,
        fallback: Option<String>,
        channels: Vec<(&'static str, bool)>,
        keys: KeysOf,
    },
    /// A variable that looks like a misspelt setting.
    Misspelt { name: String, setting: &'static str },
    /// Everybody can have tools called.
    OpenWithTools,
    /// The data belong to another user.
    DataOfAnother { error: String },
    /// The local bucket works.
    LocalBucket,
    /// Number of chats that wait.
    ChatsWait(usize),
    /// The program cannot start.
    ProgramInvalid,
    /// The program answers.
    ProgramAnswers { base: String },
    /// A program answers that has another data directory.
    ProgramElsewhere { base: String, dir: String },
    /// Another server answers.
    ProgramIsAnother { base: String, status: u16 },
    /// Nothing answers.
    ProgramSilent { base: String },

    /// Only the stack knows its model.
    ModelOfStack,
    /// The model's settings are invalid.
    ModelNotChecked,
    /// The model is `echo`.
    ModelEcho,
    /// The model is asked through AWS, which is not tried.
    ModelInAws { name: String, provider: String },
    /// The model's server cannot be reached.
    ModelUnreachable { base: String, error: String, variable: &'static str },
    /// The model's server refuses the key.
    ModelRefused { base: String, status: u16, variable: &'static str },
    /// The model's server takes the key and lists the model.
    ModelOk { name: String, base: String },
    /// The model's server takes the key, and does not list the model.
    ModelUnlisted { name: String, base: String, variable: &'static str },
    /// The model's server has no list.
    ModelUncheckable { base: String },
    /// The model's server fails.
    ModelFails { base: String, status: u16 },

    /// No request can be sent.
    NoHttpClient,
    /// The clock differs from that of `host`.
    ClockWrong { secs: u64, is_ahead: bool, host: String },
    /// The clock is as that of `host`.
    ClockOk { secs: u64, host: String },
    /// There is no clock to compare with.
    ClockUnknown,

    /// The table is not described.
    TableUnknown,
    /// The table could not be asked for.
    TableFailed { error: String },
    /// The table works.
    TableActive,
    /// The table is in another state.
    TableInState { status: String },
    /// The table is not one of Annals.
    TableOfAnother,
    /// The index works.
    IndexActive { index: &'static str },
    /// The index is not ready.
    IndexInBuilding { index: &'static str },
    /// There is no such index.
    IndexMissing { index: &'static str, hash: &'static str, range: &'static str },
    /// A check could not be made for want of a permission.
    Unchecked { error: String, action: &'static str },
    /// Records expire by this attribute.
    ExpiryOn { attribute: &'static str },
    /// Records expire by another attribute.
    ExpiryByAnother { other: String, attribute: &'static str, remedy: String },
    /// Records do not expire.
    ExpiryOff { remedy: String },
    /// There are backups.
    BackupsOn,
    /// There are no backups.
    BackupsOff { remedy: String },
    /// The table is paid on demand.
    BillingOnDemand,
    /// The table has a limit.
    BillingProvisioned { remedy: String },
    /// The table cannot be deleted by mistake.
    Protected,
    /// The table can be deleted by mistake.
    Unprotected { remedy: String },

    /// There is no such bucket.
    BucketMissing,
    /// The bucket may not be seen.
    BucketForbidden,
    /// The bucket is in another region.
    BucketElsewhere,
    /// The bucket could not be asked for.
    BucketFailed { error: String },
    /// The bucket can be reached.
    BucketOk,
    /// The bucket is private.
    BucketPrivate,
    /// The bucket may be public.
    BucketPublic { remedy: String },
    /// The bucket is not encrypted.
    BucketUnencrypted,

    /// The queue could not be asked for.
    QueueFailed { error: String },
    /// The queue works.
    QueueOk { waiting: String, running: String },
    /// The queue is not FIFO.
    QueueNotFifo,
    /// The queue's limits count for each chat.
    ThroughputHigh,
    /// The queue's limits count for all chats.
    ThroughputLow,
    /// Turns are hidden long enough.
    VisibilityOk { secs: u64, lease: u64 },
    /// Turns are delivered while they run.
    VisibilityShort { secs: u64, lease: u64, remedy: String },
    /// There is no dead-letter queue.
    NoDeadLetters,
    /// No turn is in the dead-letter queue.
    DeadLettersNone { most: String },
    /// Turns are in the dead-letter queue.
    DeadLetters { count: String, most: String, arn: String },

    /// The bot of Telegram sees only a part of its groups.
    TelegramPrivacy { bot: String },
    /// No webhook is set at Telegram.
    TelegramNoWebhook,
    /// Telegram does not send all kinds of updates.
    TelegramMissing { kinds: String, url: String },
    /// A webhook is set at Telegram.
    TelegramWebhook { url: String, at_once: Option<u8> },
    /// No delivery of Telegram has failed.
    TelegramWaiting { waiting: u64 },
    /// A delivery of Telegram has failed; it is a fault if it has a status.
    TelegramFailed { waiting: u64, time: String, message: Option<String>, is_over: bool },
    /// The webhook accepts Telegram's secret.
    TelegramAccepted,
    /// The webhook has another secret.
    TelegramOtherSecret { url: String },
    /// The webhook cannot be reached.
    TelegramUnreachable { url: String, why: Unreachable },
    /// The program there has no settings of Telegram.
    TelegramNotThere { url: String },
    /// The webhook answers otherwise than Annals does.
    TelegramStatus { url: String, status: u16 },

    /// The app of Lark works.
    LarkApp { name: String, app_id: String, bot: String },
    /// Lark refuses the app.
    LarkRefused { error: String },
    /// Lark cannot be asked.
    LarkFailed { error: String },
    /// Lark's events are encrypted.
    LarkEncrypted,
    /// Lark's events are plain.
    LarkPlain,

    /// The bot of Discord has no token.
    DiscordNoToken,
    /// Discord cannot be asked.
    DiscordFailed { error: String },
    /// The token is that of another application.
    DiscordOtherApplication { of_token: String, set: String },
    /// The public key is not the application's.
    DiscordOtherKey,
    /// No address is set at Discord.
    DiscordNoAddress,
    /// The address that is set at Discord is not a URL.
    DiscordNoUrl,
    /// The address cannot be reached.
    DiscordUnreachable { url: String, why: Unreachable },
    /// The program there has no settings of Discord.
    DiscordNotThere { url: String },
    /// The address answers otherwise than Annals does.
    DiscordStatus { url: String, status: u16 },
    /// Discord's events of installations go elsewhere.
    DiscordNoEvents { url: String },
    /// Commands are missing at Discord.
    DiscordMissing { commands: String },
    /// Number of commands that Discord has.
    DiscordCommands(usize),
    /// Discord withholds the text of messages.
    DiscordWithheld,
    /// The bot sees all messages of Discord.
    DiscordAllContent,
    /// The bot sees what addresses it.
    DiscordOwnContent,
    /// The relay of Discord runs.
    RelayRuns,
    /// No relay of Discord runs.
    RelayMissing,
}

/// The API keys that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysOf {
    /// So many of `HTTP_API_KEYS`.
    Setting(usize),
    /// Those of the stack, which are not known here.
    Stack,
    /// The key of the data directory.
    DataDirectory,
    /// The development key.
    Development,
}
