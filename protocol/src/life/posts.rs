//! The steps of a webhook: look in the archive, put the first form or a later one, queue the turn and
//! acknowledge.

use super::records::{may_have_left, number};
use super::state::{Age, Content, Form, Forms, Item, Kept, Key, Post, PostStep, State};
use super::{Flaw, Life, Said};

impl Life {
    /// Does the next step of a webhook, as `Ingress::receive` and `History::append` do.
    pub(super) fn post(&self, state: &mut State, slot: u8) {
        let said = self.said[usize::from(slot)];
        let step = match state.posts[usize::from(slot)].step {
            PostStep::Waiting => {
                let (born, overlaps) = (state.now, state.is_forgetting);
                state.posts[usize::from(slot)] = Post { born, overlaps, ..Post::WAITING };
                self.look_in_archive(state, said)
            }
            PostStep::Put { archived, pointer } => self.put_first(state, said, archived, pointer),
            PostStep::Append { number, pointer, first } => {
                self.append_later(state, said, (number, pointer, first))
            }
            PostStep::Enqueue => {
                if self.script.asks[usize::from(said.place)] {
                    // More of them make no difference: each run looks at all that waits.
                    state.turns = (state.turns + 1).min(2);
                }
                if !state.posts[usize::from(slot)].overlaps {
                    state.acknowledged |= said.bit();
                }
                state.posts[usize::from(slot)] = Post::WAITING;
                PostStep::Done
            }
            PostStep::Done => PostStep::Done,
        };
        state.posts[usize::from(slot)].step = step;
    }

    fn look_in_archive(&self, state: &State, said: Said) -> PostStep {
        let looks = may_have_left(self.script, said.place, state.now) && !self.is_without(Flaw::BlindAppend);
        if !looks {
            return PostStep::Put { archived: Forms::default(), pointer: None };
        }
        let archived = State::forms(state.found_in_archive(), said.place);
        // The last pointer to a segment with a record of the message, whatever record that is.
        let holds = |to: Key| {
            let objects = state.objects.iter().filter(|object| object.stretch.1 == to);
            objects.flat_map(|object| &object.records).any(|kept| kept.key.place == said.place)
        };
        let has_archive = state.head.is_some_and(|head| head.has_archive);
        let pointers = state.pointers.iter().map(|pointer| pointer.stretch.1);
        let pointer = pointers.filter(|to| has_archive && holds(*to)).max();
        PostStep::Put { archived, pointer }
    }

    fn put_first(&self, state: &mut State, said: Said, archived: Forms, pointer: Option<Key>) -> PostStep {
        let key = Key::first(said.place);
        if archived[0].is_none() && Self::store(state, said, key) {
            return PostStep::Enqueue;
        }
        let in_table = state.item(key).map(|item| item.kept.content);
        let mut forms = archived;
        let in_table_later = State::forms(state.table.iter().map(|item| &item.kept), said.place);
        for (form, later) in forms.iter_mut().zip(in_table_later) {
            *form = later.or(*form);
        }
        // The table's first form counts; the pointer stands for one that has left.
        let pointer = pointer.filter(|_| in_table.is_none());
        match number(self.script, said.place, forms, said.content) {
            None => PostStep::Enqueue,
            Some(number) => PostStep::Append { number, pointer, first: forms[0] },
        }
    }

    fn append_later(
        &self,
        state: &mut State,
        said: Said,
        (number, pointer, first): (u8, Option<Key>, Option<Content>),
    ) -> PostStep {
        let is_same = |item: &Item| Some(item.kept.content) == first || self.is_without(Flaw::BareAnchor);
        let is_anchored = match pointer {
            None => state.item(Key::first(said.place)).is_some_and(is_same),
            Some(to) => state.pointers.iter().any(|pointer| pointer.stretch.1 == to),
        };
        let key = Key { place: said.place, form: Form::Later(number) };
        if is_anchored && Self::store(state, said, key) {
            return PostStep::Enqueue;
        }
        // Somebody else took that number, or the message has left: look again.
        self.look_in_archive(state, said)
    }

    /// Puts a form, unless its key is taken. It registers the chat, unless the process remembers that it has.
    fn store(state: &mut State, said: Said, key: Key) -> bool {
        let kept = Kept { key, content: said.content, covers: 0, age: Age::Fresh };
        let registers = !state.registry.webhook;
        let is_stored = state.put(kept, 0, registers);
        state.registry.webhook |= is_stored;
        is_stored
    }
}

impl Post {
    /// A delivery that has not begun.
    pub(super) const WAITING: Self =
        Self { step: PostStep::Waiting, born: 0, meets_archiving: false, overlaps: false };
}

impl Said {
    /// Returns its bit in [`State::acknowledged`].
    pub(super) fn bit(self) -> u8 {
        1 << (self.place * 2 + u8::from(self.content == Content::B))
    }
}
