//! How parts of an index are decoded: within bounds, and so that memory that is refused is an
//! error.
//!
//! What is long in some file (text, bytes, lists) is allocated here, fallibly; what is short is
//! serde's. The bytes are those that serde writes and reads by itself.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serializer};

use crate::container::describe::value_room;
use crate::container::stored::StoredType;
use crate::memory::set_aside;

thread_local! {
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// Whether memory was refused to this thread since this was last asked, and a decoding failed by
/// that.
pub(crate) fn was_refused() -> bool {
    REFUSED.replace(false)
}

fn refused<E: Error>() -> E {
    REFUSED.set(true);
    E::custom("no memory")
}

/// A type: the text of its JSON, since only that is of any shape.
pub(crate) mod stored_type {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(of: &StoredType, to: S) -> Result<S::Ok, S::Error> {
        let text = serde_json::to_string(of).map_err(serde::ser::Error::custom)?;
        to.serialize_str(&text)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<StoredType, D::Error> {
        let text = <&str>::deserialize(from)?;
        // A type within a type is gathered before it is read.
        let room = 2 * value_room(text.as_bytes());
        let read = set_aside(room, "cannot read a type", || serde_json::from_str(text));
        read.map_err(|_| refused())?.map_err(D::Error::custom)
    }
}

pub(crate) fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    copied(<&[u8]>::deserialize(from)?)
}

pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let bytes = copied(<&str>::deserialize(from)?.as_bytes())?;
    String::from_utf8(bytes).map_err(D::Error::custom)
}

fn copied<E: Error>(bytes: &[u8]) -> Result<Vec<u8>, E> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| refused())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    let FallibleList(list) = FallibleList::deserialize(from)?;
    Ok(list)
}

/// A list, or a sentence that says why there is none.
pub(super) fn result_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Result<Vec<T>, String>, D::Error> {
    let read = Result::<FallibleList<T>, String>::deserialize(from)?;
    Ok(read.map(|FallibleList(list)| list))
}

struct FallibleList<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for FallibleList<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(ItemVisitor(PhantomData))
    }
}

struct ItemVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemVisitor<T> {
    type Value = FallibleList<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.try_reserve(1).map_err(|_| refused())?;
            list.push(item);
        }
        list.shrink_to_fit();
        Ok(FallibleList(list))
    }
}
