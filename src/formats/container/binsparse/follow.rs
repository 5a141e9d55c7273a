//! What a descriptor says that follows from the arrays: the number of stored values, and the
//! outermost dimension where it is a dense one.
//!
//! Everything else in the text stays as somebody wrote it, byte for byte. Arrays that do not agree
//! with each other are no matter here: the descriptor is made for those that tell its numbers, and
//! checked against all of them afterwards. Used by `super`.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Member;
use super::descriptor::Descriptor;
use super::levels::{Level, LevelLayout};
use crate::error::Result;

/// Keys of the number of stored values.
const COUNTS: [&str; 2] = ["number_of_stored_values", "nnz"];

/// The descriptor for these arrays; none if it is right already, or they do not tell.
pub(super) fn followed(
    text: &[u8],
    descriptor: &Descriptor,
    members: &[Member],
) -> Result<Option<Vec<u8>>> {
    let Some(layout) = &descriptor.layout else {
        return Ok(None);
    };
    let lengths = MemberLengths {
        descriptor,
        members,
    };
    let count = lengths.count(layout)?;
    let mut values = Vec::new();
    if let (Some(count), Some(stated)) = (count, descriptor.count)
        && count != stated
    {
        values.extend(COUNTS.map(|key| (key, count.to_string())));
    }
    if let Some(stated) = &descriptor.shape
        && let Some(shape) = lengths.shape(layout, stated, count)?
        && shape != *stated
    {
        let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
        values.push(("shape", format!("[{}]", shape.join(", "))));
    }
    match values.is_empty() {
        true => Ok(None),
        false => Ok(with_values(text, &values)),
    }
}

/// The arrays, by their lengths.
struct MemberLengths<'a> {
    descriptor: &'a Descriptor,
    members: &'a [Member],
}

impl MemberLengths<'_> {
    /// Elements of an array that is stored as it was declared.
    fn of(&self, name: &str) -> Result<Option<u64>> {
        let member = self.members.iter().find(|member| member.name == name);
        let declared = self.descriptor.types.as_ref();
        let declared = declared.and_then(|types| types.get(name)?.ok());
        let (Some(Ok(array)), Some(declared)) = (member.map(|member| &member.array), declared)
        else {
            return Ok(None);
        };
        let info = array.info()?;
        Ok(match info.shape[..] {
            [len] if declared.is_stored_as(&info.dtype.name()) => Some(len),
            _ => None,
        })
    }

    /// The number of stored values: of one value for all, there are as many as indices.
    fn count(&self, layout: &LevelLayout) -> Result<Option<u64>> {
        let declared = self.descriptor.types.as_ref();
        let Some(Ok(values)) = declared.and_then(|types| types.get("values")) else {
            return Ok(None);
        };
        if !values.iso {
            let parts = if values.complex { 2 } else { 1 };
            let len = self.of("values")?;
            return Ok(len.filter(|len| len % parts == 0).map(|len| len / parts));
        }
        match layout.levels.split_last() {
            Some((Level::Sparse { .. }, above)) => {
                let depth: usize = above.iter().map(|level| level.rank()).sum();
                self.of(&format!("indices_{depth}"))
            }
            _ => Ok(None),
        }
    }

    /// The shape: of the dense levels at the root the first dimension is as long as there are
    /// positions for.
    fn shape(
        &self,
        layout: &LevelLayout,
        stated: &[u64],
        count: Option<u64>,
    ) -> Result<Option<Vec<u64>>> {
        let levels = layout.levels.iter();
        let dense = levels.take_while(|level| matches!(level, Level::Dense { .. }));
        let dense: usize = dense.map(|level| level.rank()).sum();
        let (Some(stored), 1..) = (layout.stored_shape(stated), dense) else {
            return Ok(None);
        };
        let positions = match dense == stored.len() {
            true => count,
            false => {
                let pointers = self.of(&format!("pointers_to_{dense}"))?;
                pointers.and_then(|pointers| pointers.checked_sub(1))
            }
        };
        let mut inner = stored.get(1..dense).unwrap_or_default().iter();
        let inner = inner.try_fold(1, |n: u64, &extent| n.checked_mul(extent));
        let (Some(positions), Some(inner @ 1..)) = (positions, inner) else {
            return Ok(None);
        };
        if positions % inner != 0 {
            return Ok(None);
        }
        let mut shape = stated.to_vec();
        match self.descriptor.structure {
            // Of a square matrix all of them follow.
            Some(_) => shape.fill(positions / inner),
            None => shape[layout.transpose[0]] = positions / inner,
        }
        Ok(Some(shape))
    }
}

