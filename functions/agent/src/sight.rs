//! What a turn's model is shown of the files that people sent: images, fetched once from their platform and kept. What it
//! cannot be shown is named to it with the reason, and its user is told.
//!
//! Which images are shown is decided by the messages alone. So the next turn shows the same ones in the same places, and a
//! provider that keeps what it has read finds it again; where there come to be too many, half of them go at once.

use std::collections::HashMap;
use std::time::Duration;

use annals_shared::channel::file::FileError;
use annals_shared::chat_key::ChatKey;
use annals_shared::context::Context;
use annals_shared::history::Kept;
use annals_shared::media::{self, IMAGE_TOKENS, MAX_IMAGE_BYTES, MAX_REQUEST_BYTES, Origin, Unseen};
use annals_shared::message::{Part, PartView, Role, UiMessage};
use annals_shared::model::{Image, ImageAt};
use annals_shared::record::Channel;
use annals_shared::sort_key::Timestamp;
use futures::{StreamExt, stream};
use serde_json::Value;

use crate::turn::Agent;

/// How long all fetching may hold up an answer.
const DEADLINE: Duration = Duration::from_secs(20);
/// How many files are fetched at once.
const AT_ONCE: usize = 4;
/// How often a file is asked for in a turn, and the pause between.
const TRIES: u32 = 2;
const PAUSE: Duration = Duration::from_secs(1);
/// For how long behind its message a file that its platform does not give is asked for by each turn that would show it.
const GIVE_UP_AFTER: Duration = Duration::from_hours(1);
/// How many files of one kind a user is told of by name.
const MAX_NAMED: usize = 5;

/// Why a file is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Why {
    Audio,
    Video,
    Document,
    Address,
    Blind,
    TooMany,
    TooLarge,
    NoImage,
    Gone,
    Unavailable,
}

impl Why {
    /// For the model and for its user alike.
    fn words(self) -> &'static str {
        match self {
            Self::Audio => "sound cannot be heard here",
            Self::Video => "videos cannot be watched here",
            Self::Document => "files of this kind cannot be opened here",
            Self::Address => "addresses are not opened here",
            Self::Blind => "the model that answers cannot see images, or not this one",
            Self::TooMany => "there are more images than can be shown at once",
            Self::TooLarge => "it is larger than 3.75 MB or 8,000 pixels",
            Self::NoImage => "it is damaged, or no JPEG, PNG, GIF or WebP",
            Self::Gone => "it can no longer be fetched",
            Self::Unavailable => "it could not be fetched",
        }
    }
}

impl From<Unseen> for Why {
    fn from(unseen: Unseen) -> Self {
        match unseen {
            Unseen::TooLarge => Self::TooLarge,
            Unseen::NoImage => Self::NoImage,
            Unseen::Gone => Self::Gone,
        }
    }
}

/// What a run has seen of its turn's files so far.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// By message and file: what was found.
    found: HashMap<(String, String), Result<Image, Why>>,
    /// Whether the model has refused images.
    is_refused: bool,
    /// How often the model found the request too long: each time it is shown half as many, and at last none.
    squeezes: u32,
}

impl Sight {
    /// Shows no more images in this run; answers whether it did until now.
    pub(crate) fn refuse(&mut self) -> bool {
        !std::mem::replace(&mut self.is_refused, true)
    }

    /// Shows fewer images from now on.
    pub(crate) fn squeeze(&mut self) {
        self.squeezes += 1;
    }

    fn most(&self, images: usize) -> usize {
        if self.squeezes > 2 { 0 } else { images >> self.squeezes }
    }
}

/// What of a context is shown, and what is not.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The images, by the places of their messages.
    pub(crate) images: Vec<ImageAt>,
    /// What they take of what waits, in tokens.
    pub(crate) waiting_tokens: u32,
    /// What stands in the place of each file that is not shown: message, part, words.
    lines: Vec<(usize, usize, String)>,
    /// What the user is to be told of what waits.
    untold: Vec<(Why, String)>,
}

impl Shown {
    /// Names in `messages`, which they were found in, the files that are not shown.
    pub(crate) fn name_the_unseen(&self, messages: &mut [UiMessage]) {
        for (message, part, line) in &self.lines {
            if let Some(part) = messages.get_mut(*message).and_then(|message| message.parts.get_mut(*part)) {
                *part = Part::text(line.clone());
            }
        }
    }

