use annals_core::sort_key::{MessageId, SortKey};
use annals_core::testing::set;
use serde_json::json;

use super::*;

/// Returns a context of `answered` and then `waiting` messages of one photo each.
fn seen(answered: usize, waiting: usize) -> Context {
    let message = |number: usize| {
        let part = json!({"type": "file", "mediaType": "image/png", "url": format!("telegram:{number}")});
        let mut message = UiMessage::new(number.to_string(), Role::User, vec![Part::new(part).unwrap()]);
        set(&mut message.metadata, "channel", "telegram");
        message
    };
    let at = Timestamp::from_secs(0);
    Context {
        messages: (0..answered + waiting).map(message).collect(),
        unanswered: (0..waiting).map(|n| SortKey::message(at, &MessageId::number(n as u64))).collect(),
        ..Context::default()
    }
}

#[test]
fn too_many_images_are_hidden_by_halves_of_the_answered_ones() {
    for (answered, waiting, most, wanted) in [
        (0, 0, 20, 0),
        (19, 1, 20, 0),
        // Ten at once, and then none for nine turns.
        (20, 1, 20, 10),
        (29, 1, 20, 10),
        (30, 1, 20, 20),
        // No more of the unanswered ones than needed.
        (0, 21, 20, 1),
        (5, 20, 20, 5),
        (5, 25, 20, 10),
        (3, 1, 0, 4),
        (3, 1, 1, 3),
    ] {
        let seen = seen(answered, waiting);
        let files = files(&seen);
        assert_eq!(hidden(&files, most), wanted, "{answered} and {waiting} of {most}");
    }
}

#[test]
fn the_note_names_the_first_files_of_each_reason() {
    let mut shown = Shown::default();
    let mut reply = UiMessage::text("", Role::Assistant, "Done.");
    shown.add_note(&mut reply, Language::En.texts());
    assert_eq!(reply.parts.len(), 1, "nothing to tell");
    shown.untold = (1..=7).map(|n| (Why::Video, format!("{n}.mp4"))).collect();
    shown.untold.push((Why::Unseen(Unseen::Gone), "a.png".into()));
    shown.add_note(&mut reply, Language::En.texts());
    assert_eq!(
        reply.plain_text(),
        "Done.\n\nNot seen: 1.mp4; 2.mp4; 3.mp4; 4.mp4; 5.mp4; and 2 more (videos cannot be watched here). \
         a.png (it can no longer be fetched)."
    );
    let mut reply = UiMessage::text("", Role::Assistant, "好的。");
    shown.add_note(&mut reply, Language::Zh.texts());
    assert_eq!(
        reply.plain_text(),
        "好的。\n\n无法查看：1.mp4；2.mp4；3.mp4；4.mp4；5.mp4；还有 2 个（这里看不了视频）。a.png（已经无法获取）。"
    );
}

#[test]
fn a_request_that_is_too_long_shows_fewer_images() {
    let mut images = Images::default();
    let mut most = vec![images.most(20)];
    for _ in 0..3 {
        images.halve();
        most.push(images.most(20));
    }
    assert_eq!(most, [20, 10, 5, 0]);
}
