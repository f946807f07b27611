//! Tests of messages from the API: they give the same records as their events.

use annals_core::record::{Kind, Record};
use annals_core::sort_key::Timestamp;
use annals_core::testing::{as_kind, stored};

use super::*;
use crate::listed::{from_listed, is_merge_forward, with_children, with_parent};
use crate::parse::places;
use annals_channel::webhook::withdrawn;

/// Builds the API's item for the message of `event`.
fn item_of(message: &Value, sender: &Value) -> Value {
    let mentions: Vec<Value> = message["mentions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|mention| json!({"key": mention["key"], "id": mention["id"]["open_id"], "id_type": "open_id", "name": mention["name"]}))
        .collect();
    let mut item = message.clone();
    for (from, to) in [("message_type", "msg_type"), ("content", "body"), ("chat_type", "")] {
        let value = item.as_object_mut().unwrap().remove(from);
        match (value, to) {
            (Some(content), "body") => item["body"] = json!({ "content": content }),
            (Some(value), to) if !to.is_empty() => item[to] = value,
            _ => {}
        }
    }
    with(item, json!({"mentions": mentions, "sender": sender, "deleted": false, "updated": false}))
}

fn ada() -> Value {
    json!({"id": "ou_ada", "id_type": "open_id", "sender_type": "user", "tenant_key": "k"})
}

/// Returns the message around which the list is fetched.
fn beside(fields: Value) -> Draft {
    draft(group(with(with(mentioning("@_user_1 so?"), json!({"message_id": "om_9"})), fields)))
}

fn listed(item: &Value, beside: &Draft) -> Option<Draft> {
    from_listed(item, beside, &bot())
}

#[test]
fn an_item_gives_the_record_of_its_event() {
    let post = json!({"title": "T", "content": [[{"tag": "at", "user_id": "@_user_2"}, {"tag": "img", "image_key": "i"}]]});
    let bo = json!({"mentions": [{"key": "@_user_2", "id": {"open_id": "ou_bo"}, "name": "Bo"}]});
    for fields in [
        text("hi"),
        with(text("hi @_user_2"), bo.clone()),
        with(bo, of_type("post", &post)),
        of_type("file", &json!({"file_key": "f", "file_name": "a.txt"})),
        of_type("system", &json!({"template": "x"})),
        of_type("merge_forward", &json!({"content": "Merged"})),
        with(text("hi"), json!({"parent_id": "om_1", "root_id": "om_1"})),
        with(text("hi"), json!({"update_time": "1764057700000"})),
        with(text("hi"), json!({"update_time": null})),
        json!({"content": "broken"}),
    ] {
        let message = group(fields);
        let found = listed(&item_of(&message, &ada()), &beside(json!({})));
        assert_eq!(found, Some(draft(message).asking(false)));
    }
    let topic =
        group(with(text("hi"), json!({"thread_id": "omt_1", "root_id": "om_1", "parent_id": "om_1"})));
    let found = listed(&item_of(&topic, &ada()), &beside(json!({"thread_id": "omt_1"})));
    assert_eq!(found, Some(draft(topic).asking(false)));
}

#[test]
fn items_that_belong_elsewhere_or_arrive_as_events_are_left_out() {
    let check = |fields: Value, sender: Value, beside: &Draft, wanted: bool| {
        let item = item_of(&group(with(text("hi"), fields)), &sender);
        assert_eq!(listed(&item, beside).is_some(), wanted, "{item}");
    };
    let (window, thread) = (beside(json!({})), beside(json!({"thread_id": "omt_1"})));
    check(json!({}), ada(), &window, true);
    check(json!({"chat_id": "oc_other"}), ada(), &window, false);
    check(json!({"message_id": "om_9"}), ada(), &window, false);
    check(json!({"message_id": ""}), ada(), &window, false);
    // The bot's own messages are in the history already, under either id; another bot's are context.
    check(json!({}), json!({"id": "cli_annals", "id_type": "app_id", "sender_type": "app"}), &window, false);
    check(json!({}), json!({"id": "ou_annals"}), &window, false);
    check(json!({}), json!({"id": "cli_weather", "id_type": "app_id", "sender_type": "app"}), &window, true);
    // Messages that ask, and commands, arrive as events.
    check(mentioning("@_user_1 hi"), ada(), &window, false);
    check(mentioning("/new"), ada(), &window, false);
    check(mentioning("@_user_2 hi"), ada(), &window, false);
    check(text("/reset"), ada(), &window, false);
    check(text("/weather"), ada(), &window, true);
    // Threads.
    check(json!({}), ada(), &thread, false);
    check(json!({"thread_id": "omt_1"}), ada(), &thread, true);
    check(json!({"thread_id": "omt_2"}), ada(), &thread, false);
    check(json!({"thread_id": "omt_1"}), ada(), &window, true);
    check(json!({"thread_id": "omt_1", "root_id": "om_5"}), ada(), &window, true);
    check(json!({"thread_id": "omt_1", "root_id": "om_1", "parent_id": "om_1"}), ada(), &window, false);

    let mut gone = item_of(&group(text("hi")), &ada());
    gone["deleted"] = json!(true);
    assert_eq!(listed(&gone, &window), None);
    assert_eq!(listed(&item_of(&p2p(text("hi")), &ada()), &draft(p2p(json!({"message_id": "om_9"})))), None);
    for no_item in [json!([]), json!({}), json!(null), json!({"message_id": "om_1"})] {
        assert_eq!(listed(&no_item, &window), None);
    }
}

#[test]
fn a_thread_that_is_opened_later_moves_no_message() {
    let message = group(text("hi"));
    let item = item_of(&with(message.clone(), json!({"thread_id": "omt_1"})), &ada());
    assert_eq!(listed(&item, &beside(json!({}))), Some(draft(message).asking(false)));
    let in_thread = listed(&item, &beside(json!({"thread_id": "omt_1"}))).unwrap();
    assert_eq!(in_thread.chat.to_string(), "lark:chat:oc_group:thread:omt_1");
}

#[test]
fn forwarded_messages_become_lines() {
    let forward = draft(p2p(of_type("merge_forward", &json!({"content": "Merged"}))));
    let child = |id: &str, upper: &str, at: i64, kind: &str, content: Value| {
        json!({"message_id": id, "chat_id": "oc_x", "upper_message_id": upper, "create_time": at.to_string(), "msg_type": kind,
               "sender": {"id": "ou_bo", "id_type": "open_id", "sender_type": "user"}, "body": {"content": content.to_string()}})
    };
    let items = [
        json!({"message_id": "om_5", "chat_id": "oc_ada", "msg_type": "merge_forward"}),
        child("om_c", "om_5", 1_764_057_503_000, "image", json!({"image_key": "i"})),
        child("om_b", "om_5", 1_764_057_502_000, "merge_forward", json!({"content": "Merged"})),
        child("om_b2", "om_b", 1_764_057_500_000, "file", json!({"file_key": "f", "file_name": "a.pdf"})),
        child("om_a", "om_5", 1_764_057_501_000, "text", json!({"text": "one\ntwo"})),
        child("om_z", "om_elsewhere", 1_764_057_501_000, "text", json!({"text": "not this"})),
        json!("nor this"),
    ];
    assert!(is_merge_forward(&items[0]) && !is_merge_forward(&items[1]));
    let full = with_children(forward.clone(), &items);
    let wanted = "[forwarded messages]\n\
        2025-11-25T07:58:21Z ou_bo: one\n  two\n\
        2025-11-25T07:58:22Z ou_bo: [forwarded messages]\n\
        \x20 2025-11-25T07:58:20Z ou_bo: [file: a.pdf]\n\
        2025-11-25T07:58:23Z ou_bo: [image]";
    assert_eq!(shown(&full), wanted);
    assert_eq!((full.key(), full.asks), (forward.key(), true));
    assert!(full.form_ts > forward.form_ts);
    assert_eq!(with_children(forward.clone(), &[]), forward);
    // Messages that contain each other.
    let circle = [
        child("om_1", "om_5", 1, "merge_forward", json!({})),
        child("om_5", "om_1", 2, "merge_forward", json!({})),
        child("om_5", "om_5", 3, "text", json!({"text": "itself"})),
    ];
    assert!(with_children(forward, &circle).parts.len() == 1);
}

#[test]
fn a_replied_to_message_is_read_with_what_it_forwards_unless_it_was_recalled() {
    let reply = draft(p2p(with(text("so?"), json!({"parent_id": "om_4", "root_id": "om_4"}))));
    let item = |id: &str, kind: &str, content: Value| {
        json!({"message_id": id, "chat_id": "oc_ada", "msg_type": kind, "sender": ada(),
               "body": {"content": content.to_string()}})
    };
    let parent = item("om_4", "merge_forward", json!({}));
    let child = with(item("om_a", "text", json!({"text": "one"})), json!({"upper_message_id": "om_4"}));
    let full = with_parent(reply.clone(), &[parent.clone(), child], &bot());
    let wanted = json!({"messageId": "om_4", "text": "[forwarded messages]\nou_ada: one"});
    assert_eq!(json!(full.metadata)["replyTo"], wanted);
    assert_eq!(full.parts, reply.parts);
    let recalled = with(parent, json!({"deleted": true}));
    assert_eq!(with_parent(reply.clone(), &[recalled], &bot()), reply);
}

#[test]
fn a_recalled_message_is_found_and_gets_a_new_form() {
    let user = Settings { dm_scope: DmScope::User, ..settings() };
    let gone = json!({"message_id": "om_5", "chat_id": "oc_ada", "create_time": "1764057600000", "deleted": true,
        "msg_type": "text", "sender": ada(), "body": {"content": "This message was recalled"}});
    let original = draft(p2p(text("secret")));
    let names = |chats: Vec<annals_core::chat_key::ChatKey>| {
        chats.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (base, chats) = places(&gone, &settings()).unwrap();
    assert_eq!((base, names(chats)), (original.key(), vec!["lark:chat:oc_ada".to_owned()]));
    let (_, chats) = places(&with(gone.clone(), json!({"thread_id": "omt_1"})), &user).unwrap();
    assert_eq!(
        names(chats),
        ["lark:chat:oc_ada:thread:omt_1", "lark:chat:oc_ada", "agent:annals:user:lark-ou_ada"]
    );
    let of_bot = with(
        gone.clone(),
        json!({"sender": {"id": "cli_weather", "id_type": "app_id", "sender_type": "app"}}),
    );
    assert_eq!(names(places(&of_bot, &user).unwrap().1), ["lark:chat:oc_ada"]);
    assert_eq!(places(&with(gone, json!({"create_time": null})), &settings()), None);

    let at = Timestamp::from_millis(1_764_057_700_000).unwrap();
    let recalled = |record: &Record, at| withdrawn(record, Some(at), "[message recalled]");
    let later = recalled(&stored(&original), at).unwrap();
    assert_eq!((shown(&later).as_str(), later.asks, later.form_ts), ("[message recalled]", false, Some(at)));
    assert_eq!(
        (later.key(), &later.chat, &later.user_id),
        (original.key(), &original.chat, &original.user_id)
    );
    assert_eq!(json!(later.metadata), json!({"chatType": "private", "recalled": true}));
    // A boundary has no text; the message after it has.
    let boundary = as_kind(stored(&original), Kind::Boundary);
    assert_eq!(recalled(&boundary, at), None);
    let opening = Draft { opens_session: true, ..original };
    assert!(recalled(&stored(&opening), at).unwrap().opens_session);
}
