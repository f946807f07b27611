//! Memory: facts worth keeping beyond a Session, as small Markdown entries that people can see, correct and delete.
//!
//! An entry belongs to one [`Owner`]: a person, on every channel, or a group. A model finds it in a Session that has
//! ended ([`capture`]), and it is added to the system part of later turns if it fits the question
//! (`recall_section` of the store). It is a note, not a copy of the conversation.
//!
//! # Layout
//!
//! - [`entry`]: an entry as a Markdown document with front matter
//! - [`owner`]: whose entries they are, and which records speak for whom
//! - [`capture`]: what a model is asked of a Session, and what its answer means
//! - [`support`]: whether the cited messages support a finding
//! - [`same`]: whether a finding says what an entry says already
//! - [`dates`]: dates in texts
//! - [`validity`]: which entries are valid, and until when the others were
//! - [`id`]: what an entry is called by outside
//! - [`section`]: how entries stand in the system part

pub mod capture;
pub mod dates;
pub mod entry;
pub mod id;
pub mod owner;
pub mod same;
pub mod section;
pub mod support;
pub mod validity;

pub use capture::Finding;
pub use entry::{Correction, CorrectionError, EarlierForm, Entry, EntryKind, Passage, Source, StoredEntry};
pub use id::{EntryId, EntryIdError};
pub use owner::Owner;
pub use validity::Validity;
