//! The files that a turn's model is shown: images, fetched once from their platform and stored. Every other file is named
//! to the model with the reason, and its user is told.
//!
//! The messages alone decide which images are shown. So the next turn shows the same ones in the same places, and a provider
//! that caches requests finds them again; when there are too many, half of them go at once.

use std::collections::HashMap;
use std::time::Duration;

use annals_channel::file::FileError;
use annals_core::chat_key::ChatKey;
use annals_core::context::Context;
use annals_core::language::Language;
use annals_core::media::{self, IMAGE_TOKENS, Image, MAX_IMAGE_BYTES, MAX_REQUEST_BYTES, Origin, Unseen};
use annals_core::message::{Part, PartView, Role, UiMessage};
use annals_core::record::Channel;
use annals_core::sort_key::Timestamp;
use annals_core::texts::{FilesNotShown, NotShown as Why, Texts};
use annals_model::ImageAt;
use annals_store::history::StoredFile;
use futures::{StreamExt, stream};

use crate::agent::Agent;
use crate::retry_policy::{FILE_PAUSE, FILE_TRIES, FILES_TIME};

/// Number of files that are fetched at once.
const AT_ONCE: usize = 4;
/// Age of a message after which a file that its platform does not deliver is given up. Until then each turn that would
/// show it tries again.
const GIVE_UP_AFTER: Duration = Duration::from_hours(1);
/// Maximum number of files of one kind that a user is told by name.
const MAX_NAMED: usize = 5;

/// The images that a run has loaded, and how many of them it may show.
#[derive(Debug, Default)]
pub(crate) struct Images {
    /// By message and file: the image, or the reason why there is none.
    found: HashMap<(String, String), Result<Image, Why>>,
    /// True if the model has refused images.
    is_refused: bool,
    /// Number of times that the model found the request too long: each time half as many are shown, and in the end none.
    halvings: u32,
}

impl Images {
    /// Shows no more images in this run.
    pub(crate) fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// Shows half as many images from now on.
    pub(crate) fn halve(&mut self) {
        self.halvings += 1;
    }

    fn most(&self, images: usize) -> usize {
        if self.halvings > 2 { 0 } else { images >> self.halvings }
    }
}

/// The files of a context: those that are shown, and those that are not.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The images, by the places of their messages.
    pub(crate) images: Vec<ImageAt>,
    /// Token estimate of those in unanswered messages.
    pub(crate) unanswered_tokens: u32,
    /// The text in place of each file that is not shown: message, part, text.
    lines: Vec<(usize, usize, String)>,
    /// The files of unanswered messages that the user is told about.
    untold: Vec<(Why, String)>,
}

impl Shown {
    /// Replaces the files that are not shown by text, in the `messages` of the context.
    pub(crate) fn name_hidden_files(&self, messages: &mut [UiMessage]) {
        for (message, part, line) in &self.lines {
            if let Some(part) = messages.get_mut(*message).and_then(|message| message.parts.get_mut(*part)) {
                *part = Part::text(line.clone());
            }
        }
    }

    /// Adds a note to `reply` about the files that its model was not shown.
    pub(crate) fn add_note(&self, reply: &mut UiMessage, texts: &dyn Texts) {
        let mut reasons: Vec<(Why, Vec<&str>)> = Vec::new();
        for (why, title) in &self.untold {
            match reasons.iter_mut().find(|(known, _)| known == why) {
                Some((_, titles)) => titles.push(title),
                None => reasons.push((*why, vec![title])),
            }
        }
        if reasons.is_empty() {
            return;
        }
        let groups = reasons.iter().map(|(why, titles)| FilesNotShown {
            why: *why,
            named: titles.iter().take(MAX_NAMED).map(|title| (*title).to_owned()).collect(),
            more: titles.len().saturating_sub(MAX_NAMED),
        });
        let note = texts.files_not_shown(&groups.collect::<Vec<_>>());
        // A paragraph of its own: parts are joined by one line break. A reply that waits for an approval ends with calls.
        if reply.has_open_call() {
            reply.parts.insert(0, media::note(note + "\n"));
        } else {
            reply.parts.push(media::note(format!("\n{note}")));
        }
    }
}

/// A file of a context.
struct File<'a> {
    at: (usize, usize),
    part: &'a Part,
    message: &'a UiMessage,
    channel: Option<Channel>,
    /// The source, if it is an image that a model can be shown.
    origin: Option<Origin<'a>>,
    is_unanswered: bool,
}

