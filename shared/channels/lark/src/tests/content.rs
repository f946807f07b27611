//! Tests of the content of each message type.

use super::*;

fn check(kind: &str, content: &Value, wanted: &str) {
    assert_eq!(shown(&draft(p2p(of_type(kind, content)))), wanted, "{kind} {content}");
}

#[test]
fn texts() {
    let check = |fields: Value, wanted: &str| assert_eq!(shown(&draft(p2p(fields))), wanted);
    check(text(" hi\n[docs](https://x) "), " hi\n[docs](https://x) ");
    check(mentioning("@_user_1 ask @_user_2 and @_user_20, @_all"), "@Annals ask @Bo and @_user_20, @all");
    check(text("@_all 大家好"), "@all 大家好");
    check(json!({"content": "not-json"}), "not-json");
    check(json!({"content": "42"}), "42");
    check(json!({"content": "[1, 2]"}), "[1, 2]");
    check(json!({"content": {"text": "an object itself"}}), "an object itself");
    check(json!({"message_type": null, "content": "{\"text\": \"of no type\"}"}), "of no type");
    check(json!({"message_type": null}), "[message]");
    check(text(""), "[text]");
    check(json!({"content": null}), "[text]");
    check(json!({"message_type": "image", "content": "broken {"}), "[image]\nbroken {");
}

#[test]
fn posts() {
    let content = json!([
        [{"tag": "text", "text": "see "}, {"tag": "a", "text": "this", "href": "https://x/y"}, {"tag": "text", "text": ", "},
         {"tag": "at", "user_id": "@_user_2"}, {"tag": "at", "user_id": "ou_bo"}, {"tag": "at", "user_id": "all"},
         {"tag": "at", "user_id": "ou_z", "user_name": "Zoe"}, {"tag": "at", "user_id": "ou_y"}],
        [{"tag": "img", "image_key": "img_1"}],
        [{"tag": "emotion", "emoji_type": "SMILE"}, {"tag": "hr"}, {"tag": "hologram", "text": "later"}],
        [{"tag": "code_block", "language": "GO", "text": "x := 1\n"}],
        [{"tag": "media", "file_key": "file_1", "image_key": "img_2"}, {"tag": "text", "text": "tail"}],
    ]);
    let wanted = "Plans\nsee [this](https://x/y), @Bo@Bo@all@Zoe@ou_y\n\
        image image/* - lark:om_5/img_1\n\
        [SMILE]---later\n```go\nx := 1\n```\n\
        file video/mp4 - lark:om_5/file_1\n\
        tail";
    for body in [
        json!({"title": "Plans", "content": content}),
        json!({"en_us": {"title": "Plans", "content": content}}),
        json!({"post": {"zh_cn": {"title": "Plans", "content": content}, "en_us": {"title": "no", "content": []}}}),
        json!({"fr_fr": {"title": "Plans", "content": content}}),
    ] {
        let fields = with(of_type("post", &body), mentions());
        assert_eq!(shown(&draft(p2p(fields))), wanted, "{body}");
    }
    check("post", &json!({"title": "", "content": [[]]}), "[post]");
    check("post", &json!({"title": "only a title"}), "only a title");
    check(
        "post",
        &json!({"title": "", "content": [[{"tag": "img"}, {"tag": "media"}, {"tag": "a", "text": "x"}]]}),
        "[image][video]x",
    );
    check(
        "post",
        &json!({"content": [[{"tag": "a", "text": "https://x", "href": "https://x"}], ["loose"], "words"]}),
        "https://x\nloose\nwords",
    );
    check("post", &json!({"content": "nothing like it"}), "nothing like it");
}

#[test]
fn files() {
    check("image", &json!({"image_key": "img_1"}), "image image/* - lark:om_5/img_1");
    check(
        "file",
        &json!({"file_key": "f", "file_name": "Plan 1.PDF"}),
        "file application/pdf Plan 1.PDF lark:om_5/f",
    );
    check(
        "file",
        &json!({"file_key": "f", "file_name": "data.xyz"}),
        "file application/octet-stream data.xyz lark:om_5/f",
    );
    check("file", &json!({"file_key": "f"}), "file application/octet-stream - lark:om_5/f");
    check("audio", &json!({"file_key": "f", "duration": 2000}), "file audio/ogg - lark:om_5/f");
    check(
        "media",
        &json!({"file_key": "f", "image_key": "i", "file_name": "v.mov", "duration": 9}),
        "file video/quicktime v.mov lark:om_5/f",
    );
    check("sticker", &json!({"file_key": "f"}), "[sticker]");
    check("folder", &json!({"file_key": "f", "file_name": "Photos"}), "[folder: Photos]");
    for (kind, wanted) in
        [("image", "[image]"), ("file", "[file]"), ("audio", "[audio]"), ("media", "[media]")]
    {
        check(kind, &json!({"file_key": 5, "image_key": {}}), wanted);
    }
    let draft = draft(p2p(of_type("audio", &json!({"file_key": "f", "duration": "2000"}))));
    let wanted = json!({"fileKey": "f", "messageId": "om_5", "type": "file", "durationMs": 2000});
    assert_eq!(draft.parts[0].as_map()["providerMetadata"]["lark"], wanted);
}

