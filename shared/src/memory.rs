//! Memory: what is worth keeping beyond a Session, as small Markdown entries that people can see, correct and delete.
//!
//! An entry belongs to one [`Owner`]: a person, through every door, or a group. It is made of what a model found in a
//! Session that ended ([`capture`]), and put into the system part of later turns where it fits what is asked
//! ([`Memory::recall_section`]). It is a note, and no replay of what was said.
//!
//! # Layout
//!
//! - [`entry`]: an entry as a Markdown document with front matter
//! - [`owner`]: whose entries they are, and which records speak for whom
//! - [`capture`]: what a model is asked of a Session, and what its answer means
//! - [`id`]: what an entry is called by outside
//! - [`store`]: entries in DynamoDB
//! - [`sessions`]: which Sessions are captured, and what a Session is told
//! - [`section`]: how entries stand in the system part

pub mod capture;
pub mod entry;
pub mod id;
pub mod owner;
pub mod section;
pub mod sessions;
pub mod store;

pub use capture::Finding;
pub use entry::{Correction, CorrectionError, Entry, EntryKind, Source};
pub use id::{EntryId, EntryIdError};
pub use owner::Owner;
pub use store::{Captured, Deleted, Kept, Memory, MemoryError, Overview, Saved, Undoable};
