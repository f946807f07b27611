//! `/link` and `/unlink`: the exchange by which a person shows that two direct chats are theirs.
//!
//! | | who | says | and is told |
//! | --- | --- | --- | --- |
//! | 1 | first side | `/link` | a code, for ten minutes |
//! | 2 | second side | `/link CODE` | whose code it is |
//! | 3 | second side | `/link yes` | to go on at the first side |
//! | 4 | first side | `/link` | who asks: identity, channel, name |
//! | 5 | first side | `/link yes` | that they are linked |
//!
//! A code has 50 random bits, is stored as its digest and is entered once. A person enters at most five wrong ones in an
//! hour, so if a million people guess while a thousand codes are open, one of them meets a code with a probability of
//! 10⁶ × 5 × 10³ / 2⁵⁰ in an hour: five in a million. A person who guesses, overhears or replays a code only comes to step
//! 4, under their own identity, which no name hides, and the first side refuses. A person who is talked into entering
//! another's code sees in step 2 whose it is.
//!
//! Each step is stored with the key of its command, so a repeated command gets the same answer and takes no other step.

use std::io;
use std::time::Duration;

use annals_channel::settings::DmScope;
use annals_core::command::LinkStep;
use annals_core::draft::Draft;
use annals_core::markup::clean_name;
use annals_core::texts::Texts;
use annals_io::random;
use annals_store::history::Appended;
use annals_store::people::{Exchange, Side, digest_of};

use super::people::{MAX_IDENTITIES, TooMany};
use super::{Answered, Ingress, IngressError};

/// Time for each step of an exchange.
const VALID_FOR: Duration = Duration::from_mins(10);

/// Maximum number of wrong codes that all identities of one Person enter within [`COUNTED_FOR`].
const MAX_WRONG: usize = 5;
const COUNTED_FOR: Duration = Duration::from_hours(1);

/// Digits of a code, of 5 bits each.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CODE_DIGITS: u32 = 10;

impl Ingress {
    /// Takes a step of an exchange, and returns the confirmation.
    pub(super) async fn link_step(
        &self,
        step: &LinkStep,
        draft: &Draft,
        appended: &Appended,
        texts: &dyn Texts,
    ) -> Result<Answered, IngressError> {
        if let Some(refusal) = self.refuses_links(draft, texts) {
            return Ok(refusal.to_owned().into());
        }
        let own = Side {
            identity: draft.identity(),
            channel: draft.channel,
            name: draft.metadata.sender_name().map(clean_name).filter(|name| !name.is_empty()),
        };
        let key = appended.base.to_string();
        Ok(match step {
            LinkStep::Start => self.start_link(own, &key, texts).await?,
            LinkStep::Code(code) => self.enter_code(own, code, &key, texts).await?,
            LinkStep::Yes => self.confirm_link(&own, draft, &key, texts).await?,
            LinkStep::No => {
                if let Some((digest, _)) = self.people.exchange_of(&own.identity).await? {
                    let end = |exchange: &Exchange| {
                        let is_open = exchange.linked.is_none();
                        is_open.then(|| Exchange { until: exchange.until.min(draft.ts), ..exchange.clone() })
                    };
                    self.people.step(&digest, end).await?;
                }
                texts.link_cancelled().to_owned().into()
            }
        })
    }

    /// Carries out `/unlink`, and returns the confirmation.
    pub(super) async fn unlink(
        &self,
        draft: &Draft,
        appended: &Appended,
        texts: &dyn Texts,
    ) -> Result<String, IngressError> {
        if let Some(refusal) = self.refuses_links(draft, texts) {
            return Ok(refusal.to_owned());
        }
        let (identity, key) = (draft.identity(), appended.base.to_string());
        if self.config.links.identities().any(|linked| linked == identity) {
            return Ok(texts.linked_by_operator().to_owned());
        }
        let known = self.people.identity(&identity).await?;
        let id = digest_of(&format!("{identity} {key}"))[..16].to_owned();
        if let Some(person) = known.person() {
            let own = std::slice::from_ref(&identity);
            self.separate(own, person, (&id, draft.ts), &key, None).await?;
            return Ok(texts.unlinked().to_owned());
        }
        // All that is linked to this channel's identity.
        let linked = self.people.linked_to(&identity).await?;
        let is_repeated = known.unlinked_by.as_ref() == Some(&key)
            || known.spans.last().is_some_and(|last| last.by.as_ref() == Some(&key));
        if linked.is_empty() && !is_repeated {
            return Ok(texts.not_linked().to_owned());
        }
        if !linked.is_empty() {
            self.people.begin_unlinking(&identity, &key).await?;
            self.separate(&linked, &identity, (&id, draft.ts), &key, None).await?;
        }
        Ok(texts.unlinked().to_owned())
    }