#[test]
fn cards() {
    let given_back = json!({"title": "Build", "elements": [
        [{"tag": "text", "text": "failed on "}, {"tag": "a", "href": "https://ci", "text": "CI"}],
        [{"tag": "button", "text": "Retry", "type": "primary"}, {"tag": "button", "text": "Skip"}],
        [{"tag": "note", "elements": [{"tag": "img", "image_key": "img_1"}, {"tag": "text", "text": "a note"}]}],
        [{"tag": "select_static", "options": ["One", "Two"], "placeholder": "Choose"}],
        [{"tag": "date_picker", "placeholder": "When", "initial_date": "2021-1-1"}],
    ]});
    let wanted = "[card]\nBuild\nfailed on [CI](https://ci)\n[Retry] [Skip]\n[image]\na note\nOne, Two, Choose\nWhen, 2021-1-1";
    check("interactive", &given_back, wanted);
    let sent = json!({
        "header": {"title": {"tag": "plain_text", "content": "Build"}},
        "elements": [{"tag": "div", "text": {"tag": "lark_md", "content": "**failed**"}}],
    });
    check("interactive", &sent, "[card]\nBuild\n**failed**");
    check("interactive", &json!({"elements": [[]]}), "[interactive]");
    check("interactive", &json!({"type": "template", "data": {"template_id": "x"}}), "[interactive]");
}

#[test]
fn types_without_text_become_a_line() {
    check("share_chat", &json!({"chat_id": "oc_1"}), "[shared group: oc_1]");
    check("share_user", &json!({"user_id": "ou_1"}), "[shared contact: ou_1]");
    check("share_user", &json!({}), "[shared contact]");
    check(
        "location",
        &json!({"name": "Town hall", "longitude": "18.05", "latitude": 59.3}),
        "[location: 59.3, 18.05]\nTown hall",
    );
    check("location", &json!({"name": "Town hall"}), "[location]\nTown hall");
    check("location", &json!({}), "[location]");
    let todo = json!({"task_id": "t", "summary": {"title": "", "content": [[{"tag": "text", "text": "Prune"}]]}, "due_time": "1623124318000"});
    check("todo", &todo, "[task]\nPrune\n[due: 2021-06-08T03:51:58Z]");
    check("todo", &json!({"summary": "Prune"}), "[task]\nPrune");
    check("vote", &json!({"topic": "Which?", "options": ["A", {"text": "B"}]}), "[poll]\nWhich?\n- A\n- B");
    check("hongbao", &json!({"text": "[红包]"}), "[红包]");
    let meeting = json!({"summary": "Review", "topic": "Sync", "start_time": "1608265395000", "end_time": "1608267015000"});
    for kind in ["calendar", "share_calendar_event", "general_calendar"] {
        check(kind, &meeting, "[calendar event: Review]\n2020-12-18T04:23:15Z to 2020-12-18T04:50:15Z");
    }
    check(
        "video_chat",
        &json!({"topic": "Sync", "start_time": "1623124523829"}),
        "[video meeting: Sync]\n2021-06-08T03:55:23Z",
    );
    check("merge_forward", &json!({"content": "Merged and Forwarded Message"}), "[forwarded messages]");
    check(
        "hologram",
        &json!({"title": "Later", "name": "kind", "image_key": "i", "file_key": "f", "file_name": "x.png"}),
        "[hologram]\nLater\nx.png\nkind\nimage image/* - lark:om_5/i\nfile image/png x.png lark:om_5/f",
    );
    check("later_kind", &json!({"id": "not this"}), "[later kind]");
}

#[test]
fn system_messages_are_events() {
    let check = |content: Value, wanted: &str| {
        let draft = draft(group(of_type("system", &content)));
        assert_eq!(
            (shown(&draft).as_str(), draft.kind, draft.asks),
            (wanted, annals_core::record::Kind::Event, false)
        );
    };
    check(
        json!({"template": "{from_user} invited {to_chatters} to this chat.", "from_user": ["Ada"], "to_chatters": ["Bo", "Cy"]}),
        "[Ada invited Bo, Cy to this chat.]",
    );
    check(
        json!({"template": "{divider_text}", "divider_text": {"text": "新会话", "i18n_text": {"en_us": "New"}}}),
        "[新会话]",
    );
    check(json!({"template": "{n} of {missing} {open", "n": 5}), "[5 of  {open]");
    check(json!({"template": "{names}", "names": [{"name": "x", "text": "T"}, 5]}), "[T, ]");
    check(json!({}), "[system]");
}

#[test]
fn content_of_schema_1_is_read_from_the_event() {
    let check = |fields: Value, wanted: &str| {
        let event = json!({"ts": "1764057600.5", "token": "t", "type": "event_callback", "event": with(json!({
            "type": "message", "app_id": "cli_annals", "chat_type": "private", "open_chat_id": "oc_ada",
            "open_message_id": "om_5", "open_id": "ou_ada", "msg_type": "text", "parent_id": "", "root_id": "",
            "user_agent": "not this",
        }), fields)});
        let found = incoming(&event);
        assert_eq!(shown(draft_of(&found).unwrap()), wanted, "{event}");
    };
    check(json!({"text": "<at open_id=\"ou_x\">@Bo</at> hi", "text_without_at_bot": " hi"}), "@Bo hi");
    check(json!({"msg_type": "image", "image_key": "img_1"}), "image image/* - lark:om_5/img_1");
    check(
        json!({"msg_type": "post", "title": "T", "text": "words", "image_keys": ["i1", "i2"]}),
        "T\nwords\nimage image/* - lark:om_5/i1\nimage image/* - lark:om_5/i2",
    );
    check(json!({"msg_type": "file", "file_key": "f"}), "file application/octet-stream - lark:om_5/f");
}
