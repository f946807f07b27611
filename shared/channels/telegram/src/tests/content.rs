//! Tests of content and metadata, part by part.

use annals_core::message::Role;
use annals_core::record::{Kind, Record};
use annals_core::testing::stored;

use super::*;
use crate::address::Address;

fn check(fields: Value, kind: Kind, wanted: &str) {
    let draft = draft("message", &private(fields));
    assert_eq!((shown(&draft).as_str(), draft.kind), (wanted, kind));
    assert_eq!(draft.role, Role::User);
}

#[test]
fn content_becomes_readable_parts() {
    let said = |fields: Value, wanted: &str| check(fields, Kind::Normal, wanted);
    said(json!({"text": " verbatim\n*this* "}), " verbatim\n*this* ");
    said(json!({"dice": {"emoji": "🎲", "value": 2}}), "[dice 🎲: 2]");
    said(
        json!({"sticker": {"emoji": "👌", "set_name": "HotCherry", "is_animated": true}}),
        "[sticker 👌 from HotCherry]",
    );
    said(json!({"location": {"latitude": 0.004_822, "longitude": -1.5}}), "[location: 0.004822, -1.5]");
    said(json!({"location": {"latitude": 1, "longitude": 2, "live_period": 60}}), "[live location: 1, 2]");
    said(
        json!({"contact": {"phone_number": 123_456, "first_name": "Ops", "last_name": "D", "vcard": "BEGIN:VCARD"}}),
        "[contact: Ops D, 123456]\nBEGIN:VCARD",
    );
    said(
        json!({"poll": {"question": "Q", "options": [{"text": "A"}, {"text": "B"}]}}),
        "[poll]\nQ\n- A\n- B",
    );
    said(json!({"story": {"chat": {"id": 1, "title": "Spin"}, "id": 2}}), "[story of Spin]");
    said(
        json!({"web_app_data": {"data": "{\"a\":1}", "button_text": "Order"}}),
        "[web app data, button \"Order\"]\n{\"a\":1}",
    );
    said(
        json!({"invoice": {"title": "T", "description": "D", "currency": "EUR", "total_amount": 100}}),
        "[invoice: 100 EUR in its smallest unit]\nT\nD",
    );
    said(
        json!({"giveaway": {"chats": [{"id": 1, "title": "Test"}], "winner_count": 1}}),
        "[giveaway: Test, winner count 1]",
    );
    said(
        json!({"rich_message": {"blocks": [{"text": "Test"}, {"photo": [{"file_id": "p", "width": 1}]}]}}),
        "Test\nphoto image/jpeg - telegram:p",
    );
}

#[test]
fn media_are_files() {
    let said = |fields: Value, wanted: &str| check(fields, Kind::Normal, wanted);
    said(
        json!({"document": {"file_id": "d", "file_name": "a.txt", "mime_type": "text/plain"}, "caption": "c"}),
        "c\ndocument text/plain a.txt telegram:d",
    );
    said(json!({"document": {"file_id": "d"}}), "document application/octet-stream - telegram:d");
    said(
        json!({"audio": {"file_id": "a", "performer": "P", "title": "T"}}),
        "audio audio/mpeg P - T telegram:a",
    );
    said(json!({"voice": {"file_id": "v"}}), "voice audio/ogg - telegram:v");
    said(
        json!({"video_note": {"file_id": "v", "thumbnail": {"file_id": "t"}}}),
        "video_note video/mp4 - telegram:v",
    );
    said(json!({"sticker": {"file_id": "s"}}), "[sticker]\nsticker image/webp - telegram:s");
    said(
        json!({"sticker": {"file_id": "s", "is_animated": true}}),
        "[sticker]\nsticker application/x-tgsticker - telegram:s",
    );
    said(
        json!({"live_photo": {"file_id": "l", "width": 1, "duration": 3, "photo": [{"file_id": "p", "width": 1}, {"file_id": "q", "width": 2, "height": 1}]}}),
        "live_photo video/mp4 - telegram:l\nphoto image/jpeg - telegram:q",
    );
    said(
        json!({"paid_media": {"star_count": 5, "paid_media": [{"type": "photo", "photo": [{"file_id": "p", "width": 1}]}, {"type": "video", "video": {"file_id": "v"}}, {"type": "preview", "width": 1}]}}),
        "[paid media: 5 stars]\nphoto image/jpeg - telegram:p\nvideo video/mp4 - telegram:v",
    );
    said(
        json!({"game": {"title": "T", "description": "D", "photo": [{"file_id": "p", "width": 1}]}}),
        "[game]\nT\nD\nphoto image/jpeg - telegram:p",
    );
    // A medium without its file is still mentioned.
    said(json!({"photo": []}), "[photo]");
    let part =
        draft("message", &private(json!({"video": {"file_id": "v", "file_unique_id": "u", "file_size": 9}})))
            .parts;
    assert_eq!(
        part[0].as_map()["providerMetadata"]["telegram"],
        json!({"fileId": "v", "fileUniqueId": "u", "size": 9, "kind": "video"})
    );
}

