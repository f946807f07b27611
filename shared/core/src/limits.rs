//! `LIMITS`: tokens and cost that a person, a chat or an API key may use in a day: [`Limits`].
//!
//! ```text
//! LIMITS=person=200000 tokens/day, chat=5.00 cost/day, key:shop=2000000 tokens/day
//! ```

use crate::chat_key::ChatKey;
use crate::person::canonical;
use crate::settings::{ConfigError, Env, Setting};

pub const LIMITS: Setting = Setting::optional(
    "LIMITS",
    "comma-separated `who=amount`. Who: `person`, `chat` or `key` (each one), or one by name (`person:telegram-42`, \
     `chat:telegram:chat:-7`, `key:shop`). Amount: `200000 tokens/day`, or `5.00 cost/day` by `MODEL_PRICES`. [Limits \
     on usage](guide.md#limits-on-usage)",
);

/// Share of a limit from which people are told how much they have used, in percent.
const NEAR_PERCENT: u32 = 80;

/// The kind of what a limit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The Person who asks.
    Person,
    Chat,
    /// The API key whose conversation, room or user's direct chat it is.
    Key,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Tokens, read and written.
    Tokens(u64),
    /// Cost, in the currency of `MODEL_PRICES`.
    Cost(f64),
}

/// Usage in a day.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Tokens, read and written.
    pub tokens: u64,
    pub cost: f64,
}

impl Used {
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(more.tokens), cost: self.cost + more.cost }
    }

    /// Returns the usage since it was `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { tokens: self.tokens.saturating_sub(earlier.tokens), cost: (self.cost - earlier.cost).max(0.0) }
    }
}

/// A limit, and what was used of it today.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    pub scope: Scope,
    pub limit: Amount,
    /// The usage, in the unit of the limit.
    pub used: Amount,
}

impl Quota {
    pub fn is_reached(&self) -> bool {
        self.reaches(100)
    }

    /// Returns true if so much is used that people are told.
    pub fn is_near(&self) -> bool {
        self.reaches(NEAR_PERCENT)
    }

    fn reaches(&self, percent: u32) -> bool {
        match (self.used, self.limit) {
            (Amount::Tokens(used), Amount::Tokens(limit)) => {
                u128::from(used) * 100 >= u128::from(limit) * u128::from(percent)
            }
            (Amount::Cost(used), Amount::Cost(limit)) => used * 100.0 >= limit * f64::from(percent),
            _ => false,
        }
    }

    pub fn left(&self) -> Amount {
        match (self.used, self.limit) {
            (Amount::Tokens(used), Amount::Tokens(limit)) => Amount::Tokens(limit.saturating_sub(used)),
            (Amount::Cost(used), Amount::Cost(limit)) => Amount::Cost((limit - used).max(0.0)),
            (_, limit) => limit,
        }
    }
}

/// The limits of one person, chat or key for a day: of tokens, of cost, or both.
#[derive(Clone, Debug, PartialEq)]
pub struct DayLimit {
    scope: Scope,
    amounts: Vec<Amount>,
}

