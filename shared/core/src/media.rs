//! Files that people send: images that a model can be shown, and descriptions of files in words.
//!
//! Pure functions: `annals_channel` fetches the bytes, and `annals_store::history` stores them.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use imagesize::ImageType;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{Part, PartView, Role, UiMessage};
use crate::record::Channel;

/// Maximum bytes of an image, which all providers accept. Bedrock's limit is 3.75 MB, Anthropic's 5 MB of base64, which
/// is the same.
pub const MAX_IMAGE_BYTES: usize = 3_750_000;

/// Maximum width and height of an image in pixels: Anthropic and Bedrock refuse more.
pub const MAX_SIDE: usize = 8_000;

/// Maximum number of images in a request: Bedrock accepts 20, and with more than 20 Anthropic refuses images of more
/// than 2,000 pixels.
pub const MAX_IMAGES: usize = 20;

/// Maximum bytes of all images in a request. Base64 makes them a third larger; Anthropic and Bedrock accept 20 MB and
/// more.
pub const MAX_REQUEST_BYTES: usize = 12_000_000;

/// Maximum tokens of an image: Anthropic's count for 1.15 megapixels, above which it scales down. Others count fewer.
pub const IMAGE_TOKENS: u32 = 1_600;

/// Media types of images that every provider accepts. Lark does not give the type of a picture and uses the last.
const IMAGE_TYPES: [&str; 6] = ["image/jpeg", "image/jpg", "image/png", "image/gif", "image/webp", "image/*"];

/// Provider name of the mark on text parts of a reply that the model did not write.
const NOTE: &str = "annals";

/// An image as it is shown to a model.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// `image/jpeg`, `image/png`, `image/gif` or `image/webp`: what every provider takes. Any other is not shown.
    pub media_type: String,
    /// The file. What is too large for the provider makes it refuse the request: 3.75 MB is what all of them take.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({}, {} bytes)", self.media_type, self.bytes.len())
    }
}

impl Image {
    /// `jpeg`, `png`, `gif` or `webp`; `None` for what not every provider takes.
    pub fn format(&self) -> Option<&'static str> {
        match self.media_type.as_str() {
            "image/jpeg" | "image/jpg" => Some("jpeg"),
            "image/png" => Some("png"),
            "image/gif" => Some("gif"),
            "image/webp" => Some("webp"),
            _ => None,
        }
    }
}

/// Place of the bytes of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// On the platform that the message came from.
    Platform,
    /// In the message itself, as base64.
    Inline(&'a str),
}

/// Returns the place of the image in `part`, of a message from `channel`, or `None` if it cannot be shown as an image.
///
/// A platform's file id counts only in messages of that platform, since a caller of the HTTP API could name a file of
/// another chat. Web addresses do not count, since fetching one would give a caller access to the agent's network.
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
    let scheme = url.strip_prefix(channel.as_str()).and_then(|rest| rest.strip_prefix(':'));
    let is_reference = channel.is_platform() && scheme.is_some_and(|id| !id.is_empty());
    is_reference.then_some(Origin::Platform)
}

/// Returns the maximum number of images that `message`, from `channel`, shows a model.
pub fn count_images(message: &UiMessage, channel: Channel) -> usize {
    if message.role != Role::User {
        return 0;
    }
    message.parts.iter().filter(|part| image(part, channel).is_some()).count()
}

/// Returns the maximum number of images in a context with this window, in tokens: half of the window, and at most
/// [`MAX_IMAGES`].
pub fn most_images(window: u32) -> usize {
    MAX_IMAGES.min(usize::try_from(window / 2 / IMAGE_TOKENS).unwrap_or(MAX_IMAGES))
}

/// Returns an id of the file in `part` within its message, which is the same if an edit sends the file under another
/// file id.
pub fn identity(part: &Part) -> Cow<'_, str> {
    let PartView::File { url, .. } = part.view() else { return Cow::Borrowed("") };
    let unique = of_platform(part).and_then(|(name, own)| Some((name, own.get("fileUniqueId")?.as_str()?)));
    match unique {
        Some((platform, id)) => Cow::Owned(format!("{platform}-unique:{id}")),
        None => Cow::Borrowed(url),
    }
}