#[test]
fn unknown_fields_are_named_and_their_text_kept() {
    check(json!({}), Kind::Event, "[empty message]");
    check(json!({"text": ""}), Kind::Event, "[empty message]");
    check(json!({"hologram": {"depth": 3}}), Kind::Event, "[unsupported message: hologram]");
    check(
        json!({"hologram": {"title": "T", "layers": [{"caption": "C"}], "file_id": "h", "mime_type": "model/x"}}),
        Kind::Normal,
        "[hologram]\nT\nC\nhologram model/x - telegram:h",
    );
    check(json!({"hologram": {"title": "T"}}), Kind::Normal, "[unsupported message: hologram]\nT");
    check(json!({"text": "x", "hologram": {"text": "y"}}), Kind::Normal, "x\n[hologram]\ny");
    check(json!({"text": "x", "hologram": {"title": "not said"}}), Kind::Normal, "x");
    // Known fields of another type.
    check(json!({"text": 5}), Kind::Event, "[unsupported message: text]");
    check(json!({"poll": true}), Kind::Event, "[unsupported message: poll]");
    check(json!({"pinned_message": true}), Kind::Event, "[message pinned]");
    check(
        json!({"new_chat_photo": [{"file_id": "p", "width": 1}]}),
        Kind::Event,
        "[new chat photo]\nphoto image/jpeg - telegram:p",
    );
}

#[test]
fn metadata_has_the_sender_the_chat_and_the_replied_to_message() {
    let check = |message: Value, wanted: Value| {
        assert_eq!(Value::Object(draft("message", &message).metadata), wanted, "{message}");
    };
    check(private(json!({"text": "x"})), json!({"senderName": "Ada", "chatType": "private"}));
    check(
        group(
            json!({"text": "x", "from": {"id": 1, "is_bot": true, "first_name": "W", "username": "w_bot"}, "via_bot": {"id": 2, "username": "gif"}}),
        ),
        json!({"senderName": "W", "senderUsername": "w_bot", "senderIsBot": true, "chatType": "supergroup", "viaBot": "gif"}),
    );
    check(
        group(
            json!({"text": "x", "from": {"id": 1_087_968_824, "is_bot": true, "first_name": "Group"}, "sender_chat": {"id": -1001, "title": "G"}, "author_signature": "boss"}),
        ),
        json!({"senderName": "G", "signature": "boss", "chatType": "supergroup"}),
    );
    check(
        group(
            json!({"text": "x", "reply_to_message": {"message_id": 4, "from": {"id": 7_000_001, "is_bot": true, "first_name": "Annals"}, "text": "é".repeat(201)}, "quote": {"text": "é"}}),
        ),
        json!({"senderName": "Ada", "chatType": "supergroup", "replyTo": {"messageId": "4", "text": format!("{}…", "é".repeat(200)), "senderName": "Annals", "fromBot": true, "quote": "é"}}),
    );
    check(
        private(
            json!({"text": "x", "external_reply": {"origin": {"type": "channel", "chat": {"id": -1003, "title": "VPN"}}, "chat": {"id": -1003, "title": "VPN"}, "message_id": 10, "poll": {"question": "Q?"}}, "quote": {"text": "q"}}),
        ),
        json!({"senderName": "Ada", "chatType": "private", "replyTo": {"messageId": "10", "chatId": "-1003", "senderName": "VPN", "text": "Q?", "quote": "q"}}),
    );
    check(
        private(
            json!({"text": "x", "forward_origin": {"type": "channel", "chat": {"id": -1003, "title": "News"}, "message_id": 9, "date": 2}}),
        ),
        json!({"senderName": "Ada", "chatType": "private", "forward": {"from": "News", "chatId": "-1003", "messageId": "9", "date": 2000}}),
    );
    check(
        private(json!({"text": "x", "forward_from": {"id": 3, "first_name": "Bo"}, "forward_date": 2})),
        json!({"senderName": "Ada", "chatType": "private", "forward": {"from": "Bo", "date": 2000}}),
    );
    check(
        private(
            json!({"text": "👉 here", "entities": [{"type": "text_link", "offset": 3, "length": 4, "url": "https://example.com"}]}),
        ),
        json!({"senderName": "Ada", "chatType": "private", "links": [{"text": "here", "url": "https://example.com"}]}),
    );
}