impl DayLimit {
    /// Returns its quotas if so much was `used`.
    pub fn quotas(&self, used: Used) -> impl Iterator<Item = Quota> {
        self.amounts.iter().map(move |limit| Quota {
            scope: self.scope,
            limit: *limit,
            used: match limit {
                Amount::Tokens(_) => Amount::Tokens(used.tokens),
                Amount::Cost(_) => Amount::Cost(used.cost),
            },
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    scope: Scope,
    /// `None` for each one.
    name: Option<String>,
    limit: Amount,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits(Vec<Entry>);

impl Limits {
    /// Reads `LIMITS`.
    /// Fails with the variable, the number of the entry that is invalid, and how to write it.
    pub fn from_env(env: Env<'_>) -> Result<Self, ConfigError> {
        let text = env.optional(LIMITS.name).unwrap_or_default();
        Self::parse(&text).map_err(|problem| ConfigError::new(LIMITS.name, problem))
    }

    /// Parses entries: `person=200000 tokens/day, key:shop=5.00 cost/day`.
    /// Fails with the number of the entry that is invalid, and how to write it; never its text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut entries: Vec<Entry> = Vec::new();
        let written = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        for (number, text) in (1..).zip(written) {
            let invalid = |problem: &str| format!("has an invalid entry {number}: {problem}");
            let entry = entry(text).map_err(invalid)?;
            if entries.iter().any(|known| known.is_same(&entry)) {
                return Err(invalid("an earlier one sets it too"));
            }
            entries.push(entry);
        }
        Ok(Self(entries))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a limit is one of cost.
    pub fn has_cost(&self) -> bool {
        self.0.iter().any(|entry| matches!(entry.limit, Amount::Cost(_)))
    }

    /// Returns the limits of the one that has these names; `None` if it has none.
    pub fn of(&self, scope: Scope, aliases: &[String]) -> Option<DayLimit> {
        let of_scope = || self.0.iter().filter(move |entry| entry.scope == scope);
        let named =
            || of_scope().filter(|entry| entry.name.as_ref().is_some_and(|name| aliases.contains(name)));
        let each = of_scope().filter(|entry| entry.name.is_none());
        let each = each.filter(|each| !named().any(|named| named.is_of_unit(each.limit)));
        let amounts: Vec<Amount> = named().chain(each).map(|entry| entry.limit).collect();
        (!amounts.is_empty()).then_some(DayLimit { scope, amounts })
    }

    /// Returns true if any of this kind is limited.
    pub fn limits(&self, scope: Scope) -> bool {
        self.0.iter().any(|entry| entry.scope == scope)
    }

    /// Returns true if one of this kind is limited by name.
    pub fn names(&self, scope: Scope) -> bool {
        self.0.iter().any(|entry| entry.scope == scope && entry.name.is_some())
    }
}

impl Entry {
    fn is_of_unit(&self, amount: Amount) -> bool {
        std::mem::discriminant(&self.limit) == std::mem::discriminant(&amount)
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.scope, &self.name) == (other.scope, &other.name) && self.is_of_unit(other.limit)
    }
}

/// The form of an amount, for errors.
const AMOUNT: &str = "give an amount over 0, such as 200000 tokens/day or 5.00 cost/day";

fn entry(text: &str) -> Result<Entry, &'static str> {
    // A name may have a "=", an amount has none.
    let (who, amount) = text.rsplit_once('=').ok_or("give who=amount")?;
    let (scope, name) = who.split_once(':').map_or((who, None), |(scope, name)| (scope, Some(name.trim())));
    let scope = match scope.trim() {
        "person" => Scope::Person,
        "chat" => Scope::Chat,
        "key" => Scope::Key,
        _ => return Err("it must begin with person, chat or key"),
    };
    let name = match (scope, name) {
        (_, None) => None,
        (_, Some("")) => return Err("a name must follow the colon"),
        (Scope::Chat, Some(name)) => {
            let chat: ChatKey = name.parse().map_err(|_| "chat: must be followed by a ChatKey")?;
            Some(chat.to_string())
        }
        (Scope::Person, Some(name)) => Some(canonical(name).to_owned()),
        (Scope::Key, Some(name)) => Some(name.to_owned()),
    };
    let (number, unit) = amount.trim().split_once(' ').ok_or(AMOUNT)?;
    let limit = match unit.trim() {
        "tokens/day" => number.parse().ok().filter(|tokens| *tokens > 0).map(Amount::Tokens),
        "cost/day" => {
            let cost = number.parse().ok().filter(|cost: &f64| cost.is_finite() && *cost > 0.0);
            cost.map(Amount::Cost)
        }
        _ => None,
    };
    Ok(Entry { scope, name, limit: limit.ok_or(AMOUNT)? })
}

/// Returns the name of the API key whose conversation, room or user's direct chat `chat` is.
pub fn key_of(chat: &ChatKey) -> Option<&str> {
    // The direct chat of `<keyName>/<userId>`.
    let of_person = || chat.person()?.split_once('/').map(|(key, _)| key);
    chat.key_name().or_else(of_person)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::from_table as with;

    #[test]
    fn a_named_limit_replaces_that_of_each_in_its_unit() {
        let limits = "person=200000 tokens/day, person=5.00 cost/day,person:discord-7=10 tokens/day, \
                      chat:feishu:chat:oc_1=1 tokens/day, key:a=b=0.5 cost/day,";
        let limits = with(&[("LIMITS", limits)], Limits::from_env).unwrap();
        let check = |scope, name: &str, wanted: &[Amount]| {
            let amounts = limits.of(scope, &[name.to_owned()]).map_or(Vec::new(), |limit| limit.amounts);
            assert_eq!(amounts, wanted, "{name}");
        };
        check(Scope::Person, "ada", &[Amount::Tokens(200_000), Amount::Cost(5.0)]);
        check(Scope::Person, "7", &[Amount::Tokens(10), Amount::Cost(5.0)]);
        let linked = limits.of(Scope::Person, &["ada".to_owned(), "7".to_owned()]).unwrap();
        assert_eq!(linked.amounts, [Amount::Tokens(10), Amount::Cost(5.0)]);
        check(Scope::Chat, "lark:chat:oc_1", &[Amount::Tokens(1)]);
        check(Scope::Chat, "lark:chat:oc_2", &[]);
        check(Scope::Key, "a=b", &[Amount::Cost(0.5)]);
        assert!(limits.has_cost() && limits.limits(Scope::Key));
        let none = with(&[], Limits::from_env).unwrap();
        assert!(none.is_empty() && !none.has_cost() && !none.limits(Scope::Person));
    }

    #[test]
    fn errors_name_the_variable_and_the_entry_and_never_its_text() {
        for (value, number) in [
            ("hunter2", 1),
            ("user=1 tokens/day", 1),
            ("person:=1 tokens/day", 1),
            ("chat:hunter2=1 tokens/day", 1),
            ("person=1 tokens/day,person=hunter2", 2),
            ("person=1", 1),
            ("person=0 tokens/day", 1),
            ("person=-1 cost/day", 1),
            ("person=NaN cost/day", 1),
            ("person=1.5 tokens/day", 1),
            ("person=1 tokens/month", 1),
            ("key:a=1 tokens/day,chat=1 tokens/day,key:a=2 tokens/day", 3),
        ] {
            let error = with(&[("LIMITS", value)], Limits::from_env).unwrap_err();
            let start = format!("LIMITS has an invalid entry {number}: ");
            assert!(error.starts_with(&start) && !error.contains("hunter2"), "{value}: {error}");
        }
    }

    #[test]
    fn four_fifths_are_near_and_all_is_reached() {
        let check = |limit: &str, used: Used| {
            let limits = Limits::parse(&format!("person={limit}/day")).unwrap();
            let quota = limits.of(Scope::Person, &["ada".to_owned()]).unwrap().quotas(used).next().unwrap();
            (quota.is_near(), quota.is_reached(), quota.left())
        };
        let tokens = |tokens| check("10 tokens", Used { tokens, cost: 99.0 });
        assert_eq!(tokens(7), (false, false, Amount::Tokens(3)));
        assert_eq!(tokens(8), (true, false, Amount::Tokens(2)));
        assert_eq!(tokens(10), (true, true, Amount::Tokens(0)));
        assert_eq!(tokens(99), (true, true, Amount::Tokens(0)));
        let cost = |cost| check("0.5 cost", Used { tokens: 99, cost });
        assert_eq!(cost(0.25), (false, false, Amount::Cost(0.25)));
        assert_eq!(cost(0.4), (true, false, Amount::Cost(0.5 - 0.4)));
        assert_eq!(cost(1.0), (true, true, Amount::Cost(0.0)));
    }

    #[test]
    fn chats_of_the_api_have_a_key() {
        let key = |chat: &str| key_of(&chat.parse().unwrap()).map(str::to_owned);
        assert_eq!(key("http:chat:app:c1").as_deref(), Some("app"));
        assert_eq!(key("web:room:app:r1").as_deref(), Some("app"));
        assert_eq!(key("agent:annals:user:app/ada").as_deref(), Some("app"));
        assert_eq!((key("agent:annals:user:ada"), key("telegram:chat:42")), (None, None));
    }
}