    /// Returns why links cannot be changed in the chat of `draft`, if they cannot.
    fn refuses_links(&self, draft: &Draft, texts: &dyn Texts) -> Option<&'static str> {
        match draft.chat.person() {
            // An admin key may write to another person's chat.
            Some(own) if draft.person.as_ref().is_none_or(|person| person == own) => {
                (self.config.dm_scope == DmScope::Chat).then_some(texts.links_are_off())
            }
            _ if draft.metadata.is_private() && draft.metadata.line().is_none() => (self.config.dm_scope
                == DmScope::Chat)
                .then_some(texts.links_are_off())
                .or(Some(texts.link_not_here())),
            _ => Some(texts.link_not_here()),
        }
    }

    /// Gives a code, or tells the first side who has entered its code.
    async fn start_link(&self, own: Side, key: &str, texts: &dyn Texts) -> Result<Answered, IngressError> {
        let now = self.history.clock().now();
        if let Some((digest, exchange)) = self.people.exchange_of(&own.identity).await?
            && exchange.first.identity == own.identity
            && exchange.agreed.is_some()
            && exchange.linked.is_none()
            && exchange.until > now
        {
            return self.show_second(&digest, exchange, key, texts).await;
        }
        let code = new_code()?;
        let exchange = Exchange {
            first: own,
            second: None,
            until: now.plus(VALID_FOR),
            entered: None,
            agreed: None,
            shown: None,
            linked: None,
        };
        self.people.offer(&code, &exchange).await?;
        let readable = format!("{}-{}", &code[..5], &code[5..]);
        // Clients of HTTP and web read the confirmation in the history.
        let is_read_there = exchange.first.channel.is_of_callers();
        let recorded =
            texts.link_code(if is_read_there { &readable } else { "•••••-•••••" });
        Ok(Answered { text: texts.link_code(&readable), ..recorded.into() })
    }

    /// Lets the second side enter a code.
    async fn enter_code(
        &self,
        own: Side,
        code: &str,
        key: &str,
        texts: &dyn Texts,
    ) -> Result<Answered, IngressError> {
        let person = self.people.person_of(&own.identity).await?;
        if !self.people.count_wrong(&person, key, MAX_WRONG, COUNTED_FOR).await? {
            return Ok(texts.too_many_wrong_codes().to_owned().into());
        }
        let (now, digest) = (self.history.clock().now(), digest_of(code));
        let Some(exchange) = self.people.exchange(&digest).await? else {
            return Ok(texts.wrong_code().to_owned().into());
        };
        if exchange.first.identity == own.identity {
            self.people.was_right(&person, key).await?;
            return Ok(texts.own_code().to_owned().into());
        }
        let enter = |exchange: &Exchange| {
            let may_enter = exchange.second.is_none() && exchange.until > now;
            may_enter.then(|| Exchange {
                second: Some(own.clone()),
                entered: Some(key.to_owned()),
                until: now.plus(VALID_FOR),
                ..exchange.clone()
            })
        };
        let entered = self.people.step(&digest, enter).await?;
        let is_own = entered.as_ref().is_some_and(|exchange| exchange.entered.as_deref() == Some(key));
        if !is_own {
            return Ok(texts.wrong_code().to_owned().into());
        }
        self.people.join_exchange(&own.identity, &digest).await?;
        self.people.was_right(&person, key).await?;
        Ok(naming(&exchange.first, texts.code_of(&who(&exchange.first, texts))))
    }

    /// Confirms at one side.
    async fn confirm_link(
        &self,
        own: &Side,
        draft: &Draft,
        key: &str,
        texts: &dyn Texts,
    ) -> Result<Answered, IngressError> {
        let now = self.history.clock().now();
        let Some((digest, exchange)) = self.people.exchange_of(&own.identity).await? else {
            return Ok(texts.nothing_to_confirm().to_owned().into());
        };
        let is_first = exchange.first.identity == own.identity;
        let took = |step: &Option<String>| step.as_deref() == Some(key);
        match (&exchange.second, is_first) {
            (Some(_), true) if took(&exchange.shown) => self.show_second(&digest, exchange, key, texts).await,
            (Some(_), false) if took(&exchange.agreed) => {
                Ok(naming(&exchange.first, texts.confirm_there(&who(&exchange.first, texts))))
            }
            // The process may have ended while it linked them.
            (Some(second), true) if took(&exchange.linked) => {
                self.finish_link((&exchange.first, second), &digest, draft, texts).await
            }
            _ if exchange.linked.is_some() || exchange.until <= now => {
                Ok(texts.nothing_to_confirm().to_owned().into())
            }
            (Some(second), false) if second.identity == own.identity => {
                let agree = |exchange: &Exchange| {
                    let is_new = exchange.agreed.is_none();
                    is_new.then(|| Exchange { agreed: Some(key.to_owned()), ..exchange.clone() })
                };
                self.people.step(&digest, agree).await?;
                Ok(naming(&exchange.first, texts.confirm_there(&who(&exchange.first, texts))))
            }
            (_, false) => Ok(texts.nothing_to_confirm().to_owned().into()),
            (_, true) if exchange.agreed.is_none() => Ok(texts.nobody_entered_code().to_owned().into()),
            // Nobody confirms what they have not seen.
            (_, true) if exchange.shown.is_none() => self.show_second(&digest, exchange, key, texts).await,
            (_, true) => {
                let link = |exchange: &Exchange| {
                    let is_open = exchange.linked.is_none() && exchange.until > now;
                    is_open.then(|| Exchange { linked: Some(key.to_owned()), ..exchange.clone() })
                };
                match self.people.step(&digest, link).await? {
                    Some(Exchange { linked: Some(_), first, second: Some(second), .. }) => {
                        self.finish_link((&first, &second), &digest, draft, texts).await
                    }
                    _ => Ok(texts.nothing_to_confirm().to_owned().into()),
                }
            }
        }
    }

    /// Tells the first side who has entered its code.
    async fn show_second(
        &self,
        digest: &str,
        exchange: Exchange,
        key: &str,
        texts: &dyn Texts,
    ) -> Result<Answered, IngressError> {
        let show = |exchange: &Exchange| {
            let is_new = exchange.shown.is_none();
            is_new.then(|| Exchange { shown: Some(key.to_owned()), ..exchange.clone() })
        };
        self.people.step(digest, show).await?;
        let Some(second) = exchange.second else { return Ok(texts.nobody_entered_code().to_owned().into()) };
        Ok(naming(&second, texts.code_entered(&who(&second, texts))))
    }

    async fn finish_link(
        &self,
        (first, second): (&Side, &Side),
        digest: &str,
        draft: &Draft,
        texts: &dyn Texts,
    ) -> Result<Answered, IngressError> {
        let text = match self.link(&first.identity, &second.identity, &digest[..16], draft.ts).await? {
            Ok(()) => texts.linked().to_owned(),
            Err(TooMany) => texts.too_many_identities(MAX_IDENTITIES),
        };
        Ok(text.into())
    }
}

