//! The builder of update expressions.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{self, AttributeValue, ConditionCheck, TransactWriteItem};
use serde::Serialize;

/// An item as the SDK gives it: attribute names and values.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// An update of one item. The value of an attribute `turn` is bound to `:turn`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Update {
    sets: Vec<String>,
    removes: Vec<&'static str>,
    adds: Vec<String>,
    deletes: Vec<String>,
    conditions: Vec<&'static str>,
    values: Item,
}

impl Update {
    /// Sets `attribute` to `value`. Does nothing if that is `None`.
    pub(crate) fn set(mut self, attribute: &str, value: impl Into<Option<AttributeValue>>) -> Self {
        if let Some(value) = value.into() {
            self.sets.push(format!("{attribute} = :{attribute}"));
            self.values.insert(format!(":{attribute}"), value);
        }
        self
    }

    /// Sets `attribute` to `value` if the item has no such attribute. Does nothing if `value` is `None`.
    pub(crate) fn set_if_absent(mut self, attribute: &str, value: impl Into<Option<AttributeValue>>) -> Self {
        if let Some(value) = value.into() {
            self.sets.push(format!("{attribute} = if_not_exists({attribute}, :{attribute})"));
            self.values.insert(format!(":{attribute}"), value);
        }
        self
    }

    /// Adds 1 to the number `attribute`, which starts at 0.
    pub(crate) fn increment(mut self, attribute: &str) -> Self {
        self.sets.push(format!("{attribute} = if_not_exists({attribute}, :zero) + :one"));
        self.bind(":zero", number(0)).bind(":one", number(1))
    }

    /// Adds `value`, a number or a set of strings, to `attribute`, which starts at 0 or empty.
    pub(crate) fn add(mut self, attribute: &str, value: AttributeValue) -> Self {
        self.adds.push(format!("{attribute} :{attribute}"));
        self.values.insert(format!(":{attribute}"), value);
        self
    }

    /// Deletes `members` from the set of strings `attribute`.
    pub(crate) fn delete(mut self, attribute: &str, members: Vec<String>) -> Self {
        self.deletes.push(format!("{attribute} :{attribute}"));
        self.values.insert(format!(":{attribute}"), AttributeValue::Ss(members));
        self
    }

    pub(crate) fn remove(mut self, attributes: impl IntoIterator<Item = &'static str>) -> Self {
        self.removes.extend(attributes);
        self
    }

    /// Writes only if `condition` holds, beside every other condition.
    pub(crate) fn when(mut self, condition: &'static str) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Binds `name` (`:name`) for a condition.
    pub(crate) fn bind(mut self, name: &str, value: AttributeValue) -> Self {
        self.values.insert(name.to_owned(), value);
        self
    }

    pub(super) fn expression(&self) -> String {
        let sections = [
            ("SET", self.sets.join(", ")),
            ("REMOVE", self.removes.join(", ")),
            ("ADD", self.adds.join(", ")),
            ("DELETE", self.deletes.join(", ")),
        ];
        let sections = sections.iter().filter(|(_, actions)| !actions.is_empty());
        sections.map(|(section, actions)| format!("{section} {actions}")).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn condition(&self) -> Option<String> {
        match self.conditions.as_slice() {
            [] => None,
            [condition] => Some((*condition).to_owned()),
            several => Some(format!("({})", several.join(") AND ("))),
        }
    }

    pub(super) fn into_values(self) -> Option<Item> {
        Some(self.values).filter(|values| !values.is_empty())
    }

    /// Returns the part of a transaction that does it to the item at `key`; one that changes nothing is a check.
    pub(super) fn into_part(self, table: &str, key: Item) -> Result<TransactWriteItem, BuildError> {
        let (expression, condition, part) =
            (self.expression(), self.condition(), TransactWriteItem::builder());
        Ok(if expression.is_empty() {
            let check = ConditionCheck::builder()
                .table_name(table)
                .set_key(Some(key))
                .set_condition_expression(condition)
                .set_expression_attribute_values(self.into_values());
            part.condition_check(check.build()?).build()
        } else {
            let update = types::Update::builder()
                .table_name(table)
                .set_key(Some(key))
                .update_expression(expression)
                .set_condition_expression(condition)
                .set_expression_attribute_values(self.into_values());
            part.update(update.build()?).build()
        })
    }
}

/// Returns an item without attributes.
pub(crate) fn item_at(pk: impl Into<String>, sk: impl Into<String>) -> Item {
    Item::from([("pk".into(), string(pk)), ("sk".into(), string(sk))])
}

pub(crate) fn string(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number<T: ToString + Copy>(value: T) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Returns `value` as JSON in a string attribute.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<AttributeValue, serde_json::Error> {
    serde_json::to_string(value).map(AttributeValue::S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_binds_each_value_to_the_name_of_its_attribute() {
        let update = Update::default()
            .increment("fence")
            .set("turn", string("{}"))
            .set("paced", None)
            .set_if_absent("dueAt", number(7))
            .remove(["leaseUntil", "claim"])
            .when("fence = :fence OR attribute_not_exists(fence)")
            .when("dueAt < :now")
            .bind(":fence", number(3))
            .bind(":now", number(8));
        assert_eq!(
            update.expression(),
            "SET fence = if_not_exists(fence, :zero) + :one, turn = :turn, dueAt = if_not_exists(dueAt, :dueAt) \
             REMOVE leaseUntil, claim"
        );
        assert_eq!(
            update.condition().as_deref(),
            Some("(fence = :fence OR attribute_not_exists(fence)) AND (dueAt < :now)")
        );
        let values = update.into_values().unwrap();
        let mut names: Vec<&str> = values.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, [":dueAt", ":fence", ":now", ":one", ":turn", ":zero"]);
    }

    #[test]
    fn an_empty_update_has_no_condition_and_no_values() {
        assert_eq!(Update::default().expression(), "");
        assert_eq!(Update::default().condition(), None);
        assert_eq!(Update::default().into_values(), None);
    }
}