    /// Tells the user in `reply` what of the messages that it answers its model was not shown.
    pub(crate) fn tell(&self, reply: &mut UiMessage) {
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
        let told = reasons.iter().map(|(why, titles)| {
            let mut named = titles.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join("; ");
            if titles.len() > MAX_NAMED {
                named = format!("{named}; and {} more", titles.len() - MAX_NAMED);
            }
            format!("{named} ({})", why.words())
        });
        let note = format!("Not seen: {}.", told.collect::<Vec<_>>().join(". "));
        // A paragraph of its own: parts are joined by one line break. What waits for somebody's word ends with its calls.
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
    /// Where it is, if it is an image that a model can be shown.
    origin: Option<Origin<'a>>,
    waits: bool,
}

impl File<'_> {
    fn name(&self) -> (String, String) {
        (message_id(self.message).to_owned(), media::identity(self.part).into_owned())
    }

    /// Why it is not shown, whatever its platform gives.
    fn kind(&self) -> Why {
        let PartView::File { media_type, url, .. } = self.part.view() else { return Why::Document };
        let is_of_platform = matches!(self.channel, Some(Channel::Telegram | Channel::Lark));
        match media_type.split('/').next() {
            _ if !url.starts_with("data:") && !is_of_platform => Why::Address,
            Some("audio") => Why::Audio,
            Some("video") => Why::Video,
            Some("image") if media::size(self.part).is_some_and(|size| size > MAX_IMAGE_BYTES as u64) => {
                Why::TooLarge
            }
            Some("image") => Why::NoImage,
            _ => Why::Document,
        }
    }
}

impl Agent {
    /// What of `seen` the model is shown. Images that nobody has looked at yet are fetched from their platforms, and kept.
    pub(crate) async fn look_at(&self, seen: &Context, sight: &mut Sight) -> Shown {
        if self.model.is_echo() {
            return Shown::default();
        }
        let files = files(seen);
        let is_blind = sight.is_refused || !self.model.sees();
        let most = if is_blind { 0 } else { sight.most(self.view.images) };
        let hidden = hidden(&files, most);
        let until = self.clock.now().plus(DEADLINE);
        let wanted = images(&files).skip(hidden).filter(|(file, _)| !sight.found.contains_key(&file.name()));
        // Collected, since a closure over borrowed files cannot be sent to another thread.
        let wanted: Vec<_> = wanted.map(|(file, origin)| self.find(file, origin, until)).collect();
        let found: Vec<_> = stream::iter(wanted).buffered(AT_ONCE).collect().await;
        sight.found.extend(found);

        let mut shown = Shown::default();
        let (mut number, mut bytes) = (images(&files).count(), 0);
        // From the newest on, since what is too much goes from the oldest on.
        for file in files.iter().rev() {
            let seen = if file.origin.is_some() {
                number -= 1;
                match sight.found.get(&file.name()) {
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
                    shown.waiting_tokens += if file.waits { IMAGE_TOKENS } else { 0 };
                }
                Err(why) => {
                    let line = media::unseen_line(file.part, why.words()).unwrap_or_default();
                    shown.lines.push((file.at.0, file.at.1, line));
                    if file.waits {
                        shown.untold.push((why, media::title(file.part)));
                    }
                }
            }
        }
        shown.images.reverse();
        shown.untold.reverse();
        shown
    }

    /// Finds an image: where it is kept, else at its platform, which it is then kept from.
    async fn find(
        &self,
        file: &File<'_>,
        origin: &Origin<'_>,
        until: Timestamp,
    ) -> ((String, String), Result<Image, Why>) {
        let left = until.since(self.clock.now());
        let found = tokio::select! {
            biased;
            found = self.find_in_time(file, origin) => found,
            () = self.clock.sleep(left) => {
                tracing::warn!("an image is not fetched in time");
                Err(Why::Unavailable)
            }
        };
        (file.name(), found)
    }