/// Returns the confirmation `text`, which names `side`.
fn naming(side: &Side, text: String) -> Answered {
    let mut answered = Answered::from(text);
    answered.message.metadata.set_about(&side.identity);
    answered
}

/// Describes a side by what no one can choose, and then by its name.
fn who(side: &Side, texts: &dyn Texts) -> String {
    texts.side(&side.identity, side.channel, side.name.as_deref())
}

/// Returns a code of 50 random bits.
fn new_code() -> io::Result<String> {
    let mut bits = u64::from_str_radix(&random::secret::<8>()?, 16).map_err(io::Error::other)?;
    let mut code = String::new();
    for _ in 0..CODE_DIGITS {
        code.push(char::from(DIGITS[usize::try_from(bits & 31).unwrap_or_default()]));
        bits >>= 5;
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals_core::command::Command;
    use annals_core::record::Channel;
    use annals_core::texts::en::En;

    #[test]
    fn a_code_is_read_as_it_is_written() {
        let codes: std::collections::BTreeSet<String> = (0..200).map(|_| new_code().unwrap()).collect();
        assert_eq!(codes.len(), 200);
        for code in codes {
            assert_eq!(code.len(), 10);
            let typed = format!("/link {}-{}", code[..5].to_lowercase(), &code[5..]);
            assert_eq!(Command::parse(&typed, None), Some(Command::Link { step: LinkStep::Code(code) }));
        }
    }

    #[test]
    fn an_identity_comes_before_a_name() {
        let name = Some("telegram-42 on Telegram".to_owned());
        let side = Side { identity: "lark-ou_eve".into(), channel: Channel::Lark, name };
        assert_eq!(who(&side, &En), "lark-ou_eve on Lark, called “telegram-42 on Telegram” there");
    }
}