/// A descriptor with other values for keys that its namespace has.
fn with_values(text: &[u8], values: &[(&str, String)]) -> Option<Vec<u8>> {
    let outer = members(text, memchr::memchr(b'{', text)?)?;
    let inner = outer.iter().rfind(|(key, _)| key == "binsparse");
    let namespace = match inner {
        Some((_, range)) => members(text, range.start)?,
        None => outer,
    };
    let mut changed = text.to_vec();
    for (key, range) in namespace.into_iter().rev() {
        if let Some((_, value)) = values.iter().find(|(named, _)| *named == key) {
            changed.splice(range, value.bytes());
        }
    }
    Some(changed)
}

/// Where the values of an object lie that begins there, with their keys, in order. It has been read
/// before.
fn members(text: &[u8], object: usize) -> Option<Vec<(String, std::ops::Range<usize>)>> {
    let mut found = Vec::new();
    let mut at = object + 1;
    loop {
        at += blanks(text.get(at..)?);
        match text.get(at)? {
            b'}' => return Some(found),
            b',' => at += 1,
            _ => {
                let (key, len) = value::<String>(&text[at..])?;
                at += len;
                at += blanks(&text[at..]);
                at += text[at..].strip_prefix(b":").map(|_| 1)?;
                at += blanks(&text[at..]);
                let (_, len) = value::<IgnoredAny>(&text[at..])?;
                found.push((key, at..at + len));
                at += len;
            }
        }
    }
}

fn blanks(text: &[u8]) -> usize {
    text.len() - text.trim_ascii_start().len()
}

/// The value that a text begins with, and how long it is.
fn value<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Option<(T, usize)> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<T>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn the_rest_of_a_text_stays_as_it_is() {
        let text = "\u{feff} {\n\t\"other\" : {\"shape\": [1]},\n\"binsparse\":{ \"nnz\" :2e1,\"a\\\"}\":\
            \"{\",\"shape\":\n[ 3,\t4 ]\n}}\0 ";
        let changed = with_values(
            text.as_bytes(),
            &[("nnz", "7".into()), ("shape", "[5, 4]".into())],
        );
        let expected = text.replace("2e1", "7").replace("[ 3,\t4 ]", "[5, 4]");
        assert_eq!(String::from_utf8(changed.unwrap()).unwrap(), expected);
        let bare = br#"{"shape":[3],"data_types":{"shape":1}}"#;
        let changed = with_values(bare, &[("shape", "[9]".into())]).unwrap();
        assert_eq!(changed, br#"{"shape":[9],"data_types":{"shape":1}}"#);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i32>().prop_map(|n| json!(n)),
            any::<bool>().prop_map(|b| json!(b)),
            "[{}\\[\\]\",:\\\\ a]{0,6}".prop_map(|text| json!(text)),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-d\"{]{1,3}", inner, 0..4)
                    .prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn values_are_put_where_the_key_stands(
            mut namespace in proptest::collection::btree_map("[a-d]{1,2}", any_value(), 0..5),
            beside in any_value(), count in any::<u64>(), pretty in any::<bool>(),
        ) {
            namespace.insert("nnz".into(), json!(3));
            let mut whole = json!({"beside": beside, "binsparse": namespace});
            let text = match pretty {
                true => serde_json::to_vec_pretty(&whole).unwrap(),
                false => serde_json::to_vec(&whole).unwrap(),
            };
            let changed = with_values(&text, &[("nnz", count.to_string())]).unwrap();
            whole["binsparse"]["nnz"] = json!(count);
            prop_assert_eq!(serde_json::from_slice::<Value>(&changed).unwrap(), whole);
        }
    }
}