#[test]
fn a_missing_chat_type_is_inferred() {
    let check = |kind: &str, chat: Value, wanted: &str| {
        let message = json!({"message_id": 1, "date": 1, "text": "x", "chat": chat});
        assert_eq!(draft(kind, &message).metadata["chatType"], wanted, "{message}");
    };
    check("message", json!({"id": 1}), "private");
    check("message", json!({"id": -1, "type": ""}), "group");
    check("channel_post", json!({"id": 1, "type": "chat"}), "channel");
    check("channel_post", json!({"id": -1, "type": "supergroup"}), "supergroup");
}

#[test]
fn an_album_is_named() {
    assert_eq!(
        draft("message", &private(json!({"photo": [], "media_group_id": "138"}))).album.as_deref(),
        Some("138")
    );
    assert_eq!(draft("message", &private(json!({"photo": []}))).album, None);
}

#[test]
fn the_address_of_a_reply_is_read_from_the_record() {
    let address = |kind: &str, message: Value| Address::of(&stored(&draft(kind, &message)));
    let plain = |chat_id, reply_to| Address {
        chat_id,
        thread_id: None,
        reply_to,
        business_connection_id: None,
        direct_messages_topic_id: None,
    };
    assert_eq!(address("message", private(json!({"text": "x"}))), Some(plain(11, Some(5))));
    assert_eq!(address("message", private(json!({"text": "x", "message_id": 0}))), Some(plain(11, None)));
    assert_eq!(
        address("message", group(json!({"text": "x", "message_thread_id": 17, "is_topic_message": true}))),
        Some(Address { thread_id: Some(17), ..plain(-1001, Some(5)) })
    );
    for general in
        [json!({"message_thread_id": 1, "is_topic_message": true}), json!({"message_thread_id": 17})]
    {
        assert_eq!(address("message", group(general)), Some(plain(-1001, Some(5))));
    }
    assert_eq!(
        address("message", group(json!({"text": "x", "direct_messages_topic": {"topic_id": 88}}))),
        Some(Address { direct_messages_topic_id: Some(88), ..plain(-1001, Some(5)) })
    );
    assert_eq!(
        address("business_message", private(json!({"text": "x", "business_connection_id": "bc"}))),
        Some(Address { business_connection_id: Some("bc".into()), ..plain(11, Some(5)) })
    );
    let guest = draft("guest_message", &group(json!({"text": "x", "guest_query_id": "gq"})));
    assert_eq!(guest.metadata["telegram"], json!({"guestQueryId": "gq"}));
    let elsewhere = Record { chat_id: "oc_1".into(), ..stored(&guest) };
    assert_eq!(Address::of(&elsewhere), None);
}
