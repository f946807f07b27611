//! Files that people send: which of them are images that a model can be shown, and what any of them is called in words.
//!
//! Pure: the bytes are fetched by [`crate::channel`] and kept by [`crate::history`].

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use imagesize::ImageType;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{Part, PartView, Role, UiMessage};
use crate::model::Image;
use crate::record::Channel;

/// The largest image, in bytes: what all providers take. Bedrock takes 3.75 MB, Anthropic 5 MB of base64, which is the same.
pub const MAX_IMAGE_BYTES: usize = 3_750_000;

/// The longest side of an image, in pixels: Anthropic and Bedrock refuse more.
pub const MAX_SIDE: usize = 8_000;

/// The most images of one request: Bedrock takes 20, and with more than 20 Anthropic refuses those of more than 2,000 pixels.
pub const MAX_IMAGES: usize = 20;

/// The most bytes of all images of one request. They grow by a third on the way; Anthropic and Bedrock take 20 MB and more.
pub const MAX_REQUEST_BYTES: usize = 12_000_000;

/// What an image takes at most, as Anthropic counts one of 1.15 megapixels, its largest before it scales down. Others
/// count fewer.
pub const IMAGE_TOKENS: u32 = 1_600;

/// The media types of images that every provider takes. Lark does not say what a picture is, and writes the last.
const IMAGE_TYPES: [&str; 6] = ["image/jpeg", "image/jpg", "image/png", "image/gif", "image/webp", "image/*"];

/// What marks a text part of a reply that the model did not say.
const NOTE: &str = "annals";

/// Where the bytes of an image are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// Telegram has them.
    Telegram {
        /// `file_id`
        file_id: &'a str,
    },
    /// Lark has them.
    Lark {
        /// The message that they are a resource of.
        message_id: &'a str,
        /// `image_key` or `file_key`
        key: &'a str,
        /// `image` or `file`
        kind: &'a str,
    },
    /// The message itself has them, in base64.
    Inline(&'a str),
}

/// The image that `part` is, of a message that came in by `channel`; `None` where it is none that can be shown.
///
/// What a platform's file is called counts only in its own messages: a caller of the HTTP API could name another chat's.
/// A web address is never one: fetching it would lend a caller the agent's place in its network.
pub fn image(part: &Part, channel: Channel) -> Option<Origin<'_>> {
    let PartView::File { media_type, url, .. } = part.view() else { return None };
    if part.kind() != "file" || !IMAGE_TYPES.contains(&media_type) {
        return None;
    }
    if let Some(data) = url.strip_prefix("data:") {
        let (head, data) = data.split_once(',')?;
        let fits = head.ends_with(";base64") && data.len() <= MAX_IMAGE_BYTES.div_ceil(3) * 4;
        return fits.then_some(Origin::Inline(data));
    }
    if size(part).is_some_and(|size| size > MAX_IMAGE_BYTES as u64) {
        return None;
    }
    match channel {
        Channel::Telegram => url
            .strip_prefix("telegram:")
            .filter(|id| !id.is_empty())
            .map(|file_id| Origin::Telegram { file_id }),
        Channel::Lark => {
            let text = |name| provider(part, "lark")?.get(name)?.as_str().filter(|text| !text.is_empty());
            let (key, kind) =
                text("imageKey").map(|key| (key, "image")).or_else(|| Some((text("fileKey")?, "file")))?;
            Some(Origin::Lark { message_id: text("messageId")?, key, kind })
        }
        _ => None,
    }
}

/// How many images `message`, which came in by `channel`, shows a model at most.
pub fn count_images(message: &UiMessage, channel: Channel) -> usize {
    if message.role != Role::User {
        return 0;
    }
    message.parts.iter().filter(|part| image(part, channel).is_some()).count()
}

/// How many images a context within a window of so many tokens shows at most: half of it, and no more than
/// [`MAX_IMAGES`].
pub fn most_images(window: u32) -> usize {
    MAX_IMAGES.min(usize::try_from(window / 2 / IMAGE_TOKENS).unwrap_or(MAX_IMAGES))
}

/// What tells the file of `part` from the others of its message, also where an edit sends it under another id.
pub fn identity(part: &Part) -> Cow<'_, str> {
    let PartView::File { url, .. } = part.view() else { return Cow::Borrowed("") };
    match provider(part, "telegram").and_then(|telegram| telegram.get("fileUniqueId")?.as_str()) {
        Some(unique) => Cow::Owned(format!("telegram-unique:{unique}")),
        None => Cow::Borrowed(url),
    }
}

/// Why a file is never shown to a model. By these names it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unseen {
    /// It is more than [`MAX_IMAGE_BYTES`] or [`MAX_SIDE`].
    TooLarge,
    /// It is none of the four formats, whatever was said of it, or broken.
    NoImage,
    /// Its platform does not give it out, or has not for too long.
    Gone,
}