/// Reason for never showing a file to a model. It is stored by these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unseen {
    /// It exceeds [`MAX_IMAGE_BYTES`] or [`MAX_SIDE`].
    TooLarge,
    /// It is not in one of the four formats, whatever its media type says, or is broken.
    NoImage,
    /// Its platform does not give it out, or has not for too long.
    Gone,
}

/// Reads `bytes` as an image. The format is determined by its first bytes, not by its media type.
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

/// Reads an image from base64 `data`.
pub fn decode(data: &str) -> Result<Image, Unseen> {
    read(STANDARD.decode(data).map_err(|_| Unseen::NoImage)?)
}

/// Returns a file part in words: `[file beans.pdf, application/pdf, 1.2 MB]`, `[file, audio/ogg, voice message, 0:12]`;
/// `None` for any other part.
pub fn line(part: &Part) -> Option<String> {
    described(part).map(|described| format!("[{described}]"))
}

/// Like [`line()`], for a file that the model is not shown, with the reason.
pub fn unseen_line(part: &Part, why: &str) -> Option<String> {
    described(part).map(|described| format!("[{described}; not shown to you: {why}]"))
}

/// Returns a short description of a file for its sender: `beans.pdf`, or `voice message` and `0:12`. `named` names its kind
/// in the sender's language.
pub fn title(part: &Part, named: impl Fn(&str) -> String) -> Vec<String> {
    let PartView::File { media_type, filename, .. } = part.view() else { return Vec::new() };
    let what = match (filename, kind(part)) {
        (Some(name), _) => name.to_owned(),
        (None, Some(kind)) => named(&kind),
        (None, None) => match media_type.split('/').next() {
            Some(kind @ ("image" | "audio" | "video")) => named(kind),
            _ => named("file"),
        },
    };
    std::iter::once(what).chain(duration(part)).chain(size(part).map(in_words)).collect()
}

fn described(part: &Part) -> Option<String> {
    let PartView::File { media_type, filename, .. } = part.view() else { return None };
    let file = filename.map_or_else(|| "file".to_owned(), |name| format!("file {name}"));
    let details = [Some(media_type.to_owned()), kind(part).map(Cow::into_owned), duration(part)];
    let details = details.into_iter().flatten().chain(size(part).map(in_words));
    Some(std::iter::once(file).chain(details).collect::<Vec<_>>().join(", "))
}

/// Returns the platform's kind of file, if it tells more than the media type.
pub fn kind(part: &Part) -> Option<Cow<'_, str>> {
    let kind = of_platform(part)?.1.get("kind")?.as_str()?;
    match kind {
        "document" | "audio" | "video" => None,
        "voice" => Some("voice message".into()),
        "video_note" => Some("video message".into()),
        kind => Some(kind.replace('_', " ").into()),
    }
}

/// Returns the number of bytes, if it is known.
pub fn size(part: &Part) -> Option<u64> {
    let PartView::File { url, .. } = part.view() else { return None };
    if let Some(data) = url.strip_prefix("data:").and_then(|url| url.split_once(";base64,")) {
        return u64::try_from(data.1.len() / 4 * 3).ok();
    }
    of_platform(part)?.1.get("size")?.as_u64()
}

/// Formats the duration as `0:12`.
fn duration(part: &Part) -> Option<String> {
    let own = of_platform(part)?.1;
    let of_millis = || Some(own.get("durationMs")?.as_u64()?.div_ceil(1000));
    let secs = own.get("duration").and_then(Value::as_u64).or_else(of_millis)?;
    Some(format!("{}:{:02}", secs / 60, secs % 60))
}

#[allow(clippy::cast_precision_loss, reason = "the size is rounded anyway")]
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

/// Returns the platform that a file came from, and what it says of the file: `fileUniqueId`, `kind`, `size` in bytes,
/// `duration` in seconds or `durationMs`.
fn of_platform(part: &Part) -> Option<(&str, &Value)> {
    let said = part.as_map().get("providerMetadata")?.as_object()?;
    let is_platform = |name: &str| name.parse().is_ok_and(Channel::is_platform);
    said.iter().map(|(name, own)| (name.as_str(), own)).find(|(name, _)| is_platform(name))
}

/// Returns a text part of a reply that is for the user only: the model did not write it and is not shown it.
pub fn note(text: String) -> Part {
    Part::text_of(text, (NOTE, &serde_json::json!({"note": true})))
}

pub fn is_note(part: &Part) -> bool {
    provider(part, NOTE).and_then(|own| own.get("note")) == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests;
