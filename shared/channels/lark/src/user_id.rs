//! Ids of Lark users: [`user_ids`].

use annals_channel::json::JsonView;

/// Returns the ids in a `UserId`, first the `open_id`, which is always present.
pub(super) fn user_ids(ids: JsonView<'_>) -> Vec<&str> {
    ["open_id", "user_id", "union_id"].into_iter().filter_map(|name| ids.id(name)).collect()
}