/// `bytes` as an image. What it is, is read off its head, whatever was said of it.
pub fn read(bytes: Vec<u8>) -> Result<Image, Unseen> {
    if bytes.len() > MAX_IMAGE_BYTES {
        return Err(Unseen::TooLarge);
    }
    let media_type = match imagesize::image_type(&bytes).map_err(|_| Unseen::NoImage)? {
        ImageType::Jpeg => "image/jpeg",
        ImageType::Png => "image/png",
        ImageType::Gif => "image/gif",
        ImageType::Webp => "image/webp",
        _ => return Err(Unseen::NoImage),
    };
    let size = imagesize::blob_size(&bytes).map_err(|_| Unseen::NoImage)?;
    match (size.width, size.height) {
        (0, _) | (_, 0) => Err(Unseen::NoImage),
        (width, height) if width.max(height) > MAX_SIDE => Err(Unseen::TooLarge),
        _ => Ok(Image { media_type: media_type.into(), bytes }),
    }
}

/// The image that base64 `data` is.
pub fn decode(data: &str) -> Result<Image, Unseen> {
    read(STANDARD.decode(data).map_err(|_| Unseen::NoImage)?)
}

/// What a file part is, in words: `[file beans.pdf, application/pdf, 1.2 MB]`, `[file, audio/ogg, voice message, 0:12]`;
/// `None` for any other part.
pub fn line(part: &Part) -> Option<String> {
    described(part).map(|described| format!("[{described}]"))
}

/// The same for one that a model is not shown, with why.
pub fn unseen_line(part: &Part, why: &str) -> Option<String> {
    described(part).map(|described| format!("[{described}; not shown to you: {why}]"))
}

/// What a file is called where its sender is told of it: `beans.pdf`, `voice message, 0:12`.
pub fn title(part: &Part) -> String {
    let PartView::File { media_type, filename, .. } = part.view() else { return String::new() };
    let what = match (filename, kind(part)) {
        (Some(name), _) => name.to_owned(),
        (None, Some(kind)) => kind.into_owned(),
        (None, None) => match media_type.split('/').next() {
            Some(kind @ ("image" | "audio" | "video")) => kind.to_owned(),
            _ => "file".to_owned(),
        },
    };
    std::iter::once(what).chain(duration(part)).chain(size(part).map(in_words)).collect::<Vec<_>>().join(", ")
}

fn described(part: &Part) -> Option<String> {
    let PartView::File { media_type, filename, .. } = part.view() else { return None };
    let file = filename.map_or_else(|| "file".to_owned(), |name| format!("file {name}"));
    let details = [Some(media_type.to_owned()), kind(part).map(Cow::into_owned), duration(part)];
    let details = details.into_iter().flatten().chain(size(part).map(in_words));
    Some(std::iter::once(file).chain(details).collect::<Vec<_>>().join(", "))
}

/// What the platform calls it, where that says more than its media type.
pub fn kind(part: &Part) -> Option<Cow<'_, str>> {
    let kind = provider(part, "telegram")?.get("kind")?.as_str()?;
    match kind {
        "document" | "audio" | "video" => None,
        "voice" => Some("voice message".into()),
        "video_note" => Some("video message".into()),
        kind => Some(kind.replace('_', " ").into()),
    }
}

/// How many bytes it has, where that is known.
pub fn size(part: &Part) -> Option<u64> {
    let PartView::File { url, .. } = part.view() else { return None };
    if let Some(data) = url.strip_prefix("data:").and_then(|url| url.split_once(";base64,")) {
        return u64::try_from(data.1.len() / 4 * 3).ok();
    }
    provider(part, "telegram")?.get("size")?.as_u64()
}

/// `0:12`
fn duration(part: &Part) -> Option<String> {
    let telegram = || provider(part, "telegram")?.get("duration")?.as_u64();
    let lark = || Some(provider(part, "lark")?.get("durationMs")?.as_u64()?.div_ceil(1000));
    let secs = telegram().or_else(lark)?;
    Some(format!("{}:{:02}", secs / 60, secs % 60))
}

#[allow(clippy::cast_precision_loss, reason = "a size in words is rounded all the same")]
fn in_words(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..999_500 => format!("{:.0} KB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

fn provider<'a>(part: &'a Part, name: &str) -> Option<&'a Value> {
    part.as_map().get("providerMetadata")?.get(name)
}

/// A text of a reply that its user is told and its model did not say, and is not told either.
pub fn note(text: String) -> Part {
    Part::text_of(text, (NOTE, &serde_json::json!({"note": true})))
}

/// Whether `part` is a [`note()`].
pub fn is_note(part: &Part) -> bool {
    provider(part, NOTE).and_then(|own| own.get("note")) == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests;