    async fn find_in_time(&self, file: &File<'_>, origin: &Origin<'_>) -> Result<Image, Why> {
        if let Origin::Inline(data) = origin {
            return media::decode(data).map_err(Why::from);
        }
        let Some(chat) = chat_of(file.message) else { return Err(Why::Unavailable) };
        let (message_id, identity) = file.name();
        match self.history.file(&chat, &message_id, &identity).await {
            Ok(Some(Kept::File(bytes))) => {
                return media::read(bytes).map_err(Why::from);
            }
            Ok(Some(Kept::Unseen(unseen))) => return Err(unseen.into()),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "an image that was kept cannot be read");
                return Err(Why::Unavailable);
            }
        }
        let sent_at =
            file.message.metadata.get("ts").and_then(Value::as_i64).and_then(Timestamp::from_millis);
        let is_old = sent_at.is_none_or(|at| self.clock.now().since(at) > GIVE_UP_AFTER);
        let fetched = match self.fetch(origin).await {
            Ok(bytes) => media::read(bytes),
            Err(FileError::TooLarge) => Err(Unseen::TooLarge),
            Err(error @ FileError::Gone(_)) => {
                tracing::warn!(%error, "an image is gone");
                Err(Unseen::Gone)
            }
            Err(error @ FileError::Unavailable(_)) => {
                tracing::warn!(%error, "an image is not fetched");
                if !is_old {
                    return Err(Why::Unavailable);
                }
                Err(Unseen::Gone)
            }
            // Another deployment may have it.
            Err(FileError::NoChannel) => return Err(Why::Unavailable),
        };
        let (media_type, kept) = match &fetched {
            Ok(image) => (image.media_type.as_str(), Kept::File(image.bytes.clone())),
            Err(unseen) => ("", Kept::Unseen(*unseen)),
        };
        if let Err(error) = self.history.keep_file(&chat, &message_id, &identity, media_type, kept).await {
            // It is shown all the same, and fetched once more by the next turn.
            tracing::warn!(%error, "an image is not kept");
        }
        fetched.map_err(Why::from)
    }

    async fn fetch(&self, origin: &Origin<'_>) -> Result<Vec<u8>, FileError> {
        let mut tries = 1;
        loop {
            match self.deliverer.fetch(origin, MAX_IMAGE_BYTES).await {
                Err(FileError::Unavailable(_)) if tries < TRIES => {
                    self.clock.sleep(PAUSE).await;
                    tries += 1;
                }
                fetched => return fetched,
            }
        }
    }
}

/// The files that people sent, in order.
fn files(seen: &Context) -> Vec<File<'_>> {
    let first_waiting = seen.messages.len() - seen.unanswered.len();
    let mut files = Vec::new();
    for (at, message) in seen.messages.iter().enumerate().filter(|(_, m)| m.role == Role::User) {
        let channel = metadata(message, "channel").and_then(|channel| channel.parse().ok());
        let has_image = |part: &Part| channel.is_some_and(|channel| media::image(part, channel).is_some());
        let shows_any = message.parts.iter().any(has_image);
        for (place, part) in message.parts.iter().enumerate() {
            if !matches!(part.view(), PartView::File { .. }) {
                continue;
            }
            let kind = media::kind(part);
            // Its emoji says what a sticker means, and its picture what a live photo shows.
            let is_told =
                kind.as_deref() == Some("sticker") || (kind.as_deref() == Some("live photo") && shows_any);
            let origin = channel.and_then(|channel| media::image(part, channel));
            let waits = at >= first_waiting && (origin.is_some() || !is_told);
            files.push(File { at: (at, place), part, message, channel, origin, waits });
        }
    }
    files
}

fn images<'f, 'a>(files: &'f [File<'a>]) -> impl Iterator<Item = (&'f File<'a>, &'f Origin<'a>)> {
    files.iter().filter_map(|file| Some((file, file.origin.as_ref()?)))
}

/// How many images, from the oldest on, are not shown where `most` are at once. More than need be of what is answered, so
/// that those which are shown stay the same for some turns; no more than that of what waits.
fn hidden(files: &[File<'_>], most: usize) -> usize {
    let count = images(files).count();
    let answered = images(files).filter(|(file, _)| !file.waits).count();
    let over = count.saturating_sub(most);
    over.next_multiple_of((most / 2).max(1)).min(answered).max(over)
}

fn metadata<'a>(message: &'a UiMessage, name: &str) -> Option<&'a str> {
    message.metadata.get(name).and_then(Value::as_str)
}

/// The id that all forms of the message share.
fn message_id(message: &UiMessage) -> &str {
    metadata(message, "messageId").unwrap_or(&message.id)
}

/// The name that its chat had when it was said.
fn chat_of(message: &UiMessage) -> Option<ChatKey> {
    metadata(message, "chatKey")?.parse().ok()
}

#[cfg(test)]
mod tests;
