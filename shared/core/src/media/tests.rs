use serde_json::json;

use super::*;

fn part(value: Value) -> Part {
    Part::new(value).unwrap()
}

fn telegram(media_type: &str, own: &Value) -> Part {
    Part::file(media_type, None, "telegram:f".into(), ("telegram", own))
}

#[test]
fn an_image_is_a_file_of_the_same_platform_or_inline_data() {
    let photo = telegram("image/jpeg", &json!({"kind": "photo", "size": 73_212}));
    assert_eq!(image(&photo, Channel::Telegram), Some(Origin::Platform));
    // A caller names a file of another chat.
    for channel in [Channel::Http, Channel::Web, Channel::Lark, Channel::Terminal] {
        assert_eq!(image(&photo, channel), None);
    }
    let lark = json!({"imageKey": "img_1", "messageId": "om_1", "type": "image"});
    let lark = Part::file("image/*", None, "lark:om_1/img_1".into(), ("lark", &lark));
    assert_eq!(image(&lark, Channel::Lark), Some(Origin::Platform));
    assert_eq!(image(&lark, Channel::Http), None);
    let file = |url: &str| part(json!({"type": "file", "mediaType": "image/png", "url": url}));
    assert_eq!(image(&file("data:image/png;base64,AA=="), Channel::Http), Some(Origin::Inline("AA==")));
    for url in [
        "data:image/png,AA",
        "https://example.com/a.png",
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "",
    ] {
        for channel in [Channel::Http, Channel::Telegram, Channel::Lark] {
            assert_eq!(image(&file(url), channel), None, "{url}");
        }
    }
    for (media_type, size) in
        [("image/heic", 1), ("image/svg+xml", 1), ("video/mp4", 1), ("image/png", 3_750_001)]
    {
        let part = telegram(media_type, &json!({ "size": size }));
        assert_eq!(image(&part, Channel::Telegram), None, "{media_type}");
    }
}

#[test]
fn a_file_is_described_by_its_known_fields() {
    let pdf = Part::file(
        "application/pdf",
        Some("b.pdf"),
        String::new(),
        ("telegram", &json!({"size": 1_234_567})),
    );
    let voice = telegram("audio/ogg", &json!({"kind": "voice", "duration": 72, "size": 999}));
    let lark =
        Part::file("video/mp4", Some("c.mp4"), String::new(), ("lark", &json!({"durationMs": 61_001})));
    let bare = part(json!({"type": "file", "mediaType": "image/png", "url": "https://example.com"}));
    for (part, wanted, titled) in [
        (&pdf, "[file b.pdf, application/pdf, 1.2 MB]", "b.pdf, 1.2 MB"),
        (&voice, "[file, audio/ogg, voice message, 1:12, 999 bytes]", "voice message, 1:12, 999 bytes"),
        (&lark, "[file c.mp4, video/mp4, 1:02]", "c.mp4, 1:02"),
        (&bare, "[file, image/png]", "image"),
    ] {
        assert_eq!(
            (line(part).unwrap().as_str(), title(part, str::to_owned).join(", ").as_str()),
            (wanted, titled)
        );
    }
    assert_eq!(unseen_line(&bare, "why").unwrap(), "[file, image/png; not shown to you: why]");
    assert_eq!(line(&Part::text("x")), None);
}

#[test]
fn the_format_is_determined_by_the_first_bytes() {
    let png = |width: u32| {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\0\x01\x08\x06\0\0\0".to_vec();
        png[16..20].copy_from_slice(&width.to_be_bytes());
        png
    };
    assert_eq!(read(png(1)).unwrap().media_type, "image/png");
    assert_eq!(read(b"GIF89a\x01\0\x01\0\0\0\0".to_vec()).unwrap().media_type, "image/gif");
    let jpeg = b"\xff\xd8\xff\xc0\0\x11\x08\0\x02\0\x03\x03\x01\x22\0\x02\x11\x01\x03\x11\x01".to_vec();
    assert_eq!(read(jpeg).unwrap().media_type, "image/jpeg");
    let webp = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0".to_vec();
    assert_eq!(read(webp).unwrap().media_type, "image/webp");
    assert_eq!(read(png(8_001)), Err(Unseen::TooLarge));
    assert_eq!(read([png(1), vec![0; MAX_IMAGE_BYTES]].concat()), Err(Unseen::TooLarge));
    for bad in [png(0), b"\xff\xd8\xff".to_vec(), b"<svg/>".to_vec(), b"BM".to_vec(), Vec::new()] {
        assert_eq!(read(bad), Err(Unseen::NoImage));
    }
    assert_eq!(decode("no base64"), Err(Unseen::NoImage));
}

#[test]
fn an_edit_sends_the_same_file_under_another_id() {
    let of = |id: &str| {
        let own = json!({"fileUniqueId": "u"});
        Part::file("image/jpeg", None, format!("telegram:{id}"), ("telegram", &own))
    };
    assert_eq!(identity(&of("a")), identity(&of("b")));
    let bare = telegram("image/jpeg", &json!({}));
    assert_eq!(identity(&bare), "telegram:f");
}

#[test]
fn a_small_window_has_few_images() {
    for (window, most) in [(0, 0), (3_199, 0), (3_200, 1), (9_600, 3), (64_000, 20), (u32::MAX, 20)] {
        assert_eq!(most_images(window), most, "{window}");
    }
}

#[test]
fn a_note_differs_from_text_of_the_model() {
    assert!(is_note(&note("x".into())) && !is_note(&Part::text("x")));
}