impl File<'_> {
    fn name(&self) -> (String, String) {
        (message_id(self.message).to_owned(), media::identity(self.part).into_owned())
    }

    /// Returns the reason why it is not shown, which is known without fetching it.
    fn kind(&self) -> Why {
        let PartView::File { media_type, url, .. } = self.part.view() else { return Why::Document };
        let has_platform = self.channel.is_some_and(Channel::is_platform);
        match media_type.split('/').next() {
            _ if !url.starts_with("data:") && !has_platform => Why::Address,
            Some("audio") => Why::Audio,
            Some("video") => Why::Video,
            Some("image") if media::size(self.part).is_some_and(|size| size > MAX_IMAGE_BYTES as u64) => {
                Why::Unseen(Unseen::TooLarge)
            }
            Some("image") => Why::Unseen(Unseen::NoImage),
            _ => Why::Document,
        }
    }
}

/// Selects the files of `seen` that the model is shown. Images that are not stored yet are fetched from their platforms and
/// stored.
pub(crate) async fn load(agent: &Agent, seen: &Context, images: &mut Images, texts: &dyn Texts) -> Shown {
    if agent.model.is_echo() {
        return Shown::default();
    }
    let files = files(seen);
    let is_blind = images.is_refused || !agent.model.sees();
    let most = if is_blind { 0 } else { images.most(agent.view.images) };
    let hidden = hidden(&files, most);
    let until = agent.clock.now().plus(FILES_TIME);
    let wanted = images_of(&files).skip(hidden).filter(|(file, _)| !images.found.contains_key(&file.name()));
    // Collected, since a closure over borrowed files cannot be sent to another thread.
    let wanted: Vec<_> = wanted.map(|(file, origin)| find(agent, file, origin, until)).collect();
    let found: Vec<_> = stream::iter(wanted).buffered(AT_ONCE).collect().await;
    images.found.extend(found);

    let mut shown = Shown::default();
    let (mut number, mut bytes) = (images_of(&files).count(), 0);
    // From the newest on, since the oldest are dropped first.
    for file in files.iter().rev() {
        let seen = if file.origin.is_some() {
            number -= 1;
            match images.found.get(&file.name()) {
                _ if is_blind => Err(Why::Blind),
                _ if number < hidden => Err(Why::TooMany),
                Some(Ok(image)) if bytes + image.bytes.len() > MAX_REQUEST_BYTES => Err(Why::TooMany),
                Some(Ok(image)) => Ok(image),
                Some(Err(why)) => Err(*why),
                None => Err(Why::Unavailable),
            }
        } else {
            Err(file.kind())
        };
        match seen {
            Ok(image) => {
                bytes += image.bytes.len();
                shown.images.push(ImageAt { message: file.at.0, image: image.clone() });
                shown.unanswered_tokens += if file.is_unanswered { IMAGE_TOKENS } else { 0 };
            }
            Err(why) => {
                let line =
                    media::unseen_line(file.part, Language::En.texts().not_shown(why)).unwrap_or_default();
                shown.lines.push((file.at.0, file.at.1, line));
                if file.is_unanswered {
                    shown.untold.push((
                        why,
                        media::title(file.part, |kind| texts.file_kind(kind)).join(texts.comma()),
                    ));
                }
            }
        }
    }
    shown.images.reverse();
    shown.untold.reverse();
    shown
}

/// Loads an image: from the history, else from its platform, and stores it then.
async fn find(
    agent: &Agent,
    file: &File<'_>,
    origin: &Origin<'_>,
    until: Timestamp,
) -> ((String, String), Result<Image, Why>) {
    let left = until.since(agent.clock.now());
    let found = agent.clock.within(left, Box::pin(find_in_time(agent, file, origin))).await;
    let found = found.unwrap_or_else(|| {
        tracing::warn!("failed to fetch an image in time; the next turn tries again");
        Err(Why::Unavailable)
    });
    (file.name(), found)
}

