//! Permissions of the bot in the channels of a guild: [`can_read`].
//!
//! Source: <https://discord.com/developers/docs/topics/permissions#permission-overwrites>.

use crate::event::{Channel, Guild, Overwrite};

const ADMINISTRATOR: u64 = 1 << 3;
const VIEW_CHANNEL: u64 = 1 << 10;
const CONNECT: u64 = 1 << 20;
/// Types of channels that nobody reads without [`CONNECT`]: voice and stage.
const VOICE: [u8; 2] = [2, 13];
/// Types of threads, which have the overwrites of their channel.
const THREADS: [u8; 3] = [10, 11, 12];

/// Returns true if the bot may read the messages of `channel`, or if `guild` does not tell.
pub(crate) fn can_read(guild: &Guild, channel: &Channel, bot_id: &str) -> bool {
    let Some(bot) = guild.members.iter().find(|member| member.user.id == bot_id) else { return true };
    let everybody = guild.id.to_string();
    let has_role = |id: &String| bot.roles.contains(id);
    let roles = guild.roles.iter().filter(|role| role.id == everybody || has_role(&role.id));
    let all = roles.fold(0, |all, role| all | role.permissions);
    if all & ADMINISTRATOR != 0 {
        return true;
    }
    let parent = channel.parent_id.as_ref().filter(|_| THREADS.contains(&channel.kind));
    let parent = parent.and_then(|id| guild.channels.iter().find(|channel| channel.id == *id));
    let overwrites = &parent.unwrap_or(channel).permission_overwrites;
    let after = |before: u64, concerns: &dyn Fn(&Overwrite) -> bool| {
        let own = overwrites.iter().filter(|overwrite| concerns(overwrite));
        let (allow, deny) = own.fold((0, 0), |(allow, deny), own| (allow | own.allow, deny | own.deny));
        before & !deny | allow
    };
    let all = after(all, &|own| own.id == everybody);
    let all = after(all, &|own| has_role(&own.id));
    let all = after(all, &|own| own.id == bot_id);
    let needed = if VOICE.contains(&channel.kind) { VIEW_CHANNEL | CONNECT } else { VIEW_CHANNEL };
    all & needed == needed
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const VIEW: &str = "1024";

    /// Checks if the bot `9`, which has the role `2`, reads the channel `7` of the guild `1`.
    fn check(everybody: &str, overwrites: &Value, expect: bool) {
        let guild = json!({"id": "1",
            "roles": [{"id": "1", "permissions": everybody}, {"id": "2", "permissions": "0"}, {"id": "3", "permissions": "8"}],
            "members": [{"user": {"id": "9"}, "roles": ["2"]}],
            "channels": [{"id": "7", "type": 0, "permission_overwrites": overwrites}],
            "threads": [{"id": "8", "type": 11, "parent_id": "7"}]});
        let guild: Guild = serde_json::from_value(guild).unwrap();
        for channel in guild.channels.iter().chain(&guild.threads) {
            assert_eq!(can_read(&guild, channel, "9"), expect, "{channel:?}");
        }
        assert!(can_read(&guild, &guild.channels[0], "10"), "a member that the guild does not list");
    }

    #[test]
    fn overwrites_of_everybody_of_roles_and_of_the_bot_hold_in_this_order() {
        let overwrite =
            |id: &str, allow: &str, deny: &str| json!({"id": id, "type": 0, "allow": allow, "deny": deny});
        check(VIEW, &json!([]), true);
        check("0", &json!([]), false);
        check("8", &json!([overwrite("9", "0", VIEW)]), true);
        check(VIEW, &json!([overwrite("1", "0", VIEW)]), false);
        check(VIEW, &json!([overwrite("2", VIEW, "0"), overwrite("1", "0", VIEW)]), true);
        check(VIEW, &json!([overwrite("9", "0", VIEW), overwrite("2", VIEW, "0")]), false);
        check(VIEW, &json!([overwrite("3", "0", VIEW)]), true);
    }
}
