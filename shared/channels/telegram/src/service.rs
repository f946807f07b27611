//! Service messages: events in a chat, as lines that a model can read.

use annals_channel::json::JsonView;
use serde_json::Value;

use super::readable;

/// Fields that make a message a service message, and their meaning in words.
///
/// Source: [`Message`](https://core.telegram.org/bots/api#message), from `new_chat_members` on.
const EVENTS: &[(&str, &str)] = &[
    ("new_chat_members", "joined the chat"),
    ("new_chat_member", "joined the chat"),
    ("new_chat_participant", "joined the chat"),
    ("left_chat_member", "left the chat"),
    ("left_chat_participant", "left the chat"),
    ("chat_owner_left", "the owner left the chat"),
    ("chat_owner_changed", "the chat has a new owner"),
    ("new_chat_title", "new chat title"),
    ("new_chat_photo", "new chat photo"),
    ("delete_chat_photo", "chat photo deleted"),
    ("group_chat_created", "group created"),
    ("supergroup_chat_created", "supergroup created"),
    ("channel_chat_created", "channel created"),
    ("message_auto_delete_timer_changed", "automatic deletion of messages changed"),
    ("migrate_to_chat_id", "the group became a supergroup"),
    ("migrate_from_chat_id", "the supergroup was made of a group"),
    ("pinned_message", "message pinned"),
    ("successful_payment", "payment received"),
    ("refunded_payment", "payment refunded"),
    ("users_shared", "users shared"),
    ("user_shared", "user shared"),
    ("chat_shared", "chat shared"),
    ("gift", "gift"),
    ("unique_gift", "unique gift"),
    ("gift_upgrade_sent", "gift upgraded"),
    ("connected_website", "logged in on a website"),
    ("write_access_allowed", "allowed the bot to write"),
    ("passport_data", "passport data shared"),
    ("proximity_alert_triggered", "proximity alert"),
    ("boost_added", "chat boosted"),
    ("chat_background_set", "chat background set"),
    ("checklist_tasks_done", "checklist tasks marked"),
    ("checklist_tasks_added", "checklist tasks added"),
    ("community_chat_added", "chat added to a community"),
    ("community_chat_removed", "chat removed from a community"),
    ("direct_message_price_changed", "price of direct messages changed"),
    ("paid_message_price_changed", "price of messages changed"),
    ("forum_topic_created", "topic created"),
    ("forum_topic_edited", "topic edited"),
    ("forum_topic_closed", "topic closed"),
    ("forum_topic_reopened", "topic reopened"),
    ("general_forum_topic_hidden", "General topic hidden"),
    ("general_forum_topic_unhidden", "General topic shown again"),
    ("giveaway_created", "giveaway created"),
    ("giveaway_completed", "giveaway completed"),
    ("managed_bot_created", "bot created"),
    ("poll_option_added", "poll option added"),
    ("poll_option_deleted", "poll option deleted"),
    ("suggested_post_approved", "suggested post approved"),
    ("suggested_post_approval_failed", "approval of a suggested post failed"),
    ("suggested_post_declined", "suggested post declined"),
    ("suggested_post_paid", "suggested post paid"),
    ("suggested_post_refunded", "suggested post refunded"),
    ("video_chat_scheduled", "video chat scheduled"),
    ("video_chat_started", "video chat started"),
    ("video_chat_ended", "video chat ended"),
    ("video_chat_participants_invited", "invited to the video chat"),
    ("voice_chat_scheduled", "voice chat scheduled"),
    ("voice_chat_started", "voice chat started"),
    ("voice_chat_ended", "voice chat ended"),
    ("voice_chat_participants_invited", "invited to the voice chat"),
];

/// Older names of a field, which Telegram sends in addition.
const ALIASES: &[(&str, &str)] = &[
    ("new_chat_member", "new_chat_members"),
    ("new_chat_participant", "new_chat_members"),
    ("left_chat_participant", "left_chat_member"),
    ("user_shared", "users_shared"),
];

/// Fields of a replied-to message that make it a topic's own service message.
///
/// Telegram sets that message as `reply_to_message` of each message in a topic that replies to nothing.
const TOPIC_EVENTS: &[&str] =
    &["forum_topic_created", "forum_topic_edited", "forum_topic_closed", "forum_topic_reopened"];

/// Returns one line for each event in `message`; none if it is not a service message.
pub(super) fn lines(message: JsonView<'_>) -> Vec<String> {
    let is_repeated = |field: &str| {
        ALIASES.iter().any(|(old, new)| *old == field && message.has(new))
            || (field == "new_chat_member" && message.has("new_chat_participant"))
    };
    EVENTS
        .iter()
        .filter(|(field, _)| !is_repeated(field))
        .filter_map(|(field, meaning)| message.raw(field).map(|value| line(field, meaning, value)))
        .collect()
}

/// Returns true if `field` makes a message a service message.
pub(super) fn is_event(field: &str) -> bool {
    EVENTS.iter().any(|(event, _)| *event == field)
}

/// Returns true if `message` is a service message about a topic.
pub(super) fn is_topic_event(message: JsonView<'_>) -> bool {
    TOPIC_EVENTS.iter().any(|field| message.has(field))
}

fn line(field: &str, meaning: &str, value: &Value) -> String {
    let mut details = readable::strings(value);
    if let (true, Some(payment)) = (field.ends_with("_payment"), JsonView::of(value))
        && let (Some(amount), Some(currency)) = (payment.scalar("total_amount"), payment.text("currency"))
    {
        details.insert(0, format!("{amount} {currency} in its smallest unit"));
    }
    if details.is_empty() { format!("[{meaning}]") } else { format!("[{meaning}: {}]", details.join(", ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(message: &Value, wanted: &[&str]) {
        assert_eq!(lines(JsonView::of(message).unwrap()), wanted, "{message}");
    }

    #[test]
    fn events_become_lines() {
        let ada = json!({"id": 1, "is_bot": false, "first_name": "Ada", "last_name": "L"});
        let bob = json!({"id": 2, "is_bot": false, "first_name": "Bob"});
        check(&json!({"new_chat_members": [ada, bob]}), &["[joined the chat: Ada L, Bob]"]);
        check(
            &json!({"new_chat_participant": bob, "new_chat_member": bob, "new_chat_members": [bob]}),
            &["[joined the chat: Bob]"],
        );
        check(&json!({"left_chat_participant": bob, "left_chat_member": bob}), &["[left the chat: Bob]"]);
        check(&json!({"new_chat_title": "Plans"}), &["[new chat title: Plans]"]);
        check(&json!({"group_chat_created": true, "delete_chat_photo": false}), &["[group created]"]);
        check(&json!({"video_chat_ended": {"duration": 257}}), &["[video chat ended: duration 257]"]);
        check(&json!({"forum_topic_created": {"name": "Bugs", "icon_color": 1}}), &["[topic created: Bugs]"]);
        check(
            &json!({"pinned_message": {"message_id": 1, "chat": {"title": "G"}, "text": "read me", "reply_markup": {"x": {"text": "b"}}}}),
            &["[message pinned: read me]"],
        );
        check(
            &json!({"successful_payment": {"currency": "EUR", "total_amount": 4200, "invoice_payload": "p"}}),
            &["[payment received: 4200 EUR in its smallest unit]"],
        );
        check(&json!({"text": "hello"}), &[]);
    }
}