async fn find_in_time(agent: &Agent, file: &File<'_>, origin: &Origin<'_>) -> Result<Image, Why> {
    if let Origin::Inline(data) = origin {
        return media::decode(data).map_err(Why::Unseen);
    }
    let Some(chat) = chat_of(file.message) else { return Err(Why::Unavailable) };
    let (message_id, identity) = file.name();
    match agent.history.file(&chat, &message_id, &identity).await {
        Ok(Some(StoredFile::File(bytes))) => return media::read(bytes).map_err(Why::Unseen),
        Ok(Some(StoredFile::Unseen(unseen))) => return Err(Why::Unseen(unseen)),
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(%error, "failed to read a stored image; the next turn tries again");
            return Err(Why::Unavailable);
        }
    }
    let sent_at = file.message.metadata.ts();
    let is_old = sent_at.is_none_or(|at| agent.clock.now().since(at) > GIVE_UP_AFTER);
    let fetched = match fetch(agent, file).await {
        Ok(bytes) => media::read(bytes),
        Err(FileError::TooLarge) => Err(Unseen::TooLarge),
        Err(error @ FileError::Gone(_)) => {
            tracing::warn!(%error, "failed to fetch an image: it is gone");
            Err(Unseen::Gone)
        }
        Err(error @ FileError::Unavailable(_)) => {
            tracing::warn!(%error, "failed to fetch an image; turns try again until an hour after its message");
            if !is_old {
                return Err(Why::Unavailable);
            }
            Err(Unseen::Gone)
        }
        // Another deployment may have it.
        Err(FileError::NoChannel) => return Err(Why::Unavailable),
    };
    let (media_type, kept) = match &fetched {
        Ok(image) => (image.media_type.as_str(), StoredFile::File(image.bytes.clone())),
        Err(unseen) => ("", StoredFile::Unseen(*unseen)),
    };
    if let Err(error) = agent.history.keep_file(&chat, &message_id, &identity, media_type, kept).await {
        tracing::warn!(%error, "failed to store an image; the next turn fetches it again");
    }
    fetched.map_err(Why::Unseen)
}

async fn fetch(agent: &Agent, file: &File<'_>) -> Result<Vec<u8>, FileError> {
    let Some(channel) = file.channel else { return Err(FileError::NoChannel) };
    let mut tries = 1;
    loop {
        match agent.deliverer.fetch(channel, file.part, MAX_IMAGE_BYTES).await {
            Err(FileError::Unavailable(_)) if tries < FILE_TRIES => {
                agent.clock.sleep(FILE_PAUSE).await;
                tries += 1;
            }
            fetched => return fetched,
        }
    }
}

/// Returns the files that people sent, in order.
fn files(seen: &Context) -> Vec<File<'_>> {
    let first_waiting = seen.messages.len() - seen.unanswered.len();
    let mut files = Vec::new();
    for (at, message) in seen.messages.iter().enumerate().filter(|(_, m)| m.role == Role::User) {
        let channel = message.metadata.channel();
        let has_image = |part: &Part| channel.is_some_and(|channel| media::image(part, channel).is_some());
        let shows_any = message.parts.iter().any(has_image);
        for (place, part) in message.parts.iter().enumerate() {
            if !matches!(part.view(), PartView::File { .. }) {
                continue;
            }
            let kind = media::kind(part);
            // A sticker's emoji says what it means, and a live photo's picture what it shows.
            let is_told =
                kind.as_deref() == Some("sticker") || (kind.as_deref() == Some("live photo") && shows_any);
            let origin = channel.and_then(|channel| media::image(part, channel));
            let is_unanswered = at >= first_waiting && (origin.is_some() || !is_told);
            files.push(File { at: (at, place), part, message, channel, origin, is_unanswered });
        }
    }
    files
}

fn images_of<'f, 'a>(files: &'f [File<'a>]) -> impl Iterator<Item = (&'f File<'a>, &'f Origin<'a>)> {
    files.iter().filter_map(|file| Some((file, file.origin.as_ref()?)))
}

/// Returns how many images, from the oldest on, are not shown if at most `most` are. Hides more answered ones than needed,
/// so that the shown ones stay the same for some turns; of unanswered ones, no more than needed.
fn hidden(files: &[File<'_>], most: usize) -> usize {
    let count = images_of(files).count();
    let answered = images_of(files).filter(|(file, _)| !file.is_unanswered).count();
    let over = count.saturating_sub(most);
    over.next_multiple_of((most / 2).max(1)).min(answered).max(over)
}

/// Returns the id that all forms of the message share.
fn message_id(message: &UiMessage) -> &str {
    message.metadata.message_id().unwrap_or(&message.id)
}

/// Returns the key that the message's chat had when it was sent.
fn chat_of(message: &UiMessage) -> Option<ChatKey> {
    message.metadata.chat_key()?.parse().ok()
}

#[cfg(test)]
mod tests;
